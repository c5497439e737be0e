package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// nodeVolume is the volume that an operator sets on the board.
	nodeVolume = 55
	// nodeServer and inviteServer are the MCP servers of the demo's nodes, and nodeTool is their
	// tool.
	nodeServer   = "shed"
	inviteServer = "barn"
	nodeTool     = "dig"
	// boardNotice is the method of a notice of the board.
	boardNotice = "notifications/state_changed"
)

const (
	msgShed        = i18n.Message("shed")
	msgHole        = i18n.Message("A hole %d cm deep was dug.")
	msgNodeWaits   = i18n.Message("the node “%s” is connected, and its commands are pending approval")
	msgNodeAgreed  = i18n.Message("an operator: node.pair.approve %.8s")
	msgBarn        = i18n.Message("barn")
	msgNodeInvited = i18n.Message("a setup code is made for another node, as by: patchbay pair invite")
	msgNodeIn      = i18n.Message("the node “%s” is paired by it; it has no key, and nobody was asked")
	msgNodeCalls   = i18n.Message("an operator calls the node “%s”: %s")
	msgNodeTells   = i18n.Message("“%s” sent a notice: %s %s")
	msgClaw        = i18n.Message("Claw")
	msgAskClaw     = i18n.Message("Hello, Claw!")
	msgNodesNote   = i18n.Message("the node's tool was called, an operator sees %d nodes, an agent has answered the glasses")
)

// playNodes connects, approves and calls a node; pairs another one with a setup code; has an
// operator call a command of the board and receive its notice; and has an agent answer the glasses.
func playNodes(ctx context.Context, st *demoRun) error {
	if st.kitchen == nil {
		return errors.New("there is no board")
	}
	key, err := st.newKey(ctx, "claw", "node", "operator", "mcp")
	if err != nil {
		return err
	}
	c := &demoOpenClaw{st: st, key: key, url: "ws" + strings.TrimPrefix(st.url, "http"),
		told: make(chan wire.Frame, maxEvents)}
	c.operator, err = sim.Dial(ctx, c.url, sim.Operator(key, wire.ScopePairing, wire.ScopeWrite),
		new(wire.NewIdentity()), func(f wire.Frame) {
			select {
			case c.told <- f:
			default: // more events than the demo can cause
			}
		})
	if err != nil {
		return err
	}
	st.stops = append(st.stops, func() error { c.operator.Close(); return nil })
	for _, step := range []func(context.Context) error{c.runNode, c.inviteNode, c.setVolume, c.awaitNotification,
		c.answer} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// maxEvents is how many events are queued; the demo causes about ten.
const maxEvents = 1000

// demoOpenClaw holds the OpenClaw clients of the demo.
type demoOpenClaw struct {
	st       *demoRun
	key, url string
	operator *sim.Client
	told     chan wire.Frame // events
	nodes    []wire.Node
}

// await waits for an event that wanted accepts.
func (c *demoOpenClaw) await(ctx context.Context, event string, wanted func(payload []byte) bool) error {
	for {
		select {
		case f := <-c.told:
			if f.Event == event && wanted(f.Payload) {
				return nil
			}
		case <-c.operator.Done():
			return c.operator.Err()
		case <-ctx.Done():
			return fmt.Errorf("the operator was not told %s", event)
		}
	}
}

// node connects a node whose MCP server has a tool. It has the key of the demo, or the token of a
// setup code.
func (c *demoOpenClaw) node(name, server string, auth sim.Options) *sim.Node {
	auth.URL, auth.Name, auth.Commands, auth.Caps = c.url, name, []string{wire.CommandTool}, []string{wire.CapMCP}
	auth.Handler = c.execute
	auth.Tools = []wire.PluginTool{{
		PluginID: wire.PluginMCP, Name: server + "_" + nodeTool,
		Description: "Digs a hole.", Command: wire.CommandTool,
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"depth":{"type":"integer"}},"required":["depth"]}`),
		MCP: &wire.ToolRef{Server: server, Tool: nodeTool},
	}}
	n := sim.NewNode(auth)
	c.st.stops = append(c.st.stops, func() error { n.Close(); return nil })
	return n
}

// runNode connects a node, approves it as the operator, and calls its tool as a program.
func (c *demoOpenClaw) runNode(ctx context.Context) error {
	st := c.st
	name := msgShed.In(st.sh.lang)
	n := c.node(name, nodeServer, sim.Options{Token: c.key})
	var r wire.NodeRequest
	if err := c.await(ctx, wire.EventNodeRequested, func(payload []byte) bool {
		return json.Unmarshal(payload, &r) == nil && r.NodeID == n.ID()
	}); err != nil {
		return err
	}
	st.line("⇠", msgNodeWaits.In(st.sh.lang, name))
	st.line("⇢", msgNodeAgreed.In(st.sh.lang, r.RequestID))
	if err := c.operator.Call(ctx, wire.MethodNodeApprove, map[string]string{"requestId": r.RequestID},
		nil); err != nil {
		return err
	}
	return c.dig(ctx, nodeServer, 30)
}

// inviteNode pairs a node with a setup code, which asks nobody, and calls its tool as a program.
func (c *demoOpenClaw) inviteNode(ctx context.Context) error {
	st := c.st
	answer, err := api.InviteNode.Call(ctx, st.at, api.NodeInvite{URL: st.url})
	if err != nil {
		return err
	}
	var code wire.SetupCode
	if err := json.Unmarshal(answer, &code); err != nil {
		return err
	}
	st.line("⇢", msgNodeInvited.In(st.sh.lang))
	inside, err := base64.RawURLEncoding.DecodeString(code.SetupCode)
	if err != nil {
		return err
	}
	var setup wire.Setup
	if err := json.Unmarshal(inside, &setup); err != nil {
		return err
	}
	name := msgBarn.In(st.sh.lang)
	n := c.node(name, inviteServer, sim.Options{SetupToken: setup.BootstrapToken})
	if err := await(ctx, "the setup code did not let the node in", func() (bool, error) {
		answer, err := api.PairedDevices.Call(ctx, st.at, control.Empty{})
		if err != nil {
			return false, err
		}
		var all wire.DevicePairs
		err = json.Unmarshal(answer, &all)
		return slices.ContainsFunc(all.Paired, func(d wire.PairedDevice) bool {
			return d.DeviceID == n.ID() && d.ApprovedVia == viaInvite
		}), err
	}); err != nil {
		return err
	}
	st.line("⇠", msgNodeIn.In(st.sh.lang, name))
	return c.dig(ctx, inviteServer, 10)
}

// dig calls the tool of a node as a program.
func (c *demoOpenClaw) dig(ctx context.Context, server string, depth int) error {
	p := &demoProgram{st: c.st, key: c.key}
	tool, err := p.tool(ctx, "_"+server+"_"+nodeTool)
	if err != nil {
		return err
	}
	c.st.line("⇢", tool)
	res, err := p.call(ctx, tool, map[string]any{"depth": depth})
	if err != nil {
		return err
	}
	c.st.line("⇠", res)
	if want := msgHole.In(c.st.sh.lang, depth); res != want {
		return fmt.Errorf("the node's tool says %q, not %q", res, want)
	}
	return nil
}

// execute runs a command on a node.
func (c *demoOpenClaw) execute(_ context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	call, err := wire.ParseToolCall(params)
	if command != wire.CommandTool || err != nil || call.Tool != nodeTool {
		return nil, sim.NotSupported
	}
	var args struct{ Depth int }
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text",
		"text": msgHole.In(c.st.sh.lang, args.Depth)}}})
}

// setVolume finds the board among the nodes as the operator, and sets its volume.
func (c *demoOpenClaw) setVolume(ctx context.Context) error {
	st := c.st
	var list wire.NodeList
	if err := c.operator.Call(ctx, wire.MethodNodeList, struct{}{}, &list); err != nil {
		return err
	}
	c.nodes = list.Nodes
	board, err := c.board()
	if err != nil {
		return err
	}
	const command = "mcp.tools.call"
	st.line("⇢", msgNodeCalls.In(st.sh.lang, board.DisplayName, command+" volume="+strconv.Itoa(nodeVolume)))
	params, err := json.Marshal(map[string]any{"name": "self.audio_speaker.set_volume",
		"arguments": map[string]int{"volume": nodeVolume}})
	if err != nil {
		return err
	}
	if err := c.operator.Call(ctx, wire.MethodNodeInvoke, wire.Invoke{NodeID: board.NodeID, Command: command,
		Params: params, IdempotencyKey: "louder"}, nil); err != nil {
		return err
	}
	if v := st.kitchen.Volume(); v != nodeVolume {
		return fmt.Errorf("the volume is %d, not %d", v, nodeVolume)
	}
	return nil
}

// board returns the board as a node.
func (c *demoOpenClaw) board() (wire.Node, error) {
	for _, n := range c.nodes {
		if n.DisplayName == msgKitchen.In(c.st.sh.lang) && n.Connected {
			return n, nil
		}
	}
	return wire.Node{}, fmt.Errorf("the board is not among the %d nodes", len(c.nodes))
}

// awaitNotification waits until the operator receives a notice of the board.
func (c *demoOpenClaw) awaitNotification(ctx context.Context) error {
	st := c.st
	if err := c.operator.Call(ctx, gateway.MethodNotificationsSubscribe, struct{}{}, nil); err != nil {
		return err
	}
	board, err := c.board()
	if err != nil {
		return err
	}
	st.kitchen.Notify(boardNotice, []byte(`{"newState":"idle"}`))
	var n struct {
		NodeID, DisplayName, Method string
		Params                      json.RawMessage
	}
	if err := c.await(ctx, gateway.EventNotification, func(payload []byte) bool {
		return json.Unmarshal(payload, &n) == nil && n.NodeID == board.NodeID && n.Method == boardNotice
	}); err != nil {
		return err
	}
	st.line("⇠", msgNodeTells.In(st.sh.lang, n.DisplayName, n.Method, n.Params))
	return nil
}

// answer has an agent of a gateway answer the glasses. The gateway is this server itself, since
// every bot is an agent of it.
func (c *demoOpenClaw) answer(ctx context.Context) error {
	st := c.st
	parrot, err := st.find(ctx, msgParrot)
	if err != nil {
		return err
	}
	bot, err := st.bot(ctx, msgClaw, "openclaw", map[string]string{"url": c.url, "token": c.key,
		"agent": strconv.FormatInt(parrot.Number, 10)})
	if err != nil {
		return err
	}
	text := msgAskClaw.In(st.sh.lang)
	heard, err := st.glasses(owner, strconv.FormatInt(bot.Number, 10)).say(ctx, text)
	if err == nil {
		err = heard.exactly(text, 1)
	}
	st.note = msgNodesNote.In(st.sh.lang, len(c.nodes))
	return err
}
