package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/config"
	"patchbay/internal/console"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// mark is in all names and texts of ada's, and nowhere else.
const mark = "zq7ada"

// setup is a server with two people: ada, an administrator with one of everything, and bob, who has
// only a browser and a key.
type setup struct {
	t         *testing.T
	url       string
	folder    string
	base      *Base
	pages     []page.Route
	does      []api.Operation
	ada, bob  store.Person
	cookie    string            // of bob's browser
	key       string            // bob's, with scope operator
	of        map[string]string // ids of ada's things, by the wildcard that they replace
	stopped   chan error
	stop      context.CancelFunc
	forbidden []string // texts that bob must never read
	adas      struct{ cookie, key string }
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	w := &setup{t: t, folder: storetest.Folder(t, t.TempDir()), stopped: make(chan error, 1), of: map[string]string{}}
	c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": w.folder, "listen": "127.0.0.1:0",
		"lingzhu.push_url": "", "trace.content": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	ready := make(chan struct{})
	log, err := os.Create(w.folder + "/log")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		w.stopped <- Serve(ctx, c, Options{
			Version: "test", Logs: log,
			OnServers: func(pages *console.Server, does *api.Server) {
				w.pages, w.does = pages.Routes(),
					does.Operations()
			},
			Ready: func(url string, b *Base) { w.url, w.base = url, b; close(ready) },
		})
	}()
	select {
	case <-ready:
	case err := <-w.stopped:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-w.stopped; err != nil {
			t.Error(err)
		}
		log.Close()
	})
	w.settle()
	return w
}

func (w *setup) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// settle gives ada one of everything.
func (w *setup) settle() {
	w.t.Helper()
	t, ctx, b := w.t, w.t.Context(), w.base
	now := time.Now()
	var err error
	w.ada, err = b.Accounts.AddPerson(ctx, mark, account.RoleAdmin, "en", "correct horse "+mark)
	w.must(err)
	w.bob, err = b.Accounts.AddPerson(ctx, "bob", account.RoleMember, "en", "battery staple")
	w.must(err)
	w.of["person"] = w.ada.ID

	bot, token, err := b.Registry.Add(ctx, hub.NewBot{Owner: w.ada.ID, Name: "bot " + mark,
		Kind: "eyeclaw", Description: "of " + mark})
	w.must(err)
	w.of["bot"] = fmt.Sprint(bot.Number)
	parrot, _, err := b.Registry.Add(ctx, hub.NewBot{Owner: w.ada.ID, Name: "parrot " + mark, Kind: "echo"})
	w.must(err)
	k, secret, err := b.Accounts.AddKey(ctx, account.NewKey{Person: w.ada.ID, Name: "key " + mark,
		Scopes: []string{account.ScopeMCP, account.ScopeNode}})
	w.must(err)
	w.of["key"] = k.ID
	w.of["client"], w.of["grant"] = "program-"+mark, uuid.NewString()
	w.must(b.Store.OAuth.SaveClient(ctx, store.OAuthClient{ID: w.of["client"], Kind: store.ClientConfigured,
		Name: "program " + mark, Redirects: []string{"https://a.example/" + mark}, Created: now}))
	w.must(b.Store.Keys.Add(ctx, store.Key{ID: w.of["grant"], Person: w.ada.ID, Name: "grant " + mark,
		Scopes: []string{account.ScopeMCP}, Hash: "grant " + mark, Client: w.of["client"], Created: now}))
	w.of["oauth/request"] = "request-" + mark
	w.must(b.Store.OAuth.AddRequest(ctx, store.OAuthRequest{ID: seal.Hash(w.of["oauth/request"]),
		Client: w.of["client"], Browser: seal.Hash("ada's"), Redirect: "https://a.example/" + mark,
		Scopes: []string{account.ScopeMCP}, Expires: now.Add(time.Hour)}))
	only, _, err := b.Accounts.AddKey(ctx, account.NewKey{Person: w.ada.ID, Name: "glasses " + mark,
		Scopes: []string{account.ScopeLingzhu}, Bot: bot.Number})
	w.must(err)
	w.of["bots/key"] = only.ID
	invitation, err := b.Accounts.Invite(ctx, bot.Number)
	w.must(err)
	w.of["invitation"] = invitation.ID
	redeemed, err := b.Accounts.Invite(ctx, bot.Number)
	w.must(err)
	w.of["user"] = "wearer-" + uuid.NewString()
	_, err = b.Accounts.RedeemToken(ctx, store.Wearer{Publisher: w.ada.ID, UserID: w.of["user"]}, "1", redeemed.Token)
	w.must(err)

	w.of["turn"] = uuid.Must(uuid.NewV7()).String()
	w.must(b.Store.Traces.Finish(ctx, store.Trace{Turn: w.of["turn"], Bot: parrot.Number, Owner: w.ada.ID,
		Kind: "echo", Channel: "rokid", At: now, Outcome: "done", Question: "q " + mark, Answer: "a " + mark},
		&store.Exchange{Turn: w.of["turn"], Bot: parrot.Number, Person: "x", Conversation: "c", At: now,
			Question: "q " + mark, Answer: "a " + mark}))
	w.must(b.Store.Calls.Add(ctx, []store.Call{{ID: uuid.Must(uuid.NewV7()).String(), At: now, Person: w.ada.ID,
		Turn: w.of["turn"], Tool: "tool_" + mark, Cause: mark, Outcome: "done"}}))

	d, code, err := b.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: "xiaozhi", Hardware: "02:00:00:00:77:01",
		Client: uuid.NewString(), Article: "board " + mark, At: now})
	w.must(err)
	d, err = b.Accounts.ApproveDevice(ctx, account.NewDevice{Person: w.ada.ID, Code: code, Name: "desk " + mark,
		Bot: parrot.Number})
	w.must(err)
	w.of["device"], w.of["tool"] = fmt.Sprint(d.Number), "self.audio_speaker.set_volume"
	_, waits, err := b.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: "xiaozhi", Hardware: "02:00:00:00:77:02",
		Client: uuid.NewString(), Article: "waits " + mark, At: now})
	w.must(err)

	timer, err := b.Store.Timers.Add(ctx, store.Timer{Device: d.Number, Text: "timer " + mark,
		Due: now.Add(time.Hour), Zone: "UTC", Created: now})
	w.must(err)
	w.of["timer"] = fmt.Sprint(timer.Number)
	w.of["part"] = store.PartQuestion
	w.must(b.Store.Recordings.Add(ctx, store.Recording{Turn: w.of["turn"], Device: d.Number,
		Expires: now.Add(time.Hour), Question: "q " + mark}, store.RecordedSound{Question: []byte("sound " + mark)}))
	speaks, err := b.Store.SpeechEngines.Add(ctx, store.SpeechEngine{Name: "engine " + mark, Kind: "openai",
		Settings: []byte(`{"base_url":"http://127.0.0.1:1/v1"}`), Created: now})
	w.must(err)
	w.of["engine"] = fmt.Sprint(speaks.Number)

	up, upToken, err := b.AddUpstream(ctx, w.ada, "up-"+mark, UpstreamDialsIn, &EndpointSettings{})
	w.must(err)
	w.of["upstream"] = fmt.Sprint(up.Number)
	joined, _, err := b.AddUpstream(ctx, w.ada, "shim-"+mark, UpstreamShim,
		&ShimSettings{URL: "ws://127.0.0.1:1/" + mark, Token: "secret " + mark})
	w.must(err)
	w.of["shim"] = fmt.Sprint(joined.Number)
	w.must(b.Store.ToolRules.Set(ctx, store.ToolRule{Owner: w.ada.ID, Tool: "tool_" + mark,
		Rule: "deny", Created: now}))

	peer := strings.Repeat("7a", 32)
	asked := store.PeerRequest{
		ID: uuid.NewString(), Kind: store.RequestDevice, Peer: peer, Owner: w.ada.ID,
		Address: "192.0.2.77", Refreshed: now,
		Ask: store.PeerAsk{PublicKey: "key", Name: "node " + mark,
			Platform: "linux", ClientID: "node-host", ClientMode: "node", Version: "1", Roles: []string{"node"}},
	}
	_, _, err = b.Store.Peers.Request(ctx, asked)
	w.must(err)
	_, _, err = b.Store.Peers.Approve(ctx, store.PeerDecision{ID: asked.ID, At: now})
	w.must(err)
	w.of["node"] = peer
	invited, err := b.Accounts.InviteNode(ctx, w.ada.ID, "", "wss://board.example.org/"+mark)
	w.must(err)
	w.of["code"] = invited.ID
	asked.ID, asked.Peer = uuid.NewString(), strings.Repeat("7b", 32)
	asked.Ask.Name = "waits " + mark
	_, _, err = b.Store.Peers.Request(ctx, asked)
	w.must(err)
	w.of["request"] = asked.ID

	w.of["point"], w.of["deck"], w.of["tag"] = uuid.NewString(), uuid.NewString(), "tag-"+mark
	w.must(b.Store.Learn.AddDeck(ctx, store.Deck{ID: w.of["deck"], Person: w.ada.ID, Name: "deck " + mark,
		Settings: []byte(`{}`), Created: now}))
	w.must(b.Store.Learn.Add(ctx, w.ada.ID, []store.NewPoint{{
		Point: store.Point{ID: w.of["point"], Deck: w.of["deck"], Question: "q " + mark, Answer: "a " + mark,
			Tags: []string{"tag-" + mark}, InPlan: true, Created: now, Updated: now, Words: []string{mark}},
		Sittings: []store.Sitting{{ID: uuid.NewString(), Day: 1, Number: 1, Created: now}},
	}}))
	w.of["learn/name"] = mark + ".png"
	w.must(b.Store.Learn.SaveMedia(ctx, w.ada.ID, &store.MediaFile{Name: w.of["learn/name"], Type: "image/png",
		Added: now}, []byte(mark)))
	w.must(b.Store.AdminEvents.Add(ctx, store.AdminEvent{ID: uuid.Must(uuid.NewV7()).String(), At: now,
		Person: w.ada.ID, Name: mark, Action: "person.added", About: mark}))

	adas, err := b.Accounts.Admit(ctx, w.ada, account.Browser{Agent: "browser " + mark, Address: "192.0.2.78"})
	w.must(err)
	list := struct {
		SignIns []struct {
			ID string `json:"id"`
		} `json:"sign_ins"`
	}{}
	_, operator, err := b.Accounts.AddKey(ctx, account.NewKey{Person: w.ada.ID, Name: "operator " + mark,
		Scopes: []string{account.ScopeOperator, account.ScopeAdmin}})
	w.must(err)
	w.must(json.Unmarshal([]byte(w.ask(http.MethodGet, "/api/v1/signins", "", nil, "Authorization",
		"Bearer "+operator).text), &list))
	if len(list.SignIns) != 1 {
		t.Fatalf("ada is signed in %d times", len(list.SignIns))
	}
	w.of["signin"] = list.SignIns[0].ID
	w.must(b.Accounts.Link(ctx, store.Linked{Issuer: "https://id.example", Subject: mark, Person: w.ada.ID,
		Label: "label " + mark}))
	links := control.LinkList{}
	w.must(json.Unmarshal([]byte(w.ask(http.MethodGet, "/api/v1/links", "", nil, "Authorization",
		"Bearer "+operator).text), &links))
	w.of["link"] = links.Links[0].ID
	w.of["passkey"] = "passkey-" + mark
	if _, err := b.Store.Passkeys.Add(ctx, store.Passkey{ID: w.of["passkey"], Person: w.ada.ID, Name: "name " + mark,
		Credential: []byte("{}"), Created: time.Now(), Used: time.Now()}, 9, nil); err != nil {
		t.Fatal(err)
	}

	w.of["set"] = "set" + mark
	w.must(b.Store.ToolSets.Save(ctx, store.ToolSet{Owner: w.ada.ID, Name: w.of["set"], Tools: []string{"tool_" + mark},
		Created: time.Now()}))
	w.must(b.Store.ToolWordings.Save(ctx, store.ToolWords{Owner: w.ada.ID, Tool: "tool_" + mark, Name: "name_" + mark,
		Created: time.Now()}))
	w.of["approval"] = "approval-" + mark
	if _, _, err := b.Store.Approvals.Ask(ctx, store.Approval{ID: w.of["approval"], Person: w.ada.ID,
		Caller: "caller " + mark, Tool: "tool_" + mark, Asked: time.Now(),
		Expires: time.Now().Add(time.Hour)}, 9, 9); err != nil {
		t.Fatal(err)
	}

	// A tool that only ada has.
	var tools struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	for deadline := time.Now().Add(15 * time.Second); w.of["name"] == ""; {
		w.must(json.Unmarshal([]byte(w.ask(http.MethodGet, "/api/v1/tools", "", nil, "Authorization",
			"Bearer "+operator).text), &tools))
		for _, x := range tools.Tools {
			if strings.Contains(x.Name, "desk") {
				w.of["name"] = x.Name
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("none of %+v is of ada's board", tools)
		}
	}

	w.cookie, err = b.Accounts.Admit(ctx, w.bob, account.Browser{Agent: "bob's"})
	w.must(err)
	_, w.key, err = b.Accounts.AddKey(ctx, account.NewKey{Person: w.bob.ID,
		Name: "bob's", Scopes: []string{account.ScopeOperator, account.ScopeAdmin}})
	w.must(err)
	w.adas.cookie, w.adas.key = adas, operator
	w.forbidden = []string{mark, secret, token, upToken, invitation.Token, invitation.Code, invited.Token, invited.Code,
		waits, adas, operator, "192.0.2.77", "192.0.2.78"}
}

// answered is the response to a request.
type answered struct {
	status int
	at     string
	text   string
}

// walkWait is how long an endless response is read.
const walkWait = 400 * time.Millisecond

func (w *setup) ask(method, path, kind string, body []byte, headers ...string) answered {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(body))
	w.must(err)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Do(req)
	if err != nil {
		w.t.Errorf("%s %s: %v", method, path, err)
		return answered{}
	}
	defer resp.Body.Close()
	defer time.AfterFunc(walkWait, cancel).Stop()
	text, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, context.Canceled) {
		w.t.Errorf("%s %s: %v", method, path, err)
	}
	return answered{resp.StatusCode, resp.Header.Get("Location"), string(text)}
}

// walked is a route and what a request to it needs.
type walked struct {
	method, pattern string
	page            bool
}

// sent has the forms and bodies that routes require; for other routes the body is empty. They would
// be valid if ada sent them.
var sent = map[string]string{
	"POST /bots/{bot}/chat":                      "c=1&text=hello",
	"POST /gateway/nodes/{node}/rename":          "name=bobs",
	"POST /gateway/nodes/{node}/invoke":          "command=system.which",
	"POST /api/v1/nodes/{node}/invoke":           `{"command":"system.which"}`,
	"PATCH /api/v1/nodes/{node}":                 `{"name":"bobs"}`,
	"POST /api/v1/pairs/devices/{device}/revoke": `{"role":"node"}`,
	"POST /gateway/nodes/{node}/policy":          "mode=ask",
	"PATCH /api/v1/nodes/{node}/policy":          `{"mode":"everything"}`,
	"POST /api/v1/ask":                           `{"bot":"1","text":"hello"}`,

	"POST /learn/tags/{tag}":                  "name=bobs",
	"POST /learn/points/{point}/due":          "due=2090-01-01",
	"PATCH /api/v1/learn/points/{point}":      `{"question":"bobs","deck":"bobs"}`,
	"POST /api/v1/learn/points/{point}/due":   `{"in_days":1}`,
	"POST /api/v1/learn/points/{point}/judge": `{"recall_text":"bobs"}`,
	"POST /api/v1/learn/decks":                `{"name":"bobs"}`,
	"PATCH /api/v1/learn/decks/{deck}":        `{"name":"bobs"}`,
	"PATCH /api/v1/learn/tags/{tag}":          `{"name":"bobs"}`,
}

// asked has the queries that pages require.
var asked = map[string]string{"GET /bots/{bot}/bind/live": "?invitation={invitation}",
	"GET /bots/{bot}/chat/live": "?c=1"}

// onward are routes that only redirect the browser to a page, which refuses it.
var onward = []string{"POST /bots/{bot}/chat/new", "POST /bots/{bot}/chat/stop"}

// refuses reports whether a response shows and does nothing.
func refuses(r walked, a answered) bool {
	switch a.status {
	case http.StatusNotFound, http.StatusForbidden:
		return true
	case http.StatusBadRequest:
		// The name is that of a set of bob's own, which has to have tools.
		return r.method == http.MethodPut && r.pattern == "/api/v1/sets/{set}"
	case http.StatusOK:
		// The error of a call is in its stream.
		return r.pattern == "/api/v1/tools/{name}/call" && strings.Contains(a.text, `"code":"unknown_tool"`)
	case http.StatusServiceUnavailable: // OpenClaw's response for a node of another person, or an unknown one
		return strings.Contains(a.text, "node pairing changed")
	case http.StatusSeeOther, http.StatusNoContent:
		return slices.Contains(onward, r.method+" "+r.pattern)
	}
	return false
}

var wildcard = regexp.MustCompile(`\{([a-z_]+)(?:\.\.\.)?\}`)

// fill replaces the wildcards of a pattern with ada's ids.
func (w *setup) fill(r walked) (path string, own bool) {
	path = strings.ReplaceAll(r.pattern, "{$}", "")
	path = wildcard.ReplaceAllStringFunc(path, func(m string) string {
		name := wildcard.FindStringSubmatch(m)[1]
		if slices.Contains(nobodys, name) {
			return shared[name]
		}
		own = true
		place, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.pattern, "/api/v1"), "/"), "/")
		value, ok := w.of[place+"/"+name]
		if !ok {
			value, ok = w.of[name]
		}
		if !ok {
			w.t.Errorf("%s %s has {%s}, and this test does not know what of ada's that is", r.method, r.pattern, name)
		}
		return url.PathEscape(value)
	})
	return path, own
}

// nobodys are wildcards for things that are the same for everybody.
var (
	nobodys = []string{"path", "asset", "section", "picture"}
	shared  = map[string]string{"path": "glasses", "section": "learn", "picture": "img/console-home.png"}
)

// unwalked are routes that would end the walk, or that are for whoever has a link.
var unwalked = []string{
	"POST /signout",          // it would sign bob's browser out
	"DELETE /api/v1/signins", // the same
	"GET /welcome/{secret}", "POST /welcome/{secret}",
}

// TestWalk requests every route as bob with ada's ids: nothing is shown, nothing is changed, and
// nothing gives him access to what is not his.
func TestWalk(t *testing.T) {
	w := newSetup(t)
	var routes []walked
	for _, r := range w.pages {
		method, pattern, _ := strings.Cut(r.Pattern, " ")
		routes = append(routes, walked{method, pattern, true})
	}
	for _, o := range w.does {
		routes = append(routes, walked{o.Method, o.Path, false})
	}
	if len(routes) < 100 {
		t.Errorf("only %d routes were found", len(routes))
	}
	before := w.rows()
	refused := 0
	for _, r := range routes {
		if slices.Contains(unwalked, r.method+" "+r.pattern) {
			continue
		}
		path, own := w.fill(r)
		body, kind := []byte(sent[r.method+" "+r.pattern]), "application/json"
		if r.page {
			kind = "application/x-www-form-urlencoded"
		} else if len(body) == 0 && r.method != http.MethodGet {
			body = []byte("{}")
		}
		for _, with := range w.headers(r) {
			a := w.ask(r.method, path, kind, body, with...)
			at := fmt.Sprintf("%s %s %v", r.method, r.pattern, with)
			switch {
			case own && !refuses(r, a):
				t.Errorf("%s is answered with %d %s, and should be refused: %.300s", at, a.status, a.at, a.text)
			case own && strings.HasSuffix(r.pattern, "/live") &&
				(a.status != http.StatusNotFound || !w.alike(r, path, a, with)):
				t.Errorf("%s is answered with %d %.300s, and not as what does not exist", at, a.status, a.text)
			case !own && a.status >= 500:
				t.Errorf("%s is answered with %d: %.300s", at, a.status, a.text)
			case own:
				refused++
			}
			w.clean(at, a)
		}
		// Unauthenticated requests are refused.
		a := w.ask(r.method, path, kind, body)
		if own && a.status == http.StatusOK {
			t.Errorf("%s %s is shown to a stranger: %.300s", r.method, r.pattern, a.text)
		}
		w.clean("a stranger's "+r.method+" "+r.pattern, a)
	}
	if refused < 50 {
		t.Errorf("only %d requests were refused", refused)
	}
	w.same(before)
	// Everything existed: ada is refused none of it.
	for _, r := range routes {
		if slices.Contains(unwalked, r.method+" "+r.pattern) {
			continue
		}
		path, own := w.fill(r)
		if !own || r.method != http.MethodGet {
			continue
		}
		with := []string{"Authorization", "Bearer " + w.adas.key}
		if r.page {
			with = []string{"Cookie", "patchbay=" + w.adas.cookie + "; patchbay-request=ada's"}
		}
		if a := w.ask(r.method, path+strings.ReplaceAll(asked[r.method+" "+r.pattern],
			"{invitation}", w.of["invitation"]), "", nil, with...); a.status == http.StatusNotFound ||
			a.status == http.StatusForbidden || a.status == http.StatusBadRequest {
			t.Errorf("%s %s is answered to ada with %d: %.300s", r.method, r.pattern, a.status, a.text)
		}
	}
}
