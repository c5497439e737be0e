package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// usesTools has the bot of a story use tools.
func usesTools(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
	if err := emit(talk.Text("Let me see. ")); err != nil {
		return err
	}
	use := talk.ToolUse{ID: "call-1", Name: "light_on", Args: json.RawMessage(`{"room":"hall"}`)}
	turn.UsesTool(use)
	use.Ended, use.Result = true, "it is on"
	turn.UsesTool(use)
	use = talk.ToolUse{ID: "call-2", Name: "light_off", Args: json.RawMessage(`["` + strings.Repeat("x", 10<<10) + `"]`)}
	turn.UsesTool(use)
	use.Ended, use.Failed, use.Result = true, true, "no such room"
	turn.UsesTool(use)
	return emit(talk.Text("Done."))
}

// toolEvents are the parts of events about tools that the tests look at.
type toolEvents struct {
	RunID, Stream string
	Data          struct {
		Phase, Name, ToolCallID string
		Args                    json.RawMessage
		IsError                 bool
		Result                  struct{ Content []struct{ Text string } }
	}
}

// Programs that show tools hear of each that a bot uses, whoever of the person has asked; those
// that follow the list of conversations hear of them by another event.
func TestToolEvents(t *testing.T) {
	r := newRig(t, nil)
	r.AddScript(t, nil, usesTools)
	shows := sim.Operator(r.token, allScopes...)
	shows.Caps = []string{wire.CapToolEvents}
	asker, err := r.dial(shows, nil)
	must(t, err)
	second, err := r.dial(shows, nil)
	must(t, err)
	lists, plain := r.operator(r.token), r.operator(r.token)
	shows.Auth = &wire.Auth{Token: r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator},
		Rules: `{"allow":["board-*"]}`})}
	narrow, err := r.dial(shows, nil)
	must(t, err)
	call[m](narrow, wire.MethodSessionsSubscribe, m{})
	call[m](lists, wire.MethodSessionsSubscribe, m{})
	call[wire.Run](asker, wire.MethodChatSend, m{"sessionKey": "main", "message": "light", "idempotencyKey": "r"})
	for o, event := range map[*operator]string{asker: wire.EventAgent, second: wire.EventAgent,
		lists: wire.EventSessionTool} {
		var got []toolEvents
		for len(got) < 4 {
			e := decoded[toolEvents](t, o.await(event, nil))
			if event != wire.EventAgent || e.Stream == wire.StreamTool {
				got = append(got, e)
			}
		}
		first, failed := got[0].Data, got[3].Data
		if got[0].RunID != "r" || first.Phase != "start" || first.Name != "light_on" || first.ToolCallID != "call-1" ||
			string(first.Args) != `{"room":"hall"}` || got[1].Data.Phase != "result" || got[1].Data.IsError ||
			got[1].Data.Result.Content[0].Text != "it is on" {
			t.Errorf("%+v", got)
		}
		if got[2].Data.Args != nil || !failed.IsError || failed.ToolCallID != "call-2" {
			t.Errorf("%+v", got[2:])
		}
	}
	for _, o := range []*operator{plain, narrow} { // without the capability; with a key that has rules
		call[m](o, wire.MethodHealth, m{}) // what was sent before it has arrived
		o.mu.Lock()
		for _, f := range o.events {
			if f.Event == wire.EventSessionTool || strings.Contains(string(f.Payload), `"stream":"tool"`) {
				t.Errorf("%s was heard", f.Payload)
			}
		}
		o.mu.Unlock()
	}
}

// A conversation keeps how much is shown of tools.
func TestVerbose(t *testing.T) {
	r := newRig(t, nil)
	r.echoes(nil)
	op := r.operator(r.token)
	op.ask("main", "hi", "1")
	type info struct {
		Entry, SessionInfo struct{ VerboseLevel string }
		VerboseLevel       string
	}
	for _, level := range []any{"full", "off", nil} {
		want, _ := level.(string)
		if got := call[info](op, wire.MethodSessionPatch, m{"key": "main", "verboseLevel": level}); got.Entry.
			VerboseLevel != want {
			t.Errorf("%v: %+v", level, got)
		}
		if got := call[info](op, wire.MethodChatHistory, m{"sessionKey": "main"}); got.VerboseLevel != want ||
			got.SessionInfo.VerboseLevel != want {
			t.Errorf("%v: %+v", level, got)
		}
	}
	if e := op.refused(wire.MethodSessionPatch, m{"key": "main", "verboseLevel": "loud"}); !strings.Contains(e.Message,
		"verboseLevel") {
		t.Error(e)
	}
}
