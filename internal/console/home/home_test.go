package home_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/home"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

func newRig(t *testing.T, o control.Options) *consoletest.Rig {
	t.Helper()
	return consoletest.New(t, consoletest.Options{Control: o},
		func(*consoletest.Rig) []page.Route { return home.Routes() })
}

// echo creates a bot of ada's that repeats every question.
func echo(t *testing.T, r *consoletest.Rig) store.Bot {
	t.Helper()
	return r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text(turn.Text()))
	})
}

// ask asks a bot through a channel.
func ask(t *testing.T, r *consoletest.Rig, b store.Bot, channel string) {
	t.Helper()
	turn := &talk.Turn{Bot: b.Number, Channel: channel, Person: channel + ":x", Lang: i18n.English,
		Parts: []talk.Part{{Text: "how are you"}}}
	if err := r.Hub.Answer(t.Context(), turn, func(talk.Event) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// A person who has nothing yet is sent to the guide, which has four setup paths.
func TestGuide(t *testing.T) {
	r := newRig(t, control.Options{PublicURL: "https://board.example.org/"})
	ada := r.SignedInAs(r.Person)
	p := ada.Get("/")
	if p.Path != "/guide" || !p.Contains("Hello, ada", `href="/guide/glasses"`, `href="/guide/board"`,
		`href="/guide/agent"`, `href="/guide/program"`, `<a href="/bots/new">A first answer</a>`) || p.Contains("Follow") {
		t.Fatalf("%s: %s", p.Path, p.Text)
	}
	for path, want := range map[string][]string{
		"glasses": {"https://board.example.org/sse/rokid", "/bots/new?kind=echo", "Waiting for the first question"},
		"board": {"https://board.example.org/xiaozhi/ota/", `href="/devices/approve"`, "Waiting for your board",
			"without a speech engine it repeats what it hears", "aloud if there is a speech engine"},
		"agent": {"connection https://KEY@board.example.org", "/bots/new?kind=openai", "/bots/new?kind=connector",
			"--host board.example.org --port 443 --tls", "Waiting for the first connection"},
		"program": {"--transport http patchbay https://board.example.org/mcp<", "/keys/new?scope=mcp",
			`{&#34;mcpServers&#34;: {&#34;patchbay&#34;: {&#34;url&#34;: &#34;https://board.example.org/mcp&#34;}}}`,
			"Waiting for a program"},
	} {
		if p := ada.Get("/guide/" + path); p.Status != http.StatusOK || !p.Contains(want...) ||
			p.Contains("cannot reach this address") {
			t.Errorf("%s: %d: %s", path, p.Status, p.Text)
		}
	}
	if p := ada.Get("/guide/moon"); p.Status != http.StatusNotFound {
		t.Errorf("%d", p.Status)
	}
	bot := echo(t, r)
	if p = ada.Get("/guide/glasses"); !p.Contains(fmt.Sprintf(`href="/bots/%d/glasses"`, bot.Number),
		fmt.Sprintf(`href="/bots/%d/bind"`, bot.Number)) {
		t.Error(p.Text)
	}
	if p = ada.Get("/guide"); !p.Contains(fmt.Sprintf(`<a href="/bots/%d/chat">A first answer</a>`, bot.Number)) {
		t.Error(p.Text)
	}
	if p = r.SignedInAs(r.Bob).Get("/guide/glasses"); p.Contains(bot.Name) {
		t.Error("bob is shown ada's bot")
	}
}

// The guide warns about an address that devices cannot reach.
func TestLocalAddress(t *testing.T) {
	r := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	if p := ada.Get("/guide/board"); !p.Contains(r.URL+"/xiaozhi/ota/", "good on the server&#39;s own computer alone") {
		t.Error(p.Text)
	}
	if p := ada.Get("/guide/glasses"); !p.Contains(r.URL+"/sse/rokid", "--public-url") {
		t.Error(p.Text)
	}
}

// The first page shows the person's own things, and what needs attention.
func TestFirstPage(t *testing.T) {
	var ailing int64
	due := 0
	r := newRig(t, control.Options{
		Health: func(b store.Bot) control.Health {
			if b.Number == ailing {
				return control.Health{Problem: i18n.Message("the plugin is too old").With()}
			}
			return control.Health{}
		},
		Upstream: func(u store.Upstream, _ string) control.UpstreamHealth {
			if u.Slug == "well" {
				return control.UpstreamHealth{State: control.UpstreamReady}
			}
			return control.UpstreamHealth{State: control.UpstreamFailed,
				Problem: i18n.Message("the key is <wrong>").With()}
		},
		Due: func(_ context.Context, person string) (int, error) { return due, nil },
	})
	bot, plugin := echo(t, r), r.Add(t, "plugin", nil)
	ada, bob := r.SignedInAs(r.Person), r.SignedInAs(r.Bob)
	p := ada.Get("/")
	if p.Path != "/" || !p.Contains("Hello, ada", bot.Name, plugin.Name, "Connect glasses, a board or a program",
		`id="on-map-bot-1"`, "Nobody has asked anything yet", "No tool has been called yet") || p.Contains("Waiting for you") {
		t.Fatalf("%s: %s", p.Path, p.Text)
	}
	if p = bob.Get("/"); p.Path != "/guide" || p.Contains(bot.Name) {
		t.Errorf("bob gets to %s: %s", p.Path, p.Text)
	}

	ailing, due = plugin.Number, 12
	ask(t, r, bot, "lingzhu")
	now := time.Now()
	for _, owner := range []string{r.Person.ID, r.Bob.ID} {
		for _, slug := range []string{"well", "ill-" + owner[:4]} {
			if _, err := r.Store.Upstreams.Add(t.Context(), store.Upstream{Owner: owner, Slug: slug,
				Kind: "http", Settings: []byte("{}"), Created: now}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.Store.Calls.Add(t.Context(), []store.Call{
		{ID: "c1", At: now, Person: r.Person.ID, Tool: "lamp_on", Outcome: "done"},
		{ID: "c2", At: now, Person: r.Bob.ID, Tool: "bobs_lamp", Outcome: "failed"},
	}); err != nil {
		t.Fatal(err)
	}
	d, code, err := r.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: "02:00:00:00:00:01",
		Client: "c", At: now})
	if err != nil {
		t.Fatal(err)
	}
	p = ada.Get("/")
	if !p.Contains("Waiting for you", "the plugin is too old",
		"ill-"+r.Person.ID[:4]+" cannot be used: the key is &lt;wrong&gt;", "A device shows a code", "Points to review: 12",
		"lamp_on", "glasses", `href="/activity/turns/`) ||
		p.Contains("bobs_lamp") || p.Contains("well cannot") || p.Contains(code) {
		t.Error(p.Text)
	}
	if _, err = r.Accounts.ApproveByCode(t.Context(), account.NewDevice{Person: r.Bob.ID, Code: code,
		Name: "kitchen"}); err != nil {
		t.Fatal(err)
	}
	plugged(t, r, r.Bob, d.Number)
	p = bob.Get("/")
	if p.Path != "/" || !p.Contains("No bots yet", "kitchen", "bobs_lamp", "failed") ||
		p.Contains("lamp_on") || p.Contains("how are you") || p.Contains(bot.Name) || p.Contains("too old") {
		t.Errorf("%s: %s", p.Path, p.Text)
	}
	if p = ada.Get("/"); p.Contains("kitchen") || p.Contains("A device shows a code") {
		t.Error(p.Text)
	}
}

// The first page tells whoever has a device whose bot cannot talk to set up voice.
func TestMuteBots(t *testing.T) {
	mute := control.MuteEngines
	r := newRig(t, control.Options{Voice: control.VoiceActions{Mute: func(string) string { return mute }}})
	bot := echo(t, r)
	ada := r.SignedInAs(r.Person)
	const want = "The bot of a device cannot talk"
	if p := ada.Get("/"); p.Contains(want) {
		t.Errorf("without a device: %s", p.Text)
	}
	for i, n := range []account.NewDevice{{Person: r.Bob.ID}, {Person: r.Person.ID},
		{Person: r.Person.ID, Bot: bot.Number}} {
		_, code, err := r.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi",
			Hardware: fmt.Sprintf("02:00:00:00:00:%02d", i), Client: "c", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		n.Code = code
		if _, err := r.Accounts.ApproveByCode(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if p := ada.Get("/"); p.Contains(want, `href="/settings/voice"`, "Set up voice") != (n.Bot != 0) {
			t.Errorf("device %d: %s", i, p.Text)
		}
	}
	if p := r.SignedInAs(r.Bob).Get("/"); p.Contains(want) {
		t.Errorf("bob, whose device has no bot: %s", p.Text)
	}
	for _, mute = range []string{control.MuteSetting, ""} {
		if p := ada.Get("/"); p.Contains(want) {
			t.Errorf("mute is %q: %s", mute, p.Text)
		}
	}
}

// plugged connects a device that is awake.
func plugged(t *testing.T, r *consoletest.Rig, p store.Person, number int64) {
	t.Helper()
	s, err := r.Hub.Register(hub.ProviderRef{ID: hub.DeviceProviderID(number), Owner: p.ID,
		Slug: "kitchen", Kind: "xiaozhi", Title: "kitchen"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Hold(true)
}

// Each setup path detects its own activity, and ignores that of others.
func TestSigns(t *testing.T) {
	r := newRig(t, control.Options{})
	ada, bob := r.SignedInAs(r.Person), r.SignedInAs(r.Bob)
	bot, plugin := echo(t, r), r.Add(t, "plugin", nil)
	light := func(b *consoletest.Browser, path string, want ...string) {
		t.Helper()
		if p := b.Get("/guide/" + path); !p.Contains(want...) {
			t.Errorf("%s: %s", path, p.Text)
		}
	}
	ask(t, r, bot, "console")
	light(ada, "glasses", "Has it worked?", "Waiting for the first question")
	secret := r.Key(t, account.NewKey{Name: "platform", Scopes: []string{account.ScopeLingzhu}})
	if _, err := r.Accounts.Authenticate(t.Context(), secret, account.ScopeLingzhu); err != nil {
		t.Fatal(err)
	}
	light(ada, "glasses", "Has it worked?", "The platform came with the key platform")
	ask(t, r, bot, "lingzhu")
	light(ada, "glasses", "It works!", "Your glasses have asked "+bot.Name+" something",
		"just now", fmt.Sprintf("/bots/%d/chat", bot.Number))
	light(bob, "glasses", "Waiting for the first question")

	_, code, err := r.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: "02:00:00:00:00:01",
		Client: "c", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	light(ada, "board", "Has it worked?", "A board shows a code")
	if _, err = r.Accounts.ApproveByCode(t.Context(), account.NewDevice{Person: r.Person.ID, Code: code,
		Name: "kitchen"}); err != nil {
		t.Fatal(err)
	}
	light(ada, "board", "It works!", "The board kitchen was here")
	light(bob, "board", "Waiting for your board")

	light(ada, "agent", "Waiting for the first connection")
	detach := r.Hub.AttachBot(plugin.Number, hubtest.Func(func(context.Context, *talk.Turn,
		talk.Emit) error {
		return nil
	}), hub.Limits{})
	light(ada, "agent", "It works!", plugin.Name+" has connected")
	detach()
	light(ada, "agent", "It works!", plugin.Name+" has connected")
	light(bob, "agent", "Waiting for the first connection")

	light(ada, "program", "Waiting for a program")
	secret = r.Key(t, account.NewKey{Name: "Cursor", Scopes: []string{account.ScopeMCP}})
	light(ada, "program", "Has it worked?", "Cursor may come in, and was not here yet")
	if _, err := r.Accounts.Authenticate(t.Context(), secret, account.ScopeMCP); err != nil {
		t.Fatal(err)
	}
	r.Key(t, account.NewKey{Name: "unused", Scopes: []string{account.ScopeMCP}})
	light(ada, "program", "It works!", "Cursor was here")
	light(bob, "program", "Waiting for a program")
	if p := ada.Get("/guide"); strings.Count(p.Text, "not connected yet") != 0 {
		t.Error(p.Text)
	}
}

// In a browser, the light turns on without a reload, and the first page updates itself.
func TestInABrowser(t *testing.T) {
	r := newRig(t, control.Options{})
	bot, plugin := echo(t, r), r.Add(t, "plugin", nil)
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	b.SetWidth(390)
	b.Open("/guide/glasses")
	b.WaitText("#sign", "Waiting for the first question")
	ask(t, r, bot, "lingzhu")
	b.WaitText("#sign", "It works!")
	b.WaitText("#sign .light.on", "Your glasses have asked "+bot.Name)
	b.WaitUntil("document.documentElement.scrollWidth <= innerWidth")
	b.Click("#sign a[href='/']")
	id := fmt.Sprintf("#on-map-bot-%d", plugin.Number)
	b.WaitUntil("document.querySelector('" + id + "').matches('.off')")
	b.WaitUntil("document.documentElement.scrollWidth <= innerWidth")
	b.Script("document.querySelector('.list a').focus()")
	detach := r.Hub.AttachBot(plugin.Number, hubtest.Func(func(context.Context, *talk.Turn,
		talk.Emit) error {
		return nil
	}), hub.Limits{})
	defer detach()
	b.WaitUntil("document.querySelector('" + id + "').matches('.on')")
	b.WaitUntil("document.activeElement.matches('.list a')") // the focused element is not replaced
}
