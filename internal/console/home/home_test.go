package home_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/home"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

func newRig(t *testing.T, o control.Options) *consoletest.Rig {
	t.Helper()
	return consoletest.New(t, consoletest.Options{Control: o}, func(*consoletest.Rig) []page.Route { return home.Routes() })
}

// echo makes ada a bot that says everything back.
func echo(t *testing.T, r *consoletest.Rig) store.Bot {
	t.Helper()
	return r.Script(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error { return emit(talk.Text(turn.Text())) })
}

// ask asks a bot through a door.
func ask(t *testing.T, r *consoletest.Rig, b store.Bot, door string) {
	t.Helper()
	turn := &talk.Turn{Bot: b.Number, Door: door, Person: door + ":x", Lang: talk.English, Parts: []talk.Part{{Text: "how are you"}}}
	if err := r.Board.Answer(t.Context(), turn, func(talk.Event) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// Whoever has nothing yet is led to the guide, which has three roads.
func TestGuide(t *testing.T) {
	r := newRig(t, control.Options{PublicURL: "https://board.example.org/"})
	ada := r.As(r.Person)
	p := ada.Get("/")
	if p.At != "/guide" || !p.Has("Hello, ada", `href="/guide/glasses"`, `href="/guide/board"`, `href="/guide/agent"`) || p.Has("Follow") {
		t.Fatalf("%s: %s", p.At, p.Text)
	}
	for road, want := range map[string][]string{
		"glasses": {"https://board.example.org/sse/rokid", "/bots/new?kind=echo", "Waiting for the first question"},
		"board":   {"https://board.example.org/xiaozhi/ota/", `href="/devices/approve"`, "Waiting for your board", "it repeats what it hears", "bots cannot talk through it yet"},
		"agent":   {"serverUrl https://board.example.org\n", "/bots/new?kind=openai", "/bots/new?kind=eyeclaw", "--host board.example.org --port 443 --tls", "Waiting for the first connection"},
	} {
		if p := ada.Get("/guide/" + road); p.Status != http.StatusOK || !p.Has(want...) || p.Has("cannot reach this address") {
			t.Errorf("%s: %d: %s", road, p.Status, p.Text)
		}
	}
	if p := ada.Get("/guide/moon"); p.Status != http.StatusNotFound {
		t.Errorf("%d", p.Status)
	}
	bot := echo(t, r)
	if p = ada.Get("/guide/glasses"); !p.Has(fmt.Sprintf(`href="/bots/%d/glasses"`, bot.Number), fmt.Sprintf(`href="/bots/%d/bind"`, bot.Number)) {
		t.Error(p.Text)
	}
	if p = r.As(r.Bob).Get("/guide/glasses"); p.Has(bot.Name) {
		t.Error("bob is shown ada's bot")
	}
}

// An address that devices cannot reach is told to be one.
func TestLocalAddress(t *testing.T) {
	r := newRig(t, control.Options{})
	ada := r.As(r.Person)
	if p := ada.Get("/guide/board"); !p.Has(r.URL+"/xiaozhi/ota/", "Boards cannot reach this address") {
		t.Error(p.Text)
	}
	if p := ada.Get("/guide/glasses"); !p.Has(r.URL+"/sse/rokid", "Set public_url") {
		t.Error(p.Text)
	}
}

// The first page shows one's own things, and what somebody has to do.
func TestFirstPage(t *testing.T) {
	var ailing int64
	due := 0
	r := newRig(t, control.Options{
		Health: func(b store.Bot) control.Health {
			if b.Number == ailing {
				return control.Health{Trouble: talk.Say{Zh: "插件太旧", En: "the plugin is too old"}}
			}
			return control.Health{}
		},
		Upstream: func(u store.Upstream) control.UpstreamHealth {
			if u.Slug == "well" {
				return control.UpstreamHealth{State: control.UpstreamReady}
			}
			return control.UpstreamHealth{State: control.UpstreamFailed, Trouble: talk.Say{Zh: "密钥不对", En: "the key is <wrong>"}}
		},
		Due: func(_ context.Context, person string) (int, error) { return due, nil },
	})
	bot, plugin := echo(t, r), r.Add(t, "plugin", nil)
	ada, bob := r.As(r.Person), r.As(r.Bob)
	p := ada.Get("/")
	if p.At != "/" || !p.Has("Hello, ada", bot.Name, plugin.Name, "1 of 2 online", "None yet", "All done", "Nobody has asked anything yet", "No tool has been called yet") || p.Has("Waiting for you") {
		t.Fatalf("%s: %s", p.At, p.Text)
	}
	if p = bob.Get("/"); p.At != "/guide" || p.Has(bot.Name) {
		t.Errorf("bob gets to %s: %s", p.At, p.Text)
	}

	ailing, due = plugin.Number, 12
	ask(t, r, bot, "lingzhu")
	now := time.Now()
	for _, owner := range []string{r.Person.ID, r.Bob.ID} {
		for _, slug := range []string{"well", "ill-" + owner[:4]} {
			if _, err := r.Store.Upstreams.Add(t.Context(), store.Upstream{Owner: owner, Slug: slug, Kind: "http", Settings: []byte("{}"), Created: now}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.Store.Calls.Add(t.Context(), []store.Call{
		{ID: "c1", At: now, Person: r.Person.ID, Tool: "lamp_on", Outcome: "done"}, {ID: "c2", At: now, Person: r.Bob.ID, Tool: "bobs_lamp", Outcome: "failed"},
	}); err != nil {
		t.Fatal(err)
	}
	d, code, err := r.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: "02:00:00:00:00:01", Client: "c", At: now})
	if err != nil {
		t.Fatal(err)
	}
	p = ada.Get("/")
	if !p.Has("Waiting for you", "the plugin is too old", "ill-"+r.Person.ID[:4]+" cannot be used: the key is &lt;wrong&gt;", "A device shows a code", "12 points", "lamp_on", "glasses", `href="/activity/turns/`) ||
		p.Has("bobs_lamp") || p.Has("well cannot") || p.Has(code) {
		t.Error(p.Text)
	}
	if _, err = r.Accounts.ApproveShown(t.Context(), account.NewDevice{Person: r.Bob.ID, Code: code, Name: "kitchen"}); err != nil {
		t.Fatal(err)
	}
	plugged(t, r, r.Bob, d.Number)
	p = bob.Get("/")
	if p.At != "/" || !p.Has("No bots yet", "1 online, 0 asleep", "bobs_lamp", "failed") || p.Has("lamp_on") || p.Has("how are you") || p.Has(bot.Name) || p.Has("too old") {
		t.Errorf("%s: %s", p.At, p.Text)
	}
	if p = ada.Get("/"); !p.Has("None yet") || p.Has("A device shows a code") {
		t.Error(p.Text)
	}
}

// plugged plugs a device in, awake.
func plugged(t *testing.T, r *consoletest.Rig, p store.Person, number int64) {
	t.Helper()
	s, err := r.Board.Plug(board.Outlet{ID: board.DeviceOutlet(number), Owner: p.ID, Slug: "kitchen", Kind: "xiaozhi", Title: "kitchen"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Hold(true)
}

// Each road has its signs of life, and those of others are none.
func TestSigns(t *testing.T) {
	r := newRig(t, control.Options{})
	ada, bob := r.As(r.Person), r.As(r.Bob)
	bot, plugin := echo(t, r), r.Add(t, "plugin", nil)
	light := func(b *consoletest.Browser, road string, want ...string) {
		t.Helper()
		if p := b.Get("/guide/" + road); !p.Has(want...) {
			t.Errorf("%s: %s", road, p.Text)
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
	light(ada, "glasses", "It works!", "Your glasses have asked "+bot.Name+" something", "just now", fmt.Sprintf("/bots/%d/chat", bot.Number))
	light(bob, "glasses", "Waiting for the first question")

	_, code, err := r.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: "02:00:00:00:00:01", Client: "c", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	light(ada, "board", "Has it worked?", "A board shows a code")
	if _, err = r.Accounts.ApproveShown(t.Context(), account.NewDevice{Person: r.Person.ID, Code: code, Name: "kitchen"}); err != nil {
		t.Fatal(err)
	}
	light(ada, "board", "It works!", "The board kitchen was here")
	light(bob, "board", "Waiting for your board")

	light(ada, "agent", "Waiting for the first connection")
	detach := r.Board.Attach(plugin.Number, boardtest.Func(func(context.Context, *talk.Turn, talk.Emit) error { return nil }), board.Limits{})
	light(ada, "agent", "It works!", plugin.Name+" has connected")
	detach()
	light(ada, "agent", "It works!", plugin.Name+" has connected")
	light(bob, "agent", "Waiting for the first connection")
	if p := ada.Get("/guide"); strings.Count(p.Text, "not connected yet") != 0 {
		t.Error(p.Text)
	}
}

// In a browser, the light turns on by itself, and the first page follows what happens.
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
	b.Width(390)
	b.Open("/guide/glasses")
	b.Reads("#sign", "Waiting for the first question")
	ask(t, r, bot, "lingzhu")
	b.Reads("#sign", "It works!")
	b.Reads("#sign .light.on", "Your glasses have asked "+bot.Name)
	b.Until("document.documentElement.scrollWidth <= innerWidth")
	b.Click("#sign a[href='/']")
	b.Reads("#glance", "1 of 2 online")
	b.Until("document.documentElement.scrollWidth <= innerWidth")
	b.Script("document.querySelector('.list a').focus()")
	detach := r.Board.Attach(plugin.Number, boardtest.Func(func(context.Context, *talk.Turn, talk.Emit) error { return nil }), board.Limits{})
	defer detach()
	b.Reads("#glance", "2 of 2 online")
	b.Until("document.activeElement.matches('.list a')") // nothing is taken from under a finger
}
