//go:build openclaw

package gateway_test

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// OpenClaw's own node host and command line use our gateway, which restarts in
// between.
func TestRealOpenClaw(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	openclawtest.LoadSchema(t) // skips without
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	url := "ws://" + l.Addr().String()
	var serving atomic.Pointer[gateway.Gateway]
	serving.Store(r.g)
	front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { serving.Load().ServeHTTP(w, req) }), ReadHeaderTimeout: time.Minute}
	go front.Serve(l)
	t.Cleanup(func() { front.Close() })
	cli := func(args ...string) []byte {
		t.Helper()
		began := time.Now()
		out := openclawtest.CLI(t, url, r.token, args...)
		t.Logf("openclaw %s took %v", strings.Join(args, " "), time.Since(began).Round(time.Millisecond))
		return out
	}
	socket, err := r.Board.Plug(board.Outlet{ID: "upstream:7", Owner: r.Person.ID, Slug: "lamp", Kind: "upstream", Title: "Lamp"}, &lampTool{})
	must(t, err)
	socket.Offer([]tool.Tool{{Name: "self.lamp.set", Description: "Sets it", Input: json.RawMessage(`{"type":"object"}`)}})

	n := openclawtest.NodeHost(t, port, r.token, openclawtest.HostOptions{Name: "Hall"})
	must(t, slowly(t, func() bool { return r.g.Status().Nodes == 1 }))
	listed := decoded[wire.NodePairs](t, cli("nodes", "list", "--json"))
	if len(listed.Pending) != 1 || listed.Pending[0].DisplayName != "Hall" {
		t.Fatalf("%+v", listed)
	}
	id := listed.Pending[0].NodeID
	cli("nodes", "approve", listed.Pending[0].RequestID)
	out := cli("nodes", "invoke", "--node", "Hall", "--command", "system.which", "--params", `{"bins":["sh"]}`, "--json")
	if !strings.Contains(string(out), "/sh") {
		t.Errorf("%s", out)
	}
	if got := callAs(r, "node-hall-"+id[:6]+"_system_which"); !strings.Contains(got, "/sh") {
		t.Errorf("the board hears %s", got)
	}
	cli("nodes", "rename", "--node", "Hall", "--name", "Attic")
	if out := cli("nodes", "describe", "--node", "Attic", "--json"); !strings.Contains(string(out), `"system.which"`) || !strings.Contains(string(out), `"approved"`) {
		t.Errorf("%s", out)
	}
	if out := cli("nodes", "status", "--json"); !strings.Contains(string(out), "Lamp") {
		t.Errorf("%s", out)
	}
	out = cli("nodes", "invoke", "--node", "Lamp", "--command", "mcp.tools.call", "--params", `{"name":"self.lamp.set","arguments":{"on":true}}`, "--json")
	if !strings.Contains(string(out), "self.lamp.set") {
		t.Errorf("%s", out)
	}
	if out := cli("devices", "list", "--json"); !strings.Contains(string(out), id) {
		t.Errorf("%s", out)
	}
	cli("gateway", "call", "health")

	// The gateway stops, and another one takes over on the same port.
	must(t, r.g.Shutdown(limited(t)))
	r.serve(func(o *gateway.Options) { o.Registerer = nil })
	serving.Store(r.g)
	must(t, slowly(t, func() bool { return r.g.Status().Nodes == 1 }))
	must(t, slowly(t, func() bool {
		return strings.Contains(callAs(r, "node-attic-"+id[:6]+"_system_which"), "/sh")
	}))
	n.Stop()
	must(t, slowly(t, func() bool { return r.g.Status().Nodes == 0 }))
}

func callAs(r *rig, name string) string {
	res, err := r.Board.Call(r.t.Context(), board.Access{Caller: tool.Caller{Person: r.Person.ID, Door: "mcp"}}, name, &tool.Call{Args: []byte(`{"bins":["sh"]}`)})
	if err != nil {
		return err.Error()
	}
	return string(res.Structured)
}

// slowly is eventually for programs that take long to start.
func slowly(t testing.TB, is func() bool) error {
	t.Helper()
	return eventuallyIn(t, openclawtest.Patience, is)
}
