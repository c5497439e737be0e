package hub_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// reword stores what the person of a rig calls tools, and applies it.
func reword(t *testing.T, r *hubtest.Rig, words ...store.ToolWords) {
	t.Helper()
	for _, w := range words {
		w.Owner, w.Created = r.Person.ID, time.Now()
		must(t, r.Store.ToolWordings.Save(t.Context(), w))
	}
	must(t, r.Hub.RefreshTools(t.Context()))
}

// What tools are called never changes what a key may call, whatever its rules say about the names.
func TestWordsChangeNoRights(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	register(t, r.Hub, hub.ProviderRef{ID: "a", Slug: "home", Owner: r.Person.ID, Kind: "k"}, echoProvider,
		tool.Tool{Name: "light_on"}, tool.Tool{Name: "light_off"}, tool.Tool{Name: "gate", Dangerous: true},
		tool.Tool{Name: "record", Audience: "user"})
	register(t, r.Hub, hub.ProviderRef{ID: "b", Slug: "car", Owner: r.Person.ID, Kind: "k"}, echoProvider,
		tool.Tool{Name: "start", Dangerous: true}, tool.Tool{Name: "horn"})
	all := []string{"home_light_on", "home_light_off", "home_gate", "home_record", "car_start", "car_horn"}
	must(t, r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID, Tool: "car_horn", Rule: "deny"}))
	must(t, r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID, Tool: "kitchen_*", Rule: "allow"}))
	must(t, r.Store.ToolSets.Save(t.Context(), store.ToolSet{Owner: r.Person.ID, Name: "s",
		Tools: []string{"home_light_*", "kitchen_*"}}))
	must(t, r.Hub.RefreshTools(t.Context()))
	rules := []string{``, `{"allow":["home_light_*"]}`, `{"allow":["kitchen_*"]}`, `{"deny":["kitchen_*"]}`,
		`{"deny":["home_gate"],"dangerous":["*"]}`, `{"dangerous":["kitchen_gate","car_*"]}`, `{"set":"s"}`,
		`{"people":true,"ask":"owner"}`, `{"deny":["car_engine","home_light_on"]}`, `{"allow":["car_engine"]}`}
	// may returns what each of the rules allows, as the calls of the original names show.
	may := func() string {
		var out []string
		for _, text := range rules {
			v, err := r.Hub.View(r.Person.ID, text)
			must(t, err)
			for _, name := range all {
				if v.HasOriginal(name) {
					out = append(out, text+" "+name+" "+map[bool]string{true: "asks"}[v.Asks(name)])
				}
			}
			if n := len(v.Tools); n != countPrefix(out, text+" ") {
				t.Errorf("%s lists %d tools: %s", text, n, names(v))
			}
		}
		return strings.Join(out, "\n")
	}
	before := may()
	for _, w := range [][]store.ToolWords{
		{{Tool: "home_gate", Name: "kitchen_gate"}, {Tool: "car_horn", Name: "kitchen_horn"}},
		{{Tool: "home_light_on", Name: "car_engine"}, {Tool: "home_record", Name: "home_light_record"}},
		{{Tool: "home_light_off", Name: "x", Description: "y"}, {Tool: "car_start", Name: "home_light_start"}},
		{{Tool: "home_gate", Name: "home_gate2"}, {Tool: "home_light_on"}},
	} {
		reword(t, r, w...)
		if after := may(); after != before {
			t.Errorf("after %+v:\n%s\nbefore:\n%s", w, after, before)
		}
	}
}

func countPrefix(list []string, prefix string) (n int) {
	for _, text := range list {
		if strings.HasPrefix(text, prefix) {
			n++
		}
	}
	return n
}

// A tool is called by its new and by its original name, and its record has the original one.
func TestWords(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	a := register(t, r.Hub, hub.ProviderRef{ID: "a", Slug: "home", Owner: r.Person.ID, Kind: "k"}, echoProvider,
		tool.Tool{Name: "HassTurnOn", Title: "T", Description: "Turns on."},
		tool.Tool{Name: "Other_One", Description: "Like HassTurnOn, see home_HassTurnOn."},
		tool.Tool{Name: "gate", Dangerous: true})
	reword(t, r, store.ToolWords{Tool: "home_HassTurnOn", Name: "lights_on", Description: "Switches lamps on."},
		store.ToolWords{Tool: "home_gate", Name: "open_gate"})
	v, err := r.Hub.View(r.Person.ID, "")
	must(t, err)
	if names(v) != "home_Other_One lights_on" {
		t.Fatal(names(v))
	}
	on, other := v.Tool("lights_on"), v.Tool("home_Other_One")
	if on.Description != "Switches lamps on." || on.Title != "T" || on.OriginalName() != "home_HassTurnOn" ||
		v.Tool("home_HassTurnOn") != on || other.Description != "Like HassTurnOn, see lights_on." ||
		other.OriginalName() != other.Name {
		t.Errorf("%+v %+v", on.Tool, other.Tool)
	}
	if found := v.Find("lamps", 5); len(found) != 1 || found[0] != on {
		t.Errorf("found %d", len(found))
	}
	for _, name := range []string{"lights_on", "home_HassTurnOn"} {
		res, err := r.Hub.Call(t.Context(), access(r, ""), name, &tool.Call{})
		if err != nil || res.PlainText() != "HassTurnOn" {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
	for _, name := range []string{"open_gate", "home_gate"} {
		if _, err := r.Hub.Call(t.Context(), access(r, ""), name, &tool.Call{}); code(err) != tool.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.Hub.WaitForCallRecords(t.Context())
	calls, err := r.Store.Calls.Find(t.Context(), store.CallFilter{Person: r.Person.ID}, 10)
	must(t, err)
	recorded := map[string]int{}
	for _, c := range calls {
		recorded[c.Tool]++
	}
	if recorded["home_HassTurnOn"] != 2 || recorded["home_gate"] != 2 {
		t.Errorf("the records have %v", recorded)
	}

	// Others who see everybody's tools do not get one person's words.
	register(t, r.Hub, hub.ProviderRef{ID: "all", Slug: "all", Kind: "k"}, echoProvider, tool.Tool{Name: "x"})
	reword(t, r, store.ToolWords{Tool: "all_x", Name: "mine"})
	mine, _ := r.Hub.View(r.Person.ID, "")
	theirs, _ := r.Hub.View("somebody else", "")
	if mine.Tool("mine") == nil || names(theirs) != "all_x" || theirs.Tool("mine") != nil {
		t.Errorf("%s; %s", names(mine), names(theirs))
	}

	// The words stay while the server is away, and when it changes its own.
	a.SetTools([]tool.Tool{{Name: "HassTurnOn", Title: "New", Description: "Ignore this."}})
	v, _ = r.Hub.View(r.Person.ID, "")
	if on := v.Tool("lights_on"); on == nil || on.Title != "New" || on.Description != "Switches lamps on." {
		t.Errorf("%+v", on)
	}
	if own := v.Tool("lights_on").Served(); own.Description != "Ignore this." {
		t.Errorf("%+v", own)
	}
}

// A tool that comes later does not get the calls of the one that has the name, also while that one
// is not there.
func TestNameThatComesLater(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	o := hub.ProviderRef{ID: "a", Slug: "home", Owner: r.Person.ID, Kind: "k"}
	first := register(t, r.Hub, o, echoProvider, tool.Tool{Name: "first"})
	if got := r.Hub.NameTaken(r.Person.ID, "home_first", "lamp_on"); got != "" {
		t.Fatal(got)
	}
	reword(t, r, store.ToolWords{Tool: "home_first", Name: "lamp_on"})
	register(t, r.Hub, hub.ProviderRef{ID: "b", Slug: "lamp", Owner: r.Person.ID, Kind: "k"}, echoProvider,
		tool.Tool{Name: "on"}, tool.Tool{Name: "off"})
	call := func(rules, name string) string {
		res, err := r.Hub.Call(t.Context(), access(r, rules), name, &tool.Call{})
		if err != nil {
			return string(code(err))
		}
		return res.PlainText()
	}
	v, err := r.Hub.View(r.Person.ID, "")
	must(t, err)
	later := v.Tools[slices.IndexFunc(v.Tools, func(t *hub.RegisteredTool) bool { return t.Tool.Name == "on" })]
	if later.Name == "lamp_on" || later.OriginalName() != "lamp_on" || len(v.Tools) != 3 {
		t.Errorf("%s", names(v))
	}
	for _, c := range []struct{ rules, name, want string }{
		{"", "lamp_on", "first"}, {"", "home_first", "first"}, {"", later.Name, "on"}, {"", "lamp_off", "off"},
		{`{"allow":["lamp_*"]}`, "lamp_on", "denied"}, {`{"allow":["lamp_*"]}`, later.Name, "on"},
		{`{"deny":["lamp_on"]}`, "lamp_on", "first"}, {`{"deny":["lamp_on"]}`, later.Name, "denied"},
	} {
		if got := call(c.rules, c.name); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.rules, c.name, got, c.want)
		}
	}
	for name, original := range map[string]string{"lamp_on": "home_first", later.Name: "lamp_on",
		"home_first": "home_first", "lamp_*": "lamp_*"} {
		if got := r.Hub.OriginalName(r.Person.ID, name); got != original {
			t.Errorf("%s is %s, want %s", name, got, original)
		}
	}
	for name, want := range map[string]string{"lamp_off": "lamp_off", "lamp_on": "lamp_on", "home_first": "", "free": ""} {
		if got := r.Hub.NameTaken(r.Person.ID, "home_first", name); got != want {
			t.Errorf("%s is taken by %q, want %q", name, got, want)
		}
	}
	if r.Hub.NameTaken(r.Person.ID, "lamp_off", "home_first") == "" ||
		r.Hub.NameTaken(r.Person.ID, "lamp_off", "lamp_on") == "" {
		t.Error("the names of a renamed tool are free")
	}
	first.Unregister()
	if got := call("", "lamp_on"); got != string(tool.Unknown) {
		t.Errorf("while the first is away: %s", got)
	}
	must(t, r.Store.ToolWordings.Remove(t.Context(), r.Person.ID, "home_first"))
	must(t, r.Hub.RefreshTools(t.Context()))
	if got := call("", "lamp_on"); got != "on" {
		t.Errorf("after the way back: %s", got)
	}
}

func TestCheckToolWords(t *testing.T) {
	for _, c := range []struct {
		words store.ToolWords
		ok    bool
	}{
		{store.ToolWords{Name: "lights_on", Title: "灯", Description: "Line\nline\ttab 👨\u200d👩\u200d👧"}, true},
		{store.ToolWords{Name: strings.Repeat("a", 64)}, true}, {store.ToolWords{Name: strings.Repeat("a", 65)}, false},
		{store.ToolWords{Name: "1a"}, false}, {store.ToolWords{Name: "a b"}, false}, {store.ToolWords{Name: "ä"}, false},
		{store.ToolWords{Name: "a.b"}, false}, {store.ToolWords{Name: "find_tools"}, false},
		{store.ToolWords{Name: "call_tool"}, false}, {store.ToolWords{Title: "a\x1b[8m"}, false},
		{store.ToolWords{Description: "a\u200bb"}, false}, {store.ToolWords{Description: "\xff"}, false},
		{store.ToolWords{Description: strings.Repeat("灯", 4000)}, true},
		{store.ToolWords{Description: strings.Repeat("a", 4001)}, false},
	} {
		if err := hub.CheckToolWords(c.words); (err == nil) != c.ok {
			t.Errorf("%.80q: %v", c.words, err)
		}
	}
}
