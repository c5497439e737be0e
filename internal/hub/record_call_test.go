package hub_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// TestRecordCall checks that an action beside the tools is recorded like a call, with arguments
// only if a setting asks for it.
func TestRecordCall(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	provider := hub.ProviderRef{ID: "notes", Kind: "notes"}
	who := hub.Access{Caller: tool.Caller{Person: r.Person.ID, Key: "k", Channel: "api", Program: "script"}}
	keeps := who
	keeps.Rules = `{"keep_args":true}`
	broken := who
	broken.Rules = `nonsense`
	began := time.Now().Add(-time.Second)
	args := json.RawMessage(`{"secret":1}`)
	r.Hub.RecordCall(who, provider, "a", args, nil, nil, began)
	r.Hub.RecordCall(keeps, provider, "b", args, tool.ErrorResult("not there"), nil, began)
	r.Hub.RecordCall(broken, provider, "c", args, nil, tool.Fail(tool.BadArgs, "no", errors.New("why")), began)
	r.Hub.WaitForCallRecords(t.Context())
	list, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Hour), 10)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	got := map[string]store.Call{}
	for _, c := range list {
		if c.Provider != "notes" || c.Channel != "api" || c.Key != "k" || c.Program != "script" ||
			c.Took < time.Second || c.Instance == "" || c.ID == "" {
			t.Errorf("%+v", c)
		}
		got[c.Tool] = c
	}
	if c := got["a"]; c.Outcome != "done" || c.Args != "" {
		t.Errorf("%+v", c)
	}
	if c := got["b"]; c.Outcome != "tool_error" || c.Cause != "not there" || c.Args != string(args) {
		t.Errorf("%+v", c)
	}
	if c := got["c"]; c.Outcome != "failed" || c.Code != "bad_arguments" || c.Args != "" {
		t.Errorf("%+v", c)
	}
}

// TestAuthorizeTool checks that the rules and the rate limit of calls apply to actions beside the
// tools.
func TestAuthorizeTool(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	registration, err := r.Hub.Register(hub.ProviderRef{ID: "notes", Kind: "notes"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	registration.SetTools([]tool.Tool{{Name: "write"}, {Name: "erase"}})
	code := func(key, rules, name string) tool.Code {
		err := r.Hub.AuthorizeTool(hub.Access{Rules: rules, Caller: tool.Caller{Person: r.Person.ID, Key: key,
			Channel: "api"}}, name)
		if err == nil {
			return ""
		}
		return tool.AsError(err).Code
	}
	for _, c := range []struct {
		rules, name string
		want        tool.Code
	}{{"", "write", ""}, {`{"deny":["er*"]}`, "write", ""}, {`{"deny":["er*"]}`,
		"erase", tool.Denied}, {`{"allow":["erase"]}`, "write", tool.Denied}, {"", "read", tool.Unknown},
		{"nonsense", "write", tool.Failed}} {
		if got := code("k", c.rules, c.name); got != c.want {
			t.Errorf("%s with %q: %q, want %q", c.name, c.rules, got, c.want)
		}
	}
	for n := 0; code("slow", `{"per_minute":1}`, "write") != tool.RateLimited; n++ {
		if n > 20 {
			t.Fatal("nothing is too often")
		}
	}
	for range 20 { // what is part of a counted action
		err := r.Hub.PermitTool(hub.Access{Rules: `{"per_minute":1,"deny":["er*"]}`, Caller: tool.Caller{
			Person: r.Person.ID, Key: "slow", Channel: "api"}}, "write")
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Hub.PermitTool(hub.Access{Rules: `{"deny":["er*"]}`, Caller: tool.Caller{Person: r.Person.ID}},
		"erase"); err == nil {
		t.Error("rules are not checked")
	}
}
