package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/tool"
)

// seen is what a client has got, besides responses.
type seen struct{ lines []string }

// asker makes requests with one key at one endpoint.
type asker interface {
	// request returns the response, as text.
	request(t *testing.T, method, params string) string
}

// statelessAsker speaks the revision without sessions.
type statelessAsker struct{ *client }

func (a statelessAsker) request(t *testing.T, method, params string) string {
	t.Helper()
	return a.askStateless(t, method, params)
}

// sessionAsker has a session at /mcp.
type sessionAsker struct{ *client }

func (a sessionAsker) request(t *testing.T, method, params string) string {
	t.Helper()
	_, got := a.ask(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	return got
}

// pipeAsker has a session at /mcp/sse, where responses come on the stream.
type pipeAsker struct {
	*rig
	header   http.Header
	endpoint string
	stream   *seedReader
	id       int
	seen
}

// openPipe begins a session at /mcp/sse.
func (r *rig) openPipe(t *testing.T, key string) *pipeAsker {
	t.Helper()
	a := &pipeAsker{rig: r, header: http.Header{"Authorization": {"Bearer " + key}, "Accept": {"text/event-stream"}}}
	a.stream = r.openSeed(t, "/mcp/sse", a.header)
	a.endpoint = strings.TrimPrefix(a.stream.until(t, "/mcp/messages?session_id="), "data: ")
	a.request(t, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},`+
		`"clientInfo":{"name":"raw","version":"1"}}`)
	return a
}

func (a *pipeAsker) request(t *testing.T, method, params string) string {
	t.Helper()
	a.id++
	if status, body := a.post(t, a.endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, a.id, method,
		params), a.header); status != http.StatusAccepted {
		t.Fatalf("%s: %d %s", method, status, body)
	}
	for {
		line := a.stream.next(t)
		if strings.Contains(line, fmt.Sprintf(`"id":%d,`, a.id)) {
			return line
		}
		a.lines = append(a.lines, line)
	}
}

// addEve adds a person who has nothing to do with the rig's, and returns her id and a key.
func (r *rig) addEve(t *testing.T) (id, key string) {
	t.Helper()
	eve, err := r.Accounts.AddPerson(t.Context(), "eve", account.RoleMember, "en", "")
	must(t, err)
	return eve.ID, r.Key(t, account.NewKey{Person: eve.ID, Name: "eve", Scopes: []string{account.ScopeMCP}})
}

// Two people, of whom one has an upstream: at no endpoint does the other see or get anything of it,
// nor does a key of the first that is not for it.
func TestStrangers(t *testing.T) {
	r := newRig(t, rigOptions{hub: hub.Options{Installation: "front"}})
	_, fixtures, settings := behind(t)
	addUpstream(t, r, upstream.Spec{Slug: "srv", Owner: r.Person.ID, Settings: settings})
	eve, eveKey := r.addEve(t)
	narrowKey := r.addKey(t, "narrow", `{"allow":["nothing_*"]}`)
	const uri = "test://srv/watched-resource"
	requests := []struct{ method, params, want string }{
		{"tools/list", `{}`, "srv_test_simple_text"},
		{"tools/call", `{"name":"srv_test_simple_text"}`, "simple text response"},
		{"resources/list", `{}`, "test://srv/static-text"},
		{"resources/templates/list", `{}`, "test://srv/template/{id}/data"},
		{"resources/read", `{"uri":"test://srv/static-text"}`, "static text resource"},
		{"prompts/list", `{}`, "srv_test_simple_prompt"},
		{"prompts/get", `{"name":"srv_test_simple_prompt"}`, `"messages":[`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"srv_test_prompt_with_arguments"},` +
			`"argument":{"name":"arg1","value":"p"}}`, `"values":`},
	}
	for endpoint, open := range map[string]func(key string) asker{
		"/mcp in a session":      func(key string) asker { return sessionAsker{r.connect(t, key, "2025-11-25")} },
		"/mcp without a session": func(key string) asker { return statelessAsker{r.connect(t, key, "2025-11-25")} },
		"/mcp/sse":               func(key string) asker { return r.openPipe(t, key) },
	} {
		ada, strangers := open(r.key), map[string]asker{"another person": open(eveKey), "a narrow key": open(narrowKey)}
		for _, c := range requests {
			if got := ada.request(t, c.method, c.params); !strings.Contains(got, c.want) {
				t.Errorf("%s at %s: %s", c.method, endpoint, got)
			}
			for name, stranger := range strangers {
				if got := stranger.request(t, c.method, c.params); strings.Contains(got, c.want) {
					t.Errorf("%s gets %s at %s: %s", name, c.method, endpoint, got)
				}
			}
		}
	}

	// Each subscribes to the resource in each way, and only its owner hears of it.
	subscribe := `{"uri":"` + uri + `"}`
	type listener struct {
		who    string
		stream *seedReader
		owner  bool
	}
	var listeners []listener
	for who, key := range map[string]string{"ada": r.key, "another person": eveKey, "a narrow key": narrowKey} {
		session, pipe := r.connect(t, key, "2025-11-25"), r.openPipe(t, key)
		stream := session.listen(t)
		sessionAsker{session}.request(t, "resources/subscribe", subscribe)
		pipe.request(t, "resources/subscribe", subscribe)
		listens := r.subscribe(t, key, `{"resourceSubscriptions":["`+uri+`"],"toolsListChanged":true}`)
		listens.until(t, "acknowledged")
		for way, s := range map[string]*seedReader{"session": stream, "/mcp/sse": pipe.stream, "listen": listens} {
			listeners = append(listeners, listener{who + ", " + way, s, who == "ada"})
		}
	}
	fixtures.Touch(mcptest.Watched)
	for _, l := range listeners {
		if l.owner {
			l.stream.until(t, uri)
		}
	}
	// What comes after it shows that nothing was on its way.
	r.register(t, hub.ProviderRef{ID: "last", Owner: eve, Kind: "test", Slug: "last"}, providerFunc(nil),
		tool.Tool{Name: "last"})
	r.register(t, hub.ProviderRef{ID: "nothing", Owner: r.Person.ID, Kind: "test", Slug: "nothing"}, providerFunc(nil),
		tool.Tool{Name: "more"})
	for _, l := range listeners {
		for line := ""; !l.owner && !strings.Contains(line, "tools/list_changed"); {
			if line = l.stream.next(t); strings.Contains(line, "srv") {
				t.Errorf("%s gets %s", l.who, line)
			}
		}
	}
}

// subscribe opens a subscription of the revision without sessions.
func (r *rig) subscribe(t *testing.T, key, notifications string) *seedReader {
	t.Helper()
	c := &tasker{t, r.url, key}
	var want map[string]any
	must(t, json.Unmarshal([]byte(notifications), &want))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return readEvents(c.open(ctx, "subscriptions/listen", map[string]any{"notifications": want}), cancel)
}

// safe registers a tool that asks for a code, and returns what it was called with again.
func (r *rig) safe(t *testing.T) <-chan *tool.Call {
	t.Helper()
	again := make(chan *tool.Call, 10)
	r.register(t, hub.ProviderRef{ID: "safe", Kind: "k", Slug: "safe"},
		providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.State == "" && c.Answers == nil {
				return &tool.Result{InputRequired: &tool.InputRequired{State: "behind the picture",
					Requests: map[string]tool.Request{"code": {Method: "elicitation/create",
						Params: []byte(`{"message":"Code?","requestedSchema":{"type":"object","properties":{}}}`)}}}}, nil
			}
			again <- c
			return tool.Text("opened"), nil
		}), tool.Tool{Name: "open"})
	return again
}

// The state of a call that waits for an answer is good for the key that called, and nobody else can
// continue the call with it, not even the same person with another key.
func TestForeignState(t *testing.T) {
	r := newRig(t, rigOptions{})
	again := r.safe(t)
	_, eveKey := r.addEve(t)
	call := func(key, state string) (taskView, *jsonrpc.Error) {
		params := map[string]any{"name": "safe_open", "arguments": map[string]any{}}
		if state != "" {
			params["requestState"] = state
			params["inputResponses"] = map[string]any{"code": map[string]any{"action": "accept"}}
		}
		return (&tasker{t, r.url, key}).do("tools/call", params)
	}
	asked, e := call(r.key, "")
	if e != nil || asked.Type != "input_required" || asked.State == "" {
		t.Fatalf("%+v, %v", asked, e)
	}
	text, signature, _ := strings.Cut(asked.State, ".")
	theirs, e := call(eveKey, "")
	if e != nil {
		t.Fatal(e)
	}
	_, theirSignature, _ := strings.Cut(theirs.State, ".")
	for name, c := range map[string]struct{ key, state string }{
		"another person":            {eveKey, asked.State},
		"another key":               {r.addKey(t, "other", ""), asked.State},
		"a narrow key":              {r.addKey(t, "narrow", `{"allow":["safe_*"]}`), asked.State},
		"another's signature":       {r.key, text + "." + theirSignature},
		"no signature":              {r.key, text},
		"a changed state":           {r.key, "e30." + signature},
		"another person's state":    {r.key, theirs.State},
		"a signature of other text": {r.key, text[:len(text)-2] + "." + signature},
	} {
		if v, e := call(c.key, c.state); e == nil || e.Code != jsonrpc.InvalidParams {
			t.Errorf("%s: %+v, %v", name, v, e)
		}
	}
	select {
	case c := <-again:
		t.Errorf("somebody else's answer reaches the provider: %q %s", c.State, c.Answers)
	default:
	}
	if v, e := call(r.key, asked.State); e != nil || !strings.Contains(string(v.Content), "opened") {
		t.Errorf("%+v, %v", v, e)
	}
	if c := <-again; c.State != "behind the picture" {
		t.Errorf("the provider gets %q", c.State)
	}
}

// What a session is asked is answered in that session only: the same answer in another one, of
// another person or of the same, is nobody's.
func TestForeignAnswer(t *testing.T) {
	const capable = `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},` +
		`"clientInfo":{"name":"raw","version":"1"}}`
	r := newRig(t, rigOptions{})
	again := r.safe(t)
	_, eveKey := r.addEve(t)
	forged := func(id any) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":{"forged":true}}}`, id)
	}
	idOf := func(line string) any {
		var m struct{ ID json.Number }
		must(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &m))
		return m.ID
	}
	// Sessions whose answers must not count.
	var others []func(id any)
	for _, key := range []string{eveKey, r.key} {
		session, pipe := r.connect(t, key, "2025-11-25"), r.openPipe(t, key)
		others = append(others, func(id any) { session.ask(t, forged(id)) },
			func(id any) { pipe.post(t, pipe.endpoint, forged(id), pipe.header) })
	}
	answered := func(name string) {
		t.Helper()
		select {
		case c := <-again:
			t.Fatalf("%s: somebody else's answer is taken: %s", name, c.Answers)
		default:
		}
	}

	c := r.connectAble(t, r.key, capable)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	s := readEvents(c.open(t, ctx, callBody(5, "safe_open", "{}")), hangUp)
	id := idOf(s.until(t, "elicitation/create"))
	stolen := c.header.Clone() // her session, under a key that it does not belong to
	stolen.Set("Authorization", "Bearer "+eveKey)
	if status, body := r.post(t, "/mcp", forged(id), stolen); status != http.StatusNotFound {
		t.Errorf("an answer in somebody else's session: %d %s", status, body)
	}
	for _, answer := range others {
		answer(id)
	}
	answered("/mcp")
	c.ask(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":{"mine":true}}}`, id))
	s.until(t, "opened")
	if got := <-again; !strings.Contains(string(got.Answers["code"]), "mine") {
		t.Errorf("the provider gets %s", got.Answers)
	}

	pipe := r.openPipe(t, r.key)
	pipe.post(t, pipe.endpoint, callBody(5, "safe_open", "{}"), pipe.header)
	id = idOf(pipe.stream.until(t, "elicitation/create"))
	foreign := pipe.header.Clone()
	foreign.Set("Authorization", "Bearer "+eveKey)
	if status, body := r.post(t, pipe.endpoint, forged(id), foreign); status != http.StatusNotFound {
		t.Errorf("an answer to somebody else's session_id: %d %s", status, body)
	}
	for _, answer := range others {
		answer(id)
	}
	answered("/mcp/sse")
	pipe.post(t, pipe.endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":{"mine":true}}}`,
		id), pipe.header)
	pipe.stream.until(t, "opened")
	if got := <-again; !strings.Contains(string(got.Answers["code"]), "mine") {
		t.Errorf("the provider gets %s", got.Answers)
	}
}

// connectAble begins a session with the parameters of initialize.
func (r *rig) connectAble(t *testing.T, key, params string) *client {
	t.Helper()
	c := &client{r, http.Header{"Authorization": {"Bearer " + key}, "Accept": {"application/json, text/event-stream"}}}
	resp := c.open(t, t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":`+params+`}`)
	resp.Body.Close()
	c.header.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
	return c
}

// open posts a message, and leaves the response to be read.
func (c *client) open(t *testing.T, ctx context.Context, body string) *http.Response { //nolint:revive // t is first here
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mcp", strings.NewReader(body))
	must(t, err)
	req.Header = c.header
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", body, resp.Status)
	}
	return resp
}

// What is sent about a call comes in the stream of that call, and in no other stream of the same
// session, the same key or another person, in both eras. A stream that broke is resumed by its own
// session only, and messages for a stream at /mcp/sse are taken from its own key.
func TestForeignStreams(t *testing.T) {
	r := newRig(t, rigOptions{})
	begun, goOn := make(chan struct{}, 10), make(chan struct{}, 10)
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k", Slug: "slow"}, providerFunc(func(ctx context.Context,
		c *tool.Call) (*tool.Result, error) {
		say := func(what string) {
			text := what + " " + string(c.Args)
			c.Progress(tool.Progress{Done: 1, Message: text})
			if c.Log != nil {
				c.Log(tool.Log{Level: "info", Data: json.RawMessage(jsonrpc.AppendText(nil, text))})
			}
		}
		say("before")
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		say("after")
		return tool.Text("the answer to " + string(c.Args)), nil
	}), tool.Tool{Name: "walk"})
	_, eveKey := r.addEve(t)
	streams := map[string]*seedReader{}
	var sessions []*client
	for who, key := range map[string]string{"ada": r.key, "ada's other session": r.key, "eve": eveKey} {
		c := r.connect(t, key, "2025-11-25")
		c.ask(t, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`)
		streams[who] = c.listen(t)
		pipe := r.openPipe(t, key)
		pipe.request(t, "logging/setLevel", `{"level":"debug"}`)
		streams[who+" at /mcp/sse"] = pipe.stream
		streams[who+" listens"] = r.subscribe(t, key, `{"toolsListChanged":true}`)
		if sessions = append(sessions, c); who == "ada" {
			sessions[0], sessions[len(sessions)-1] = sessions[len(sessions)-1], sessions[0]
		}
	}
	ada := sessions[0]
	call := func(id int, args string) (*seedReader, context.CancelFunc) {
		ctx, hangUp := context.WithCancel(t.Context())
		t.Cleanup(hangUp)
		s := readEvents(ada.open(t, ctx, callBody(id, "slow_walk", args)), hangUp)
		<-begun
		return s, hangUp
	}
	first, hangUp := call(5, `{"n":"first"}`)
	second, _ := call(6, `{"n":"second"}`)
	last := "" // id of the newest event of the first call
	for line := ""; !strings.Contains(line, "before"); {
		line = first.next(t)
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			last = id
		}
	}
	hangUp()

	// Another session cannot resume it, whoever's it is; and hers cannot be used under another key.
	for _, c := range sessions[1:] {
		header := c.header.Clone()
		header.Set("Accept", "text/event-stream")
		header.Set("Last-Event-ID", last)
		if status, _ := get(t, r.url+"/mcp", header); status != http.StatusBadRequest {
			t.Errorf("the event of another session is answered with %d", status)
		}
	}
	header := ada.header.Clone()
	header.Set("Last-Event-ID", last)
	header.Set("Authorization", "Bearer "+eveKey)
	if status, _ := get(t, r.url+"/mcp", header); status != http.StatusNotFound {
		t.Errorf("the session of another key is answered with %d", status)
	}
	header.Set("Authorization", ada.header.Get("Authorization"))
	resumed := r.openSeed(t, "/mcp", header)

	// Nor is a message taken for another key's stream, nor a session of one endpoint at another.
	pipe := r.openPipe(t, r.key)
	_, session, _ := strings.Cut(pipe.endpoint, "=")
	foreign := http.Header{"Authorization": {"Bearer " + eveKey}}
	for name, c := range map[string]struct {
		path   string
		header http.Header
	}{
		"another person's":  {pipe.endpoint, foreign},
		"another key's":     {pipe.endpoint, http.Header{"Authorization": {"Bearer " + r.addKey(t, "other", "")}}},
		"a session of /mcp": {"/mcp/messages?session_id=" + ada.header.Get("Mcp-Session-Id"), pipe.header},
	} {
		if status, body := r.post(t, c.path, callBody(7, "slow_walk", `{"n":"stolen"}`), c.header); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	// Whoever names another key's stream when it connects gets one of its own.
	own := r.openSeed(t, "/mcp/sse?session_id="+session, foreign)
	if line := own.until(t, "session_id="); strings.Contains(line, session) {
		t.Errorf("another person is connected to %s", line)
	}

	goOn <- struct{}{}
	goOn <- struct{}{}
	for s, n := range map[*seedReader]string{resumed: "first", second: "second"} {
		for line := ""; !strings.Contains(line, "the answer to"); {
			line = s.next(t)
			if other := map[string]string{"first": "second", "second": "first"}[n]; strings.Contains(line, other) {
				t.Errorf("in the stream of the %s call comes %s", n, line)
			}
			if line == "" {
				t.Fatal("it ends")
			}
		}
	}
	// A change that everybody hears of shows that nothing else was on its way.
	r.register(t, hub.ProviderRef{ID: "last", Kind: "test", Slug: "last"}, providerFunc(nil), tool.Tool{Name: "last"})
	for who, s := range streams {
		var got []string
		for line := ""; !strings.Contains(line, "tools/list_changed"); {
			line = s.next(t)
			got = append(got, line)
		}
		if i := slices.IndexFunc(got, func(line string) bool {
			return strings.Contains(line, "before") || strings.Contains(line, "after") ||
				strings.Contains(line, "notifications/progress") || strings.Contains(line, "the answer")
		}); i >= 0 {
			t.Errorf("%s gets %s", who, got[i])
		}
	}
	select {
	case <-begun:
		t.Error("a stolen session has called the tool")
	default:
	}
}

// Whoever guesses keys is told to wait. A program that has none yet, or whose key has ended, is
// told how to get one, however often others at its address ask the same.
func TestGuesses(t *testing.T) {
	r := newRig(t, rigOptions{mcp: Options{Metadata: func(*http.Request, string) string { return "https://x.example/doc" }}})
	r.server.Guard = account.NewGuard(2, nil)
	key, ended, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID, Name: "ended",
		Scopes: []string{account.ScopeMCP}})
	must(t, err)
	must(t, r.Store.Keys.Revoke(t.Context(), key.ID, time.Now()))
	for _, path := range []string{"/mcp", "/api/mcp"} {
		for _, secret := range []string{"", ended} {
			for i := range 5 {
				if status, body := r.post(t, path, pingBody, http.Header{"Authorization": {"Bearer " + secret}}); status !=
					http.StatusUnauthorized {
					t.Errorf("%s: request %d with %q: %d %s", path, i, secret, status, body)
				}
			}
		}
	}
	for i, want := range []int{401, 401, 429, 429} {
		if status, body := r.post(t, "/mcp", pingBody, http.Header{"Authorization": {"Bearer pb_guess"}}); status != want {
			t.Errorf("guess %d: %d %s", i, status, body)
		}
	}
	if status, _ := r.post(t, "/mcp", pingBody, nil); status != http.StatusUnauthorized {
		t.Errorf("a program without a key at the address of one that guesses: %d", status)
	}
}
