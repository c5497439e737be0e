package ankiconnect

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/observe"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// rig is a server behind a real listener, with a clock that the test controls.
type rig struct {
	*hubtest.Rig
	t       testing.TB
	learn   *learn.Service
	control *control.Service
	server  *Server
	handler http.Handler
	url     string
	key     string
	log     *lockedBuffer

	mu  sync.Mutex
	now time.Time
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start is a moment, in UTC: the millisecond 1795856400000.
var start = time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)

func newRig(t testing.TB, db store.Options) *rig {
	t.Helper()
	r := &rig{Rig: hubtest.New(t, hubtest.Options{DB: db}), t: t, now: start, log: &lockedBuffer{}}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.learn = learn.New(learn.Options{Store: r.Hub.Store, Zone: time.UTC, Now: r.clock, Logger: log})
	socket, err := r.Hub.Register(learn.ProviderRef(), &learn.Provider{Service: r.learn})
	r.must(err)
	socket.SetTools(learn.Tools())
	r.control = control.New(control.Options{Hub: r.Hub, Accounts: r.Accounts, Logger: log, Points: r.learn})
	s := New(Options{Control: r.control, Guard: account.NewGuard(5, nil), Logger: log,
		Registerer: prometheus.NewRegistry(), Origins: []string{"http://localhost", "app://obsidian.md"},
		Address:     func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() },
		IsKnownHost: func(host string) bool { return strings.HasPrefix(host, "127.0.0.1:") }})
	r.server = s
	r.handler = observe.HandleRequests(log, prometheus.NewRegistry(), s)
	web := httptest.NewServer(r.handler)
	r.url = web.URL
	t.Cleanup(web.Close)
	r.key = r.addKey("anki", account.ScopeLearn, "")
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) addKey(name, scope, rules string) string {
	r.t.Helper()
	_, secret, err := r.Accounts.AddKey(r.t.Context(), account.NewKey{Person: r.Person.ID, Name: name,
		Scopes: []string{scope}, Rules: rules})
	r.must(err)
	return secret
}

// send sends a request and returns status, headers and body of the answer.
func (r *rig) send(method, body string, header map[string]string) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url, strings.NewReader(body))
	r.must(err)
	for name, value := range header {
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	r.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	r.must(err)
	return resp.StatusCode, resp.Header, string(text)
}

// invoke does an action and returns its answer; params is JSON, or empty.
func (r *rig) invoke(action, params string) string {
	r.t.Helper()
	if params == "" {
		params = "{}"
	}
	_, _, answer := r.send("POST", `{"action":"`+action+`","version":6,"key":"`+r.key+`","params":`+params+`}`, nil)
	return answer
}

// result does an action that must succeed, and decodes its result.
func (r *rig) result(into any, action, params string) {
	r.t.Helper()
	var out struct {
		Result json.RawMessage `json:"result"`
		Error  *string         `json:"error"`
	}
	answer := r.invoke(action, params)
	r.must(json.Unmarshal([]byte(answer), &out))
	if out.Error != nil {
		r.t.Fatalf("%s %s: %s", action, params, *out.Error)
	}
	if into != nil {
		r.must(json.Unmarshal(out.Result, into))
	}
}
