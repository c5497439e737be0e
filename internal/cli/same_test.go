package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"patchbay/internal/store"
)

// change is the same change through the command line, the API and the console. NAME stands for a
// name that differs for each, and ID for the id of what before has made under that name.
type change struct {
	what   string
	before []string // a command; its JSON output has the id
	args   []string
	stdin  string // of the command; empty: a good password
	method string
	path   string // of the API
	body   string
	page   string
	form   url.Values
	action string // of the admin event; empty: it is refused
}

var changes = []change{
	// First, while there is one person, for whom this machine can make setup codes.
	{what: "cancel a setup code",
		before: []string{"pair", "invite", "--url", "wss://board.example.org"},
		args:   []string{"pair", "cancel", "ID"}, method: "DELETE", path: "/pairs/invites/ID",
		page: "/gateway/invites/ID/cancel", action: "pair.cancelled"},
	{what: "make a key", args: []string{"key", "add", "--name", "NAME", "--scope", "mcp"},
		method: "POST", path: "/keys", body: `{"name":"NAME","scopes":["mcp"]}`,
		page: "/keys/new", form: url.Values{"name": {"NAME"}, "scope": {"mcp"}}, action: "key.made"},
	{what: "a key that lives too long",
		args:   []string{"key", "add", "--name", "NAME", "--scope", "mcp", "--expires", "20000d"},
		method: "POST", path: "/keys", body: `{"name":"NAME","scopes":["mcp"],"days":20000}`,
		page: "/keys/new", form: url.Values{"name": {"NAME"}, "scope": {"mcp"}, "days": {"20000"}}},
	{what: "a key with too high a rate",
		args:   []string{"key", "add", "--name", "NAME", "--scope", "mcp", "--rate", "5000000"},
		method: "POST", path: "/keys", body: `{"name":"NAME","scopes":["mcp"],"rules":{"per_minute":5000000}}`,
		page: "/keys/new", form: url.Values{"name": {"NAME"}, "scope": {"mcp"}, "rate": {"5000000"}}},
	{what: "a key for nothing", args: []string{"key", "add", "--name", "NAME", "--scope", "fly"},
		method: "POST", path: "/keys", body: `{"name":"NAME","scopes":["fly"]}`,
		page: "/keys/new", form: url.Values{"name": {"NAME"}, "scope": {"fly"}}},
	{what: "rules of a key", before: []string{"key", "add", "--name", "NAME", "--scope", "mcp"},
		args: []string{"key", "rules", "ID", "--deny-tool", "lamp_*"}, method: "PATCH", path: "/keys/ID",
		body: `{"rules":{"deny":["lamp_*"]}}`, page: "/keys/ID/rules", form: url.Values{"deny": {"lamp_*"}},
		action: "key.rules"},
	{what: "rules that are none", before: []string{"key", "add", "--name", "NAME", "--scope", "mcp"},
		args: []string{"key", "rules", "ID", "--deny-tool", "a.b"}, method: "PATCH", path: "/keys/ID",
		body: `{"rules":{"deny":["a.b"]}}`, page: "/keys/ID/rules", form: url.Values{"deny": {"a.b"}}},
	{what: "a key for a set that is not there",
		args:   []string{"key", "add", "--name", "NAME", "--scope", "mcp", "--set", "nosuch"},
		method: "POST", path: "/keys", body: `{"name":"NAME","scopes":["mcp"],"rules":{"set":"nosuch"}}`,
		page: "/keys/new", form: url.Values{"name": {"NAME"}, "scope": {"mcp"}, "set": {"nosuch"}}},
	{what: "revoke a key", before: []string{"key", "add", "--name", "NAME", "--scope", "mcp"},
		args: []string{"key", "revoke", "ID"}, method: "DELETE", path: "/keys/ID", page: "/keys/ID/revoke",
		action: "key.revoked"},
	{what: "add a program for OAuth",
		args:   []string{"oauth", "client", "add", "--name", "NAME", "--redirect", "https://a.example/cb"},
		method: "POST", path: "/oauth/clients", body: `{"name":"NAME","redirect_uris":["https://a.example/cb"]}`,
		page: "/keys/programs", form: url.Values{"name": {"NAME"}, "redirects": {"https://a.example/cb"}},
		action: "oauth.client_added"},
	{what: "a program with a redirect that is a script",
		args:   []string{"oauth", "client", "add", "--name", "NAME", "--redirect", "javascript:alert(1)"},
		method: "POST", path: "/oauth/clients", body: `{"name":"NAME","redirect_uris":["javascript:alert(1)"]}`,
		page: "/keys/programs", form: url.Values{"name": {"NAME"}, "redirects": {"javascript:alert(1)"}}},
	{what: "remove a program for OAuth",
		before: []string{"oauth", "client", "add", "--name", "NAME", "--redirect", "https://a.example/cb"},
		args:   []string{"oauth", "client", "rm", "ID"}, method: "DELETE", path: "/oauth/clients/ID",
		page: "/keys/programs/ID/remove", action: "oauth.client_removed"},
	{what: "open an account", args: []string{"user", "add", "NAME", "--password-stdin"},
		method: "POST", path: "/people", body: `{"name":"NAME","password":"correct horse"}`,
		page: "/settings/people/new", form: url.Values{"name": {"NAME"}, "by": {"password"}, "password": {"correct horse"}},
		action: "person.added"},
	{what: "a name that is taken", args: []string{"user", "add", "ada"},
		method: "POST", path: "/people", body: `{"name":"ada"}`,
		page: "/settings/people/new", form: url.Values{"name": {"ada"}, "by": {"password"}}},
	{what: "invite somebody", before: []string{"user", "add", "NAME"}, args: []string{"user", "invite", "NAME"},
		method: "POST", path: "/people/ID/invitation", page: "/settings/people/ID/invite", action: "person.invited"},
	{what: "pause an account", before: []string{"user", "add", "NAME"}, args: []string{"user", "pause", "NAME"},
		method: "PATCH", path: "/people/ID", body: `{"paused":true}`, page: "/settings/people/ID/pause",
		form: url.Values{"paused": {"true"}}, action: "person.paused"},
	{what: "share a bot", before: []string{"bot", "add", "--user", "ada", "--name", "NAME", "--kind", "echo"},
		args: []string{"bot", "share", "ID", "--with", "everybody"}, method: "PUT", path: "/bots/ID/sharing",
		body: `{"everybody":true}`, page: "/bots/ID/share", form: url.Values{"everybody": {"on"}}, action: "bot.shared"},
	{what: "set a password", before: []string{"user", "add", "NAME"},
		args: []string{"user", "passwd", "NAME", "--password-stdin"}, method: "POST", path: "/people/ID/password",
		body: `{"password":"correct horse"}`, page: "/settings/people/ID/password",
		form: url.Values{"password": {"correct horse"}}, action: "person.password"},
	{what: "add a bot", args: []string{"bot", "add", "--user", "ada", "--name", "NAME", "--kind", "echo"},
		method: "POST", path: "/bots", body: `{"name":"NAME","kind":"echo"}`,
		page: "/bots", form: url.Values{"name": {"NAME"}, "kind": {"echo"}}, action: "bot.added"},
	{what: "a bot without a name", args: []string{"bot", "add", "--user", "ada", "--name", "", "--kind", "echo"},
		method: "POST", path: "/bots", body: `{"name":"","kind":"echo"}`,
		page: "/bots", form: url.Values{"name": {""}, "kind": {"echo"}}},
	{what: "another token for a bot",
		before: []string{"bot", "add", "--user", "ada", "--name", "NAME", "--kind", "eyeclaw"},
		args:   []string{"bot", "rotate", "ID"}, method: "POST", path: "/bots/ID/rotate", page: "/bots/ID/rotate",
		action: "bot.token"},
	{what: "remove a bot", before: []string{"bot", "add", "--user", "ada", "--name", "NAME", "--kind", "echo"},
		args: []string{"bot", "rm", "ID", "--yes"}, method: "DELETE", path: "/bots/ID", page: "/bots/ID/remove",
		form: url.Values{"name": {"NAME"}}, action: "bot.removed"},
	{what: "deny tools", args: []string{"tool", "deny", "--user", "ada", "NAME_*"},
		method: "POST", path: "/tools/NAME_*/rule", body: `{"rule":"deny","user":"ada"}`,
		page: "/tools/rules", form: url.Values{"tool": {"NAME_*"}, "rule": {"deny"}}, action: "tool.rule"},
	{what: "deny what is no name", args: []string{"tool", "deny", "--user", "ada", "a.b"},
		method: "POST", path: "/tools/a.b/rule", body: `{"rule":"deny","user":"ada"}`,
		page: "/tools/rules", form: url.Values{"tool": {"a.b"}, "rule": {"deny"}}},
	{what: "add a robot", args: []string{"upstream", "add", "NAME", "--user", "ada", "--endpoint"},
		method: "POST", path: "/upstreams", body: `{"name":"NAME","kind":"endpoint","user":"ada"}`,
		page: "/tools/upstreams", form: url.Values{"name": {"NAME"}, "way": {"endpoint"}}, action: "upstream.added"},
	{what: "a tool server without a usable name",
		args:   []string{"upstream", "add", "A_B", "--user", "ada", "--endpoint"},
		method: "POST", path: "/upstreams", body: `{"name":"A_B","kind":"endpoint","user":"ada"}`,
		page: "/tools/upstreams", form: url.Values{"name": {"A_B"}, "way": {"endpoint"}}},
	{what: "change a person's password to a short one", before: []string{"user", "add", "NAME"},
		args: []string{"user", "passwd", "NAME", "--password-stdin"}, stdin: "short\n", method: "POST",
		path: "/people/ID/password", body: `{"password":"short"}`, page: "/settings/people/ID/password",
		form: url.Values{"password": {"short"}}},
}

// Command line, API and console do the same: what one refuses all refuse, in the same words, and
// what they do leaves the same admin event.
func TestSameEverywhere(t *testing.T) {
	d := newDesk(t)
	if o := d.do("correct horse\n", "user", "add", "ada", "--password-stdin"); o.code != exitOK {
		t.Fatal(o.stderr)
	}
	var admin struct{ Key string }
	d.json(&admin, "key", "add", "--name", "admin", "--scope", "admin")
	s := d.serve()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &ways{desk: d, url: s.URL, key: admin.Key, browser: &http.Client{Jar: jar}}
	w.page(t, "/signin", url.Values{"name": {"ada"}, "password": {"correct horse"}})
	events := d.base().Store.AdminEvents
	newest := func(t *testing.T) store.AdminEvent {
		t.Helper()
		list, err := events.Newest(t.Context(), "", 1)
		if err != nil || len(list) == 0 {
			t.Fatalf("the admin log has %v, %v", list, err)
		}
		return list[0]
	}
	for i, c := range changes {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			said, about := "", ""
			for way, do := range map[string]func(*testing.T, change) string{
				"api": w.overAPI, "command line": w.overCommand, "console": w.overPage,
			} {
				name := fmt.Sprintf("%s%d", way[:3], i)
				id := w.make(t, c.before, name)
				one := c.named(name, id)
				before := newest(t)
				text, event := do(t, one), newest(t)
				switch {
				case c.action == "" && event.ID != before.ID:
					t.Errorf("%s: a refusal leaves %+v", way, event)
				case c.action == "" && way != "console":
					if said != "" && text != said {
						t.Errorf("the %s says %q, another %q", way, text, said)
					}
					said = text
				case c.action != "" && event.Action != c.action:
					t.Errorf("%s: %q leaves %q, want %q", way, text, event.Action, c.action)
				case c.action != "":
					got := normalAbout(event.About, name)
					if event.About == id {
						got = "ID"
					}
					if about != "" && got != about {
						t.Errorf("%s: the event is about %q, that of another about %q", way, got, about)
					}
					about = got
				}
			}
			if c.action == "" {
				name := fmt.Sprintf("again%d", i)
				if page := w.overPage(t, c.named(name, w.make(t, c.before, name))); !strings.Contains(page, said) {
					t.Errorf("the page does not say %q:\n%s", said, page)
				}
			}
		})
	}
}

var digits = regexp.MustCompile(`\d+`)

// normalAbout removes what differs: the name, the number, and the owner, who is left out where the
// owner acts.
func normalAbout(about, name string) string {
	return digits.ReplaceAllString(strings.ReplaceAll(strings.TrimPrefix(about, "ada: "), name, "NAME"), "N")
}

// named returns the change with a name and an id.
func (c change) named(name, id string) change {
	r := strings.NewReplacer("NAME", name, "ID", id)
	args, form := make([]string, len(c.args)), url.Values{}
	for i, a := range c.args {
		args[i] = r.Replace(a)
	}
	for k, values := range c.form {
		for _, v := range values {
			form.Add(k, r.Replace(v))
		}
	}
	c.args, c.form, c.path, c.body, c.page = args, form, r.Replace(c.path), r.Replace(c.body), r.Replace(c.page)
	return c
}

// ways are the three ways to a server.
type ways struct {
	*desk
	url, key string
	browser  *http.Client
}

// make runs a command, if there is one, and returns the id of what it has made.
func (w *ways) make(t *testing.T, args []string, name string) string {
	t.Helper()
	if args == nil {
		return ""
	}
	var made struct {
		ID      any
		SetupID string // of a setup code, as OpenClaw calls it
	}
	w.json(&made, change{args: args}.named(name, "").args...)
	if made.SetupID != "" {
		return made.SetupID
	}
	return fmt.Sprint(made.ID)
}

// overCommand returns the error, if the command fails.
func (w *ways) overCommand(_ *testing.T, c change) string {
	o := w.do(cmp.Or(c.stdin, "correct horse\n"), c.args...)
	return strings.TrimSuffix(strings.TrimPrefix(o.stderr, "patchbay: "), "\n")
}

// overAPI returns the error, if the request fails.
func (w *ways) overAPI(t *testing.T, c change) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), c.method, w.url+"/api/v1"+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var failure struct{ Error string }
	if err := json.NewDecoder(resp.Body).Decode(&failure); err != nil {
		t.Fatal(err)
	}
	return failure.Error
}

// overPage returns the text of the page that comes.
func (w *ways) overPage(t *testing.T, c change) string {
	t.Helper()
	return w.page(t, c.page, c.form)
}

func (w *ways) page(t *testing.T, path string, form url.Values) string {
	t.Helper()
	resp, err := w.browser.PostForm(w.url+path, form)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(string(text))
}
