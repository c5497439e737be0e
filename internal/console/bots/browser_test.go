package bots_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// window returns a browser in which ada is signed in, in English.
func window(t *testing.T, r *consoletest.Rig) *browsertest.Browser {
	t.Helper()
	b := browsertest.New(t, r.URL)
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	return b
}

// Pages show bots as they connect and disconnect, the progress of a question, and who was bound,
// without a reload.
func TestLive(t *testing.T) {
	r := newRig(t, control.Options{})
	claw := of(t, r, r.Person, "claw", "plugin", nil)
	b := window(t, r)
	row := fmt.Sprintf("#bot-%d", claw.Number)
	b.Open("/bots")
	b.WaitText(row, "Waiting for its first connection")
	release := make(chan struct{})
	detach := r.Hub.AttachBot(claw.Number, hubtest.Func(func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		if err := emit(talk.Text("Half of <it>")); err != nil {
			return err
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return emit(talk.Text(", and the rest."))
	}), hub.Limits{})
	b.WaitText(row, "Connected")
	of(t, r, r.Person, "parrot", "echo", nil)
	b.WaitText("#bots", "parrot")

	b.Click(row + " a")
	b.WaitText("#state", "Connected")
	b.Click("form[action$='/test'] button")
	b.WaitText("#trial", "Half of <it>")
	close(release)
	b.WaitText("#trial", "It answers. All is well.")
	b.WaitText("#trial", "Half of <it>, and the rest.")
	b.WaitText("#turns", "Answered")
	detach()
	b.WaitText("#state", "Not connected")
}

func TestBinding(t *testing.T) {
	r := newRig(t, control.Options{})
	parrot := of(t, r, r.Person, "parrot", "echo", nil)
	b := window(t, r)
	b.SetWidth(390)
	b.Open(fmt.Sprintf("/bots/%d/glasses", parrot.Number))
	b.Click("a[href$='/bind']")
	b.WaitVisible(".bot-qr")
	if wide := browsertest.Evaluate[float64](b,
		`document.querySelector(".bot-qr").getBoundingClientRect().width`); wide < 260 {
		t.Errorf("the code is %v pixels wide", wide)
	}
	var code string
	if _, err := fmt.Sscanf(b.Text(".bot-code"), "bind %s", &code); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Accounts.RedeemCode(t.Context(), store.Wearer{Publisher: r.Person.ID, UserID: "WEARER-1"},
		"agent", code); err != nil {
		t.Fatal(err)
	}
	b.WaitText("#bound", "WEARER-1 uses parrot now.")
	b.Click("#bound a.main")
	b.WaitText("main", "WEARER-1")
	b.AcceptDialogs()
	b.Click("form[action$='/unbind'] button")
	b.WaitText("main", "Nobody is bound yet")
}

// phrase matches what one says to the glasses to bind them.
var phrase = regexp.MustCompile(`bind (\d{6})`)

// follow reads the lines of a live page of ada's.
func follow(ctx context.Context, t *testing.T, r *consoletest.Rig, path string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.SignedInAs(r.Person).Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	lines := make(chan string)
	go func() {
		defer resp.Body.Close()
		defer close(lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// An invitation that is about to expire is replaced by another.
func TestInvitationRenewed(t *testing.T) {
	r := newRig(t, control.Options{})
	parrot := of(t, r, r.Person, "parrot", "echo", nil)
	old := store.BindToken{ID: "old", Bot: parrot.Number, TokenHash: "t", CodeHash: "c",
		Created: time.Now().Add(-5 * time.Minute), Expires: time.Now().Add(5 * time.Second)}
	if err := r.Store.Bindings.AddToken(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := follow(ctx, t, r, fmt.Sprintf("/bots/%d/bind/live?invitation=old", parrot.Number))
	code := ""
	for code == "" {
		line, ok := <-lines
		if !ok {
			t.Fatal("nothing came")
		}
		if m := phrase.FindStringSubmatch(line); m != nil {
			code = m[1]
		}
	}
	if _, err := r.Accounts.RedeemCode(t.Context(), store.Wearer{Publisher: r.Person.ID, UserID: "W2"},
		"agent", code); err != nil {
		t.Fatal(err)
	}
	for line := range lines {
		if said := "W2 uses parrot now."; strings.Contains(line, said) {
			return
		}
	}
	t.Error("nobody was told")
}

// Every page fits a narrow window, in both languages; screenshots are saved on request.
func TestNarrow(t *testing.T) {
	r := newRig(t, control.Options{Health: func(b store.Bot) control.Health {
		if b.Name != "claw" {
			return control.Health{}
		}
		return control.Health{Problem: i18n.Message("Its chat endpoint is off.").With(),
			Command: "openclaw config set gateway.http.endpoints.chatCompletions.enabled true && openclaw gateway restart"}
	}})
	parrot := of(t, r, r.Person, "parrot", "echo", map[string]string{"mcp_open": "true"})
	of(t, r, r.Person, "a bot with averyveryverylongnamethatdoesnotendbeforeits60th",
		"openai", map[string]string{"base_url": "http://localhost:11434/v1", "model": "m", "api_key": "x"})
	of(t, r, r.Person, "claw", "plugin", nil)
	of(t, r, r.Person, "crab", "plugin", nil)
	bind(t, r, parrot, "0123456789ABCDEF0123456789ABCDEF")
	if _, _, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID,
		Name: "glasses", Scopes: []string{account.ScopeLingzhu}, Bot: parrot.Number}); err != nil {
		t.Fatal(err)
	}
	if err := r.Hub.Answer(t.Context(), &talk.Turn{Bot: parrot.Number,
		Channel: "lingzhu", Parts: []talk.Part{{Text: "hello"}}}, func(talk.Event) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b := window(t, r)
	for _, width := range []int64{390, 1280} {
		b.SetWidth(width)
		for _, lang := range []string{"en", "zh"} {
			b.Cookie("patchbay-lang", lang)
			b.SetDark(lang == "zh")
			for name, path := range map[string]string{
				"list": "/bots", "kinds": "/bots/new", "new": "/bots/new?kind=openai", "bot": "/bots/1",
				"trouble": "/bots/3", "settings": "/bots/2/settings",
				"glasses": "/bots/1/glasses", "bind": "/bots/1/bind", "key": "/bots/1/key", "turns": "/bots/1/turns",
				"remove": "/bots/1/remove", "rotate": "/bots/3/rotate",
			} {
				b.Open(path)
				b.WaitVisible("h1")
				if wide := browsertest.Evaluate[int64](b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s is %d pixels wide at %d, in %s", path, wide, width, lang)
				}
				if small := browsertest.Evaluate[string](b,
					`[...document.querySelectorAll("main a.button, main button:not(.small), main input:not([type=hidden], [type=checkbox], [type=radio]), main select, main textarea")].filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 43.5).map(e => e.outerHTML).join(" ")`); small != "" {
					t.Errorf("%s has what is hard to touch: %s", path, small)
				}
				if unnamed := browsertest.Evaluate[string](b,
					`[...document.querySelectorAll("main input:not([type=hidden]), main select, main textarea")].filter(e => !e.labels?.length && !e.ariaLabel).map(e => e.outerHTML).join(" ")`); unnamed != "" {
					t.Errorf("%s has fields without a label: %s", path, unnamed)
				}
				if folder := os.Getenv("SHOTS"); folder != "" {
					b.SaveScreenshot(fmt.Sprintf("%s/%s-%d-%s.png", folder, name, width, lang))
				}
			}
		}
	}
}

// A bot that was just added is asked the test question at once, so that a wrong address shows.
func TestAskedAtOnce(t *testing.T) {
	r := newRig(t, control.Options{})
	b := window(t, r)
	b.Open("/bots/new?kind=openai")
	b.Type(`[name="name"]`, "qwen")
	b.Type(`[name="set.base_url"]`, "http://127.0.0.1:1/v1")
	b.Type(`[name="set.model"]`, "m")
	b.Script(`document.querySelector('[name="set.model"]').form.requestSubmit()`)
	b.WaitText("#trial", "Check the address, the name of the model and the key")
	b.WaitText("#page", "The bot is added.")
	b.WaitUntil(`location.search == ""`) // a reload does not ask again
}
