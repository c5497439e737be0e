package broker

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// maxAuthBody limits the body of a broker's request, in bytes.
const maxAuthBody = 16 << 10

// authRequest is the request of a broker to authenticate a client or to authorize an action.
type authRequest struct {
	ClientID string `json:"clientid"`
	Username string `json:"username"`
	Password string `json:"password"`
	Peer     string `json:"peerhost"` // an IP address; may be empty
	Topic    string `json:"topic"`
	Action   string `json:"action"`
}

// ServeAuth authenticates the broker's clients, as EMQX's HTTP authentication: a POST with JSON
// that has clientid, username, password and perhaps peerhost, and the header "Authorization: Bearer
// " with AuthSecret. The response is 200 with the result "allow" or "deny": with another status,
// the broker would ask its next authenticator (EMQX 5 documentation, "Use HTTP Service" in
// access-control/authn). Boards are allowed as Auth says, and only if their client id contains
// their MAC address; this client itself is allowed with its own password.
func (c *Client) ServeAuth(w http.ResponseWriter, r *http.Request) {
	q, ok := c.readAuthRequest(w, r)
	if !ok {
		return
	}
	if c.opt.Username != "" && q.Username == c.opt.Username {
		good := subtle.ConstantTimeCompare([]byte(q.Password), []byte(c.opt.Password)) == 1
		c.respond(w, "login", good && q.ClientID == c.opt.ClientID)
		return
	}
	id, named := identify(q.ClientID)
	if c.opt.Auth == nil || !named {
		c.respond(w, "login", false)
		return
	}
	info := mqtt.ConnectInfo{ClientID: q.ClientID, Username: q.Username, Password: q.Password,
		RemoteAddr: parseRemote(q.Peer)}
	who, err := c.opt.Auth(r.Context(), info)
	var refusal mqtt.Refusal
	if err != nil && !errors.As(err, &refusal) {
		c.opt.Logger.Warn("a client of the MQTT broker could not be told by its password", "error", err)
	}
	c.respond(w, "login", err == nil && who == id)
}

// ServeACL authorizes actions of the broker's clients, as EMQX's HTTP authorization (EMQX 5
// documentation, "Use HTTP Service" in access-control/authz): like ServeAuth, with topic and
// action. A board may publish to its own topic, and subscribe to the topic of its messages. The
// broker must have authenticated the client id.
func (c *Client) ServeACL(w http.ResponseWriter, r *http.Request) {
	if q, ok := c.readAuthRequest(w, r); ok {
		c.respond(w, "acl", c.isAllowed(q))
	}
}

func (c *Client) isAllowed(q authRequest) bool {
	own := map[string]string{"publish": c.opt.PublishPrefix, "subscribe": c.opt.PushPrefix}
	if c.opt.Username != "" && q.Username == c.opt.Username && q.ClientID == c.opt.ClientID {
		own["publish"], own["subscribe"] = c.opt.PushPrefix, c.opt.PublishPrefix
		rest, ok := strings.CutPrefix(q.Topic, own[q.Action]+"/")
		isEvent := q.Action == "subscribe" && strings.HasPrefix(q.Topic, eventPrefix+"+/clients/+/")
		return isEvent || ok && own[q.Action] != "" && rest != "" && !strings.Contains(rest, "/")
	}
	_, ok := identify(q.ClientID)
	return ok && own[q.Action] != "" && q.Topic == own[q.Action]+"/"+q.ClientID
}

// readAuthRequest reads a request and checks the broker's secret.
func (c *Client) readAuthRequest(w http.ResponseWriter, r *http.Request) (q authRequest, ok bool) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case c.opt.AuthSecret == "":
		http.NotFound(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST", http.StatusMethodNotAllowed)
	case !bearer || subtle.ConstantTimeCompare([]byte(token), []byte(c.opt.AuthSecret)) != 1:
		http.Error(w, "this is not the broker's secret", http.StatusUnauthorized)
	default:
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAuthBody)).Decode(&q); err != nil {
			http.Error(w, "this is no question", http.StatusBadRequest)
			return q, false
		}
		return q, true
	}
	return q, false
}

func (c *Client) respond(w http.ResponseWriter, what string, good bool) {
	result := "deny"
	if good {
		result = "allow"
	}
	c.metrics.logins.WithLabelValues(what, result).Inc()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"result":"` + result + `"}` + "\n"))
}
