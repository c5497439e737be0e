package broker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// A broker gets the right decisions on logins and actions; a client without the secret gets none.
func TestServe(t *testing.T) {
	opt := Options{
		URL: "mqtt://127.0.0.1:1", Username: "us", Password: "ours", AuthSecret: "between us",
		Auth: func(_ context.Context, c mqtt.ConnectInfo) (string, error) {
			switch {
			case c.Password == "broken":
				return "", errors.New("no database")
			case c.Password != "right":
				return "", mqtt.BadCredentials
			case c.ClientID == name1 && c.RemoteAddr.Addr().String() == "192.0.2.7":
				return mac1, nil
			}
			return mac2, nil
		},
	}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.AuthSecret = ""
	closed, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/auth", c.ServeAuth)
	mux.HandleFunc("/acl", c.ServeACL)
	mux.HandleFunc("/closed", closed.ServeAuth)
	srv := httptest.NewServer(mux)
	defer srv.Close()
	ask := func(method, path, header, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // read already
		text, _ := io.ReadAll(res.Body)
		var out struct{ Result string }
		if res.StatusCode == http.StatusOK && (json.Unmarshal(text, &out) != nil ||
			res.Header.Get("Content-Type") != "application/json") {
			t.Errorf("%s: %s", path, text)
		}
		return res.StatusCode, out.Result
	}
	login := func(client, user, password string) string {
		body, _ := json.Marshal(map[string]string{"clientid": client, "username": user, "password": password,
			"peerhost": "192.0.2.7"})
		return string(body)
	}
	may := func(client, user, action, topic string) string {
		body, _ := json.Marshal(map[string]string{"clientid": client, "username": user, "action": action,
			"topic": topic})
		return string(body)
	}
	const good = "Bearer between us"
	for _, q := range []struct {
		name, path, body, want string
	}{
		{"a board", "/auth", login(name1, "u", "right"), "allow"},
		{"a board with the wrong password", "/auth", login(name1, "u", "wrong"), "deny"},
		{"a board with the login of another", "/auth", login("GID@@@aa_bb_cc_dd_ee_09@@@x", "u", "right"), "deny"},
		{"no database", "/auth", login(name1, "u", "broken"), "deny"},
		{"a client that is no board", "/auth", login("x", "u", "right"), "deny"},
		{"us", "/auth", login("patchbay", "us", "ours"), "allow"},
		{"us with the wrong password", "/auth", login("patchbay", "us", "right"), "deny"},
		{"us with another client id", "/auth", login(name1, "us", "ours"), "deny"},

		{"publish", "/acl", may(name1, "u", "publish", "device-server/"+name1), "allow"},
		{"subscribe", "/acl", may(name1, "u", "subscribe", "devices/p2p/"+name1), "allow"},
		{"publish as another", "/acl", may(name1, "u", "publish", "device-server/"+name2), "deny"},
		{"publish to itself", "/acl", may(name1, "u", "publish", "devices/p2p/"+name1), "deny"},
		{"hear what others say", "/acl", may(name1, "u", "subscribe", "device-server/+"), "deny"},
		{"hear what others get", "/acl", may(name1, "u", "subscribe", "devices/p2p/+"), "deny"},
		{"hear who comes", "/acl", may(name1, "u", "subscribe", "$SYS/brokers/+/clients/+/connected"), "deny"},
		{"hear all", "/acl", may(name1, "u", "subscribe", "#"), "deny"},
		{"no action", "/acl", may(name1, "u", "", "/"+name1), "deny"},
		{"a stranger", "/acl", may("x", "u", "publish", "device-server/x"), "deny"},
		{"a client id with a wildcard", "/acl", may("+", "u", "subscribe", "devices/p2p/+"), "deny"},
		{"we push", "/acl", may("patchbay", "us", "publish", "devices/p2p/"+name1), "allow"},
		{"we listen", "/acl", may("patchbay", "us", "subscribe", "device-server/+"), "allow"},
		{"we hear who comes", "/acl", may("patchbay", "us", "subscribe", "$SYS/brokers/+/clients/+/connected"),
			"allow"},
		{"we do something else", "/acl", may("patchbay", "us", "publish", "device-server/x"), "deny"},
		{"we do nothing", "/acl", may("patchbay", "us", "", "/x"), "deny"},
		{"somebody with our client id", "/acl", may("patchbay", "u", "subscribe", "device-server/+"), "deny"},
		{"a board with our name", "/acl", may(name1, "us", "subscribe", "device-server/+"), "deny"},
	} {
		if status, result := ask("POST", q.path, good, q.body); status != http.StatusOK || result != q.want {
			t.Errorf("%s: %d %s, want %s", q.name, status, result, q.want)
		}
	}
	body := login(name1, "u", "right")
	for _, q := range []struct {
		method, path, header, body string
		want                       int
	}{
		{"POST", "/auth", "", body, 401}, {"POST", "/auth", "Bearer ", body, 401},
		{"POST", "/auth", "Bearer guess", body, 401},
		{"POST", "/auth", "between us", body, 401}, {"POST", "/acl", "Bearer guess", body, 401},
		{"GET", "/auth", good, "", 405}, {"POST", "/auth", good, "no JSON", 400}, {"POST", "/auth", good, "", 400},
		{"POST", "/auth", good, `{"clientid":"` + strings.Repeat("x", maxAuthBody) + `"}`, 400},
		{"POST", "/closed", "Bearer ", body, 404},
	} {
		if status, _ := ask(q.method, q.path, q.header, q.body); status != q.want {
			t.Errorf("%s %s with %q and %.20q: %d, want %d", q.method, q.path, q.header, q.body, status, q.want)
		}
	}
}
