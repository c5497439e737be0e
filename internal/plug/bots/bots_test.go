package bots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

type rig struct {
	*hubtest.Rig
	p *Provider
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Rig: hubtest.New(t, hubtest.Options{Shared: []func() any{func() any { return new(Settings) }}})}
	r.p = New(Options{Hub: r.Hub,
		Sessions: func(store.Bot) int { return 2 }})
	t.Cleanup(r.p.Close)
	return r
}

// script adds a bot whose answers come from f.
func (r *rig) script(t *testing.T, set map[string]string, f hubtest.Func) { r.AddScript(t, set, f) }

// who is a key that reads everything of its owner.
func (r *rig) who() tool.Caller {
	return tool.Caller{Person: r.Person.ID, Key: "k", Channel: "mcp", Lang: "en", KeyRules: `{"reads":"all"}`}
}

func (r *rig) call(t *testing.T, who tool.Caller, name, args string,
	progress func(tool.Progress)) (*tool.Result, error) {
	t.Helper()
	return r.p.Call(t.Context(), &tool.Call{Tool: name, Args: json.RawMessage(args), Caller: who, Progress: progress})
}

var ping = hubtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
	if err := emit(talk.Note("thinking")); err != nil {
		return err
	}
	for _, word := range []string{"you ", "said ", turn.Text()} {
		if err := emit(talk.Text(word)); err != nil {
			return err
		}
	}
	return nil
})

func TestSendMessage(t *testing.T) {
	r := newRig(t)
	r.script(t, nil, ping)
	var heard []tool.Progress
	res, err := r.call(t, r.who(), toolSend, `{"botId":"1","message":"hi"}`,
		func(p tool.Progress) { heard = append(heard, p) })
	if err != nil || res.PlainText() != "you said hi" {
		t.Fatalf("%v, %v", res, err)
	}
	var told SendResult
	if err := json.Unmarshal(res.Structured, &told); err != nil || told.Status != "answered" || told.BotID != 1 ||
		told.Reply != "you said hi" || told.Turn == "" {
		t.Errorf("it tells %s", res.Structured)
	}
	last := 0.0
	for _, p := range heard {
		if p.Done <= last {
			t.Errorf("progress does not grow: %v", heard)
		}
		last = p.Done
	}
	if len(heard) < 2 || heard[0].Message != "thinking" {
		t.Errorf("progress: %v", heard)
	}
	if list, err := r.Store.Conversations.Last(t.Context(), 1, "mcp:key:k", "", 10); err != nil || len(list) != 1 {
		t.Errorf("the conversation has %v, %v", list, err)
	}

	// With wait=false, the answer is stored in the conversation.
	res, err = r.call(t, r.who(), toolSend, `{"botId":"1","message":"later","wait":false,"conversation":"c"}`, nil)
	if err != nil || !strings.Contains(string(res.Structured), `"status":"sent"`) ||
		strings.Contains(string(res.Structured), "reply") {
		t.Errorf("%s, %v", res.Structured, err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		list, err := r.Store.Conversations.Last(t.Context(), 1, "mcp:key:k", "c", 10)
		if err == nil && len(list) == 1 && list[0].Answer == "you said later" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("what nobody waited for is not kept: %v, %v", list, err)
		}
	}
}

func TestSendMessageFails(t *testing.T) {
	r := newRig(t)
	r.script(t, nil, func(context.Context, *talk.Turn, talk.Emit) error {
		return talk.Fail(talk.BotFailed, "no power", errors.New("the inner reason"))
	})
	r.script(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		for {
			if err := emit(talk.Text(strings.Repeat("x", 1<<16))); err != nil {
				return err
			}
		}
	})
	res, err := r.call(t, r.who(), toolSend, `{"botId":"1","message":"hi"}`, nil)
	if err != nil || !res.IsError || !strings.Contains(res.PlainText(), "no power") ||
		strings.Contains(res.PlainText(), "inner") {
		t.Errorf("%v, %v", res, err)
	}
	if res, err = r.call(t, r.who(), toolSend, `{"botId":"2","message":"hi"}`, nil); err != nil || !res.IsError {
		t.Errorf("a bot that never ends: %v", err)
	}
	self := r.who()
	self.Bot = 1
	for _, c := range []struct {
		who  tool.Caller
		args string
		want tool.Code
	}{
		{r.who(), `{"botId":"9","message":"hi"}`, tool.BadArgs},
		{r.who(), `{"botId":"1","message":" "}`, tool.BadArgs},
		{self, `{"botId":"1","message":"hi"}`, tool.Denied},
	} {
		if _, err := r.call(t, c.who, toolSend, c.args, nil); tool.AsError(err) == nil ||
			tool.AsError(err).Code != c.want {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
}

// TestWhoReachesWhom checks that the bots that a caller reaches depend on its key and on each bot's
// MCPOpen setting.
func TestWhoReachesWhom(t *testing.T) {
	r := newRig(t)
	r.script(t, map[string]string{"mcp_open": "true"}, ping)
	r.script(t, map[string]string{"mcp_open": "true", "rokid_device_id": "AR-1"}, ping)
	r.script(t, nil, ping)
	other, err := r.Accounts.AddPerson(t.Context(), "eve", account.RoleMember, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	open := tool.Caller{Anonymous: true, Channel: "rokid-mcp"}
	device := open
	device.Device = "AR-1"
	only := r.who()
	only.OnlyBot = 3
	eve := r.who()
	eve.Person = other.ID
	for _, c := range []struct {
		name string
		who  tool.Caller
		args string
		want tool.Code
	}{
		{"anybody, an open bot", open, `{"botId":"1"}`, ""},
		{"anybody, by name", open, `{"botId":"script1"}`, tool.BadArgs},
		{"anybody, a bot of one device", open, `{"botId":"2"}`, tool.Denied},
		{"the device", device, `{"botId":"2"}`, ""},
		{"another device by argument", device, `{"botId":"2","deviceId":"AR-2"}`, tool.Denied},
		{"the device by argument", open, `{"botId":"2","deviceId":"AR-1"}`, ""},
		{"anybody, a closed bot", open, `{"botId":"3"}`, tool.BadArgs},
		{"the owner", r.who(), `{"botId":"3"}`, ""},
		{"the owner, at the standard endpoint", r.who(), `{"botId":"2"}`, ""},
		{"a key for one bot", only, `{"botId":"3"}`, ""},
		{"a key for another bot", only, `{"botId":"1"}`, tool.BadArgs},
		{"somebody else", eve, `{"botId":"1"}`, tool.BadArgs},
	} {
		_, err := r.call(t, c.who, toolInfo, c.args, nil)
		got := tool.Code("")
		if e := tool.AsError(err); e != nil {
			got = e.Code
		}
		if got != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		who  tool.Caller
		want int
	}{"owner": {r.who(), 3}, "one bot": {only, 1}, "anybody": {open, 0}, "eve": {eve, 0}} {
		res, err := r.call(t, c.who, toolList, `{}`, nil)
		var told struct{ Bots []Info }
		if err != nil || json.Unmarshal(res.Structured, &told) != nil || len(told.Bots) != c.want {
			t.Errorf("%s sees %+v, %v; want %d", name, told, err, c.want)
		}
	}
	res, err := r.call(t, r.who(), toolInfo, `{"botId":"1"}`, nil)
	var info Info
	if err != nil || json.Unmarshal(res.Structured, &info) != nil || !info.Online || info.Status != "active" ||
		info.Sessions != 2 || info.LastSeen.IsZero() {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestLibrary checks that a caller sees only its own account's resources, one page at a time.
func TestLibrary(t *testing.T) {
	r := newRig(t)
	r.script(t, nil, ping)
	for i := range pageSize + 3 {
		e := store.Exchange{Turn: "t" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Bot: 1,
			Person: "p", Conversation: strings.Repeat("c", i+1), At: time.Now().Add(-time.Duration(i) * time.Minute),
			Question: "q?", Answer: "a!"}
		if err := r.Store.Conversations.Save(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	var uris []string
	for cursor, pages := "", 0; ; pages++ {
		list, next, err := r.p.Resources(t.Context(), r.who(), cursor)
		if err != nil || pages > 3 {
			t.Fatal(err, pages)
		}
		for _, x := range list {
			uris = append(uris, x.URI)
		}
		if cursor = next; next == "" {
			break
		}
	}
	if len(uris) != pageSize+3+2 {
		t.Errorf("%d resources", len(uris))
	}
	for _, uri := range []string{uris[2], uris[len(uris)-1]} {
		got, err := r.p.Read(t.Context(), r.who(), uri)
		if err != nil || !strings.Contains(*got[0].Text, "q?") || !strings.Contains(*got[0].Text, "a!") {
			t.Errorf("%s: %v, %v", uri, got, err)
		}
	}
	if _, err := r.call(t, r.who(), toolSend, `{"botId":"1","message":"hi"}`, nil); err != nil {
		t.Fatal(err)
	}
	traces, err := r.p.Read(t.Context(), r.who(), uriTraces)
	var list []store.Trace
	if err != nil || json.Unmarshal([]byte(*traces[0].Text), &list) != nil || len(list) != 1 {
		t.Fatalf("%v, %v", traces, err)
	}
	if one, err := r.p.Read(t.Context(), r.who(), uriTraces+"/"+list[0].Turn); err != nil ||
		!strings.Contains(*one[0].Text, list[0].Turn) {
		t.Errorf("one trace: %v, %v", one, err)
	}
	eve, only, nobody := r.who(), r.who(), tool.Caller{Anonymous: true}
	eve.Person, only.OnlyBot = "somebody else", 2
	for _, who := range []tool.Caller{eve, only, nobody} {
		for _, uri := range []string{uris[2], uriTraces + "/" + list[0].Turn} {
			if got, err := r.p.Read(t.Context(), who, uri); !errors.Is(err, tool.ErrNotFound) {
				t.Errorf("%+v reads %s: %v, %v", who, uri, got, err)
			}
		}
	}
	for _, uri := range []string{"patchbay://what", "patchbay://conversations/1/p", "patchbay://conversations/x/-/-",
		"patchbay://conversations/1/!/-", "patchbay://traces/none"} {
		if _, err := r.p.Read(t.Context(), r.who(), uri); !errors.Is(err, tool.ErrNotFound) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// A key reads what it did itself, unless its rules say something else.
func TestReads(t *testing.T) {
	r := newRig(t)
	r.script(t, nil, ping)
	r.script(t, nil, ping)
	as := func(key, reads string) tool.Caller {
		return tool.Caller{Person: r.Person.ID, Key: key, Channel: "mcp", Lang: "en", KeyRules: `{"reads":"` + reads + `"}`}
	}
	for _, key := range []string{"a", "b"} {
		for bot := 1; bot <= 2; bot++ {
			message := fmt.Sprintf(`{"botId":"%d","message":"of %s to %d"}`, bot, key, bot)
			if _, err := r.call(t, as(key, ""), toolSend, message, nil); err != nil {
				t.Fatal(err)
			}
			c := store.Call{ID: fmt.Sprintf("%s%d", key, bot), At: time.Now(), Person: r.Person.ID, Key: key, Tool: toolSend}
			if err := r.Store.Calls.Add(t.Context(), []store.Call{c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, _, err := r.p.Resources(t.Context(), as("a", "all"), "")
	if err != nil || len(all) != 6 {
		t.Fatalf("%+v, %v", all, err)
	}
	only := as("a", "")
	only.OnlyBot = 2
	for _, c := range []struct {
		name                         string
		who                          tool.Caller
		conversations, traces, calls int
	}{
		{"all", as("a", "all"), 4, 4, 4}, {"own", as("a", "own"), 2, 2, 2}, {"by default", as("b", ""), 2, 2, 2},
		{"a stranger", as("c", ""), 0, 0, 0}, {"none", as("a", "none"), 0, -1, -1}, {"bots", as("a", "2, 9"), 3, 3, 2},
		{"a bot, as a stranger", as("c", "1"), 2, 2, 0}, {"for one bot", only, 1, -1, -1},
	} {
		readable := 0
		for _, x := range all {
			if !strings.HasPrefix(x.URI, uriConversation) {
				continue
			}
			switch got, err := r.p.Read(t.Context(), c.who, x.URI); {
			case err == nil && len(got) == 1:
				readable++
			case !errors.Is(err, tool.ErrNotFound):
				t.Errorf("%s: %v", c.name, err)
			}
		}
		list, _, err := r.p.Resources(t.Context(), c.who, "")
		if err != nil {
			t.Fatal(err)
		}
		list = slices.DeleteFunc(list, func(x tool.Resource) bool { return !strings.HasPrefix(x.URI, uriConversation) })
		if len(list) != c.conversations || readable != c.conversations {
			t.Errorf("%s: %d conversations are listed, %d can be read, want %d", c.name, len(list), readable, c.conversations)
		}
		for uri, want := range map[string]int{uriTraces: c.traces, uriCalls: c.calls} {
			got, err := r.p.Read(t.Context(), c.who, uri)
			if want < 0 {
				if !errors.Is(err, tool.ErrNotFound) {
					t.Errorf("%s reads %s: %v", c.name, uri, err)
				}
				continue
			}
			var entries []struct{ Turn string }
			if err != nil || json.Unmarshal([]byte(*got[0].Text), &entries) != nil || len(entries) != want {
				t.Errorf("%s: %s has %d entries, want %d, %v", c.name, uri, len(entries), want, err)
			}
			for _, e := range entries {
				if _, err := r.p.Read(t.Context(), c.who, uriTraces+"/"+e.Turn); uri == uriTraces && err != nil {
					t.Errorf("%s: %s: %v", c.name, e.Turn, err)
				}
			}
		}
	}
}

func TestPrompts(t *testing.T) {
	r := newRig(t)
	r.script(t, nil, func(context.Context, *talk.Turn, talk.Emit) error {
		return talk.Fail(talk.BotFailed, "", errors.New("the lamp is broken"))
	})
	if _, err := r.call(t, r.who(), toolSend, `{"botId":"1","message":"hi"}`, nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ args, want string }{
		"ask_bot":          {`{"bot":"1","question":"why?"}`, "why?"},
		"explain_failures": {`{}`, "the lamp is broken"},
	} {
		w, err := r.p.Prompt(t.Context(), &tool.Call{Tool: name, Args: json.RawMessage(c.args), Caller: r.who()})
		if err != nil || len(w.Messages) != 1 || !strings.Contains(string(w.Messages[0].Content), c.want) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	if _, err := r.p.Prompt(t.Context(), &tool.Call{Tool: "ask_bot", Args: json.RawMessage(`{}`),
		Caller: r.who()}); tool.AsError(err).Code != tool.BadArgs {
		t.Errorf("without arguments: %v", err)
	}
	bots, err := r.p.allowedBots(t.Context(), r.who())
	if err != nil || len(bots) != 1 {
		t.Fatal(bots, err)
	}
	if got, err := r.p.Complete(t.Context(), r.who(), "ask_bot",
		"bot", strings.ToUpper(bots[0].Name[:1])); err != nil || len(got) != 1 || got[0] != bots[0].Name {
		t.Errorf("completion: %v, %v", got, err)
	}
}
