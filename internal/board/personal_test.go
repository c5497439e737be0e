package board_test

import (
	"testing"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// What is for people is hidden from programs until somebody allows it: for one key by
// its rules, or for all by name.
func TestToolsForPeople(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	socket, err := r.Board.Plug(board.Outlet{ID: "board:1", Owner: r.Person.ID, Slug: "desk", Kind: "xiaozhi"}, mute{})
	if err != nil {
		t.Fatal(err)
	}
	socket.Offer([]tool.Tool{{Name: "volume"}, {Name: "record", For: "user"}, {Name: "reboot", For: "user", Dangerous: true}})
	shown := func(rules board.Rules) string {
		t.Helper()
		v, err := r.Board.View(r.Person.ID, rules.String())
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, o := range v.Tools {
			names += o.Tool.Name + " "
		}
		return names
	}
	for _, c := range []struct {
		rules board.Rules
		want  string
	}{
		{board.Rules{}, "volume "},
		{board.Rules{Allow: []string{"desk_record"}}, ""},
		{board.Rules{People: true}, "record volume "},
		{board.Rules{Dangerous: []string{"desk_record"}}, "record volume "},
		{board.Rules{People: true, Dangerous: []string{"*"}}, "reboot record volume "},
		{board.Rules{People: true, Deny: []string{"desk_record"}}, "volume "},
	} {
		if got := shown(c.rules); got != c.want {
			t.Errorf("with %q: %s, want %s", c.rules.String(), got, c.want)
		}
	}
	_, err = r.Board.Call(t.Context(), board.Access{Caller: tool.Caller{Person: r.Person.ID, Door: "mcp"}}, "desk_record", &tool.Call{})
	if e := tool.AsError(err); e == nil || e.Code != tool.Denied {
		t.Errorf("a program that calls it nevertheless: %v", err)
	}
	if err := r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID, Tool: "desk_record", Rule: board.RuleAllow}); err != nil {
		t.Fatal(err)
	}
	if err := r.Board.OnTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := shown(board.Rules{}); got != "record volume " {
		t.Errorf("allowed to all: %s", got)
	}
}
