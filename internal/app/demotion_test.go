package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/mcp/upstream"
)

// A demoted administrator's commands and their child processes end shortly after the demotion, even
// if they ignore signals.
func TestDemotionEndsCommands(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("processes are looked for in /proc")
	}
	p := newPeople(t)
	ctx := t.Context()
	if err := p.Accounts.SetRole(ctx, p.bob.ID, account.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	bob, err := p.Store.People.ByID(ctx, p.bob.ID)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "processes")
	script := `trap "" TERM; (trap "" TERM; sleep 600) & echo $$ $! > "$0.new"; mv "$0.new" "$0"; while true; do sleep 600; done`
	if _, _, err := p.base.AddUpstream(ctx, bob, "stubborn", UpstreamMCP,
		&upstream.Settings{Command: "sh", Args: []string{"-c", script, file}}); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	eventually := func(what string, is func() bool) {
		t.Helper()
		for limit := time.After(30 * time.Second); !is(); {
			select {
			case <-tick.C:
			case <-limit:
				t.Fatal(what)
			}
		}
	}
	var pids [2]int
	eventually("the command was not started", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(text), &pids[0], &pids[1])
		return err == nil
	})
	if err := p.Accounts.SetRole(ctx, bob.ID, account.RoleMember); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, pid := range pids {
		eventually(fmt.Sprintf("process %d is there still", pid), func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(text), ") Z ")
		})
	}
	t.Logf("ended after %v", time.Since(began)) // 1.5 s at most on an idle machine
}
