package console

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/plug/openclaw/wire"
	rokid "patchbay/internal/plug/rokid/sim"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
)

// A person adds a bot and chats with it, and the answer appears while it streams.
func TestBotAndChat(t *testing.T) { everyLook(t, botAndChat) }

func botAndChat(t *testing.T, l look) {
	h := l.server(t)
	b := h.adaBrowser(l)
	b.Open("/bots")
	b.Click("main a[href='/bots/new']")
	b.Click("a[href='/bots/new?kind=echo']")
	b.WaitVisible("[name=name]")
	l.right(t, b)
	name, words := l.in("鹦鹉", "Parrot"), l.in("今天天气怎么样？", "How is the weather today?")
	b.Type("[name=name]", name)
	b.Click("form[action='/bots'] button.main")
	b.WaitUntil("/^\\/bots\\/1\\b/.test(location.pathname)")
	b.WaitText("h1", name)
	l.right(t, b)
	b.Open("/bots")
	b.WaitText("main", name)
	b.Open("/bots/1/chat")
	b.WaitVisible("#text")
	b.Type("#text", words)
	b.Press("\r")
	b.WaitText("#talk .mine", words)
	b.WaitText("#talk .said:not(.mine)", words)
	b.WaitUntil("!document.querySelector('#talk [aria-busy]')")
	b.WaitUntil("document.activeElement.id === 'text' && document.activeElement.value === ''")
	l.right(t, b)
	// The chat is still there when the page is opened again, and it was recorded.
	b.Open("/bots/1/chat")
	b.WaitText("#talk .said:not(.mine)", words)
	b.Open("/activity")
	b.WaitText("main", name)
	b.Click("main a[href^='/activity/turns/']")
	b.WaitUntil("location.pathname.startsWith('/activity/turns/')")
	b.WaitVisible("main svg")
	l.right(t, b)
}

// Glasses photograph the code on the screen, and the page reports that they are bound.
func TestGlassesAreBound(t *testing.T) { everyLook(t, glassesAreBound) }

func glassesAreBound(t *testing.T, l look) {
	h := l.server(t)
	bot := h.bot(l.in("鹦鹉", "Parrot"), "echo")
	b := h.adaBrowser(l)
	b.Open(fmt.Sprintf("/bots/%d/bind", bot))
	b.WaitVisible("svg.bot-qr")
	l.right(t, b)
	glasses := rokid.New(rokid.Options{URL: h.url + "/sse/rokid", Key: h.key("platform", "lingzhu"),
		UserID: "wearer-7", AgentID: "5f0c8d0e6b7a4c2f9d3e1a2b4c6d8e0f", Lang: l.in("zh-CN", "en-US")})
	t.Cleanup(glasses.Close)
	a, err := glasses.Ask(h.limit(), l.in("你好", "Hello"), nil) // and are asked for a photo
	if err != nil || a.Err != "" {
		t.Fatalf("the glasses: %v %s", err, a.Err)
	}
	a, err = glasses.Photo(h.limit(), b.Screenshot("svg.bot-qr"), nil)
	if err != nil || a.Err != "" || len(a.Violations) > 0 {
		t.Fatalf("the glasses: %v %s %v", err, a.Err, a.Violations)
	}
	t.Logf("the glasses hear %q", a.Text)
	b.WaitVisible("#bound")
	l.right(t, b)
	b.Click("#bound a.main")
	b.WaitUntil("!document.querySelector('#bound')")
	b.WaitText("main", "wearer-7")
	l.right(t, b)
	// And no longer after the removal.
	b.AcceptDialogs()
	b.Click("form[action$='/unbind'] button")
	b.WaitUntil("!document.querySelector(\"form[action$='/unbind']\")")
}

// A board shows a code, its owner enters it and sets the volume with the keys of a slider; the
// board changes its volume.
func TestBoardIsApproved(t *testing.T) { everyLook(t, boardIsApproved) }

func boardIsApproved(t *testing.T, l look) {
	h := l.server(t)
	bot := h.bot(l.in("鹦鹉", "Parrot"), "echo")
	board, code, booted := h.waitingBoard()
	b := h.adaBrowser(l)
	b.Open("/devices")
	b.Click("main a[href='/devices/approve']")
	b.Type("[name=code]", "000000")
	b.AllowProblem("status of 4")
	b.Press("\r")
	b.WaitVisible("[role=alert]")
	l.right(t, b)
	name := l.in("厨房", "Kitchen")
	b.Fill("[name=code]", code)
	b.Fill("[name=name]", name)
	b.Fill("[name=bot]", fmt.Sprint(bot))
	b.Click("form[action='/devices/approve'] button.main")
	b.WaitUntil("/^\\/devices\\/\\d+$/.test(location.pathname)")
	b.WaitText("h1", name)
	select {
	case err := <-booted:
		must(t, err)
	case <-h.limit().Done():
		t.Fatal("the board does not start")
	}
	must(t, board.Wake(h.limit()))
	volume := "input#volume[type=range]"
	b.WaitVisible(volume)
	l.right(t, b)
	before := board.Volume()
	b.Script(fmt.Sprintf("document.querySelector(%q).focus()", volume))
	for range 5 {
		b.Press(kb.ArrowRight)
	}
	want := browsertest.Evaluate[string](b, fmt.Sprintf("document.querySelector(%q).value", volume))
	got, err := board.Await(h.limit(), func(v xiaozhi.View) bool { return fmt.Sprint(v.Volume) == want })
	if err != nil || got.Volume == before {
		t.Errorf("the volume is %d, it was %d, and the slider says %s (%v)", got.Volume, before, want, err)
	}
}

// A node connects; its owner reads its commands, approves it, and runs one.
func TestNodeIsApproved(t *testing.T) { everyLook(t, nodeIsApproved) }

func nodeIsApproved(t *testing.T, l look) {
	h := l.server(t)
	b := h.adaBrowser(l)
	b.Open("/gateway")
	b.WaitVisible("h1")
	name := l.in("书房", "Study")
	n := h.node(name, false)
	b.WaitText("main", "system.which") // appears without reloading
	l.right(t, b)
	b.Click("form[action^='/gateway/pairs/'][action$='/approve'] button")
	b.WaitUntil("!document.querySelector(\"form[action$='/approve']\")")
	h.await("the node is approved", func() bool {
		var list []wire.Node
		h.json(&list, "node", "list")
		return slices.ContainsFunc(list, func(x wire.Node) bool {
			return x.NodeID == n.ID() &&
				slices.Contains(x.Commands, "system.which")
		})
	})
	b.Open("/gateway")
	b.Click("main a[href^='/gateway/nodes/" + n.ID()[:8] + "']")
	b.WaitText("h1", name)
	b.WaitText("main", "system.which")
	l.right(t, b)
}

// A key is created after the password was entered again, is shown once, gives access to the MCP
// endpoint, and no longer after it is revoked.
func TestKeyIsMade(t *testing.T) { everyLook(t, keyIsMade) }

func keyIsMade(t *testing.T, l look) {
	h := l.server(t)
	h.bot(l.in("鹦鹉", "Parrot"), "echo")
	b := h.adaBrowser(l)
	b.Open("/keys")
	b.Click("main a[href='/keys/new']")
	name := l.in("编辑器", "Editor")
	b.Type("[name=name]", name)
	b.Click("[name=scope][value=mcp]")
	b.Click("form[action='/keys/new'] button.main")
	b.WaitVisible("#secret")
	l.right(t, b)
	secret := b.Text("#secret")
	if !strings.HasPrefix(secret, "pb_") {
		t.Fatalf("the key is %q", secret)
	}
	if status, body := h.program(secret); status != http.StatusOK || !strings.Contains(body, `"result"`) {
		t.Errorf("a program is told %d %s", status, body)
	}
	b.Open("/keys")
	b.WaitText("main", name)
	if strings.Contains(b.Text("main"), secret) {
		t.Error("the key is shown again")
	}
	b.Click("a.key-name")
	b.AcceptDialogs()
	b.Click("form[action$='/revoke'] button")
	h.await("the key is good for nothing", func() bool {
		status, _ := h.program(secret)
		return status == http.StatusUnauthorized
	})
}

// program calls the MCP endpoint with a key.
func (h *testServer) program(key string) (status int, body string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.limit(), http.MethodPost,
		h.url+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	must(h.t, err)
	return resp.StatusCode, text.String()
}

// A whole review session without a mouse: recall, reveal, compare, grade, and undo the last grade.
func TestReviewSession(t *testing.T) { everyLook(t, reviewSession) }

func reviewSession(t *testing.T, l look) {
	h := l.server(t)
	h.feed(l.in("法国的首都是哪里？\t巴黎\n德国的首都是哪里？\t柏林\n意大利的首都是哪里？\t罗马\n",
		"Capital of France?\tParis\nCapital of Germany?\tBerlin\nCapital of Italy?\tRome\n"),
		"learn", "add", "--user", ada, "--file", "-", "--deck", l.in("地理", "Geography"))
	b := h.adaBrowser(l)
	b.Open("/learn")
	b.Click("main a.main[href^='/learn/review']")
	for i := range 3 {
		b.WaitVisible(".review textarea")
		if i == 0 {
			l.right(t, b)
			b.Type(".review textarea", l.in("巴黎", "Paris"))
			b.Press("\r")
			b.WaitVisible(".compared")
			l.right(t, b)
		} else {
			b.Script("document.activeElement.blur()")
			b.Press(" ")
		}
		b.WaitVisible(".answer")
		b.Press("3")
		b.WaitUntil("!document.querySelector('.answer')")
	}
	b.WaitVisible(".ended")
	l.right(t, b)
	var stats struct {
		Done struct{ Reviews int } `json:"done_today"`
	}
	done := func() int {
		h.json(&stats, "learn", "stats", "--user", ada)
		return stats.Done.Reviews
	}
	if n := done(); n != 3 {
		t.Errorf("%d reviews are recorded", n)
	}
	b.Press("u")
	b.WaitVisible(".review textarea, .answer")
	if n := done(); n != 2 {
		t.Errorf("%d reviews are recorded after one was taken back", n)
	}
}

// During an import the page shows the progress, and then the errors by row.
func TestImport(t *testing.T) { everyLook(t, importFile) }

func importFile(t *testing.T, l look) {
	h := l.server(t)
	b := h.adaBrowser(l)
	var rows strings.Builder
	rows.WriteString("question,answer\n")
	for i := range 20_000 {
		fmt.Fprintf(&rows, "What is fact number %d?,It is %d, as everybody knows\n", i, i)
	}
	good := filepath.Join(t.TempDir(), "facts.csv")
	must(t, os.WriteFile(good, []byte(strings.ReplaceAll(rows.String(), ", as", " as")), 0o600))
	b.Open("/learn/import")
	b.Script("window.shares = new Set(); new MutationObserver(() => document.querySelectorAll('#imported progress').forEach(p => shares.add(p.value))).observe(document.querySelector('#imported'), {subtree: true, childList: true, attributes: true})")
	b.Upload("[name=file]", good)
	b.Fill("[name=deck]", "Facts")
	b.Click("form[action='/learn/import'] button")
	b.WaitText("#imported .note", "20000")
	l.right(t, b)
	if n := browsertest.Evaluate[int](b, "shares.size"); n < 2 {
		t.Errorf("the page told %d times how far it is", n)
	}
	b.Open("/learn/points?q=12345")
	b.WaitText("main", "fact number 12345")

	bad := filepath.Join(t.TempDir(), "bad.csv")
	must(t, os.WriteFile(bad, []byte("question,answer\nWhere?,There\n,nothing was asked\n"), 0o600))
	b.Open("/learn/import")
	b.Upload("[name=file]", bad)
	b.Click("form[action='/learn/import'] button")
	b.WaitVisible("#imported .bads li")
	l.right(t, b)
}

// Signing out everywhere ends the sessions of other browsers at once, but not this one.
func TestSignOutEverywhere(t *testing.T) { everyLook(t, signOutEverywhere) }

func signOutEverywhere(t *testing.T, l look) {
	h := l.server(t)
	b, other := h.adaBrowser(l), h.adaBrowser(l)
	other.Open("/settings")
	other.WaitVisible("h1")
	b.Open("/settings/browsers")
	l.right(t, b)
	b.AcceptDialogs()
	b.Click("form[action='/settings/browsers/others/end'] button")
	b.WaitUntil("!document.querySelector(\"form[action='/settings/browsers/others/end']\")")
	other.Open("/settings")
	other.WaitVisible("form[action='/signin']")
	l.right(t, other)
	b.Open("/")
	b.WaitVisible("main#page h1")
}

// A member does not see other people's things, neither in lists nor by address.
func TestOthersThings(t *testing.T) {
	h := furnished(t)
	token := h.token("bob", "battery staple")
	everyLook(t, func(t *testing.T, l look) { othersThings(t, l, h, token) })
}

func othersThings(t *testing.T, l look, h *testServer, token string) {
	b := h.window(t, l, token)
	b.AllowProblem("status of 404")
	b.AllowProblem("status of 403")
	for _, path := range places {
		b.Open(path)
		if path == "/settings" || path == "/tools" {
			continue
		}
		text := b.Text("main")
		for _, name := range []string{"Cook", "Parrot", "Kitchen", "Study", "Desktop", "Geography", "weather"} {
			if strings.Contains(text, name) {
				t.Errorf("%s shows bob %s of ada's", path, name)
			}
		}
	}
	for _, path := range []string{"/bots/1", "/bots/1/chat", "/bots/1/settings", "/devices/1", "/devices/1/settings",
		"/tools/upstreams/1", "/settings/people", "/settings/backup"} {
		b.Open(path)
		if status := browsertest.Evaluate[int](b,
			"performance.getEntriesByType('navigation')[0].responseStatus"); status != http.StatusNotFound &&
			status != http.StatusForbidden {
			t.Errorf("%s answers bob with %d", path, status)
		}
		l.right(t, b)
	}
}
