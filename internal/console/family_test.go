package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// as returns the rig with another browser.
func (r *rig) as(web *http.Client) *rig {
	other := *r
	other.web = web
	return &other
}

// signInAda signs the administrator in, in English.
func (r *rig) signInAda() {
	r.t.Helper()
	p := r.Person
	p.Lang = "en"
	if err := r.Store.People.SetProfile(r.t.Context(), p, func([]store.Person) error { return nil }); err != nil {
		r.t.Fatal(err)
	}
	r.post("/signin", url.Values{"name": {"ada"}, "password": {"correct horse"}, "next": {"/"}})
}

var inviteLink = regexp.MustCompile(`/welcome/[A-Za-z0-9_-]+`)

// Somebody is invited, chooses a password, asks a bot that is shared with them, is limited and
// paused.
func TestFamily(t *testing.T) {
	r := newRig(t, false)
	bot := r.Add(t, "plugin", nil)
	r.signInAda()
	number := fmt.Sprint(bot.Number)
	a := r.get("/settings/people/new")
	if !strings.Contains(a.text, `name="bots" value="`+number+`"`) {
		t.Fatalf("%d: the bot cannot be shared with somebody new: %s", a.StatusCode, a.text)
	}
	form := url.Values{"name": {"ben"}, "role": {"member"}, "lang": {"en"}, "by": {"link"}, "bots": {number},
		"shared_only": {"on"}, "questions": {"many"}, "deny_tools": {"*_camera*"}}
	if a = r.post("/settings/people/new", form); a.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(a.text, "number above 0") || !strings.Contains(a.text, "*_camera*") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	form.Set("questions", "20")
	a = r.post("/settings/people/new", form)
	link := inviteLink.FindString(a.text)
	if link == "" || !strings.Contains(a.text, "ben has an account now") || !strings.Contains(a.text, "<svg") {
		t.Fatalf("%d: %s", a.StatusCode, a.text)
	}
	p, err := r.Store.People.ByName(t.Context(), "ben")
	if err != nil || p.Limits.Questions != 20 || !p.Limits.SharedOnly || p.Password != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	person := "/settings/people/" + p.ID
	if a = r.get("/settings/people"); !strings.Contains(a.text, "invited") {
		t.Error("the list does not say who is invited")
	}
	if a = r.get(person); strings.Contains(a.text, link) || !strings.Contains(a.text, "A link is open until") {
		t.Errorf("the link can be read later, or is not mentioned: %s", a.text)
	}

	ben := r.as(r.browser())
	if a = ben.get("/welcome/guess"); a.StatusCode != http.StatusNotFound || !strings.Contains(a.text, "too old") {
		t.Errorf("a guess: %d", a.StatusCode)
	}
	for _, lang := range []string{"zh", "en"} {
		p.Lang = lang
		if err := r.Store.People.SetProfile(t.Context(), p, func([]store.Person) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if a = ben.get(link); !strings.Contains(a.text, `<html lang="`+lang) {
			t.Errorf("the invitation is not in the language of the account: %s", a.text)
		}
	}
	if a = ben.get(link); a.StatusCode != http.StatusOK || !strings.Contains(a.text, "Welcome, ben") ||
		!strings.Contains(a.text, "ada made an account") {
		t.Fatalf("%d: %s", a.StatusCode, a.text)
	}
	if a = ben.post(link, url.Values{"password": {"short"}}); a.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(a.text, "at least 8 characters") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	a = ben.post(link, url.Values{"password": {"battery staple"}, "zone": {"Asia/Shanghai"}})
	if a.StatusCode != http.StatusOK || strings.Contains(a.at(), "signin") {
		t.Fatalf("%s: %d %s", a.at(), a.StatusCode, a.text)
	}
	if p, err = r.Store.People.ByName(t.Context(), "ben"); err != nil || p.Zone != "Asia/Shanghai" {
		t.Errorf("the time zone of the browser: %q, %v", p.Zone, err)
	}
	if a = r.as(r.browser()).post(link, url.Values{"password": {"another staple"}}); a.StatusCode == http.StatusOK {
		t.Error("a link was used twice")
	}

	// The bot of ada's can be asked, and nothing else.
	if a = ben.get("/bots"); !strings.Contains(a.text, bot.Name) || !strings.Contains(a.text, "shared by ada") {
		t.Errorf("the bots of ben: %s", a.text)
	}
	if a = ben.get("/bots/" + number); !strings.Contains(a.text, "ada lets you ask this bot") {
		t.Errorf("the page of the bot: %s", a.text)
	}
	if a = ben.get("/bots/" + number + "/chat"); a.StatusCode != http.StatusOK || strings.Contains(a.text, "/settings\"") &&
		strings.Contains(a.text, "/bots/"+number+"/settings") {
		t.Errorf("the chat: %d %s", a.StatusCode, a.text)
	}
	for _, path := range []string{"/settings", "/glasses", "/turns", "/remove"} {
		if a = ben.get("/bots/" + number + path); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	if a = ben.post("/bots/"+number+"/share", url.Values{"everybody": {"on"}}); a.StatusCode != http.StatusNotFound {
		t.Errorf("ben shares the bot: %d", a.StatusCode)
	}
	for _, path := range []string{"/keys", "/tools/upstreams", "/tools", "/guide", "/guide/glasses", "/", "/find"} {
		a = ben.get(path)
		for _, refused := range []string{"/bots/new", "/keys/new", "/tools/upstreams/new"} {
			if a.StatusCode != http.StatusOK || strings.Contains(a.text, refused) {
				t.Errorf("%s: %d, offers %s", path, a.StatusCode, refused)
			}
		}
		if slices.Contains([]string{"/keys", "/tools/upstreams", "/guide"}, path) &&
			!strings.Contains(a.text, "Your account uses what is shared with it") {
			t.Errorf("%s does not say what the account is for", path)
		}
	}
	if a = ben.post("/keys", url.Values{"name": {"k"}, "scopes": {"mcp"}}); a.StatusCode == http.StatusOK {
		t.Errorf("ben has a key: %s", a.text)
	}

	if ok, err := r.Store.People.TakeQuestion(t.Context(), p.ID, hub.Today(p, time.Now()), 20); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if a = r.get("/settings/people"); !strings.Contains(a.text, "bots: 0, devices: 0 · questions today: 1 of 20") ||
		!strings.Contains(a.text, "bots: 1, devices: 0") {
		t.Errorf("the list of people: %s", a.text)
	}
	if a = r.get(person); !strings.Contains(a.text, "None of your tools, or of theirs, fits this now.") {
		t.Errorf("tools that no pattern fits: %s", a.text)
	}

	cameras := url.Values{"questions": {"20"}, "no_cameras": {"on"}, "deny_tools": {"lamp"}, "bots": {number},
		"shared_only": {"on"}}
	if a = r.post(person+"/limits", cameras); !strings.Contains(a.text, `name="no_cameras" checked`) ||
		!strings.Contains(a.text, `name="deny_tools" value="lamp"`) {
		t.Errorf("%d: no cameras: %s", a.StatusCode, a.text)
	}
	p, err = r.Store.People.ByName(t.Context(), "ben")
	for _, name := range []string{"board_self_camera_take_photo", "board_video", "node_camera_snap", "lamp"} {
		if err != nil || !tool.MatchAny(p.Limits.DenyTools, name) {
			t.Errorf("%s is not denied: %q, %v", name, p.Limits.DenyTools, err)
		}
	}

	cameras.Del("no_cameras")
	cameras.Set("deny_tools", "*camera*, lamp")
	if a = r.post(person+"/limits", cameras); strings.Contains(a.text, `name="no_cameras" checked`) ||
		!strings.Contains(a.text, `name="deny_tools" value="*camera*, lamp"`) {
		t.Errorf("%d: cameras by a pattern alone: %s", a.StatusCode, a.text)
	}
	cameras.Set("no_cameras", "on")
	r.post(person+"/limits", cameras)
	p, err = r.Store.People.ByName(t.Context(), "ben")
	if want := []string{"*camera*", "lamp", "*photo*", "*_video"}; err != nil || !slices.Equal(p.Limits.DenyTools, want) {
		t.Errorf("with a pattern of the box: %q, %v, want %q", p.Limits.DenyTools, err, want)
	}

	// What ben may do is changed, and ben is paused.
	if a = r.post(person+"/limits", url.Values{"questions": {""}}); !strings.Contains(a.text, "Saved") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	if a = ben.get("/bots/" + number); a.StatusCode != http.StatusNotFound {
		t.Errorf("a bot that is not shared any more: %d", a.StatusCode)
	}
	if a = r.post(person+"/pause", url.Values{"paused": {"true"}}); !strings.Contains(a.text, "ben is paused") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	if a = ben.get("/bots"); a.at() == "/bots" {
		t.Error("who is paused is signed in")
	}
	signIn := url.Values{"name": {"ben"}, "password": {"battery staple"}, "next": {"/"}}
	if a = ben.post("/signin", signIn); a.StatusCode != http.StatusForbidden || !strings.Contains(a.text, "paused") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	if a = r.post(person+"/pause", url.Values{"paused": {"false"}}); !strings.Contains(a.text, "not paused any more") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	if a = ben.post("/signin", signIn); a.StatusCode != http.StatusOK || a.at() == "/signin" {
		t.Errorf("%d: %s", a.StatusCode, a.at())
	}

	// A forgotten password is replaced the same way; a link that is withdrawn is none.
	a = r.post(person+"/invite", nil)
	if link = inviteLink.FindString(a.text); link == "" {
		t.Fatal("there is no link")
	}
	r.post(person+"/uninvite", nil)
	if a = ben.get(link); a.StatusCode != http.StatusNotFound {
		t.Errorf("a link that is withdrawn: %d", a.StatusCode)
	}
	if a = r.post(person+"/invite", nil); strings.Contains(r.as(r.browser()).get(inviteLink.FindString(a.text)).text,
		"Welcome") {
		t.Error("who has a password is welcomed as if they were new")
	}
	events, err := r.Store.AdminEvents.Newest(t.Context(), "", 50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range events {
		seen[e.Action] = true
		if strings.Contains(e.About, strings.TrimPrefix(link, "/welcome/")) {
			t.Errorf("an event has the secret: %+v", e)
		}
	}
	for _, want := range []string{control.EventPersonInvited, control.EventPersonWelcomed, control.EventPersonPaused,
		control.EventPersonResumed, control.EventPersonLimits, control.EventPersonUninvited, control.EventBotShared,
		control.EventBotUnshared} {
		if !seen[want] {
			t.Errorf("there is no event %s", want)
		}
	}
}

// TestShareOnPage shares a bot on its page.
func TestShareOnPage(t *testing.T) {
	r := newRig(t, false)
	bot := r.Add(t, "plugin", nil)
	at := fmt.Sprintf("/bots/%d", bot.Number)
	r.signInAda()
	if a := r.get(at); !strings.Contains(a.text, "Nobody else has an account yet") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	for _, name := range []string{"ben", "eve"} {
		if err := r.Store.People.Add(t.Context(), store.Person{ID: name, Name: name, Role: "member", Lang: "en",
			Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		form url.Values
		ben  bool
		eve  bool
	}{
		{url.Values{"users": {"ben"}}, true, false},
		{url.Values{"everybody": {"on"}, "users": {"ben"}}, true, true},
		{nil, false, false},
	} {
		if a := r.post(at+"/share", c.form); a.StatusCode != http.StatusOK || !strings.Contains(a.text, "It holds at once") {
			t.Errorf("%v: %d", c.form, a.StatusCode)
		}
		for who, want := range map[string]bool{"ben": c.ben, "eve": c.eve} {
			if is, err := r.Store.Bots.MayAsk(t.Context(), bot.Number, who); is != want || err != nil {
				t.Errorf("%v: %s may ask: %v, %v", c.form, who, is, err)
			}
		}
	}
	if a := r.post(at+"/share", url.Values{"users": {"nobody"}}); a.StatusCode != http.StatusNotFound &&
		!strings.Contains(a.text, "nobody") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
}
