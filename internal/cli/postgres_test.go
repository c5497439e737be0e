package cli

import (
	"strings"
	"testing"

	"patchbay/internal/check"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if !playPeer() {
		storetest.Main(m)
	}
}

// TestCommandsOnPostgreSQL goes once through everything that touches the
// database, with its address in the environment and as a flag.
func TestCommandsOnPostgreSQL(t *testing.T) {
	address := storetest.Postgres(t).URL
	d := blankDesk(t)
	d.ok("user", "add", "ada", "--database-url", address)
	d.env = append(d.env, "PATCHBAY_DATABASE_URL="+address)
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	d.ok("key", "add", "--name", "glasses", "--scope", "lingzhu")
	var inv invitation
	d.json(&inv, "bind", "parrot")
	if got := d.ok("ask", "parrot", "hello", "--conversation", "c"); got != "hello\n" {
		t.Errorf("answered %q", got)
	}
	d.ok("key", "rules", "glasses", "--deny-tool", "x")
	d.ok("upstream", "add", "lamp", "--url", servePeer(t, ""))
	d.ok("tool", "deny", "lamp_set")
	d.serve()
	d.awaitTool("lamp_set")
	d.ok("upstream", "set", "lamp", "timeout=5s")
	d.failing(exitFailed, "", []string{"tool", "call", "lamp_set"}, "denied")
	d.until("the record", func() bool { return strings.Contains(d.ok("calls", "--failed"), "lamp_set") })
	d.ok("tool", "reset", "lamp_set")
	if got := d.ok("ask", "parrot", "hello again"); got != "hello again\n" {
		t.Errorf("answered %q", got)
	}
	var view botView
	d.json(&view, "bot", "show", "parrot")
	if len(view.Traces) != 2 || view.Online == nil {
		t.Errorf("the bot is %+v", view)
	}
	want(t, d.examine(exitOK), "database", check.OK, "postgres")
	d.failing(exitFailed, "", []string{"serve", "--demo"}, "--demo keeps its data in a folder of its own")
	wrong := strings.Replace(address, "patchbay_", "nothing_", 1)
	d.failing(exitFailed, "", []string{"user", "list", "--database-url", wrong}, "does not exist")
}
