package bots_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/bots"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	asked "patchbay/internal/plug/bots"
	"patchbay/internal/plug/echo"
	"patchbay/internal/plug/openai"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// newRig returns an installation with the kinds "script", "plugin", "echo" and "openai".
func newRig(t *testing.T, o control.Options) *consoletest.Rig {
	t.Helper()
	return consoletest.New(t, consoletest.Options{
		Options: hubtest.Options{
			Kinds: []hub.Kind{echo.Kind(), {Name: "openai", Settings: func() any { return new(openai.Settings) },
				Build: func(store.Bot, any) (talk.Bot, error) {
					return nil, errors.New("nobody asks a model here")
				}}},
			Shared: []func() any{func() any { return new(rokid.Settings) }, func() any { return new(asked.Settings) }},
		},
		Control: o,
	}, func(*consoletest.Rig) []page.Route { return bots.Routes() })
}

// of creates a bot of p.
func of(t *testing.T, r *consoletest.Rig, p store.Person, name, kind string, set map[string]string) store.Bot {
	t.Helper()
	b, _, err := r.Registry.Add(t.Context(), hub.NewBot{Owner: p.ID, Name: name, Kind: kind, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestList(t *testing.T) {
	r := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	if p := ada.Get("/bots"); !p.Contains("There are no bots yet", `href="/bots/new"`) {
		t.Errorf("an empty list is %s", p.Text)
	}
	parrot := of(t, r, r.Person, "<parrot>", "echo", nil)
	claw := of(t, r, r.Person, "claw", "plugin", nil)
	of(t, r, r.Bob, "bobs", "echo", nil)
	p := ada.Get("/bots")
	if !p.Contains("&lt;parrot&gt;", "Ready", "claw", "Waiting for its first connection",
		fmt.Sprintf("/bots/%d", claw.Number)) || p.Contains("bobs") {
		t.Errorf("the list is %s", p.Text)
	}
	if p := r.SignedInAs(r.Bob).Get("/bots"); !p.Contains("bobs") || p.Contains("parrot") {
		t.Errorf("bob's list is %s", p.Text)
	}
	bind(t, r, parrot, "ABC")
	if p := ada.Get("/bots"); !p.Contains("1 wearer<") {
		t.Errorf("with a wearer it is %s", p.Text)
	}
	for i := range 60 {
		of(t, r, r.Person, fmt.Sprintf("bot %02d", i), "echo", nil)
	}
	if p := ada.Get("/bots"); !p.Contains("bot 47<", "/bots?after=") || p.Contains("bot 48<") {
		t.Errorf("the first page is %s", p.Text)
	}
	if p := ada.Get(fmt.Sprintf("/bots?after=%d", claw.Number+49)); !p.Contains("bot 59<") ||
		p.Contains("claw", "/bots?after=") {
		t.Errorf("the second page is %s", p.Text)
	}
}

// bind binds a user to a bot.
func bind(t *testing.T, r *consoletest.Rig, b store.Bot, user string) {
	t.Helper()
	inv, err := r.Accounts.Invite(t.Context(), b.Number)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Accounts.RedeemToken(t.Context(), store.Wearer{Publisher: b.Owner, UserID: user},
		"agent", inv.Token); err != nil {
		t.Fatal(err)
	}
}

func TestAdd(t *testing.T) {
	r := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	if p := ada.Get("/bots/new"); !p.Contains("Language model", "/bots/new?kind=openai", "/bots/new?kind=echo") {
		t.Errorf("the kinds are %s", p.Text)
	}
	if p := ada.Get("/bots/new?kind=toaster"); p.Status != http.StatusNotFound {
		t.Errorf("a kind that there is not: %d", p.Status)
	}
	if p := ada.Get("/bots/new?kind=openai"); !p.Contains(`name="set.base_url"`, "Address of the API",
		`type="password" name="set.api_key"`, `name="set.shared"`, `name="set.mcp_open"`) {
		t.Errorf("the form is %s", p.Text)
	}
	p := ada.Post("/bots", "kind", "openai", "name", "qwen", "set.base_url", "http://localhost:1/v1", "set.model", "m<",
		"set.api_key", "sk-secret", "set.temperature", "hot")
	if p.Status != http.StatusUnprocessableEntity || !p.Contains("Temperature” is not right", "m&lt;", `value="qwen"`,
		`aria-invalid="true"`) || p.Contains("sk-secret") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	p = ada.Post("/bots", "kind", "openai", "name", "qwen", "set.base_url", "http://localhost:1/v1", "set.model", "m",
		"set.api_key", "sk-secret", "set.temperature", "0.5", "set.shared", "true", "set.system", "Be\r\nkind.")
	if !strings.HasSuffix(p.Path, "?done=added") || !p.Contains("The bot is added", "qwen", `href="/guide"`) {
		t.Fatalf("%s: %s", p.Path, p.Text)
	}
	b, err := r.Registry.Find(t.Context(), r.Person.ID, "qwen")
	if err != nil {
		t.Fatal(err)
	}
	var s openai.Settings
	var c hub.Common
	if err := errors.Join(r.Registry.Settings(b, &s), r.Registry.Settings(b, &c)); err != nil ||
		s.APIKey != "sk-secret" || *s.Temperature != 0.5 || !c.Shared || s.System != "Be\nkind." {
		t.Errorf("%+v %+v %v", s, c, err)
	}
	if p := ada.Post("/bots", "kind", "echo", "name", "qwen"); p.Status != http.StatusConflict ||
		!p.Contains("named &#34;qwen&#34; already") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}

// stale makes the last entry of p's password old in their only browser.
func stale(t *testing.T, r *consoletest.Rig, p store.Person, b *consoletest.Browser) {
	t.Helper()
	list, err := r.Store.SignIns.ByPerson(t.Context(), p.ID)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := r.Store.SignIns.Replace(t.Context(), list[0].ID, seal.Hash("stale"),
		time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, r.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Jar.SetCookies(req.URL, []*http.Cookie{{Name: "patchbay", Value: "stale"}})
}

// The token of an inbound bot is shown once, to somebody who entered the password recently.
// A new bot can start from a role, whose texts are in the form and can be changed.
func TestRoles(t *testing.T) {
	r := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	if p := ada.Get("/bots/new?kind=echo"); p.Contains("Start from a role") {
		t.Error("a bot that repeats takes a role")
	}
	if p := ada.Get("/bots/new?kind=openai"); !p.Contains("Start from a role", `value="storyteller"`, "日本語") {
		t.Errorf("the form is %s", p.Text)
	}
	if p := ada.Get("/bots/new?kind=openai&role=pirate"); p.Status != http.StatusNotFound {
		t.Errorf("a role that there is not: %d", p.Status)
	}
	if p := ada.Get("/bots/new?kind=openai&role=kitchen&lang=zh"); !p.Contains(`value="阿椒"`, "你是阿椒", "厨房帮手") {
		t.Errorf("the filled form is %s", p.Text)
	}
	admin := control.Caller{Person: r.Person.ID, Admin: true, Lang: i18n.English}
	b, err := r.Control.AddBot(t.Context(), admin, control.NewBot{Kind: "openai", Role: "tutor", RoleLang: "ja",
		Settings: control.SettingTexts{"base_url": "http://localhost:1/v1", "model": "m", "temperature": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	var s openai.Settings
	if err := r.Registry.Settings(b.Bot, &s); err != nil || b.Name != "林先生" || *s.Temperature != 1 ||
		!strings.Contains(s.System, "家庭教師") {
		t.Errorf("%+v %+v %v", b.Bot, s, err)
	}
	for role, kind := range map[string]string{"pirate": "openai", "tutor": "echo"} {
		if _, err := r.Control.AddBot(t.Context(), admin, control.NewBot{Kind: kind, Role: role}); err == nil {
			t.Errorf("a bot of kind %s is a %s", kind, role)
		}
	}
}

func TestTokens(t *testing.T) {
	cut := make(chan int64, 2)
	r := newRig(t, control.Options{Disconnect: func(bot int64) { cut <- bot }, PublicURL: "https://board.example.org"})
	ada := r.SignedInAs(r.Person)
	p := ada.Post("/bots", "kind", "plugin", "name", "claw")
	_, rest, _ := strings.Cut(p.Text, `<code id="token">`)
	token, _, _ := strings.Cut(rest, "<")
	b, err := r.Registry.ByToken(t.Context(), token)
	if err != nil || p.Path != "/bots" || !p.Contains("sdkToken "+token,
		"serverUrl https://board.example.org", fmt.Sprint("botId ", b.Number)) {
		t.Fatalf("%v at %s: %s", err, p.Path, p.Text)
	}
	one := fmt.Sprintf("/bots/%d", b.Number)
	if p := ada.Get(one); p.Contains(token) {
		t.Error("the token is shown again")
	}
	p = ada.Post(one + "/rotate")
	_, rest, _ = strings.Cut(p.Text, `<code id="token">`)
	another, _, _ := strings.Cut(rest, "<")
	if _, err := r.Registry.ByToken(t.Context(), another); err != nil || another == token || <-cut != b.Number {
		t.Errorf("%v: %s", err, p.Text)
	}
	stale(t, r, r.Person, ada)
	for _, path := range []string{"/bots/new?kind=plugin", one + "/rotate", one + "/key"} {
		if p := ada.Get(path); !strings.HasPrefix(p.Path, "/confirm?next=") {
			t.Errorf("%s leads to %s", path, p.Path)
		}
	}
	for _, path := range []string{one + "/rotate", one + "/key"} {
		if p := ada.Post(path, "name", "x"); !p.Contains(`action="/confirm"`) {
			t.Errorf("%s leads to %s", path, p.Text)
		}
	}
	if p := ada.Post("/bots", "kind", "plugin", "name", "crab"); !p.Contains(`action="/confirm"`) {
		t.Errorf("it leads to %s", p.Text)
	}
	if _, err := r.Registry.ByToken(t.Context(), another); err != nil {
		t.Error("the token was changed")
	}
}

func TestSettings(t *testing.T) {
	cut := make(chan int64, 1)
	r := newRig(t, control.Options{Disconnect: func(bot int64) { cut <- bot }})
	ada := r.SignedInAs(r.Person)
	b := of(t, r, r.Person, "qwen", "openai", map[string]string{"base_url": "http://localhost:1/v1", "model": "m",
		"api_key": "sk-secret", "shared": "true", "images": "false", "allow_tools": "a,b*"})
	path := fmt.Sprintf("/bots/%d/settings", b.Number)
	p := ada.Get(path)
	if p.Contains("sk-secret") || !p.Contains("empty keeps it", `value="a, b*"`, `<option value="false" selected>`,
		"Take away: API key") {
		t.Errorf("the form is %s", p.Text)
	}
	settings := func() (s openai.Settings, c hub.Common, b store.Bot) {
		t.Helper()
		b, err := r.Store.Bots.ByNumber(t.Context(), 1)
		if err := errors.Join(err, r.Registry.Settings(b, &s), r.Registry.Settings(b, &c)); err != nil {
			t.Fatal(err)
		}
		return s, c, b
	}
	p = ada.Post(path, "name", "Qwen", "description", "at home", "set.base_url", "http://localhost:1/v1", "set.model",
		"other", "set.images", "", "set.allow_tools", "a, b*", "set.hangup", "cancel")
	if !p.Contains("Saved.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	s, c, b := settings()
	if s.Model != "other" || s.APIKey != "sk-secret" || s.Images != nil || c.Shared || c.OnDisconnect != "cancel" ||
		len(c.AllowTools) != 2 || b.Name != "Qwen" || b.Description != "at home" {
		t.Errorf("%+v %+v %+v", s, c, b)
	}
	p = ada.Post(path, "name", "Qwen", "description", "at home", "set.base_url", "", "set.model", "other")
	if p.Status != http.StatusUnprocessableEntity || !p.Contains("Address of the API” is not right") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	ada.Post(path, "name", "Qwen", "description", "", "set.base_url", "http://localhost:1/v1", "set.model", "other",
		"drop.api_key", "true")
	if s, _, b := settings(); s.APIKey != "" || b.Description != "" {
		t.Errorf("%+v %+v", s, b)
	}
	one := fmt.Sprintf("/bots/%d", b.Number)
	bind(t, r, b, "ABC")
	if p := ada.Get(one + "/remove"); !p.Contains("Remove Qwen?", "Its bindings (1)") {
		t.Errorf("%s", p.Text)
	}
	if p := ada.Post(one + "/remove"); p.Path != "/bots?done=removed" || !p.Contains("The bot is removed") ||
		<-cut != b.Number {
		t.Errorf("%s: %s", p.Path, p.Text)
	}
	if p := ada.Get(one); p.Status != http.StatusNotFound {
		t.Errorf("it is there still: %d", p.Status)
	}
}

// A trial takes the same path as a question of glasses, and failures are explained.
func TestTry(t *testing.T) {
	problem := i18n.Message("the chat endpoint is off").With()
	var broken int64
	r := newRig(t, control.Options{Health: func(b store.Bot) control.Health {
		if b.Number != broken {
			return control.Health{}
		}
		return control.Health{Problem: problem, Command: "openclaw config set it"}
	}})
	ada := r.SignedInAs(r.Person)
	good := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Person != "" || turn.Channel != "console" {
			t.Errorf("asked %+v", turn)
		}
		return errors.Join(emit(talk.Note("thinking")), emit(talk.Text("I am <here>")))
	})
	bad := r.AddScript(t, nil, func(context.Context, *talk.Turn, talk.Emit) error {
		return talk.Fail(talk.BotFailed, "no such model", errors.New("404 from example"))
	})
	away := of(t, r, r.Person, "claw", "plugin", nil)
	worse := r.AddScript(t, nil, func(context.Context, *talk.Turn,
		talk.Emit) error {
		return errors.New("OpenClaw API error: 404")
	})
	broken = worse.Number
	for _, c := range []struct {
		bot  store.Bot
		want []string
	}{
		{good, []string{"I am &lt;here&gt;", "thinking", "first words after", "It answers. All is well."}},
		{bad, []string{"The bot reported an error: no such model", "404 from example"}},
		{away, []string{"The bot was not connected here.", "check that the gateway is running"}},
		{worse, []string{"the chat endpoint is off", "Run on the bot", "openclaw config set it"}},
	} {
		path := fmt.Sprintf("/bots/%d/test", c.bot.Number)
		if p := ada.Post(path); p.Status != http.StatusOK || !p.Contains(c.want...) {
			t.Errorf("without the script: %d %s", p.Status, p.Text)
		}
		if p := ada.DoHX(http.MethodPost, path); p.Contains("complete after") != (c.bot.Number == good.Number) {
			t.Errorf("an error, and yet complete: %s", p.Text)
		}
		if p := ada.DoHX(http.MethodPost, path); p.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" ||
			!p.Contains(c.want...) || !p.Contains(`hx-target="#trial"`) {
			t.Errorf("with the script: %v %s", p.Header, p.Text)
		}
	}
	if p := ada.Get(fmt.Sprintf("/bots/%d", worse.Number)); !p.Contains("Failing", "the chat endpoint is off",
		"openclaw config set it", "The bot reported an error.") {
		t.Errorf("its page is %s", p.Text)
	}
}

// Who sees the fingerprint of a gateway's certificate can accept it.
func TestCertificate(t *testing.T) {
	const fingerprint = "9d5cebf765657a1dc771d9c8f2e784e7294f9d09c11e5f948541fdafb03a8bc5"
	r := consoletest.New(t, consoletest.Options{
		Options: hubtest.Options{Kinds: []hub.Kind{agents.New(agents.Options{}).Kind()}},
		Control: control.Options{Health: func(store.Bot) control.Health {
			return control.Health{Problem: i18n.Message("its certificate is unknown").With(), Code: control.NodeUntrusted,
				Certificate: &control.Certificate{Shown: fingerprint}}
		}},
	}, func(*consoletest.Rig) []page.Route { return bots.Routes() })
	b := of(t, r, r.Person, "claw", agents.KindName, map[string]string{"url": "wss://there:18789"})
	ada, bob, path := r.SignedInAs(r.Person), r.SignedInAs(r.Bob), fmt.Sprint("/bots/", b.Number)
	if p := ada.Get(path); !p.Contains("Certificate not accepted", "its certificate is unknown", fingerprint,
		"Accept this certificate", "data-confirm") {
		t.Errorf("its page is %s", p.Text)
	}
	if p := bob.Post(path+"/accept", "fingerprint", fingerprint); p.Status != http.StatusNotFound {
		t.Errorf("somebody else gets %d", p.Status)
	}
	ada.Post(path+"/accept", "fingerprint", fingerprint)
	var set agents.Settings
	b, err := r.Registry.Find(t.Context(), r.Person.ID, "claw")
	if err == nil {
		err = r.Registry.Settings(b, &set)
	}
	if err != nil || set.TLSFingerprint != fingerprint {
		t.Errorf("%q, %v", set.TLSFingerprint, err)
	}
}

func TestGlasses(t *testing.T) {
	r := newRig(t, control.Options{PublicURL: "https://board.example.org"})
	ada := r.SignedInAs(r.Person)
	b := of(t, r, r.Person, "parrot", "echo", map[string]string{"mcp_open": "true"})
	one := fmt.Sprintf("/bots/%d", b.Number)
	if p := ada.Get(one + "/glasses"); !p.Contains("https://board.example.org/sse/rokid", ">1</code>", "自定义智能体",
		"Nobody is bound yet", "https://board.example.org/mcp/rokid/sse",
		"Anybody who reaches this server may ask this bot by its number 1") || p.Contains("public-url") {
		t.Errorf("the page is %s", p.Text)
	}
	p := ada.Get(one + "/key")
	if !p.Contains("Make a key for parrot") {
		t.Errorf("%s", p.Text)
	}
	if p := ada.Post(one+"/key", "name", " "); p.Status != http.StatusUnprocessableEntity {
		t.Errorf("a key of no name: %d", p.Status)
	}
	p = ada.Post(one+"/key", "name", "mine", "who", "only")
	_, rest, _ := strings.Cut(p.Text, `<code id="key">`)
	secret, _, _ := strings.Cut(rest, "<")
	k, err := r.Accounts.Authenticate(t.Context(), secret, account.ScopeLingzhu)
	if err != nil || k.Key.Bot != b.Number || k.Person.ID != r.Person.ID {
		t.Fatalf("%+v %v: %s", k, err, p.Text)
	}
	if p := ada.Get(one + "/turns"); !p.Contains("mine", k.Key.Hint, "Revoke mine") || p.Contains(secret) {
		t.Errorf("the keys are %s", p.Text)
	}
	if p := ada.Post(one + "/keys/" + k.Key.ID + "/revoke"); !p.Contains("The key is revoked", ">revoked<") {
		t.Errorf("%s", p.Text)
	}
	if _, err := r.Accounts.Authenticate(t.Context(), secret, account.ScopeLingzhu); !errors.Is(err,
		account.ErrRevoked) {
		t.Errorf("the key is %v", err)
	}
	bind(t, r, b, "WEARER1")
	if p := ada.Get(one + "/glasses"); !p.Contains("WEARER1", "one wearer at a time") {
		t.Errorf("%s", p.Text)
	}
	if p := ada.Post(one+"/unbind", "user", "WEARER1", "publisher", r.Person.ID); !p.Contains("The wearer is unbound",
		"Nobody is bound yet") {
		t.Errorf("%s", p.Text)
	}
	if p := ada.Post(one+"/unbind", "user", "WEARER1"); p.Status != http.StatusNotFound {
		t.Errorf("unbound again: %d", p.Status)
	}
}

func TestTurns(t *testing.T) {
	r := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	b := of(t, r, r.Person, "parrot", "echo", nil)
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range 120 { // four at a time
		err := r.Store.Traces.Finish(t.Context(), store.Trace{
			Turn: fmt.Sprintf("turn-%03d", i), Bot: b.Number, Owner: r.Person.ID,
			Channel: "lingzhu", At: at.Add(time.Duration(i/4) * time.Second), Total: time.Second,
			Outcome: "failed", Code: "timeout",
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for next := fmt.Sprintf("/bots/%d/turns", b.Number); next != ""; {
		p := ada.Get(next)
		if p.Status != http.StatusOK || !p.Contains("The bot did not answer in time.", "Glasses") {
			t.Fatalf("%d: %s", p.Status, p.Text)
		}
		n := strings.Count(p.Text, "/activity/turns/turn-")
		for i := range n {
			if want := fmt.Sprintf("turn-%03d\"", 119-seen-i); !p.Contains(want) {
				t.Fatalf("%s is missing at %s", want, next)
			}
		}
		seen += n
		_, rest, _ := strings.Cut(p.Text, fmt.Sprintf(`href="/bots/%d/turns?`, b.Number))
		query, _, _ := strings.Cut(rest, `"`)
		next = ""
		if query != "" {
			next = fmt.Sprintf("/bots/%d/turns?%s", b.Number, strings.ReplaceAll(query, "&amp;", "&"))
		}
	}
	if seen != 120 {
		t.Errorf("%d turns are listed", seen)
	}
}

// A bot of another person looks as if it did not exist, and no request changes it. This applies to
// administrators too.
func TestNobodyElses(t *testing.T) {
	cut := make(chan int64, 10)
	r := newRig(t, control.Options{Disconnect: func(bot int64) { cut <- bot }})
	adas, bobs := of(t, r, r.Person, "hers", "plugin", nil), of(t, r, r.Bob, "his", "plugin", nil)
	for _, c := range []struct {
		who store.Person
		bot store.Bot
	}{{r.Bob, adas}, {r.Person, bobs}} {
		bind(t, r, c.bot, "WEARER-"+c.bot.Name)
		k, _, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: c.bot.Owner,
			Name: "k", Scopes: []string{account.ScopeLingzhu}, Bot: c.bot.Number})
		if err != nil {
			t.Fatal(err)
		}
		inv, err := r.Accounts.Invite(t.Context(), c.bot.Number)
		if err != nil {
			t.Fatal(err)
		}
		b := r.SignedInAs(c.who)
		for _, route := range bots.Routes() {
			method, path, _ := strings.Cut(route.Pattern, " ")
			if !strings.Contains(path, "{bot}") {
				continue
			}
			path = strings.NewReplacer("{bot}", fmt.Sprint(c.bot.Number), "{key}", k.ID).Replace(path)
			var p consoletest.Page
			if method == http.MethodGet {
				p = b.Get(path + "?invitation=" + inv.ID)
			} else {
				p = b.Post(path, "name", "stolen", "user", "WEARER-"+c.bot.Name, "publisher", c.bot.Owner)
			}
			if p.Status != http.StatusNotFound {
				t.Errorf("%s: %d", route.Pattern, p.Status)
			}
		}
		now, err := r.Store.Bots.ByNumber(t.Context(), c.bot.Number)
		if err != nil || now.Name != c.bot.Name || now.TokenHash != c.bot.TokenHash {
			t.Errorf("the bot is now %+v, %v", now, err)
		}
		if w, err := r.Store.Bindings.ByBot(t.Context(), c.bot.Number); err != nil || len(w) != 1 {
			t.Errorf("its wearers are %v, %v", w, err)
		}
		if keys, err := r.Store.Keys.ByBot(t.Context(), c.bot.Number); err != nil || len(keys) != 1 ||
			!keys[0].Revoked.IsZero() {
			t.Errorf("its keys are %v, %v", keys, err)
		}
	}
	// An invitation to another person's bot cannot be used for one's own.
	mine := of(t, r, r.Bob, "mine", "echo", nil)
	inv, err := r.Accounts.Invite(t.Context(), adas.Number)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.SignedInAs(r.Bob).Get(fmt.Sprintf("/bots/%d/bind/live?invitation=%s", mine.Number,
		inv.ID)); p.Status != http.StatusNotFound {
		t.Errorf("ada's invitation: %d", p.Status)
	}
	select {
	case n := <-cut:
		t.Errorf("bot %d was disconnected", n)
	default:
	}
}

// The form of a new bot is filled in for what was found, and for no other address.
func TestAddWhatWasFound(t *testing.T) {
	r := newRig(t, control.Options{Look: func(context.Context) []control.Discovery {
		return []control.Discovery{{Kind: control.FoundModel, Name: "Ollama", Address: "http://127.0.0.1:11434/v1",
			Models: []string{"nomic-embed-text", "qwen3:8b"}}}
	}})
	const here, elsewhere = "/bots/new?kind=openai&found=http://127.0.0.1:11434/v1",
		"/bots/new?kind=openai&found=https://example.org/v1"
	ada := r.SignedInAs(r.Person)
	if p := ada.Get(here); !p.Contains(`value="http://127.0.0.1:11434/v1"`, `value="qwen3:8b"`, `value="Ollama"`) {
		t.Error(p.Text)
	}
	if p := ada.Get(elsewhere); p.Status != http.StatusOK || p.Contains("example.org") {
		t.Errorf("%d: another address is filled in", p.Status)
	}
	if p := r.SignedInAs(r.Bob).Get(here); p.Status != http.StatusOK || p.Contains(`value="http://127.0.0.1:11434/v1"`) {
		t.Errorf("%d: a member sees what was found", p.Status)
	}
}

// The list says what answered last and what failed, and what model answers.
func TestListOfRecentTurns(t *testing.T) {
	r := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	b := of(t, r, r.Person, "parrot", "echo", nil)
	finish := func(turn, outcome, code, answer string, ago time.Duration) {
		t.Helper()
		err := r.Store.Traces.Finish(t.Context(), store.Trace{Turn: turn, Bot: b.Number, Owner: r.Person.ID,
			Channel: "lingzhu", At: time.Now().Add(-ago), First: 1200 * time.Millisecond, Total: 2 * time.Second,
			Outcome: outcome, Code: code, Answer: answer}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	if p := ada.Get("/bots"); p.Contains("usually begins") || p.Contains("last answer") {
		t.Errorf("it was never asked: %s", p.Text)
	}
	finish("turn-1", "failed", "timeout", "", 3*time.Hour)
	p := ada.Get("/bots")
	if !p.Contains("The last question failed: The bot did not answer in time.", "/activity/turns/turn-1", "failed") ||
		p.Contains("last answer") {
		t.Errorf("it failed: %s", p.Text)
	}
	finish("turn-2", "done", "", "It is <b>warm</b>\nand sunny.", 2*time.Hour)
	p = ada.Get("/bots")
	if !p.Contains("last answer", "/activity/turns/turn-2", "usually begins after 1200 ms", "1 of the last 2 failed",
		"It is &lt;b&gt;warm") || p.Contains("and sunny") || p.Contains("The last question failed:") {
		t.Errorf("it answered: %s", p.Text)
	}
	finish("turn-3", "failed", "not_heard", "", time.Hour) // a matter of the speech engines
	if p = ada.Get("/bots"); p.Contains("/activity/turns/turn-3") || !p.Contains("1 of the last 2 failed") {
		t.Errorf("the bot was not asked: %s", p.Text)
	}
}

// Who may only use what is shared reads that before a form is filled in.
func TestSharedOnly(t *testing.T) {
	r := newRig(t, control.Options{})
	if err := r.Store.People.SetLimits(t.Context(), r.Bob.ID, store.PersonLimits{SharedOnly: true}); err != nil {
		t.Fatal(err)
	}
	bob := r.SignedInAs(r.Bob)
	for _, path := range []string{"/bots/new", "/bots/new?kind=echo"} {
		if p := bob.Get(path); p.Status != http.StatusForbidden || !p.Contains("It may add no bots") ||
			p.Contains(`method="post" action="/bots"`) {
			t.Errorf("%s: %d %s", path, p.Status, p.Text)
		}
	}
}
