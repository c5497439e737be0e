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

// clawHouse is a running server to which programs of OpenClaw connect.
type clawHouse struct {
	*boardHouse
	whole    *testing.T // not a part of it
	listen   string     // host:port, the same after each start
	operator string     // a key of ada's
}

func newClawHouse(t *testing.T, env ...string) *clawHouse {
	t.Helper()
	// OpenClaw's programs may take longer to start than a board listens by default.
	env = append([]string{"PATCHBAY_XIAOZHI_SILENCE=1h"}, env...)
	h := &clawHouse{boardHouse: newBoardHouse(t, env...), whole: t}
	h.listen = strings.TrimPrefix(h.url, "http://")
	h.operator = h.add("ada", "operator", "operator")
	return h
}

// add makes a key.
func (h *clawHouse) add(user, name, scope string) string {
	h.t.Helper()
	var key addedKey
	h.json(h.t, &key, "key", "add", "--user", user, "--name", name, "--scope", scope)
	return key.Key
}

// again starts the server again where it was.
func (h *clawHouse) again() {
	h.t.Helper()
	h.server = h.place.serve(h.whole, "--listen", h.listen)
}

// socket is where OpenClaw's programs connect.
func (h *clawHouse) socket() string { return "ws://" + h.listen }

// cli runs OpenClaw's command line with a key, and returns what it prints.
func (h *clawHouse) cli(key string, args ...string) string {
	h.t.Helper()
	out, err := h.tryCLI(key, args...)
	if err != nil {
		h.t.Fatalf("openclaw %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (h *clawHouse) tryCLI(key string, args ...string) (string, error) {
	h.t.Helper()
	began := time.Now()
	out, err := openclawtest.TryCLI(h.t, h.socket(), key, args...)
	h.t.Logf("openclaw %s took %v", strings.Join(args[:2], " "), time.Since(began).Round(time.Millisecond))
	return string(out), err
}

// pairs are those who wait to be let in, and nodes that wait to be of use.
type pairs struct {
	Devices []wire.DeviceRequest
	Nodes   []wire.NodeRequest
}

func (h *clawHouse) pairs() (p pairs) {
	h.t.Helper()
	must(h.t, h.ask(ctx, http.MethodGet, "/api/v1/pairs", nil, &p))
	return p
}

// awaitDevice waits until a device wants in, and returns its request.
func (h *clawHouse) awaitDevice(name string) (d wire.DeviceRequest) {
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

// awaitSurface waits until a node waits for what it can do to be approved.
func (h *clawHouse) awaitSurface(name string) (d wire.NodeRequest) {
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

// approve grants a request of either kind.
func (h *clawHouse) approve(request string) {
	h.t.Helper()
	h.run(h.t, "pair", "approve", request)
}

// slowly is until for programs that take long to start.
func (h *clawHouse) slowly(what string, so func() bool) {
	h.t.Helper()
	waitWithin(h.t, time.Minute, what, so)
}

// node is a node as its owner sees it; nil: it is not there.
func (h *clawHouse) node(name string) *wire.Node {
	h.t.Helper()
	var list struct{ Nodes []wire.Node }
	must(h.t, h.ask(ctx, http.MethodGet, "/api/v1/nodes", nil, &list))
	i := slices.IndexFunc(list.Nodes, func(n wire.Node) bool { return n.DisplayName == name })
	if i < 0 {
		return nil
	}
	return &list.Nodes[i]
}

// connected says whether a node is.
func (h *clawHouse) connected(name string) bool {
	h.t.Helper()
	n := h.node(name)
	return n != nil && n.Connected
}

// invoke calls a node's command as its owner, without OpenClaw.
func (h *clawHouse) invoke(ctx context.Context, node, command string, params any) (json.RawMessage, error) {
	var out struct{ Payload json.RawMessage }
	err := h.ask(ctx, http.MethodPost, "/api/v1/nodes/"+url.PathEscape(node)+"/invoke", given{"command": command, "params": params}, &out)
	return out.Payload, err
}

// speaker makes a board that is there, and whose tools are known.
func (h *clawHouse) speaker(name string) *xiaozhi.Board {
	h.t.Helper()
	limit := limited(h.t, time.Minute)
	b := h.online(limit, name, "websocket", xiaozhi.Options{})
	must(h.t, h.wake(limit, b))
	return b
}

// terminate ends the server as service managers do.
func (s *server) terminate() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}
