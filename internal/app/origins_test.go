package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// stranger is a server that records everything it receives, in any protocol.
type stranger struct {
	*httptest.Server
	mu      sync.Mutex
	heard   bytes.Buffer
	visited chan struct{} // gets one for each request
	// leadsTo is the target of its redirects; empty: none.
	leadsTo string
	status  int
}

func newStranger(t *testing.T, leadsTo string) *stranger {
	s := &stranger{visited: make(chan struct{}, 1000), leadsTo: leadsTo, status: http.StatusTemporaryRedirect}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *stranger) note(what []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.Write(what)
}

func (s *stranger) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard.String()
}

func (s *stranger) serve(w http.ResponseWriter, r *http.Request) {
	request, _ := httputil.DumpRequest(r, true)
	s.note(request)
	defer func() { s.visited <- struct{}{} }()
	switch {
	case s.leadsTo != "":
		http.Redirect(w, r, s.leadsTo, s.status)
	case r.Header.Get("Upgrade") != "":
		s.shake(w, r)
	default:
		http.NotFound(w, r)
	}
}

// shake performs the handshake of an OpenClaw gateway and then disconnects.
func (s *stranger) shake(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // it is over anyway
	ctx, cancel := context.WithTimeout(r.Context(), soon)
	defer cancel()
	if ws.Write(ctx, websocket.MessageText, wire.AppendChallenge(nil, "nonce", time.Now())) != nil {
		return
	}
	_, frame, _ := ws.Read(ctx)
	s.note(frame)
}

// secrets is the prefix of all values that must never reach a stranger.
const secrets = "s3cret"

// deal is an installation with something that has secrets for an address.
type deal struct {
	*desk
	admin string // the administrator's key
	known string // the address that the secrets belong to; nothing listens there
}

func newDeal(t *testing.T) *deal {
	d := &deal{desk: newDesk(t, nil), known: "http://127.0.0.1:1"}
	ada, err := d.base.Store.People.ByName(t.Context(), "ada")
	if err == nil {
		_, d.admin, err = d.base.Accounts.AddKey(t.Context(),
			account.NewKey{Person: ada.ID, Name: "admin", Scopes: []string{account.ScopeAdmin}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *deal) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deal) ada() store.Person {
	p, err := d.base.Store.People.ByName(d.t.Context(), "ada")
	d.must(err)
	return p
}

func (d *deal) bot(set map[string]string) store.Bot {
	d.t.Helper()
	kind := "openai"
	if set["url"] != "" {
		kind = "openclaw"
	}
	b, _, err := d.base.Registry.Add(d.t.Context(), hub.NewBot{Owner: d.ada().ID, Name: seal.NewToken(8), Kind: kind,
		Set: set})
	d.must(err)
	return b
}

// model adds a bot with a key and a header for the known address.
func (d *deal) model() store.Bot {
	return d.bot(map[string]string{"base_url": d.known + "/v1", "model": "m", "api_key": "s3cret-key",
		"headers": `{"X-Key":"s3cret-header"}`, "retries": "-1"})
}

// upstream adds a tool server, or a gateway, with a token for the known address.
func (d *deal) upstream(kind string) store.Upstream {
	d.t.Helper()
	text := `{"url":"` + d.known + `/mcp?key=s3cret-query","token":"s3cret-token","headers":{"X-Key":"s3cret-header"}}`
	if kind == UpstreamShim {
		text = `{"url":"ws://127.0.0.1:1","token":"s3cret-token","mode":"one"}`
	}
	s, _, err := d.base.changedSettings(d.ada(), store.Upstream{Kind: kind}, set(text))
	d.must(err)
	u, _, err := d.base.AddUpstream(d.t.Context(), d.ada(), strings.ToLower(seal.Hash(seal.NewToken(8))[:8]), kind, s)
	d.must(err)
	return u
}

// call sends a request to /api/v1 and returns the response.
func (d *deal) call(method, path, key string, body any) string {
	d.t.Helper()
	text, err := json.Marshal(body)
	d.must(err)
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+"/api/v1"+path, bytes.NewReader(text))
	d.must(err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	d.must(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	d.must(err)
	return string(answer)
}

// ask sends a question to a bot.
func (d *deal) ask(b store.Bot) {
	d.call(http.MethodPost, fmt.Sprintf("/bots/%d/test", b.Number), d.admin, struct{}{})
}

type fields map[string]any

// No sealed value reaches an origin that it was not given for, however the address was changed.
func TestSecretsStayAtTheirOrigin(t *testing.T) {
	d := newDeal(t)
	changes := map[string]func(t *testing.T, to string) (told string){
		"a bot by /api/v1": func(t *testing.T, to string) string {
			b := d.model()
			told := d.call(http.MethodPatch, fmt.Sprintf("/bots/%d", b.Number), d.admin,
				fields{"settings": fields{"base_url": to + "/v1"}})
			d.ask(b)
			return told
		},
		"a bot by its owner's key": func(t *testing.T, to string) string {
			b := d.model()
			_, key, err := d.base.Accounts.AddKey(t.Context(),
				account.NewKey{Person: b.Owner, Name: "one", Scopes: []string{account.ScopeOperator}})
			d.must(err)
			told := d.call(http.MethodPatch, fmt.Sprintf("/bots/%d", b.Number), key,
				fields{"settings": fields{"base_url": to + "/v1"}})
			d.ask(b)
			return told
		},
		"a bot by its page": func(t *testing.T, to string) string {
			b := d.model()
			_, told := d.send(fmt.Sprintf("/bots/%d/settings", b.Number), "name", b.Name, "set.base_url", to+"/v1",
				"set.model", "m", "set.retries", "-1")
			d.ask(b)
			return told
		},
		"a bot by the command line": func(t *testing.T, to string) string {
			b := d.model()
			changed, err := d.base.Registry.Change(t.Context(), b.Number,
				hub.Changes{Set: map[string]string{"base_url": to + "/v1"}})
			d.must(err)
			d.ask(b)
			return fmt.Sprint(changed.Dropped)
		},
		"a bot in small steps": func(t *testing.T, to string) string {
			b := d.model()
			for _, address := range []string{d.known + "/v2", strings.Replace(to, "http://", "HTTP://", 1) + "/v2", to +
				"/v1"} {
				d.call(http.MethodPatch, fmt.Sprintf("/bots/%d", b.Number), d.admin,
					fields{"settings": fields{"base_url": address}})
			}
			d.ask(b)
			return "api_key"
		},
		"a bot in the database, or in a backup that is restored": func(t *testing.T, to string) string {
			b := d.bot(map[string]string{"base_url": d.known + "/v1", "model": "m", "api_key": "s3cret-key",
				"retries": "-1"})
			b.Settings = bytes.Replace(b.Settings, []byte(d.known), []byte(to), 1)
			d.must(d.base.Store.Bots.Save(t.Context(), b))
			d.ask(b)
			return "api_key"
		},
		"an agent by /api/v1": func(t *testing.T, to string) string {
			identity := wire.NewIdentity()
			device, err := json.Marshal(fields{"device": &identity, "token": "s3cret-device"})
			d.must(err)
			b := d.bot(map[string]string{"url": "ws://127.0.0.1:1", "token": "s3cret-token", "first_piece": "3s"})
			_, err = d.base.Registry.Change(t.Context(), b.Number,
				hub.Changes{Set: map[string]string{"device_identity": string(device)}})
			d.must(err)
			told := d.call(http.MethodPatch, fmt.Sprintf("/bots/%d", b.Number), d.admin,
				fields{"settings": fields{"url": strings.Replace(to, "http", "ws", 1)}})
			// The previous gateway responds only now.
			keep := d.base.agentOptions(slog.New(slog.DiscardHandler)).SaveIdentity
			if keep(t.Context(), b.Number, "ws://127.0.0.1:1", string(device)) == nil {
				t.Error("the token of one gateway is kept for another")
			}
			d.ask(b)
			return told
		},
		"a tool server by /api/v1": func(t *testing.T, to string) string {
			u := d.upstream(UpstreamMCP)
			return d.call(http.MethodPatch, fmt.Sprintf("/upstreams/%d", u.Number), d.admin,
				fields{"settings": fields{"url": to + "/mcp"}})
		},
		"a tool server that is looked at": func(t *testing.T, to string) string {
			u := d.upstream(UpstreamMCP)
			return d.call(http.MethodPost, fmt.Sprintf("/upstreams/%d/check", u.Number), d.admin,
				fields{"settings": fields{"url": to + "/mcp"}})
		},
		"a tool server by its page": func(t *testing.T, to string) string {
			u := d.upstream(UpstreamMCP)
			_, told := d.send(fmt.Sprintf("/tools/upstreams/%d/change", u.Number), "url", to+"/sse")
			return told
		},
		"a tool server that is looked at by its page": func(t *testing.T, to string) string {
			u := d.upstream(UpstreamMCP)
			_, told := d.send(fmt.Sprintf("/tools/upstreams/%d/look", u.Number), "url", to+"/sse")
			return told
		},
		"a gateway by /api/v1": func(t *testing.T, to string) string {
			u := d.upstream(UpstreamShim)
			return d.call(http.MethodPatch, fmt.Sprintf("/upstreams/%d", u.Number), d.admin,
				fields{"settings": fields{"url": strings.Replace(to, "http", "ws", 1)}})
		},
		"a gateway by its page": func(t *testing.T, to string) string {
			u := d.upstream(UpstreamShim)
			_, told := d.send(fmt.Sprintf("/gateway/shims/%d/change", u.Number),
				"url", strings.Replace(to, "http", "ws", 1), "mode", "one")
			return told
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, "")
			told := change(t, s.URL)
			select {
			case <-s.visited:
			case <-time.After(soon):
				t.Fatal("nobody came to the other address")
			}
			s.Close() // waits for pending requests
			if strings.Contains(s.said(), secrets) {
				t.Errorf("it was sent\n%s", s.said())
			}
			if !strings.Contains(told, "token") && !strings.Contains(told, "api_key") {
				t.Errorf("what is gone is not told:\n%s", told)
			}
		})
	}
}

// Nor by a redirect, or by an address that a server announces.
func TestSecretsAreNotRedirected(t *testing.T) {
	d := newDeal(t)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		thief := newStranger(t, "")
		for name, use := range map[string]func(address string){
			"a bot": func(address string) {
				d.ask(d.bot(map[string]string{"base_url": address, "model": "m", "api_key": "s3cret-key",
					"headers": `{"X-Key":"s3cret-header"}`, "retries": "-1"}))
			},
			"an agent": func(address string) {
				d.ask(d.bot(map[string]string{"url": strings.Replace(address, "http", "ws", 1), "token": "s3cret-token",
					"first_piece": "3s"}))
			},
			"a tool server": func(address string) {
				d.call(http.MethodPost, "/upstreams/check", d.admin,
					fields{"name": "x", "kind": "mcp", "settings": fields{"url": address, "token": "s3cret-token",
						"headers": fields{"X-Key": "s3cret-header"}}})
			},
			"a tool server of before": func(address string) {
				d.call(http.MethodPost, "/upstreams/check", d.admin,
					fields{"name": "x", "kind": "mcp", "settings": fields{"url": address, "transport": "sse",
						"token": "s3cret-token"}})
			},
		} {
			s := newStranger(t, thief.URL)
			s.status = status
			use(s.URL)
			if !strings.Contains(s.said(), "HTTP/1.1") {
				t.Errorf("%s did not come to where it was sent", name)
			}
		}
		if thief.said() != "" {
			t.Errorf("with %d the other server was sent\n%s", status, thief.said())
		}
	}
}

// Secrets stay with the same origin, however its address is written, and secrets given in the same
// change are kept for the new origin.
func TestSecretsStayAtTheSameOrigin(t *testing.T) {
	d := newDeal(t)
	b := d.bot(map[string]string{"base_url": "https://API.example.com/v1", "model": "m", "api_key": "s3cret-1"})
	for _, c := range []struct {
		set     map[string]string
		dropped string
		want    string
	}{
		{map[string]string{"base_url": "https://api.example.com:443/v2?api-version=1"}, "", "s3cret-1"},
		{map[string]string{"base_url": "https://api.example.com:444/v2", "api_key": "s3cret-2"}, "", "s3cret-2"},
		{map[string]string{"model": "n"}, "", "s3cret-2"},
		{map[string]string{"base_url": "http://api.example.com:444/v2"}, "api_key", ""},
	} {
		changed, err := d.base.Registry.Change(t.Context(), b.Number, hub.Changes{Set: c.set})
		d.must(err)
		var s struct {
			Key string `json:"api_key"`
		}
		d.must(d.base.Registry.Settings(changed.Bot, &s))
		if s.Key != c.want || strings.Join(changed.Dropped, " ") != c.dropped {
			t.Errorf("%v: the key is %q, and dropped is %v", c.set, s.Key, changed.Dropped)
		}
	}
	if u, err := url.Parse(d.url); err != nil || seal.Origin("ws://"+u.Host) != seal.Origin(d.url+"/x") {
		t.Errorf("%s: %v", d.url, err)
	}
}
