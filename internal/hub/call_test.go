package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// providerFunc is a function as a provider.
type providerFunc func(context.Context, *tool.Call) (*tool.Result, error)

func (f providerFunc) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) { return f(ctx, c) }

func register(t *testing.T, h *hub.Hub, o hub.ProviderRef, p tool.Provider, tools ...tool.Tool) *hub.Registration {
	t.Helper()
	s, err := h.Register(o, p)
	if err != nil {
		t.Fatal(err)
	}
	s.SetTools(tools)
	return s
}

var echoProvider = providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
	return tool.Text(c.Tool),
		nil
})

func access(r *hubtest.Rig, rules string) hub.Access {
	return hub.Access{Caller: tool.Caller{Person: r.Person.ID, Key: "k", Channel: "test"}, Rules: rules}
}

func names(v *hub.View) string {
	var out []string
	for _, t := range v.Tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

// code returns the error code of a call, or "".
func code(err error) tool.Code {
	if e := tool.AsError(err); e != nil {
		return e.Code
	}
	return ""
}

// TestNamesOfTools checks that names are unique, are accepted by models, and identify the tool.
func TestNamesOfTools(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	long := strings.Repeat("x", 80)
	register(t, r.Hub, hub.ProviderRef{ID: "a", Slug: "lamp", Kind: "k"}, echoProvider,
		tool.Tool{Name: "self.light.on"}, tool.Tool{Name: "self_light_on"}, tool.Tool{Name: "亮"}, tool.Tool{Name: long},
		tool.Tool{Name: long + "y"}, tool.Tool{Name: "x"}, tool.Tool{Name: "x"})
	register(t, r.Hub, hub.ProviderRef{ID: "b", Kind: "k"}, echoProvider, tool.Tool{Name: "plain"})
	v, err := r.Hub.View(r.Person.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, o := range v.Tools {
		if len(o.Name) > 64 || strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("name %q", o.Name)
		}
		res, err := r.Hub.Call(t.Context(), access(r, ""), o.Name, &tool.Call{})
		if err != nil || res.PlainText() != o.Tool.Name {
			t.Errorf("%s leads to %v, %v; want %s", o.Name, res, err, o.Tool.Name)
		}
		seen[o.Tool.Name] = o.Name
	}
	if len(seen) != 7 || seen["self_light_on"] != "lamp_self_light_on" || seen["plain"] != "plain" ||
		seen["x"] != "lamp_x" {
		t.Errorf("names: %v", seen)
	}
}

// A device cannot take the name of a tool that everybody has: keys may be allowed that name alone.
func TestOwnNameTaken(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	register(t, r.Hub, hub.ProviderRef{ID: "learn", Kind: "learn"}, echoProvider, tool.Tool{Name: "next_review"})
	register(t, r.Hub, hub.ProviderRef{ID: "board:1", Slug: "next", Owner: r.Person.ID, Kind: "k"}, echoProvider,
		tool.Tool{Name: "review"})
	res, err := r.Hub.Call(t.Context(), access(r, ""), "next_review", &tool.Call{})
	if err != nil || res.PlainText() != "next_review" {
		t.Errorf("next_review leads to %v, %v", res, err)
	}
}

func TestSlugs(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	register(t, r.Hub, hub.ProviderRef{ID: "a", Slug: "lamp", Owner: r.Person.ID}, echoProvider)
	for _, o := range []hub.ProviderRef{
		{ID: "a", Slug: "other"}, {ID: "b", Slug: "lamp", Owner: r.Person.ID}, {ID: "c", Slug: "lamp"},
		{ID: "d", Slug: "La"}, {ID: "e", Slug: "a_b"}, {ID: "f", Slug: "send"},
		{ID: "g", Slug: strings.Repeat("a", 33)},
	} {
		if s, err := r.Hub.Register(o, echoProvider); err == nil {
			t.Errorf("%+v is plugged in", o)
			s.Unregister()
		}
	}
	s := register(t, r.Hub, hub.ProviderRef{ID: "h", Slug: "lamp", Owner: "somebody else"}, echoProvider)
	s.Unregister()
	s.Unregister()
	s.SetTools([]tool.Tool{{Name: "late"}}) // has no effect
}

func TestRules(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	register(t, r.Hub, hub.ProviderRef{ID: "a", Slug: "lamp", Kind: "k"}, echoProvider, tool.Tool{Name: "on"},
		tool.Tool{Name: "off"}, tool.Tool{Name: "reboot", Dangerous: true})
	register(t, r.Hub, hub.ProviderRef{ID: "b", Slug: "foreign", Owner: "somebody else"}, echoProvider,
		tool.Tool{Name: "x"})
	if err := r.Hub.OnToolsChanged(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rules, want string }{
		{``, "lamp_off lamp_on"},
		{`{"allow":["lamp_o*"],"deny":["*_off"]}`, "lamp_on"},
		{`{"dangerous":["lamp_*"]}`, "lamp_off lamp_on lamp_reboot"},
		{`{"allow":["nothing"]}`, ""},
	} {
		v, err := r.Hub.View(r.Person.ID, c.rules)
		if err != nil || names(v) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.rules, names(v), err, c.want)
		}
	}
	for _, bad := range []string{`{"allow":["a b"]}`, `{"per_minute":-1}`, `{"alow":[]}`, `x`} {
		if _, err := r.Hub.View(r.Person.ID, bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	for name, want := range map[string]tool.Code{"lamp_on": "", "lamp_reboot": tool.Denied, "foreign_x": tool.Unknown,
		"none": tool.Unknown} {
		if _, err := r.Hub.Call(t.Context(), access(r, ""), name, &tool.Call{}); code(err) != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := r.Hub.Call(t.Context(), access(r, `{"deny":["lamp_on"]}`),
		"lamp_on", &tool.Call{}); code(err) != tool.Denied {
		t.Errorf("a denied tool: %v", err)
	}

	// Rules of the owner apply to all callers, without a restart.
	changes, unsubscribe := r.Hub.WatchTools()
	defer unsubscribe()
	for tool, rule := range map[string]string{"lamp_reboot": "allow", "lamp_off": "deny"} {
		if err := r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID, Tool: tool, Rule: rule,
			Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(10 * time.Second)
	for {
		if v, _ := r.Hub.View(r.Person.ID, ""); names(v) == "lamp_on lamp_reboot" {
			break
		}
		select {
		case <-changes:
		case <-deadline:
			t.Fatal("the owner's decision has no effect")
		}
	}
}

func TestArguments(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	ran := false
	register(t, r.Hub, hub.ProviderRef{ID: "a", Kind: "k"}, providerFunc(func(_ context.Context,
		c *tool.Call) (*tool.Result, error) {
		ran = true
		return tool.Text(string(c.Args)), nil
	}), tool.Tool{Name: "volume",
		Input: json.RawMessage(`{"type":"object","properties":{"level":{"type":"integer","minimum":0,"maximum":100},"mode":{"enum":["a","b"]}},"required":["level"],"additionalProperties":false}`)},
		tool.Tool{Name: "odd",
			Input: json.RawMessage(`{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}`)})
	for args, want := range map[string]string{
		`{"level":50}`:            "",
		`{}`:                      "missing level",
		``:                        "missing level",
		`{"level":101}`:           "level must be at most 100, not 101",
		`{"level":"x"}`:           "level must be integer, not string",
		`{"level":1,"mode":"c"}`:  `mode must be one of "a", "b"`,
		`{"level":1,"other":"c"}`: "unknown argument other",
		`[1]`:                     "must be a JSON object",
	} {
		ran = false
		_, err := r.Hub.Call(t.Context(), access(r, ""), "volume", &tool.Call{Args: json.RawMessage(args)})
		if want == "" && err != nil || want != "" && (code(err) != tool.BadArgs ||
			!strings.Contains(err.Error(), want) || ran) {
			t.Errorf("%s: %v (carried out: %t), want %q", args, err, ran, want)
		}
	}
	// A schema that refers to a file is ignored; its provider validates the arguments.
	if _, err := r.Hub.Call(t.Context(), access(r, ""), "odd",
		&tool.Call{Args: json.RawMessage(`{"x":1}`)}); err != nil {
		t.Error(err)
	}
}

// TestBadProviders checks that, whatever a provider does, the caller gets a message in bounded
// time, and the call is recorded.
func TestBadProviders(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	register(t, r.Hub, hub.ProviderRef{ID: "a", Kind: "k", Timeout: 50 * time.Millisecond},
		providerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			switch c.Tool {
			case "hangs":
				<-ctx.Done()
				return nil, ctx.Err()
			case "panics":
				panic("oh")
			case "nothing":
				return nil, nil
			case "garbage":
				return &tool.Result{Content: json.RawMessage(`"x"`)}, nil
			case "fails":
				return nil, errors.New("the inner reason")
			case "tool_error":
				return tool.ErrorResult("no light"), nil
			}
			return nil, tool.Fail(tool.Offline, "It is away.", nil)
		}), tool.Tool{Name: "hangs"}, tool.Tool{Name: "panics"}, tool.Tool{Name: "nothing"}, tool.Tool{Name: "garbage"},
		tool.Tool{Name: "fails"}, tool.Tool{Name: "away"}, tool.Tool{Name: "tool_error"})
	wants := map[string]tool.Code{"hangs": tool.TimedOut, "panics": tool.Failed, "nothing": tool.Garbled,
		"garbage": tool.Garbled, "fails": tool.Failed, "away": tool.Offline, "tool_error": ""}
	for name, want := range wants {
		_, err := r.Hub.Call(t.Context(), access(r, ""), name, &tool.Call{})
		if code(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if e := tool.AsError(err); e != nil && strings.Contains(e.Told, "inner reason") {
			t.Errorf("the caller is told the cause: %s", e.Told)
		}
	}
	rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 100)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range wants {
		i := slices.IndexFunc(rows, func(c store.Call) bool { return c.Tool == name })
		if i < 0 || rows[i].Code != string(want) || rows[i].Outcome == "done" || rows[i].Channel != "test" ||
			rows[i].Key != "k" {
			t.Errorf("%s in the trail: %+v", name, rows)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Hub.Call(ctx, access(r, ""), "hangs", &tool.Call{}); code(err) != tool.Cancelled {
		t.Errorf("a cancelled call: %v", err)
	}
}

func TestRate(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	register(t, r.Hub, hub.ProviderRef{ID: "a", Kind: "k"}, echoProvider, tool.Tool{Name: "x"})
	refused := 0
	for range 50 {
		if _, err := r.Hub.Call(t.Context(), access(r, `{"per_minute":20}`),
			"x", &tool.Call{}); code(err) == tool.RateLimited {
			refused++
		}
	}
	if refused < 35 || refused > 40 {
		t.Errorf("%d of 50 calls are refused", refused)
	}
	other := access(r, `{"per_minute":20}`)
	other.Key = "other"
	if _, err := r.Hub.Call(t.Context(), other, "x", &tool.Call{}); err != nil {
		t.Errorf("another key pays for the first: %v", err)
	}
}

// TestAuditOfArguments checks that arguments are recorded only if a setting asks for it.
func TestAuditOfArguments(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	register(t, r.Hub, hub.ProviderRef{ID: "a", Kind: "k"}, echoProvider, tool.Tool{Name: "x"})
	for _, rules := range []string{``, `{"keep_args":true}`} {
		if _, err := r.Hub.Call(t.Context(), access(r, rules),
			"x", &tool.Call{Args: json.RawMessage(`{"secret":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 10)
	if err != nil || len(rows) != 2 || rows[0].Args != `{"secret":1}` || rows[1].Args != "" {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestAuditIsComplete makes many concurrent calls: each is recorded once.
func TestAuditIsComplete(t *testing.T) {
	each := func(t *testing.T, o store.Options, journal string) {
		r := hubtest.New(t, hubtest.Options{DB: o, Hub: hub.Options{Folder: journal}})
		yes := true
		register(t, r.Hub, hub.ProviderRef{ID: "a", Kind: "k"}, echoProvider,
			tool.Tool{Name: "reads", Hints: tool.Hints{ReadOnly: &yes}}, tool.Tool{Name: "writes"})
		const callers, calls = 16, 40
		done := make(chan error, callers)
		for i := range callers {
			go func() {
				var errs []error
				for n := range calls {
					name := []string{"reads", "writes"}[n%2]
					_, err := r.Hub.Call(context.Background(), access(r, ""), name,
						&tool.Call{ID: fmt.Sprintf("%d-%d", i, n)})
					errs = append(errs, err)
				}
				done <- errors.Join(errs...)
			}()
		}
		for range callers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		r.Hub.Close() // writes buffered records
		rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 10_000)
		if err != nil || len(rows) != callers*calls {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
	t.Run("waiting", func(t *testing.T) {
		storetest.Each(t, func(t *testing.T, o store.Options) { each(t, o, "") })
	})
	t.Run("journal", func(t *testing.T) {
		storetest.Each(t, func(t *testing.T, o store.Options) { each(t, o, o.Folder) })
	})
}

// TestAuditComesSoon checks that with a journal the record of a call with effects is in the
// database soon after its response.
func TestAuditComesSoon(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{Folder: t.TempDir()}})
	register(t, r.Hub, hub.ProviderRef{ID: "a", Kind: "k"}, echoProvider, tool.Tool{Name: "x"})
	if _, err := r.Hub.Call(t.Context(), access(r, ""), "x", &tool.Call{}); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	for {
		rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 1 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("the row does not come")
		}
	}
}

// TestHeldElsewhere calls a device of another instance: its list, progress, large results,
// cancellation, and the error when it is lost.
func TestHeldElsewhere(t *testing.T) {
	url := bustest.Cluster(t, 1)
	folder := t.TempDir()
	near := hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url})
	far := hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url})
	began, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
	lamp := providerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		switch c.Tool {
		case "progress":
			c.Progress(tool.Progress{Done: 1, Message: "half"})
			return tool.Text(string(c.Args)), nil
		case "large":
			return tool.Text(strings.Repeat("x", 3<<20)), nil
		case "hangs":
			began <- struct{}{}
			<-ctx.Done()
			stopped <- struct{}{}
			return nil, ctx.Err()
		}
		return nil, &tool.Error{Code: tool.Refused, Told: "no", RPC: -5}
	})
	tools := []tool.Tool{{Name: "progress"}, {Name: "large"}, {Name: "hangs"}, {Name: "no"}}
	for i := range 1500 { // more than fits into one message
		tools = append(tools, tool.Tool{Name: fmt.Sprintf("t%d", i), Description: strings.Repeat("d", 500)})
	}
	changes, unsubscribe := near.Hub.WatchTools()
	defer unsubscribe()
	registration := register(t, far.Hub, hub.ProviderRef{ID: "lamp", Slug: "lamp", Kind: "k", Held: true}, lamp,
		tools...)
	await := func(n int) {
		t.Helper()
		deadline := time.After(15 * time.Second)
		for {
			v, err := near.Hub.View(near.Person.ID, "")
			if err == nil && len(v.Tools) == n {
				return
			}
			select {
			case <-changes:
			case <-deadline:
				t.Fatalf("%d tools are seen from afar, want %d", len(v.Tools), n)
			}
		}
	}
	await(len(tools))

	var heard []string
	res, err := near.Hub.Call(t.Context(), access(near, ""),
		"lamp_progress", &tool.Call{Args: json.RawMessage(`{"a":1}`),
			Progress: func(p tool.Progress) { heard = append(heard, p.Message) }})
	if err != nil || res.PlainText() != `{"a":1}` || len(heard) != 1 || heard[0] != "half" {
		t.Errorf("%v, %v, heard %q", res, err, heard)
	}
	if res, err = near.Hub.Call(t.Context(), access(near, ""), "lamp_large", &tool.Call{}); err != nil ||
		len(res.PlainText()) != 3<<20 {
		t.Errorf("a large result: %v", err)
	}
	if _, err = near.Hub.Call(t.Context(), access(near, ""), "lamp_no", &tool.Call{}); tool.AsError(err) == nil ||
		tool.AsError(err).RPC != -5 {
		t.Errorf("a refusal: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if _, err = near.Hub.Call(ctx, access(near, ""), "lamp_hangs", &tool.Call{}); code(err) != tool.Cancelled {
		t.Errorf("a cancelled call: %v", err)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Error("the far side was not told to stop")
	}

	registration.SetTools(tools[:3])
	await(3)
	registration.Unregister()
	await(0)
}
