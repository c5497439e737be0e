package console

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/oauth"
	"patchbay/internal/store"
)

// A program sends its person to the page of consent, gets a code where it said, and calls tools
// until it is revoked.
func TestProgramIsLetIn(t *testing.T) { everyLook(t, programIsLetIn) }

func programIsLetIn(t *testing.T, l look) {
	h := l.server(t)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><title>x</title><h1>Go back</h1>`) //nolint:errcheck // a test
	}))
	defer program.Close()
	redirect := program.URL + "/callback"
	var registered struct {
		ID string `json:"client_id"`
	}
	h.post("/oauth/register", "application/json", `{"client_name":"Editor","redirect_uris":["`+redirect+`"]}`,
		&registered)
	// As in RFC 7636, appendix B.
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	ask := "/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {registered.ID},
		"redirect_uri": {redirect}, "code_challenge": {challenge}, "code_challenge_method": {"S256"}, "state": {"x&y"},
		"scope": {"mcp offline_access"}}.Encode()

	b := h.browser(l)
	b.Open(ask)
	b.WaitVisible("form[action='/signin']")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", adaPassword)
	b.Press("\r")
	b.WaitText("h1", l.in("允许程序访问", "Let a program in"))
	b.WaitText("main", "Editor")
	l.right(t, b)
	b.Script("location.reload()")
	b.WaitText("h1", l.in("允许程序访问", "Let a program in"))
	b.Click("[name=access][value=some]")
	b.AllowProblem("status of 422")
	b.Click("button[value=allow]")
	b.WaitText("[role=alert]", l.in("请写出", "Name the tools"))
	l.right(t, b)
	b.Type("[name=allow]", "list_*")
	consent := b.Path()
	b.AllowProblem(program.URL)
	b.Click("button[value=allow]")
	b.WaitText("h1", "Go back")
	got, err := url.Parse(browsertest.Evaluate[string](b, "location.href"))
	must(t, err)
	if q := got.Query(); q.Get("state") != "x&y" || q.Get("iss") != h.url || q.Get("code") == "" ||
		got.Path != "/callback" {
		t.Fatalf("the program gets %s", got)
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	h.post("/oauth/token", "application/x-www-form-urlencoded", url.Values{"grant_type": {"authorization_code"},
		"client_id": {registered.ID}, "redirect_uri": {redirect}, "code": {got.Query().Get("code")},
		"code_verifier": {verifier}}.Encode(), &tokens)
	if status, body := h.program(tokens.Access); status != http.StatusOK {
		t.Fatalf("the program is told %d %s", status, body)
	}

	// The same request is answered once; another one is declined.
	b.AllowProblem("status of 404")
	b.Open(consent)
	b.WaitText("h1", l.in("没有这个页面", "no such page"))
	b.Open(ask)
	b.Click("button[value=deny]")
	b.WaitUntil("location.search.includes('error=access_denied')")

	b.Open("/keys")
	b.WaitText("section[aria-labelledby=let-head]", "list_*")
	l.right(t, b)
	b.Click("section[aria-labelledby=let-head] a.key-name")
	b.WaitVisible("form[action$='/revoke']")
	l.right(t, b)
	b.AcceptDialogs()
	b.Click("form[action$='/revoke'] button")
	b.WaitUntil("location.pathname === '/keys'")
	h.await("the program is refused", func() bool {
		status, _ := h.program(tokens.Access)
		return status == http.StatusUnauthorized
	})

	b.Open("/keys/programs")
	b.Type("[name=name]", l.in("编辑器", "Editor"))
	b.Type("[name=redirects]", "https://vscode.dev/redirect")
	b.Click("[name=secret]")
	b.Click("form[action='/keys/programs'] button.main")
	b.WaitVisible("#client-secret")
	l.right(t, b)
}

// A request for consent is answered once, whatever people do with their browser: with two requests
// in two tabs, one request in two tabs, the back button, and an answer that comes too late.
func TestConsentTabs(t *testing.T) { everyLook(t, consentTabs) }

func consentTabs(t *testing.T, l look) {
	h := l.server(t)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><title>x</title><h1>Go back</h1>`) //nolint:errcheck // a test
	}))
	defer program.Close()
	redirect := program.URL + "/callback"
	var registered struct {
		ID string `json:"client_id"`
	}
	h.post("/oauth/register", "application/json", `{"client_name":"Editor","redirect_uris":["`+redirect+`"]}`,
		&registered)
	const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" // RFC 7636 appendix B
	asks := func(state string) string {
		return "/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {registered.ID},
			"redirect_uri": {redirect}, "code_challenge": {challenge}, "code_challenge_method": {"S256"},
			"state": {state}}.Encode()
	}
	b := h.adaBrowser(l)
	b.AllowProblem(program.URL)
	b.AllowProblem("status of 404")
	question, gone := l.in("允许程序访问", "Let a program in"), l.in("没有这个页面", "no such page")
	open := func(at string) string {
		b.Open(at)
		b.WaitText("h1", question)
		return b.Path()
	}
	allowed := func(state string) {
		t.Helper()
		b.Click("button[value=allow]")
		b.WaitText("h1", "Go back")
		got, err := url.Parse(browsertest.Evaluate[string](b, "location.href"))
		must(t, err)
		if got.Query().Get("state") != state || got.Query().Get("code") == "" {
			t.Errorf("the program gets %s, want the state %s", got, state)
		}
	}

	// Two requests in two tabs: each is its own, in any order.
	first, second := open(asks("first")), open(asks("second"))
	if first == second {
		t.Fatalf("both requests are %s", first)
	}
	allowed("second")
	open(first)
	allowed("first")

	// After the back button, the browser shows the page as it was, and there is nothing to decide
	// any more.
	b.Script("history.back()")
	b.WaitUntil("location.pathname === '" + first + "'")
	b.Script("document.querySelector('button[value=allow]')?.click()")
	b.WaitText("h1", gone)
	l.right(t, b)

	// One request in two tabs: what the other tab has decided stays.
	both := open(asks("both"))
	b.Script(`window.other = 0; fetch(location.href, {method: 'POST', redirect: 'manual',
		body: new URLSearchParams({decision: 'deny'})}).then(() => { window.other = 1 })`)
	b.WaitUntil("window.other === 1")
	b.Click("button[value=allow]")
	b.WaitText("h1", gone)
	if b.Path() != both {
		t.Errorf("the browser is at %s", b.Path())
	}

	// An answer that comes too late.
	open(asks("late"))
	db, err := store.Open(t.Context(), store.Options{Folder: h.folder()})
	must(t, err)
	_, err = db.Purge(t.Context(), store.Limits{Now: time.Now().Add(oauth.RequestLife)})
	must(t, err)
	must(t, db.Close())
	b.Click("button[value=allow]")
	b.WaitText("h1", gone)
	l.right(t, b)
	open(asks("again")) // the program asks anew
	allowed("again")
}

// folder returns the data folder of the server.
func (h *testServer) folder() string {
	for _, kv := range h.env {
		if folder, ok := strings.CutPrefix(kv, "PATCHBAY_DATA="); ok {
			return folder
		}
	}
	h.t.Fatal("the server has no folder")
	return ""
}

// post sends a body, and decodes the response.
func (h *testServer) post(path, kind, body string, into any) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.limit(), http.MethodPost, h.url+path, strings.NewReader(body))
	must(h.t, err)
	req.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	must(h.t, err)
	if resp.StatusCode >= http.StatusBadRequest {
		h.t.Fatalf("%s: %s: %s", path, resp.Status, text.String())
	}
	must(h.t, json.Unmarshal(text.Bytes(), into))
}
