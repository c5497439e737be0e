package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// listed returns the full name by which a program of the rig's person calls a command of a node;
// empty: it is not listed.
func (r *rig) listed(device, command string) string {
	r.t.Helper()
	v, err := r.Hub.View(r.Person.ID, "")
	must(r.t, err)
	for _, o := range v.Tools {
		if o.Provider().ID == gateway.ProviderID(device) && o.Tool.Name == command {
			return o.Name
		}
	}
	return ""
}

// which calls the command system.which of a node, as a program does.
func (r *rig) which(device string) error {
	r.t.Helper()
	name := r.listed(device, "system.which")
	if name == "" {
		name = "nothing"
	}
	_, err := r.Hub.Call(limited(r.t), hub.Access{Caller: tool.Caller{Person: r.Person.ID, Channel: "mcp"}}, name,
		&tool.Call{Args: json.RawMessage(`{"bins":["sh"]}`)})
	return err
}

func (r *rig) isAway(device string) bool {
	r.t.Helper()
	e := tool.AsError(r.which(device))
	return e != nil && e.Code == tool.Offline && strings.Contains(e.Told, "is not connected at the moment") &&
		strings.Contains(e.Told, "again")
}

func whichNode(me wire.Identity) sim.Options {
	return sim.Options{Identity: me, Commands: []string{"system.which", "kitchen.echo"},
		Handler: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			return params, nil
		}}
}

// The approved commands of a disconnected node stay listed, also after a restart, and calls fail
// with "not connected". Commands that were not approved, or of a removed node, are not listed.
func TestNodeAway(t *testing.T) {
	often := func(o *gateway.Options) { o.Timings.PeerRefresh = 50 * time.Millisecond }
	r := newRig(t, often)
	me, stranger := wire.NewIdentity(), wire.NewIdentity()
	n := r.node(whichNode(me), true)
	o := r.node(whichNode(stranger), false)
	must(t, eventually(t, func() bool { return r.which(me.ID()) == nil }))
	name := r.listed(me.ID(), "system.which")
	n.Close()
	o.Close()
	must(t, eventually(t, func() bool { return r.g.Status().Nodes == 0 && r.isAway(me.ID()) }))
	if got := r.listed(me.ID(), "system.which"); got != name {
		t.Errorf("it is listed as %q instead of %q", got, name)
	}
	if _, held, tools := r.Hub.FindProvider(gateway.ProviderID(stranger.ID())); held || tools != nil {
		t.Error("a node that was never approved stays listed")
	}
	op := r.operator(r.token, wire.ScopePairing, wire.ScopeWrite, wire.ScopeAdmin)
	for _, row := range call[wire.NodeList](op, wire.MethodNodeList, m{}).Nodes {
		if row.NodeID == me.ID() && (row.Connected || len(row.Commands) != 2) {
			t.Errorf("%+v", row)
		}
	}
	if e := op.refused(wire.MethodNodeInvoke, invokeParams(me.ID(),
		"system.which", m{"bins": []string{"sh"}})); e.Message != wire.NotConnected.Message {
		t.Error(e)
	}
	op.Close()

	must(t, r.g.Shutdown(limited(t)))
	if r.listed(me.ID(), "system.which") != "" {
		t.Error("a gateway that has stopped lists nodes")
	}
	r.server.Close()
	r.metrics = prometheus.NewRegistry()
	r.serve(often)
	must(t, eventually(t, func() bool { return r.isAway(me.ID()) }))
	must(t, r.Accounts.RenamePeer(t.Context(), me.ID(), "Cellar"))
	must(t, eventually(t, func() bool { return strings.HasPrefix(r.listed(me.ID(), "system.which"), "node-cellar-") }))

	n = r.node(whichNode(me), false) // connects again
	must(t, eventually(t, func() bool { return r.which(me.ID()) == nil }))
	n.Close()
	must(t, eventually(t, func() bool { return r.isAway(me.ID()) }))
	more := whichNode(me)
	more.Commands = append(more.Commands, "fs.listDir")
	n = r.node(more, true)
	n.Close()
	must(t, eventually(t, func() bool { return r.isAway(me.ID()) }))
	must(t, r.Store.Peers.Remove(t.Context(), me.ID())) // as another program would do
	must(t, eventually(t, func() bool { return r.listed(me.ID(), "system.which") == "" }))
	if e := tool.AsError(r.which(me.ID())); e == nil || e.Code != tool.Unknown {
		t.Error(e)
	}
}

// A disconnected node is listed by every instance, and can connect to any of them.
func TestNodeAwayOnInstances(t *testing.T) {
	here, there := two(t)
	me := wire.NewIdentity()
	n := there.node(whichNode(me), true)
	both := func(is func(r *rig) bool) {
		t.Helper()
		must(t, eventually(t, func() bool { return is(here) && is(there) }))
	}
	works := func(r *rig) bool { return r.which(me.ID()) == nil }
	away := func(r *rig) bool { return r.isAway(me.ID()) }
	both(works)
	n.Close()
	both(away)
	n = here.node(whichNode(me), false)
	both(works)
	n.Close()
	both(away)
	call[m](here.operator(here.token, wire.ScopePairing), wire.MethodNodeRemove, m{"nodeId": me.ID()})
	both(func(r *rig) bool { return r.listed(me.ID(), "system.which") == "" })
}

// The memory of a disconnected node. PATCHBAY_NODES=10000 measures with that many.
func TestManyAway(t *testing.T) {
	count := 200
	if s := os.Getenv("PATCHBAY_NODES"); s != "" {
		var err error
		count, err = strconv.Atoi(s)
		must(t, err)
	}
	if testing.Short() || raceDetector {
		t.Skip("measures memory")
	}
	r := newRig(t, func(o *gateway.Options) { o.Timings.PeerRefresh = time.Hour })
	must(t, r.g.Shutdown(limited(t)))
	commands := strings.Fields("fs.listDir mcp.tools.call.v1 ollama.chat ollama.models system.execApprovals.get system.execApprovals.set system.run system.run.prepare system.which terminal.upload")
	for i := range count {
		id := fmt.Sprintf("%064x", sha256.Sum256([]byte(strconv.Itoa(i))))
		ask := store.PeerAsk{PublicKey: id, Name: "Kitchen", Platform: "linux", Family: "Linux",
			Roles: []string{wire.RoleNode}, Commands: commands}
		for _, kind := range []string{store.RequestDevice, store.RequestSurface} {
			q, _, err := r.Store.Peers.Request(t.Context(), store.PeerRequest{ID: kind + id, Kind: kind, Peer: id,
				Owner: r.Person.ID, Ask: ask, Refreshed: time.Now()})
			must(t, err)
			_, _, err = r.Store.Peers.Approve(t.Context(), store.PeerDecision{ID: q.ID, Owner: q.Owner, At: time.Now()})
			must(t, err)
		}
	}
	before, began := memory(), time.Now()
	r.metrics = prometheus.NewRegistry()
	r.serve(func(o *gateway.Options) { o.Timings.PeerRefresh = time.Hour })
	last := fmt.Sprintf("%064x", sha256.Sum256([]byte(strconv.Itoa(count-1))))
	must(t, eventually(t, func() bool { return len(r.Hub.Providers(r.Person.ID)) >= count && r.isAway(last) }))
	t.Logf("%d nodes are listed after %v", count, time.Since(began).Round(time.Millisecond))
	each := (memory() - before) / int64(count)
	t.Logf("each costs %d bytes", each)
	if each > 20<<10 {
		t.Errorf("a node that is away costs %d bytes", each)
	}
	began = time.Now()
	must(t, r.g.Refresh(t.Context()))
	t.Logf("looking at all of them again takes %v", time.Since(began).Round(time.Millisecond))
}

// The published tools of a node stay listed while it reconnects: callers get "offline", also
// between the connect and the next publication.
func TestPublishedToolsStay(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) {
		o.Timings.Tick, o.Timings.PublishedToolsTTL = 20*time.Millisecond,
			time.Hour
	})
	ref := wire.ToolRef{Server: "stove", Tool: "self.heat.set"}
	stove := wire.PluginTool{PluginID: wire.PluginMCP, Name: "stove_heat", Description: "Heats",
		Parameters: json.RawMessage(`{"type":"object"}`), Command: wire.CommandTool, MCP: &ref}
	identity := wire.NewIdentity()
	n := r.node(sim.Options{Identity: identity, Tools: []wire.PluginTool{stove}, SkipIntro: true}, true)
	op := r.operator(r.token)
	must(t, awaitRow(op, n.ID(), func(n wire.NodeDetail) bool { return len(n.PluginTools) == 1 }))
	name := "node-kitchen-" + n.ID()[:6] + "_stove_heat"
	refusal := func() tool.Code {
		_, err := r.Hub.Call(t.Context(), hub.Access{Caller: tool.Caller{Person: r.Person.ID, Channel: "mcp"}}, name,
			&tool.Call{})
		if err == nil {
			return ""
		}
		return tool.AsError(err).Code
	}
	if code := refusal(); code != "" {
		t.Fatal(code)
	}
	n.Close()
	must(t, awaitRow(op, n.ID(), func(n wire.NodeDetail) bool { return !n.Connected }))
	if code := refusal(); code != tool.Offline {
		t.Errorf("while it is away: %q", code)
	}
	n = r.node(sim.Options{Identity: identity, SkipIntro: true}, false) // it publishes nothing
	must(t, awaitRow(op, n.ID(), func(n wire.NodeDetail) bool { return n.Connected }))
	if code := refusal(); code != tool.Offline {
		t.Errorf("before it publishes: %q", code)
	}
	for tools, want := range map[string]tool.Code{string(encode(t,
		wire.PluginTools{Tools: []wire.PluginTool{stove}})): "", `{"tools":[]}`: tool.Unknown} {
		_, err := n.Request(t.Context(), wire.MethodPluginTools, []byte(tools))
		must(t, err)
		if code := refusal(); code != want {
			t.Errorf("when it has published %s: %q", tools, code)
		}
	}
}

// The published tools of a node that does not reconnect, or no longer publishes, are withdrawn
// after a short time.
func TestPublishedToolsLapse(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) {
		o.Timings.Tick, o.Timings.PublishedToolsTTL = 20*time.Millisecond, 50*time.Millisecond
	})
	ref := wire.ToolRef{Server: "stove", Tool: "heat"}
	n := r.node(sim.Options{Tools: []wire.PluginTool{{PluginID: wire.PluginMCP,
		Name: "stove_heat", Description: "Heats", Command: wire.CommandTool, MCP: &ref}}, SkipIntro: true}, true)
	listed := func() bool {
		v, err := r.Hub.View(r.Person.ID, "")
		must(t, err)
		return slices.ContainsFunc(v.Tools, func(o *hub.RegisteredTool) bool {
			return strings.HasSuffix(o.Name,
				"_stove_heat")
		})
	}
	must(t, eventually(t, listed))
	n.Close()
	must(t, eventually(t, func() bool { return !listed() }))
}
