package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/console/tools"
	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// lamp returns the arguments of its calls.
type lamp struct{}

func (lamp) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool == "burn" {
		return nil, tool.Fail(tool.Offline, "The lamp <is> unplugged.", nil)
	}
	return tool.Text("got " + string(c.Args) + " by " + c.Caller.Channel), nil
}

func newRig(t *testing.T) *consoletest.Rig {
	r := consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route { return tools.Routes() })
	plug(t, r, hub.ProviderRef{ID: "upstream:7", Owner: r.Person.ID,
		Slug: "lamp", Kind: "upstream", Title: "Ada's lamp"},
		tool.Tool{Name: "set", Title: "Set the lamp", Description: "Dims it.\nAs you like.",
			Input: json.RawMessage(`{"type":"object","properties":{"level":{"type":"integer"}},"required":["level"]}`)},
		tool.Tool{Name: "reset", Description: "Forgets <all>.", Dangerous: true,
			Input: json.RawMessage(`{"type":"object"}`)},
		tool.Tool{Name: "record", Description: "Hears you.", Audience: "user",
			Input: json.RawMessage(`{"type":"object"}`)},
		tool.Tool{Name: "burn", Description: "Burns.", Hints: tool.ReadOnlyHints(),
			Input: json.RawMessage(`{"type":"object"}`)})
	return r
}

func plug(t testing.TB, r *consoletest.Rig, o hub.ProviderRef, list ...tool.Tool) {
	t.Helper()
	s, err := r.Hub.Register(o, lamp{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetTools(list)
}

// has checks that a page contains all texts.
func has(t *testing.T, p consoletest.Page, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.Text, text) {
			t.Errorf("%s (%d) has no %q:\n%s", p.Path, p.Status, text, p.Text)
		}
	}
}

func lacks(t *testing.T, p consoletest.Page, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.Text, text) {
			t.Errorf("%s (%d) has %q", p.Path, p.Status, text)
		}
	}
}

func TestList(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	p := ada.Get("/tools")
	has(t, p, "Ada&#39;s lamp", "lamp_set", "Dims it.", "dangerous, refused until you allow it",
		"for people, refused", "4 tools", "All 4", "Not allowed yet 2", "Denied 0", "/tools/upstreams/7")
	lacks(t, p, "As you like")
	lacks(t, p, "may use it") // as most may be used
	p = ada.Get("/tools?q=DIMS")
	has(t, p, "lamp_set", "Found: 1.")
	lacks(t, p, "lamp_reset")
	p = ada.Get("/tools?state=waiting")
	has(t, p, "lamp_reset", "lamp_record", "Found: 2.")
	lacks(t, p, "lamp_set")
	if p = ada.DoHX(http.MethodGet, "/tools", "q", "nothing like it"); strings.Contains(p.Text, "<html") {
		t.Error("the script gets a whole page")
	}
	has(t, p, "No tool fits")
	has(t, r.SignedInAs(r.Bob).Get("/tools"), "No tools yet", "All 0")
}

// Hundreds of tools are shown page by page.
func TestPages(t *testing.T) {
	r := newRig(t)
	var many []tool.Tool
	for i := range 120 {
		many = append(many, tool.Tool{Name: fmt.Sprintf("t%03d", i), Input: json.RawMessage(`{"type":"object"}`)})
	}
	plug(t, r, hub.ProviderRef{ID: "board:1", Owner: r.Person.ID, Slug: "kitchen", Kind: "xiaozhi", Title: "Kitchen"},
		many...)
	ada := r.SignedInAs(r.Person)
	seen := map[string]int{}
	for path := "/tools?from=board%3A1"; path != ""; {
		p := ada.Get(path)
		for i := range many {
			seen[fmt.Sprintf("t%03d", i)] += strings.Count(p.Text, fmt.Sprintf(">kitchen_t%03d<", i))
		}
		lacks(t, p, "lamp_set")
		_, next, ok := strings.Cut(p.Text, `<a class="button" href="/tools?after=`)
		if path = ""; ok {
			next, _, _ = strings.Cut(next, `"`)
			path = "/tools?after=" + strings.ReplaceAll(next, "&amp;", "&")
		}
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
}

// However many providers there are, a page has a bounded number of them, and of tools, each once.
func TestPagesOfProviders(t *testing.T) {
	r := newRig(t)
	const boards, each = 230, 5
	for i := range boards {
		var list []tool.Tool
		for n := range each {
			list = append(list, tool.Tool{Name: fmt.Sprintf("t%d", n), Dangerous: n == 0,
				Input: json.RawMessage(`{"type":"object"}`)})
		}
		plug(t, r, hub.ProviderRef{ID: fmt.Sprintf("board:%d", i+1), Owner: r.Person.ID, Kind: "xiaozhi",
			Slug: fmt.Sprintf("b%03d", i), Title: fmt.Sprintf("Board %03d", i)}, list...)
	}
	ada := r.SignedInAs(r.Person)
	for _, c := range []struct {
		path             string
		providers, tools int // on all pages; 0: not counted
	}{
		{"/tools", boards + 1, 0}, {"/tools?state=waiting", 0, boards + 2}, {"/tools?q=_t3", 0, boards},
	} {
		seen := map[string]int{}
		providers, pages := 0, 0
		for path := c.path; path != ""; pages++ {
			p := ada.Get(path)
			groups := strings.Split(p.Text, `<details class="card tool-group"`)[1:]
			rows := 0
			for _, g := range groups {
				n := strings.Count(g, "<li>")
				if rows += n; n == 0 && c.providers == 0 {
					t.Errorf("%s has a provider without tools", path)
				}
				if n < each && c.providers > 0 && !strings.Contains(g, "All tools of Board") &&
					!strings.Contains(g, "Ada&#39;s lamp") {
					t.Errorf("%s has no link to the rest: %s", path, g)
				}
				for _, link := range strings.Split(g, `<a href="/tools/`)[1:] {
					if name, _, _ := strings.Cut(link, `"`); !strings.Contains(name, "/") {
						seen[name]++
					}
				}
			}
			if len(groups) == 0 || len(groups) > 50 || rows > 100 {
				t.Fatalf("%s has %d providers with %d tools", path, len(groups), rows)
			}
			providers += len(groups)
			_, next, ok := strings.Cut(p.Text, `<a class="button" href="/tools?after=`)
			if path = ""; ok {
				next, _, _ = strings.Cut(next, `"`)
				path = "/tools?after=" + strings.ReplaceAll(next, "&amp;", "&")
			}
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%s: %s is there %d times", c.path, name, n)
			}
		}
		if c.providers > 0 && providers != c.providers || c.tools > 0 && len(seen) != c.tools || pages != 5 {
			t.Errorf("%s: %d pages with %d providers and %d tools", c.path, pages, providers, len(seen))
		}
	}
}

// Tools are ordered by provider, also where their names are not.
func TestOrder(t *testing.T) {
	r := newRig(t)
	for i, title := range []string{"B", "A", "A"} { // all in one list of names
		id := fmt.Sprintf("board:%d", i+1)
		plug(t, r, hub.ProviderRef{ID: id, Owner: r.Person.ID, Kind: "xiaozhi", Title: title},
			tool.Tool{Name: fmt.Sprintf("x%d", i)}, tool.Tool{Name: fmt.Sprintf("y%d", i)})
	}
	p := r.SignedInAs(r.Person).Get("/tools")
	at := -1
	for _, name := range []string{"x1", "y1", "x2", "y2", "lamp_reset", "lamp_set", "x0", "y0"} {
		next := strings.Index(p.Text, ">"+name+"<")
		if next <= at {
			t.Errorf("%s is in the wrong place", name)
		}
		at = next
	}
}

func TestDecide(t *testing.T) {
	r := newRig(t)
	r.Key(t, account.NewKey{Name: "laptop", Scopes: []string{account.ScopeMCP}})
	r.Key(t, account.NewKey{Name: "narrow", Scopes: []string{account.ScopeMCP},
		Rules: hub.Rules{Allow: []string{"lamp_s*"}}.String()})
	r.Key(t, account.NewKey{Name: "glasses", Scopes: []string{account.ScopeLingzhu}})
	r.Key(t, account.NewKey{Name: "bobs", Person: r.Bob.ID, Scopes: []string{account.ScopeMCP}})
	bot := r.AddScript(t, map[string]string{"allow_tools": "lamp_*"}, nil)
	ada := r.SignedInAs(r.Person)
	// may counts who may call a tool.
	may := func(name string) (yes, no int) {
		p := ada.Get("/tools/" + name)
		has(t, p, "laptop", "narrow", bot.Name)
		lacks(t, p, "glasses", "bobs")
		return strings.Count(p.Text, ">may</span>"), strings.Count(p.Text, ">may not</span>")
	}
	for _, c := range []struct {
		name, rule string
		yes, no    int
	}{
		{"lamp_set", "", 3, 0}, {"lamp_set", "deny", 0, 3}, {"lamp_set", "allow", 3, 0},
		{"lamp_burn", "", 2, 1}, {"lamp_reset", "", 0, 3}, {"lamp_reset", "allow", 2, 1},
	} {
		if c.rule != "" {
			if p := ada.Post("/tools/"+c.name+"/rule", "rule", c.rule); p.Path != "/tools/"+c.name {
				t.Errorf("%d at %s", p.Status, p.Path)
			}
		}
		if yes, no := may(c.name); yes != c.yes || no != c.no {
			t.Errorf("%s after %q: %d may and %d may not; want %d and %d", c.name, c.rule, yes, no, c.yes, c.no)
		}
	}
	p := ada.Get("/tools/rules")
	has(t, p, "lamp_set", "lamp_reset", "allowed")
	if p = ada.Post("/tools/lamp_reset/rule", "rule", "", "back", "rules"); p.Path != "/tools/rules" ||
		strings.Contains(p.Text, "lamp_reset") {
		t.Errorf("%d at %s", p.Status, p.Path)
	}
	if p = ada.Post("/tools/lamp_reset/rule", "rule", ""); p.Status != http.StatusNotFound {
		t.Errorf("%d for a rule that is not there", p.Status)
	}
	if p = ada.Post("/tools/rules", "tool", "no such name!", "rule",
		"deny"); p.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d", p.Status)
	}
	has(t, p, `value="no such name!"`, "is no name of a tool")
	has(t, ada.Post("/tools/rules", "tool", "lamp_*", "rule", "deny"), "lamp_*", "denied")
	if _, no := may("lamp_burn"); no != 3 {
		t.Errorf("%d may not", no)
	}
}

func TestTry(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	has(t, ada.Get("/tools/lamp_set"), "Set the lamp", "As you like.", `name="arg.level"`, "&#34;required&#34;",
		"Ada&#39;s lamp")
	has(t, ada.Post("/tools/lamp_set/call", "arg.level", "40"), "got {&#34;level&#34;:40} by console")
	p := ada.DoHX(http.MethodPost, "/tools/lamp_set/call", "arg.level", "much")
	has(t, p, "Look at what is marked", `value="much"`)
	lacks(t, p, "<html", "got {")
	has(t, ada.Post("/tools/lamp_burn/call"), "The lamp &lt;is&gt; unplugged.")
	// People can call tools that are meant for people; dangerous ones must be allowed first.
	has(t, ada.Post("/tools/lamp_record/call"), "got {}")
	p = ada.Get("/tools/lamp_reset")
	has(t, p, "Forgets &lt;all&gt;.", "once you have allowed it")
	lacks(t, p, "/tools/lamp_reset/call")
	lacks(t, ada.Post("/tools/lamp_reset/call"), "got {}")
	ada.Post("/tools/lamp_reset/rule", "rule", "allow")
	has(t, ada.Post("/tools/lamp_reset/call"), "got {}")
}

// Nobody sees, calls, allows or denies tools of other people.
func TestOthers(t *testing.T) {
	r := newRig(t)
	bob := r.SignedInAs(r.Bob)
	for _, p := range []consoletest.Page{
		bob.Get("/tools/lamp_set"), bob.Post("/tools/lamp_set/call", "arg.level", "1"), bob.Get("/tools/upstreams/7"),
		bob.Post("/tools/upstreams/7/remove"),
		bob.Get("/tools/upstreams/x"), bob.Post("/tools/upstreams/7/change"),
	} {
		if p.Status != http.StatusNotFound || strings.Contains(p.Text, "Set the lamp") {
			t.Errorf("%s: %d", p.Path, p.Status)
		}
	}
	bob.Post("/tools/lamp_set/rule", "rule", "deny") // for tools of that name that he may have later
	has(t, r.SignedInAs(r.Person).Get("/tools/lamp_set"), "may use it")
	lacks(t, bob.Get("/tools/upstreams/new"), "way=command")
	has(t, r.SignedInAs(r.Person).Get("/tools/upstreams/new"), "way=command")
	if p := bob.Get("/tools/upstreams/new?way=command"); strings.Contains(p.Text, `name="command"`) {
		t.Error("a member gets the form for commands")
	}
	if p := r.Anonymous().Get("/tools"); !strings.HasPrefix(p.Path, "/signin") {
		t.Errorf("a stranger gets to %s", p.Path)
	}
}

// Each kind of connection has a form, and no form shows a submitted secret.
func TestForms(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	has(t, ada.Get("/tools/upstreams/new?way=url"), `name="token"`, `type="password"`)
	for _, way := range []string{"endpoint", "cloud", "command", "openapi"} {
		has(t, ada.Get("/tools/upstreams/new?way="+way), `name="way" value="`+way+`"`)
	}
	p := ada.Post("/tools/upstreams", "way", "url", "name", "x", "url", "https://mcp.example.com", "token", "s3cret",
		"headers", "no colon s3cret")
	has(t, p, "Each line has a name", `value="x"`, "Secrets have to be typed again")
	lacks(t, p, "s3cret")
	p = ada.Post("/tools/upstreams", "way", "url", "name", "x", "url", "https://mcp.example.com", "oauth_grant",
		"client_credentials", "client_id", "robot", "private_key", "s3cret", "headers", "no colon")
	has(t, p, "Each line has a name", `value="client_credentials" selected`, `value="robot"`)
	lacks(t, p, "s3cret")
	p = ada.Post("/tools/upstreams", "way", "openapi", "name", "shop", "document", "openapi: 3.0.0", "basic",
		"s3cret", "query",
		"no sign s3cret")
	has(t, p, "Each line has a name", `value="shop"`, "openapi: 3.0.0")
	lacks(t, p, "s3cret")
	if p = ada.Post("/tools/upstreams", "way", "none"); p.Path != "/tools/upstreams/new" {
		t.Errorf("a way that nobody knows leads to %s", p.Path)
	}
}

// A thousand devices with a dozen tools each do not make the list slow.
func BenchmarkList(b *testing.B) {
	r := consoletest.New(b, consoletest.Options{}, func(*consoletest.Rig) []page.Route { return tools.Routes() })
	var some []tool.Tool
	for i := range 12 {
		some = append(some, tool.Tool{Name: fmt.Sprintf("tool_%d", i),
			Description: "Does something or other.", Input: json.RawMessage(`{"type":"object"}`)})
	}
	for i := range 1000 {
		plug(b, r, hub.ProviderRef{ID: fmt.Sprintf("board:%d", i+1), Owner: r.Person.ID, Slug: fmt.Sprintf("b%d", i),
			Kind: "xiaozhi", Title: fmt.Sprintf("Board %d", i)}, some...)
	}
	ada := r.SignedInAs(r.Person)
	for _, path := range []string{"/tools", "/tools?q=b77_tool_7", "/tools/b500_tool_3"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if p := ada.Get(path); p.Status != http.StatusOK {
					b.Fatal(p.Status)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(time.Millisecond)/float64(b.N), "ms/page")
		})
	}
}
