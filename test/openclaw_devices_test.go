package test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// OpenClaw's own node hosts are paired by setup codes that its command line and ours make, and its
// command line manages them.
func TestOpenClawDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	openclawtest.LoadSchema(t) // skips the test without it
	o := &clawDevices{clawServer: newClawServer(t, "PATCHBAY_NODES_APPROVE_LOCAL=false")}
	if t.Run("join code", o.joins) && t.Run("setup code", o.pairs) {
		t.Run("renamed", o.renamed)
		t.Run("rotated", o.rotated)
		t.Run("revoked", o.revoked)
	}
	t.Run("key revoked", o.keyRevoked)
}

// clawDevices is a server with two node hosts, which were paired by codes.
type clawDevices struct {
	*clawServer
	hall, attic string // their IDs
}

// joined waits until a node is connected and its commands are approved, and returns its ID.
func (o *clawDevices) joined(name string) string {
	o.t.Helper()
	o.slowly(name+" is connected", func() bool {
		n := o.node(name)
		return n != nil && n.Connected && n.Approval == wire.Approved
	})
	if p := o.clawServer.pairs(); len(p.Devices)+len(p.Nodes) > 0 {
		o.t.Errorf("its owner is asked %+v", p)
	}
	n := o.node(name)
	if !slices.Contains(n.Commands, "system.run") {
		o.t.Errorf("%s may do %v", name, n.Commands)
	}
	return n.NodeID
}

// joins connects a node host with the one command that `openclaw devices join-code` prints.
func (o *clawDevices) joins(t *testing.T) {
	o.t = t
	var code struct{ JoinURL, Command string }
	decodeJSON(t, o.cli(o.key, "devices", "join-code", "--json"), &code)
	if code.Command != "npx openclaw connect "+code.JoinURL {
		t.Errorf("%+v", code)
	}
	openclawtest.NodeHost(o.whole, 0, "", openclawtest.HostOptions{Name: "Hall", Join: code.JoinURL})
	o.hall = o.joined("Hall")
	again := openclawtest.NodeHost(t, 0, "", openclawtest.HostOptions{Name: "Thief", Join: code.JoinURL})
	again.AwaitOutput("not found or has expired")
	if out, err := o.tryCLI(o.operator, "devices", "join-code"); err != nil || !strings.Contains(out, "/j/") {
		t.Errorf("ada's operator gets %v %s", err, out)
	}
}

// setupCode returns a setup code that `patchbay pair invite` prints.
func (o *clawDevices) setupCode(t *testing.T) string {
	t.Helper()
	out := o.run(t, "pair", "invite")
	_, code, _ := strings.Cut(out, "openclaw node run --pair ")
	code, _, _ = strings.Cut(code, "\n")
	if !strings.HasPrefix(code, wire.SetupURLPrefix) {
		t.Fatalf("pair invite says %s", out)
	}
	return code
}

// pairs connects a node host with the command that `patchbay pair invite` prints. The code is for
// one device, and one that was cancelled is for none.
func (o *clawDevices) pairs(t *testing.T) {
	o.t = t
	lost := o.setupCode(t)
	var open control.SetupCodes
	o.json(t, &open, "pair", "codes")
	if len(open.Codes) == 0 || open.Codes[0].Used() {
		t.Fatalf("pair codes says %+v", open)
	}
	o.run(t, "pair", "cancel", open.Codes[0].ID[:8])
	late := openclawtest.NodeHost(t, 0, "", openclawtest.HostOptions{Name: "Late", Pair: lost})
	late.AwaitOutput("setup code invalid")
	late.Stop()
	code := o.setupCode(t)
	openclawtest.NodeHost(o.whole, 0, "", openclawtest.HostOptions{Name: "Attic", Pair: code})
	o.attic = o.joined("Attic")
	thief := openclawtest.NodeHost(t, 0, "", openclawtest.HostOptions{Name: "Thief", Pair: code})
	thief.AwaitOutput("setup code invalid")
	if o.node("Thief") != nil || o.node("Late") != nil {
		t.Error("a second device has used the code, or one has used a code that was cancelled")
	}
	o.json(t, &open, "pair", "codes")
	if len(open.Codes) == 0 || open.Codes[0].NodeName != "Attic" {
		t.Errorf("pair codes says %+v, after Attic has used one", open)
	}
	thief.Stop()
	must(t, o.terminate())
	o.again()
	o.slowly("both are connected again", func() bool { return o.connected("Hall") && o.connected("Attic") })
}

func (o *clawDevices) renamed(t *testing.T) {
	o.t = t
	o.cli(o.operator, "devices", "rename", "--device", o.hall, "--name", "Kitchen")
	if n := o.node("Kitchen"); n == nil || n.NodeID != o.hall {
		t.Errorf("it is %+v", n)
	}
	if out := o.cli(o.operator, "devices", "list"); !strings.Contains(out, "Kitchen") {
		t.Errorf("devices list says %s", out)
	}
}

// rotated replaces the token of a node host that has no other credential, so that it stays away.
func (o *clawDevices) rotated(t *testing.T) {
	o.t = t
	var out wire.TokenRotated
	decodeJSON(t, o.cli(o.operator, "devices", "rotate", "--device", o.attic, "--role", "node"), &out)
	if out.DeviceID != o.attic || out.Token != "" || out.Delivery != wire.Withheld {
		t.Errorf("%+v", out)
	}
	o.slowly("it is away", func() bool { return !o.connected("Attic") })
	if !o.connected("Kitchen") {
		t.Error("another device has gone, too")
	}
}

func (o *clawDevices) revoked(t *testing.T) {
	o.t = t
	var out wire.TokenRevoked
	decodeJSON(t, o.cli(o.operator, "devices", "revoke", "--device", o.hall, "--role", "node"), &out)
	if out.DeviceID != o.hall || out.RevokedAtMS == 0 {
		t.Errorf("%+v", out)
	}
	o.slowly("it is away", func() bool { return !o.connected("Kitchen") })
	if out := o.cli(o.operator, "devices", "list"); !strings.Contains(out, "(revoked)") {
		t.Errorf("devices list says %s", out)
	}
	if out := o.run(t, "pair", "devices"); !strings.Contains(out, "node (revoked)") {
		t.Errorf("pair devices says %s", out)
	}
}

// keyRevoked revokes the key that a node has connected with. It goes on with its own token, until
// that is revoked, too.
func (o *clawDevices) keyRevoked(t *testing.T) {
	o.t = t
	var key struct{ ID, Key string }
	o.json(t, &key, "key", "add", "--user", "ada", "--name", "cellar", "--scope", "node")
	n := sim.NewNode(sim.Options{URL: o.socket(), Token: key.Key, Name: "Cellar", Commands: []string{"system.which"},
		MinBackoff: 50 * time.Millisecond, MaxBackoff: 100 * time.Millisecond})
	t.Cleanup(n.Close)
	o.approve(o.awaitDevice("Cellar").RequestID)
	must(t, n.AwaitConnected(limited(t, openclawtest.Timeout)))
	state, _ := n.State()
	before := state.ConnectCount
	if out := o.run(t, "key", "revoke", key.ID); !strings.Contains(out, "Cellar (node)") ||
		!strings.Contains(out, "--devices") {
		t.Errorf("key revoke says %s", out)
	}
	must(t, n.Await(limited(t, openclawtest.Timeout),
		func(s sim.State) bool { return s.ConnectCount > before && s.Connected }))
	var ended struct {
		Devices []struct{ Name, Role string }
		Ended   bool `json:"devices_ended"`
	}
	text := o.run(t, "key", "revoke", key.ID, "--devices", "--json")
	must(t, json.Unmarshal([]byte(text), &ended))
	if !ended.Ended || len(ended.Devices) != 1 || ended.Devices[0].Name != "Cellar" {
		t.Errorf("key revoke --devices says %s", text)
	}
	must(t, n.Await(limited(t, openclawtest.Timeout),
		func(s sim.State) bool { return !s.Connected && s.Refused != nil }))
}
