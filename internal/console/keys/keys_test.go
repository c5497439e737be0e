package keys_test

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/keys"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func newRig(t testing.TB, o consoletest.Options) *consoletest.Rig {
	return consoletest.New(t, o, func(*consoletest.Rig) []page.Route { return keys.Routes() })
}

// shown returns the text of an element of a page.
func shown(t *testing.T, p consoletest.Page, id string) string {
	t.Helper()
	m := regexp.MustCompile(`(?s)id="` + id + `"[^>]*>(.*?)</(?:code|pre)>`).FindStringSubmatch(p.Text)
	if m == nil {
		t.Fatalf("there is no %s in %s", id, p.Text)
	}
	return html.UnescapeString(m[1])
}

// only returns the single key of a person.
func only(t *testing.T, r *consoletest.Rig, p store.Person) store.Key {
	t.Helper()
	list, err := r.Store.Keys.ByPerson(t.Context(), p.ID)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d keys, %v", len(list), err)
	}
	return list[0]
}

// The page of a key names the program and the address that used it last, and says that dangerous
// tools are left out, unless its rules let it call them.
func TestWhoUsedAKey(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	b := r.SignedInAs(r.Person)
	b.Post("/keys/new", "name", "desk", "scope", "mcp")
	k := only(t, r, r.Person)
	at := "/keys/" + k.ID
	if p := b.Get(at); p.Contains("Last used by") {
		t.Errorf("it was never used: %s", p.Text)
	}
	r.Store.Keys.MarkUsed(t.Context(), k.ID, time.Now()) //nolint:errcheck // the page shows it
	if p := b.Get(at); !p.Contains("Last used by", "not known, because no call of it is in the records") {
		t.Error(p.Text)
	}
	call := store.Call{ID: "c1", At: time.Now().Add(-time.Hour), Person: r.Person.ID, Key: k.ID, Channel: "mcp",
		Tool: "lamp", Outcome: "done"}
	for i, want := range []string{"a program that gives no name<", "claude &lt;code&gt;, from 192.0.2.7<"} {
		if i == 1 {
			call.ID, call.At, call.Program, call.Address = "c2", time.Now(), "claude <code>", "192.0.2.7"
		}
		if err := r.Store.Calls.Add(t.Context(), []store.Call{call}); err != nil {
			t.Fatal(err)
		}
		if p := b.Get(at); !p.Contains(want) {
			t.Errorf("%q is missing in %s", want, p.Text)
		}
	}
	for _, c := range []struct {
		rules []string
		want  string
	}{
		{nil, "all tools but dangerous ones ·"}, {[]string{"deny", "lamp"}, "not lamp · no dangerous ones ·"},
		{[]string{"dangerous", "lock"}, "dangerous: lock ·"}, {[]string{"ask", "owner"}, "asks me for dangerous ones ·"},
		{[]string{"read_only", "on"}, "only those that change nothing ·"},
	} {
		b.Post(at+"/rules", c.rules...)
		list := strings.Join(strings.Fields(b.Get("/keys").Text), " ")
		if !strings.Contains(list, c.want) || strings.Contains(list, "no dangerous") != strings.Contains(c.want, "no dangerous") {
			t.Errorf("with %q %q is missing in %s", c.rules, c.want, list)
		}
	}
}

// A key is created, shown once with valid configurations, narrowed, and revoked.
func TestAKeysLife(t *testing.T) {
	r := newRig(t, consoletest.Options{Control: control.Options{PublicURL: "https://board.example.org/"}})
	bot := r.AddScript(t, nil, nil)
	b := r.SignedInAs(r.Person)
	if p := b.Get("/keys"); !p.Contains("No keys yet", "/keys/new") {
		t.Errorf("%s", p.Text)
	}
	if p := b.Get("/keys/new?scope=learn&name=x"); !p.Contains(`value="learn" checked`, `value="x"`,
		`value="admin"`, bot.Name) {
		t.Errorf("%s", p.Text)
	}
	p := b.Post("/keys/new", "name", " desk <1> ", "scope", "mcp", "scope", "learn", "scope", "node", "scope",
		"lingzhu", "scope", "operator",
		"days", "30", "allow", "home_*\n send_message", "rate", "60", "people", "on")
	if p.Status != http.StatusOK || !p.Contains("desk &lt;1&gt;", "not shown again") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	secret := shown(t, p, "secret")
	who, err := r.Accounts.Authenticate(t.Context(), secret, account.ScopeMCP)
	if err != nil || who.Person.ID != r.Person.ID {
		t.Fatalf("the key is refused: %v", err)
	}
	k := only(t, r, r.Person)
	if k.Name != "desk <1>" || k.Rules != `{"allow":["home_*","send_message"],"people":true,"per_minute":60}` ||
		len(k.Scopes) != 5 {
		t.Errorf("it is %+v", k)
	}
	if left := time.Until(k.Expires); left < 29*24*time.Hour || left > 30*24*time.Hour {
		t.Errorf("it is good for %s", left)
	}
	for id, want := range map[string]string{
		"mcp-code":    `claude mcp add --scope user --transport http patchbay https://board.example.org/mcp --header "Authorization: Bearer ` + secret + `"`,
		"lingzhu-url": "https://board.example.org/sse/rokid",
		"lingzhu-ak":  secret,
		"node-run": "OPENCLAW_GATEWAY_TOKEN=" + secret +
			" openclaw node run --host board.example.org --port 443 --tls --display-name study",
		"oper-openclaw": "openclaw nodes status --url wss://board.example.org:443 --token " + secret,
	} {
		if got := shown(t, p, id); got != want {
			t.Errorf("%s is %q, not %q", id, got, want)
		}
	}
	type server struct {
		URL     string
		Headers map[string]string
		Command string
		Args    []string
		Env     map[string]string
	}
	// Configurations for a project folder do not contain the key; VS Code asks for it.
	for _, id := range []string{"mcp-vscode", "learn-vscode"} {
		if text := shown(t, p, id); strings.Contains(text, secret) {
			t.Errorf("%s has the key in it: %s", id, text)
		}
	}
	for id, check := range map[string]func(map[string]map[string]server) bool{
		"mcp-cursor": func(m map[string]map[string]server) bool {
			return m["mcpServers"]["patchbay"].URL == "https://board.example.org/mcp"
		},
		"learn-cursor": func(m map[string]map[string]server) bool {
			return m["mcpServers"]["learn"].Headers["Authorization"] == "Bearer "+secret
		},
		"mcp-desktop": func(m map[string]map[string]server) bool {
			return m["mcpServers"]["patchbay"].Env["AUTH_HEADER"] == "Bearer "+secret
		},
		"learn-desktop": func(m map[string]map[string]server) bool {
			return m["mcpServers"]["learn"].Env["PATCHBAY_KEY"] == secret
		},
	} {
		var m map[string]map[string]server
		if text := shown(t, p, id); json.Unmarshal([]byte(text), &m) != nil || !check(m) {
			t.Errorf("%s is %s", id, text)
		}
	}
	at := "/keys/" + k.ID
	p = b.Get(at)
	if !p.Contains("home_*\nsend_message", "KEY openclaw node run", "/activity/calls?key="+k.ID) || p.Contains(secret) {
		t.Errorf("its page is %s", p.Text)
	}
	if p := b.Get("/keys"); !p.Contains("only home_* send_message", "60 a minute", at) || p.Contains(secret) {
		t.Errorf("the list is %s", p.Text)
	}
	if p := b.Post(at+"/rules", "allow", "a b! c"); p.Status != http.StatusUnprocessableEntity ||
		!p.Contains("“b!”", ">a b! c<") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at+"/rules", "deny", "lamp", "rate", "5", "keep_args", "on"); p.Path != at+"?saved=yes" ||
		!p.Contains("The rules are saved") {
		t.Errorf("%s: %s", p.Path, p.Text)
	}
	if k = only(t, r, r.Person); k.Rules != `{"deny":["lamp"],"per_minute":5,"keep_args":true}` {
		t.Errorf("its rules are %s", k.Rules)
	}
	if p := b.Post(at + "/revoke"); p.Path != "/keys" || !p.Contains("Revoked or expired (1)", "No keys yet") {
		t.Errorf("%s: %s", p.Path, p.Text)
	}
	if _, err := r.Accounts.Authenticate(t.Context(), secret, account.ScopeMCP); err == nil {
		t.Error("it is good still")
	}
	if p := b.Post(at+"/rules", "deny", "x"); p.Status != http.StatusConflict {
		t.Errorf("rules of a revoked key: %d", p.Status)
	}
	if p := b.Get(at); !p.Contains("This key was revoked on") ||
		strings.Contains(p.Text, "<form method=\"post\" action=\"/keys") {
		t.Errorf("%s", p.Text)
	}
}

// Errors are shown beside the fields.
func TestWrongKeys(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	b := r.SignedInAs(r.Person)
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{"name", "", "scope", "mcp"}, "A name has 1 to 60"},
		{[]string{"name", "keep this"}, "Choose at least one"},
		{[]string{"name", "keep this", "scope", "root"}, "“root”"},
		{[]string{"name", "keep this", "scope", "mcp", "days", "-1"}, "expires in the future"},
		{[]string{"name", "keep this", "scope", "mcp", "rate", "many"}, "The rate is a number"},
		{[]string{"name", "keep this", "scope", "mcp", "bot", "77"}, "There is no such bot"},
	} {
		p := b.Post("/keys/new", c.fields...)
		if p.Status != http.StatusUnprocessableEntity || !p.Contains(strings.ReplaceAll(c.want, "“root”",
			"&#34;root&#34;")) || c.fields[1] != "" && !p.Contains("keep this") {
			t.Errorf("%v: %d: %s", c.fields, p.Status, p.Text)
		}
	}
	if list, err := r.Store.Keys.ByPerson(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("there are %d keys, %v", len(list), err)
	}
}

// Members cannot create keys for everybody's data or see other people's keys, and creating a key
// needs a recently entered password.
func TestWhoseKeys(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	r.Key(t, account.NewKey{Name: "adas key", Scopes: []string{account.ScopeMCP}})
	k := only(t, r, r.Person)
	b := r.SignedInAs(r.Bob)
	if p := b.Get("/keys"); p.Contains("adas key") {
		t.Errorf("bob sees %s", p.Text)
	}
	if p := b.Get("/keys/" + k.ID); p.Status != http.StatusNotFound || p.Contains("adas key") {
		t.Errorf("bob gets %d", p.Status)
	}
	if p := b.Post("/keys/"+k.ID+"/rules", "deny", "x"); p.Status != http.StatusNotFound {
		t.Errorf("bob gets %d", p.Status)
	}
	if p := b.Post("/keys/" + k.ID + "/revoke"); p.Status != http.StatusNotFound {
		t.Errorf("bob gets %d", p.Status)
	}
	if p := b.Get("/keys/new"); p.Contains(`value="admin"`) {
		t.Error("bob is offered a key for everybody's things")
	}
	if p := b.Post("/keys/new", "name", "x", "scope", "admin"); p.Status != http.StatusForbidden {
		t.Errorf("bob gets %d", p.Status)
	}
	if p := b.Post("/keys/new", "name", "x", "scope", "mcp", "bot", "1"); p.Status != http.StatusUnprocessableEntity {
		t.Errorf("bob gets %d for a bot of ada's", p.Status)
	}
	if after := only(t, r, r.Person); after.Rules != "" || !after.Revoked.IsZero() {
		t.Errorf("bob has changed %+v", after)
	}
	ada := r.SignedInAs(r.Person)
	if p := ada.Post("/keys/new", "name", "house", "scope", "admin"); p.Status != http.StatusOK ||
		!p.Contains("patchbay bot list") {
		t.Errorf("ada gets %d", p.Status)
	}
	list, err := r.Store.SignIns.ByPerson(t.Context(), r.Person.ID)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d sign-ins, %v", len(list), err)
	}
	if err := r.Store.SignIns.Replace(t.Context(), list[0].ID, list[0].ID, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if p := ada.Get("/keys/new"); !strings.HasPrefix(p.Path, "/confirm?next=%2Fkeys%2Fnew") {
		t.Errorf("ada is sent to %s", p.Path)
	}
}
