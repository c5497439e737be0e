package broker

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// maxQuestion bounds what a broker asks, in bytes.
const maxQuestion = 16 << 10

// question is what a broker wants to know: who somebody is, or whether a client may
// do something.
type question struct {
	ClientID string `json:"clientid"`
	Username string `json:"username"`
	Password string `json:"password"`
	Peer     string `json:"peerhost"` // an IP address; may be missing
	Topic    string `json:"topic"`
	Action   string `json:"action"`
}

// ServeAuth tells a broker who may connect, in the way of EMQX's HTTP authentication:
// a POST with JSON that has clientid, username, password and perhaps peerhost, and
// "Authorization: Bearer " with AuthSecret. The answer is 200 with "allow" or "deny"
// as the result: any other status would let the broker ask somebody else. Boards may
// connect as Auth says, and only with a client id that has their MAC address in it;
// and so may this client itself, which is told by its own password.
func (c *Client) ServeAuth(w http.ResponseWriter, r *http.Request) {
	q, ok := c.asked(w, r)
	if !ok {
		return
	}
	if c.opt.Username != "" && q.Username == c.opt.Username {
		good := subtle.ConstantTimeCompare([]byte(q.Password), []byte(c.opt.Password)) == 1
		c.answer(w, "login", good && q.ClientID == c.opt.ClientID)
		return
	}
	id, named := identify(q.ClientID)
	if c.opt.Auth == nil || !named {
		c.answer(w, "login", false)
		return
	}
	info := mqtt.ConnectInfo{ClientID: q.ClientID, Username: q.Username, Password: q.Password, RemoteAddr: parseRemote(q.Peer)}
	who, err := c.opt.Auth(r.Context(), info)
	var refusal mqtt.Refusal
	if err != nil && !errors.As(err, &refusal) {
		c.opt.Logger.Warn("a client of the MQTT broker could not be told by its password", "error", err)
	}
	c.answer(w, "login", err == nil && who == id)
}

// ServeACL tells a broker what its clients may do, in the way of EMQX's HTTP
// authorization: as ServeAuth, with topic and action. A board may publish to its own
// topic, and subscribe to the one that it gets its messages on. The broker has to
// have authenticated the client id.
func (c *Client) ServeACL(w http.ResponseWriter, r *http.Request) {
	if q, ok := c.asked(w, r); ok {
		c.answer(w, "acl", c.may(q))
	}
}

func (c *Client) may(q question) bool {
	own := map[string]string{"publish": c.opt.PublishPrefix, "subscribe": c.opt.PushPrefix}
	if c.opt.Username != "" && q.Username == c.opt.Username && q.ClientID == c.opt.ClientID {
		own["publish"], own["subscribe"] = c.opt.PushPrefix, c.opt.PublishPrefix
		rest, ok := strings.CutPrefix(q.Topic, own[q.Action]+"/")
		news := q.Action == "subscribe" && strings.HasPrefix(q.Topic, eventPrefix+"+/clients/+/")
		return news || ok && own[q.Action] != "" && rest != "" && !strings.Contains(rest, "/")
	}
	_, ok := identify(q.ClientID)
	return ok && own[q.Action] != "" && q.Topic == own[q.Action]+"/"+q.ClientID
}

// asked reads a question, if the broker may ask.
func (c *Client) asked(w http.ResponseWriter, r *http.Request) (q question, ok bool) {
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
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
			http.Error(w, "this is no question", http.StatusBadRequest)
			return q, false
		}
		return q, true
	}
	return q, false
}

func (c *Client) answer(w http.ResponseWriter, what string, good bool) {
	result := "deny"
	if good {
		result = "allow"
	}
	c.metrics.logins.WithLabelValues(what, result).Inc()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"result":"` + result + `"}` + "\n"))
}
