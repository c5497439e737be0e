package xiaozhi_test

import (
	"fmt"
	"testing"

	"patchbay/internal/board"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/tool"
)

// The tools of every board are offered under names of their own, and reach that board,
// whatever the boards are called: the same but for letters that names of tools do not have,
// or like the name that a board without a usable one is given.
func TestBoardsOfOneName(t *testing.T) {
	h := newHouse(t, houseOptions{})
	var numbers []int64
	for i := range 4 {
		numbers = append(numbers, h.approved(fmt.Sprintf("02:00:00:00:09:%02d", i)).Number)
	}
	for i, name := range []string{fmt.Sprintf("Board %d", numbers[1]), "客厅", "Desk", "desk!"} {
		must(t, h.Accounts.RenameDevice(ctx, numbers[i], name))
	}
	check := func() {
		t.Helper()
		seen := map[string]bool{}
		for _, number := range numbers {
			_, _, tools := h.Board.Plugged(xiaozhi.OutletOf(number))
			for _, o := range tools {
				if seen[o.Name] {
					t.Errorf("two tools are called %s", o.Name)
				}
				seen[o.Name] = true
				if o.Tool.Name != xiaozhi.ToolStatus {
					continue
				}
				access := board.Access{Caller: tool.Caller{Person: h.Person.ID, Door: "mcp"}}
				if _, err := h.Board.Call(ctx, access, o.Name, &tool.Call{}); err != nil {
					t.Errorf("%s: %v", o.Name, err)
				}
			}
			if len(tools) == 0 {
				t.Errorf("device %d offers no tools", number)
			}
		}
	}
	must(t, h.boards.Refresh(ctx))
	check()
	// In the other order of events: all have names, and take those of others.
	must(t, h.Accounts.RenameDevice(ctx, numbers[3], "Hall"))
	must(t, h.boards.Refresh(ctx))
	must(t, h.Accounts.RenameDevice(ctx, numbers[3], fmt.Sprintf("board-%d", numbers[2])))
	must(t, h.Accounts.RenameDevice(ctx, numbers[2], "书房"))
	must(t, h.boards.Refresh(ctx))
	check()
}
