package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/console"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const soon = 15 * time.Second

// instance is one server, as far as inbound tool servers need it.
type instance struct {
	*hubtest.Rig
	base    *Base
	servers *upstream.Manager
	joined  *shims
	clouds  *mcp.Clouds
	refresh func(context.Context) error
	url     string
	log     *lines
}

// lines collects log lines.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newInstance(t *testing.T, o hubtest.Options) *instance {
	t.Helper()
	i := &instance{Rig: hubtest.New(t, o), log: &lines{}}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(i.log, t.Output()),
		&slog.HandlerOptions{Level: slog.LevelDebug}))
	i.base = &Base{Store: i.Store, Box: i.Box, Accounts: i.Accounts, Registry: i.Registry}
	handler := mcp.New(mcp.Options{
		Hub: i.Hub, Accounts: account.NewRecent(i.Accounts), Guard: account.NewGuard(1000, nil), Box: i.Box,
		Logger:     log,
		Registerer: prometheus.NewRegistry(), Address: observe.Addresses{}.ClientAddress,
	})
	t.Cleanup(handler.Close)
	clouds := newClouds(i.base, handler, i.Hub.Bus.Instance, nil)
	t.Cleanup(clouds.Close)
	i.clouds = clouds
	i.servers = upstream.New(upstream.Options{Register: registerUpstream(i.Hub, log), Logger: log,
		Pins: pins{i.base, log}})
	t.Cleanup(i.servers.Close)
	i.joined = newShims(deps{hub: i.Hub, base: i.base, messages: i.Hub.Bus, log: log})
	t.Cleanup(i.joined.Close)
	i.refresh = reconcile(i.base, i.servers, clouds, i.joined, log)
	e := &endpoint{
		base: i.base, servers: i.servers, refresh: i.refresh, guard: account.NewGuard(3, nil), log: log,
		address: func(r *http.Request) netip.Addr { return observe.Addresses{}.ClientAddress(r) },
	}
	nothing := http.NotFoundHandler()
	web := httptest.NewServer(observe.HandleRequests(log, prometheus.NewRegistry(),
		routes(testHandlers(handler, e, nothing))))
	i.url = "ws" + strings.TrimPrefix(web.URL, "http") + "/mcp_endpoint/mcp/?token="
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return i
}

func testHandlers(m *mcp.Server, e http.Handler, nothing http.Handler) handlers {
	return handlers{lingzhu: nothing, cable: nothing, connector: nothing, join: nothing, media: nothing, api: nothing,
		metrics: nothing, ready: nothing, client: nothing, anki: nothing,
		endpoint: e, mcp: m, pages: console.New(console.Options{Control: &control.Service{}})}
}

// add adds an upstream of the kind that connects to us.
func (i *instance) add(t *testing.T, slug string) (store.Upstream, string) {
	t.Helper()
	u, token, err := i.base.AddUpstream(t.Context(), i.Person, slug, UpstreamDialsIn, &EndpointSettings{})
	if err != nil {
		t.Fatal(err)
	}
	return u, token
}

func dial(t *testing.T, address string) *sim.ToolServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	h, err := sim.Dial(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// await waits until the offered tools match fits.
func (i *instance) await(t *testing.T, what string, fits func(v *hub.View) bool) {
	t.Helper()
	changes, forget := i.Hub.WatchTools()
	defer forget()
	for limit := time.After(soon); ; {
		v, err := i.Hub.View(i.Person.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if fits(v) {
			return
		}
		select {
		case <-changes:
		case <-limit:
			t.Fatalf("still not: %s", what)
		}
	}
}

func has(name string) func(*hub.View) bool {
	return func(v *hub.View) bool { return v.Tool(name) != nil }
}

func hasNot(name string) func(*hub.View) bool {
	return func(v *hub.View) bool { return v.Tool(name) == nil }
}

func (i *instance) call(ctx context.Context, name, args string) (*tool.Result, error) {
	who := hub.Access{Caller: tool.Caller{Person: i.Person.ID, Channel: "test"}}
	return i.Hub.Call(ctx, who, name, &tool.Call{Args: json.RawMessage(args)})
}

func (i *instance) must(t *testing.T, name, args, want string) {
	t.Helper()
	res, err := i.call(t.Context(), name, args)
	if err != nil || res.PlainText() != want {
		t.Fatalf("%s: %+v, %v; want %s", name, res, err, want)
	}
}

// status returns the status of the response to a request.
func status(t *testing.T, address string, header http.Header) int {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		conn.CloseNow()
		return http.StatusSwitchingProtocols
	}
	if resp == nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// ended returns the code with which the connection was closed.
func ended(t *testing.T, h *sim.ToolServer) websocket.StatusCode {
	t.Helper()
	select {
	case <-h.Done():
	case <-time.After(soon):
		t.Fatal("it is still connected")
	}
	return websocket.CloseStatus(h.Err())
}

// A tool server that connects with its token can be called under its name at once, one without a
// token is refused, and a new token disconnects the server with the old one.
func TestEndpoint(t *testing.T) {
	i := newInstance(t, hubtest.Options{})
	u, token := i.add(t, "robot")
	home := dial(t, i.url+url.QueryEscape(token)) // the instance has not read the database since
	i.await(t, "the tools are there", has("robot_set_lamp"))
	i.must(t, "robot_set_lamp", `{"room":"hall","level":40}`, "The lamp in hall is at 40.")
	if level, calls := home.Lamp(); level != 40 || calls != 1 {
		t.Errorf("the lamp is at %d after %d calls", level, calls)
	}
	if _, err := i.call(t.Context(), "robot_reset", "{}"); tool.AsError(err).Code != tool.Denied {
		t.Errorf("what is dangerous: %v", err)
	}
	v, err := i.Hub.View(i.Person.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if o := v.Tool("robot_set_lamp").Provider(); o.ID != UpstreamProviderID(u) || !o.Held || o.Kind != "upstream" ||
		o.Owner != i.Person.ID {
		t.Errorf("it is plugged in as %+v", o)
	}
	if books := v.PromptSets(); len(books) != 1 || books[0].FullName("use") != "robot_use" {
		t.Errorf("the prompts are %+v", books)
	}
	health := upstreamHealth(i.base, i.Hub, i.servers, mcp.NewClouds(mcp.CloudOptions{}), nil)
	if h := health(u, ""); h.State != control.UpstreamReady || h.Tools != 3 || h.Transport != upstream.WebSocket ||
		h.Where != "" {
		t.Errorf("its health is %+v", h)
	}

	fresh, err := i.base.RotateUpstream(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	if got := status(t, i.url+token, nil); got != http.StatusUnauthorized {
		t.Errorf("the old token is answered with %d", got)
	}
	if err := i.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := ended(t, home); code != 4003 {
		t.Errorf("it was cut with %d", code)
	}
	i.await(t, "the tools are gone", hasNot("robot_set_lamp"))
	// without the trailing slash, as people write it
	home, err = sim.Dial(t.Context(), strings.TrimSuffix(i.url, "/?token=")+"?token="+fresh)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close() })
	i.await(t, "the tools are back", has("robot_set_lamp"))
	if err := i.Store.Upstreams.Remove(t.Context(), u.Number); err != nil {
		t.Fatal(err)
	}
	if err := i.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := ended(t, home); code != 4003 {
		t.Errorf("it was cut with %d", code)
	}
	i.await(t, "the tools are gone again", hasNot("robot_set_lamp"))
	for _, secret := range []string{token, fresh} {
		if strings.Contains(i.log.String(), secret) || strings.Contains(i.log.String(), secret[4:]) {
			t.Error("the log tells a token")
		}
	}
}

// Only the token of such an upstream is accepted, and guessing is limited.
func TestEndpointTokens(t *testing.T) {
	i := newInstance(t, hubtest.Options{})
	_, token := i.add(t, "robot")
	key := i.Key(t, account.NewKey{Scopes: []string{account.ScopeMCP}})
	bearer := func(secret string) http.Header { return http.Header{"Authorization": {"Bearer " + secret}} }
	for name, c := range map[string]struct {
		token  string
		header http.Header
	}{
		"none": {"", nil}, "wrong": {"pbt_wrong", nil}, "a key": {key, nil}, "a wrong bearer": {token, bearer("wrong")},
		"another kind": {"", http.Header{"Authorization": {"Basic " + token}}},
	} {
		got := status(t, i.url+c.token, c.header)
		if got != http.StatusUnauthorized && got != http.StatusTooManyRequests {
			t.Errorf("%s: answered with %d", name, got)
		}
	}
	if got := status(t, i.url+"wrong-again", nil); got != http.StatusTooManyRequests {
		t.Errorf("guessing goes on: %d", got)
	}
	// A valid token is never delayed.
	if got := status(t, i.url, bearer(token)); got != http.StatusSwitchingProtocols {
		t.Errorf("the token is answered with %d", got)
	}
	if got := status(t, i.url+token,
		http.Header{"Origin": {"https://elsewhere.example"}}); got != http.StatusSwitchingProtocols {
		t.Errorf("from a page it is answered with %d", got)
	}
	if strings.Contains(i.log.String(), "wrong") || strings.Contains(i.log.String(), key) {
		t.Error("the log tells what was guessed")
	}
	i.servers.Close()
	if got := status(t, i.url+token, nil); got != http.StatusServiceUnavailable {
		t.Errorf("when we stop it is answered with %d", got)
	}
}

// A tool server at one instance can be called from all of them. If it connects to another instance,
// it moves there.
func TestEndpointOfTwoInstances(t *testing.T) {
	urls := strings.Split(bustest.Cluster(t, 2), ",")
	db := store.Options{Folder: t.TempDir()}
	here := newInstance(t, hubtest.Options{DB: db, BusURL: urls[0], Name: "here"})
	there := newInstance(t, hubtest.Options{DB: db, BusURL: urls[1], Name: "there"})
	u, token := here.add(t, "robot")
	for _, i := range []*instance{here, there} {
		if err := i.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	health := func(i *instance) control.UpstreamHealth {
		return upstreamHealth(i.base, i.Hub, i.servers, mcp.NewClouds(mcp.CloudOptions{}), nil)(u, "")
	}
	if h := health(here); h.State != control.UpstreamWaiting ||
		!strings.Contains(h.Problem.In(i18n.English), "not connected yet") {
		t.Errorf("before it connects its health is %+v", h)
	}

	home := dial(t, there.url+token)
	for _, i := range []*instance{here, there} {
		i.await(t, "the tools are there", has("robot_set_lamp"))
	}
	here.must(t, "robot_set_lamp", `{"room":"hall","level":7}`, "The lamp in hall is at 7.")
	there.must(t, "robot_get_temperature", `{"room":"hall"}`, "hall: "+sim.Temperature)
	if level, calls := home.Lamp(); level != 7 || calls != 2 {
		t.Errorf("the lamp is at %d after %d calls", level, calls)
	}
	if h := health(here); h.State != control.UpstreamElsewhere || h.Tools != 3 {
		t.Errorf("here its health is %+v", h)
	}
	if h := health(there); h.State != control.UpstreamReady {
		t.Errorf("there its health is %+v", h)
	}
	if n := offeredElsewhere(there.Hub, u, upstream.Status{State: upstream.Waiting}); n != 0 {
		t.Errorf("by a status that was read before it connected, %d of its tools are elsewhere", n)
	}

	// It connects here while the other instance still holds its old connection.
	newer := dial(t, here.url+token)
	if code := ended(t, home); code != 4001 {
		t.Errorf("the older connection was closed with %d", code)
	}
	there.await(t, "the tools are those of the other instance", func(v *hub.View) bool {
		return v.Tool("robot_set_lamp") != nil && health(there).State == control.UpstreamElsewhere
	})
	there.must(t, "robot_set_lamp", `{"room":"hall","level":9}`, "The lamp in hall is at 9.")
	here.must(t, "robot_set_lamp", `{"room":"hall","level":10}`, "The lamp in hall is at 10.")
	if _, calls := newer.Lamp(); calls != 2 {
		t.Errorf("the newer one was called %d times", calls)
	}
	if _, calls := home.Lamp(); calls != 2 {
		t.Errorf("the older one was called %d times", calls)
	}

	// Removing it in the database ends it on each instance.
	if err := here.Store.Upstreams.Remove(t.Context(), u.Number); err != nil {
		t.Fatal(err)
	}
	if err := here.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(t, newer)
	for _, i := range []*instance{here, there} {
		i.await(t, "the tools are gone", hasNot("robot_set_lamp"))
	}
	if _, err := there.call(t.Context(), "robot_set_lamp", `{"room":"hall","level":1}`); tool.AsError(err).
		Code != tool.Unknown {
		t.Errorf("a call after the end: %v", err)
	}
}
