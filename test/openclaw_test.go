package test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
)

// clawServer is a running server to which OpenClaw programs connect.
type clawServer struct {
	*boardServer
	whole    *testing.T // the whole test, not a subtest
	listen   string     // host:port, the same after each start
	operator string     // ada's key
}

func newClawServer(t *testing.T, env ...string) *clawServer {
	t.Helper()
	// OpenClaw's programs may take longer to start than the default silence timeout of boards.
	env = append([]string{"PATCHBAY_XIAOZHI_SILENCE=1h"}, env...)
	h := &clawServer{boardServer: newBoardServer(t, env...), whole: t}
	h.listen = strings.TrimPrefix(h.url, "http://")
	h.operator = h.add("ada", "operator", "operator")
	return h
}

// add creates a key.
func (h *clawServer) add(user, name, scope string) string {
	h.t.Helper()
	var key addedKey
	h.json(h.t, &key, "key", "add", "--user", user, "--name", name, "--scope", scope)
	return key.Key
}

// again restarts the server at the same address.
func (h *clawServer) again() {
	h.t.Helper()
	h.server = h.installation.serve(h.whole, "--listen", h.listen)
}

// socket returns the WebSocket URL for OpenClaw programs.
func (h *clawServer) socket() string { return "ws://" + h.listen }

// cli runs OpenClaw's command line with a key and returns its output.
func (h *clawServer) cli(key string, args ...string) string {
	h.t.Helper()
	out, err := h.tryCLI(key, args...)
	if err != nil {
		h.t.Fatalf("openclaw %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (h *clawServer) tryCLI(key string, args ...string) (string, error) {
	h.t.Helper()
	began := time.Now()
	out, err := openclawtest.TryCLI(h.t, h.socket(), key, args...)
	h.t.Logf("openclaw %s took %v", strings.Join(args[:2], " "), time.Since(began).Round(time.Millisecond))
	return string(out), err
}

// pairs are the pending devices, and the nodes whose tools are pending.
type pairs struct {
	Devices []wire.DeviceRequest
	Nodes   []wire.NodeRequest
}

func (h *clawServer) pairs() (p pairs) {
	h.t.Helper()
	must(h.t, h.ask(ctx, http.MethodGet, "/api/v1/pairs", nil, &p))
	return p
}

// awaitDevice waits for a device's pairing request and returns it.
func (h *clawServer) awaitDevice(name string) (d wire.DeviceRequest) {
	h.t.Helper()
	h.slowly(name+" wants in", func() bool {
		all := h.pairs().Devices
		i := slices.IndexFunc(all, func(d wire.DeviceRequest) bool { return d.DisplayName == name })
		if i >= 0 {
			d = all[i]
		}
		return i >= 0
	})
	return d
}

// awaitSurface waits for a node's request to approve its tools and returns it.
func (h *clawServer) awaitSurface(name string) (d wire.NodeRequest) {
	h.t.Helper()
	h.slowly("it is asked what "+name+" may do", func() bool {
		all := h.pairs().Nodes
		i := slices.IndexFunc(all, func(d wire.NodeRequest) bool { return d.DisplayName == name })
		if i >= 0 {
			d = all[i]
		}
		return i >= 0
	})
	return d
}

// approve approves a request of either kind.
func (h *clawServer) approve(request string) {
	h.t.Helper()
	h.run(h.t, "pair", "approve", request)
}

// slowly is until with a longer timeout, for programs that start slowly.
func (h *clawServer) slowly(what string, so func() bool) {
	h.t.Helper()
	waitWithin(h.t, openclawtest.Timeout, what, so)
}

// node returns a node as its owner sees it, or nil if it does not exist.
func (h *clawServer) node(name string) *wire.Node {
	h.t.Helper()
	var list struct{ Nodes []wire.Node }
	must(h.t, h.ask(ctx, http.MethodGet, "/api/v1/nodes", nil, &list))
	i := slices.IndexFunc(list.Nodes, func(n wire.Node) bool { return n.DisplayName == name })
	if i < 0 {
		return nil
	}
	return &list.Nodes[i]
}

// connected reports whether a node is connected.
func (h *clawServer) connected(name string) bool {
	h.t.Helper()
	n := h.node(name)
	return n != nil && n.Connected
}

// invoke calls a node's command with its owner's key, without OpenClaw.
func (h *clawServer) invoke(ctx context.Context, node, command string, params any) (json.RawMessage, error) {
	var out struct{ Payload json.RawMessage }
	err := h.ask(ctx, http.MethodPost, "/api/v1/nodes/"+url.PathEscape(node)+"/invoke",
		given{"command": command, "params": params}, &out)
	return out.Payload, err
}

// speaker returns a board that is connected and whose tools are known.
func (h *clawServer) speaker(name string) *xiaozhi.Board {
	h.t.Helper()
	limit := limited(h.t, time.Minute)
	b := h.online(limit, name, "websocket", xiaozhi.Options{})
	must(h.t, h.wake(limit, b))
	return b
}

// terminate stops the server as service managers do.
func (s *server) terminate() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}
