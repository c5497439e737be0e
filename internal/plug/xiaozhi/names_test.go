package xiaozhi_test

import (
	"fmt"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/tool"
)

// The tools of every board have unique names and reach that board, even if board names are equal
// apart from characters that tool names cannot have, or equal a default slug.
func TestBoardsOfOneName(t *testing.T) {
	h := newTestServer(t, testServerOptions{})
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
			_, _, tools := h.Hub.FindProvider(xiaozhi.ProviderID(number))
			for _, o := range tools {
				if seen[o.Name] {
					t.Errorf("two tools are called %s", o.Name)
				}
				seen[o.Name] = true
				if o.Tool.Name != xiaozhi.ToolStatus {
					continue
				}
				access := hub.Access{Caller: tool.Caller{Person: h.Person.ID, Channel: "mcp"}}
				if _, err := h.Hub.Call(ctx, access, o.Name, &tool.Call{}); err != nil {
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
	// In the other order: all have names, and are renamed to the names of others.
	must(t, h.Accounts.RenameDevice(ctx, numbers[3], "Hall"))
	must(t, h.boards.Refresh(ctx))
	must(t, h.Accounts.RenameDevice(ctx, numbers[3], fmt.Sprintf("board-%d", numbers[2])))
	must(t, h.Accounts.RenameDevice(ctx, numbers[2], "书房"))
	must(t, h.boards.Refresh(ctx))
	check()
}
