//go:build openclaw

package main

import (
	"strings"
	"testing"

	"patchbay/internal/plug/openclaw/openclawtest"
)

// The simulated node joins a real gateway, and says what has to be run there.
func TestSimulateNodeAtRealGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	g := openclawtest.Gateway(t, openclawtest.Options{Manual: true})
	d := newDesk(t)
	n := d.node("--server", g.URL, "--key", g.Token, "--name", "Kitchen", "--tools")
	g.CLI(t, "devices", "approve", n.out.await(t, `waits to be let in: .* / openclaw devices approve ([\w-]+)\n`))
	g.CLI(t, "nodes", "approve", n.out.await(t, `to be approved: .* / openclaw nodes approve ([\w-]+)\n`))
	n.out.await(t, `its tools are taken: 2;`)
	out := g.CLI(t, "nodes", "invoke", "--node", "Kitchen", "--command", "system.which", "--params", `{"bins":["git"]}`, "--json")
	if !strings.Contains(string(out), "/usr/bin/git") {
		t.Errorf("the gateway says %s", out)
	}
	n.out.await(t, `is called: system.which`)
	n.stop()
	if code := <-n.ended; code != exitOK {
		t.Errorf("it ended with %d: %s", code, n.errs.String())
	}
	// It is known again.
	n = d.node("--server", g.URL, "--name", "Kitchen", "--tools")
	n.out.await(t, `its tools are taken: 2;`)
	if strings.Contains(n.out.String(), "waits") {
		t.Errorf("the second time it was\n%s", n.out.String())
	}
}
