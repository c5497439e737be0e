package app

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// people is an installation as its people see it.
type people struct {
	*instance
	do  *control.Service
	bob store.Person
}

func newPeople(t *testing.T) *people {
	t.Helper()
	i := newInstance(t, hubtest.Options{})
	i.base.Config = configOf(t, t.TempDir(), "")
	i.base.Config.Fetch.AllowHosts = nil
	if err := i.Hub.OnToolsChanged(t.Context(), i.refresh); err != nil {
		t.Fatal(err)
	}
	p := &people{instance: i, do: control.New(control.Options{
		Hub: i.Hub, Accounts: i.Accounts, Upstreams: newUpstreamActions(i.base, newSignIns(i.base, "", nil, "a",
			slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler)),
		Upstream: upstreamHealth(i.base, i.Hub, i.servers, i.clouds, i.joined),
	})}
	var err error
	if p.bob, err = i.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", ""); err != nil {
		t.Fatal(err)
	}
	return p
}

// as returns the caller of a person's browser.
func as(p store.Person) control.Caller {
	return control.Caller{Person: p.ID, Rules: control.PeoplesRules, Program: "console", Lang: i18n.English}
}

func home(t *testing.T) *sim.ToolServer {
	t.Helper()
	h, err := sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// set parses settings from JSON.
func set(text string) (out control.SettingTexts) {
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(err)
	}
	return out
}

// refusal checks the reason and the words of an error.
func refusal(t *testing.T, err error, want problem.Code, words ...string) {
	t.Helper()
	e := control.AsError(err)
	if e == nil || e.Code != want {
		t.Errorf("%v; want it %s", err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			t.Errorf("%q has no %q", e, w)
		}
	}
}

// Added, changed and removed upstreams take effect at once.
func TestUpstreamIsTakenUp(t *testing.T) {
	p, h := newPeople(t), home(t)
	ada, ctx := as(p.Person), t.Context()
	found, err := p.do.CheckNewUpstream(ctx, ada, control.NewUpstream{Name: "haus", Kind: control.KindServer,
		Settings: set(`{"url":"` + h.URL + `","deny":["reset"]}`)})
	if err != nil || found.Problem != "" || found.Server != "home" || found.Hidden != 1 ||
		strings.Join(found.Tools, " ") != "haus_get_temperature haus_set_lamp" {
		t.Errorf("%+v, %v", found, err)
	}
	_, err = p.do.AddUpstream(ctx, ada, control.NewUpstream{Name: "haus", Kind: control.KindServer,
		Settings: set(`{"url":"http://127.0.0.1:1/mcp"}`)})
	refusal(t, err, problem.Unavailable, "Nothing listens", "Nothing was saved")
	added, err := p.do.AddUpstream(ctx, ada, control.NewUpstream{Name: "haus", Kind: control.KindServer,
		Settings: set(`{"url":"` + h.URL + `?key=s3cret-key","headers":{"X-Key":"s3cret-header"}}`)})
	if err != nil || added.Found == nil || len(added.Found.Tools) != 3 || added.Token != "" {
		t.Fatalf("%+v, %v", added, err)
	}
	p.await(t, "its tools are there", has("haus_set_lamp"))
	d, err := p.do.ShowUpstream(ctx, ada, control.UpstreamOf{Upstream: added.ID})
	text, _ := json.Marshal(d)
	if err != nil || d.State != control.UpstreamReady || d.Tools != 3 || d.Where != h.URL ||
		strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), "X-Key") {
		t.Errorf("%s, %v", text, err)
	}
	// Settings that are not given stay.
	if _, err := p.do.ChangeUpstream(ctx, ada, control.UpstreamChange{Upstream: added.ID,
		Settings: set(`{"deny":["reset"],"timeout":"20s","headers":null}`)}); err != nil {
		t.Fatal(err)
	}
	u, err := p.Store.Upstreams.ByOwner(ctx, p.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	var kept struct {
		URL     string
		Headers map[string]string
		Timeout string
	}
	if err := p.base.UpstreamSettings(u[0], &kept); err != nil || kept.URL != h.URL+"?key=s3cret-key" ||
		kept.Headers != nil || kept.Timeout != "20s" {
		t.Errorf("%+v, %v", kept, err)
	}
	p.await(t, "one tool is left out", hasNot("haus_reset"))
	p.await(t, "its tools are back", has("haus_set_lamp"))
	// A check with other settings changes nothing.
	if found, err := p.do.CheckUpstream(ctx, ada, control.UpstreamChange{Upstream: added.ID,
		Settings: set(`{"deny":null}`)}); err != nil || len(found.Tools) != 3 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := p.do.RemoveUpstream(ctx, ada, control.UpstreamRef{Upstream: added.ID}); err != nil {
		t.Fatal(err)
	}
	p.await(t, "its tools are gone", hasNot("haus_set_lamp"))
}

func TestUpstreamThatDialsIn(t *testing.T) {
	p := newPeople(t)
	ada, ctx := as(p.Person), t.Context()
	added, err := p.do.AddUpstream(ctx, ada, control.NewUpstream{Name: "robot", Kind: control.KindDialsIn})
	if err != nil || added.Token == "" {
		t.Fatalf("%+v, %v", added, err)
	}
	h := dial(t, p.url+added.Token)
	p.await(t, "its tools are there", has("robot_set_lamp"))
	rotated, err := p.do.RotateUpstream(ctx, ada, control.UpstreamRef{Upstream: added.ID})
	if err != nil || rotated.Token == "" || rotated.Token == added.Token {
		t.Fatalf("%+v, %v", rotated, err)
	}
	<-h.Done() // disconnected, since its token was replaced
	dial(t, p.url+rotated.Token)
	p.await(t, "its tools are back", has("robot_set_lamp"))
	_, err = p.do.CheckUpstream(ctx, ada, control.UpstreamChange{Upstream: added.ID})
	refusal(t, err, problem.Invalid, "connects by itself")
}

// Invalid settings are reported and change nothing.
func TestUpstreamSettingsThatCannotBe(t *testing.T) {
	p, h := newPeople(t), home(t)
	ada, ctx := as(p.Person), t.Context()
	add := func(c control.Caller, name, kind, settings string) error {
		_, err := p.do.AddUpstream(ctx, c, control.NewUpstream{Name: name, Kind: kind, Settings: set(settings),
			Unchecked: true})
		return err
	}
	if err := add(ada, "taken", control.KindServer, `{"url":"`+h.URL+`"}`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, kind, settings string
		want                 problem.Code
		words                string
	}{
		{"Not A Name", control.KindServer, `{"url":"` + h.URL + `"}`, problem.Invalid, "Not A Name"},
		{"taken", control.KindServer, `{"url":"` + h.URL + `"}`, problem.Conflict, "taken already"},
		{"x", "other", `{}`, problem.Invalid, "mcp, endpoint, cloud"},
		{"x", control.KindServer, `{"url":"ftp://x"}`, problem.Invalid, "https://example.com/mcp"},
		{"x", control.KindServer, `{"url":"` + h.URL + `","speed":1}`, problem.Invalid, `"speed"`},
		{"x", control.KindServer, `{"url":"` + h.URL + `","max_tools":"many"}`, problem.Invalid, "max_tools"},
		{"x", control.KindServer, `{"URL":"` + h.URL + `"}`, problem.Invalid, `"URL"`},
		{"x", control.KindCloud, `{"url":"wss://cloud.example/?token=1"}`, problem.Invalid, "allow is missing"},
		{"x", control.KindShim, `{"url":"ws://gateway.example.com"}`, problem.Invalid, "wss://"},
		{"x", control.KindDialsIn, `{"url":"http://a"}`, problem.Invalid, `"url"`},
	} {
		refusal(t, add(ada, c.name, c.kind, c.settings), c.want, c.words)
	}
	rows, err := p.Store.Upstreams.ByOwner(ctx, "")
	if err != nil || len(rows) != 1 {
		t.Errorf("%d are kept, %v", len(rows), err)
	}
}

// Nobody can access another person's upstream, and only administrators can run programs.
func TestUpstreamsOfOthers(t *testing.T) {
	p, h := newPeople(t), home(t)
	ada, bob, ctx := as(p.Person), as(p.bob), t.Context()
	added, err := p.do.AddUpstream(ctx, ada, control.NewUpstream{Name: "haus", Kind: control.KindServer,
		Settings: set(`{"url":"` + h.URL + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ref := control.UpstreamRef{Upstream: added.ID}
	_, err = p.do.ShowUpstream(ctx, bob, control.UpstreamOf{Upstream: ref.Upstream})
	refusal(t, err, problem.NotFound)
	_, err = p.do.ChangeUpstream(ctx, bob, control.UpstreamChange{Upstream: added.ID, Settings: set(`{"deny":["*"]}`)})
	refusal(t, err, problem.NotFound)
	_, err = p.do.CheckUpstream(ctx, bob, control.UpstreamChange{Upstream: added.ID})
	refusal(t, err, problem.NotFound)
	_, err = p.do.RotateUpstream(ctx, bob, ref)
	refusal(t, err, problem.NotFound)
	_, err = p.do.RemoveUpstream(ctx, bob, ref)
	refusal(t, err, problem.NotFound)
	if l, err := p.do.ListUpstreams(ctx, bob, control.UpstreamQuery{}); err != nil || len(l.Upstreams) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, settings := range []string{`{"command":"true"}`, `{"Command":"true"}`} {
		_, err = p.do.AddUpstream(ctx, bob, control.NewUpstream{Name: "x", Kind: control.KindServer,
			Settings: set(settings), Unchecked: true})
		if err == nil {
			t.Errorf("a member runs a program by %s", settings)
		}
	}
	_, err = p.do.CheckNewUpstream(ctx, bob, control.NewUpstream{Name: "x", Kind: control.KindServer,
		Settings: set(`{"command":"true"}`)})
	refusal(t, err, problem.Denied, "administrator")
	// A member's server has to be on the public internet.
	found, err := p.do.CheckNewUpstream(ctx, bob, control.NewUpstream{Name: "x", Kind: control.KindServer,
		Settings: set(`{"url":"` + h.URL + `"}`)})
	if err != nil || found.Problem == "" || found.Cause != "" {
		t.Errorf("a member reaches this machine: %+v, %v", found, err)
	}
	_, err = p.do.AddUpstream(ctx, bob, control.NewUpstream{Name: "x", Kind: control.KindDialsIn, User: p.Person.Name})
	refusal(t, err, problem.Denied)
	_, err = p.do.ListUpstreams(ctx, bob, control.UpstreamQuery{User: p.Person.Name})
	refusal(t, err, problem.Denied)
	// Restricted keys cannot give themselves more rights.
	narrow := ada
	narrow.Key, narrow.Rules = "k", hub.Rules{People: true, Allow: []string{"haus_*"}}.String()
	_, err = p.do.ChangeUpstream(ctx, narrow, control.UpstreamChange{Upstream: added.ID, Settings: set(`{"deny":[]}`)})
	refusal(t, err, problem.Denied, "for some tools")
	_, err = p.do.DecideTool(ctx, narrow, control.ToolDecision{Name: "haus_reset", Rule: hub.RuleAllow})
	refusal(t, err, problem.Denied, "for some tools")
	operator := ada
	operator.Key = "k"
	_, err = p.do.AddUpstream(ctx, operator, control.NewUpstream{Name: "x", Kind: control.KindServer,
		Settings: set(`{"command":"true"}`), Unchecked: true})
	refusal(t, err, problem.Denied, "admin")
}
