package test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/xiaozhi/sim"
)

// A real OpenClaw gateway: boards are nodes that its agent uses, and its agent answers glasses. The
// gateway's owner approves both, with the commands that our messages give.
func TestOpenClawAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	openclawtest.LoadSchema(t) // skips the test without it
	o := &clawAgent{t: t}
	model, err := openaitest.Start()
	must(t, err)
	t.Cleanup(model.Close)
	model.Answer = o.think
	began := time.Now()
	o.gateway = openclawtest.Gateway(t, openclawtest.Options{
		Model: model.URL, Manual: true, Settings: sharpEyed(),
		Allow: []string{"mcp.initialize", "mcp.notify", "mcp.tools.call", "mcp.tools.list", "kitchen.echo",
			"audio.start", "audio.stop", "audio.set", "video.start", "video.stop", "video.set"},
	})
	t.Logf("the gateway was ready after %v", time.Since(began).Round(time.Millisecond))
	t.Run("refusals", func(t *testing.T) { refusals(t, o.gateway) })
	t.Run("simulated", func(t *testing.T) { simulated(t, o.gateway) })

	// OpenClaw's programs may take longer to start than the default silence timeout of boards.
	o.boardServer = newBoardServer(t, "PATCHBAY_XIAOZHI_SILENCE=1h")
	o.speaker = o.online(limited(t, time.Minute), "Speaker", "websocket", sim.Options{Picture: boardPicture(t)})
	o.awake(t)
	var glasses addedKey
	o.json(t, &glasses, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	o.glasses = glasses.Key
	if !t.Run("board joins", o.boardJoins) {
		return
	}
	t.Run("board is used", o.boardUsed)
	t.Run("board tells", o.boardTells)
	t.Run("board changes", o.boardChanges)
	t.Run("mapping", o.mapping)
	if !t.Run("bot is let in", o.botLetIn) {
		return
	}
	broken := o.brokenModel(t)
	t.Run("streams", o.streams)
	t.Run("remembers", o.remembers)
	t.Run("disconnected", o.disconnected)
	t.Run("interrupted", o.interrupted)
	t.Run("sees", o.sees)
	t.Run("slash", o.slash)
	t.Run("doctor", o.doctor)
	t.Run("line cut", o.lineCut)
	t.Run("model is broken", broken)
	t.Run("gateway restarts", o.gatewayRestarts)
	t.Run("model fails", o.modelFails)
}

// sharpEyed returns the settings of a gateway whose model accepts pictures, and which trusts a
// local proxy's claim about the client's address.
func sharpEyed() map[string]any {
	type m = map[string]any
	return m{
		"gateway": m{"trustedProxies": []string{"127.0.0.1"}},
		"models": m{"providers": m{"fake": m{"models": []m{{
			"id": "fake-1", "name": "Fake", "reasoning": true, "input": []string{"text", "image"},
			"contextWindow": 128000, "maxTokens": 4096,
			"cost": m{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
		}}}}},
	}
}

// clawAgent is a real gateway with a server of ours beside it.
type clawAgent struct {
	*boardServer
	t       *testing.T
	gateway *openclawtest.RealGateway
	speaker *sim.Board
	far     *remoteMachine
	glasses string // key
	bot     int64

	mu      sync.Mutex
	replies []clawReply
}

// clawReply is the model's reply to questions that contain a text.
type clawReply struct {
	to string
	openaitest.Reply
	asked []*openaitest.Request
}

// reply sets the model's reply to questions that contain a text.
func (o *clawAgent) reply(to string, r openaitest.Reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replies = append(o.replies, clawReply{to: to, Reply: r})
}

// answers builds a reply of the model.
func answers(steps ...openaitest.Step) openaitest.Reply { return openaitest.Reply{Steps: steps} }

// think implements the model.
func (o *clawAgent) think(r *openaitest.Request) openaitest.Reply {
	if results := r.Chat.Results(); len(results) > 0 {
		return answers(openaitest.Text("It says: " + results[0].Text()))
	}
	said := "" // since the last reply: gateways add context of their own
	for _, m := range slices.Backward(r.Chat.Messages) {
		if m.Role != "user" {
			break
		}
		said += m.Text()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var best *clawReply // longest match, because short texts also occur elsewhere
	for i := range o.replies {
		if c := &o.replies[i]; strings.Contains(said, c.to) && (best == nil || len(c.to) > len(best.to)) {
			best = c
		}
	}
	if best == nil {
		return answers(openaitest.Text("Nobody has told me what to say."))
	}
	best.asked = append(best.asked, r)
	return best.Reply
}

// asked returns the model requests that contain a text.
func (o *clawAgent) asked(to string) []*openaitest.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.replies {
		if r.to == to {
			return slices.Clone(r.asked)
		}
	}
	return nil
}

// obey runs on the gateway the command that a message gives.
func (o *clawAgent) obey(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if len(words) < 4 || words[0] != "openclaw" {
		t.Fatalf("people are told to run %q", command)
	}
	began := time.Now()
	o.gateway.CLI(t, words[1:]...)
	t.Logf("%s took %v", command, time.Since(began).Round(time.Millisecond))
}

// joined waits for a state of the board's connection as a node, and returns the connection.
func (o *clawAgent) joined(t *testing.T, state string) (n control.ShimNode) {
	t.Helper()
	waitWithin(t, 2*time.Minute, "the board's node is "+state, func() bool {
		var all struct{ Upstreams []control.Upstream }
		must(t, o.boardServer.ask(ctx, http.MethodGet, "/api/v1/upstreams", nil, &all))
		if len(all.Upstreams) != 1 || len(all.Upstreams[0].Nodes) != 1 {
			return false
		}
		n = all.Upstreams[0].Nodes[0]
		return n.State == state
	})
	return n
}

// boardJoins connects the board to the gateway as its owner, and approves it as the gateway's
// owner.
func (o *clawAgent) boardJoins(t *testing.T) {
	o.run(t, "shim", "add", "home", "--url", o.gateway.URL, "--token", o.gateway.Token, "--notices")
	o.obey(t, o.joined(t, control.NodePairing).Command)
	o.obey(t, o.joined(t, control.NodeApproval).Command)
	if n := o.joined(t, control.UpstreamReady); n.Tools == 0 || n.Taken != n.Tools || n.Command != "" {
		t.Errorf("%+v", n)
	}
	var n wire.Node
	decodeJSON(t, string(o.gateway.CLI(t, "nodes", "describe", "--node", "Speaker", "--json")), &n)
	tools := o.own(n)
	if !slices.Contains(tools, "self.audio_speaker.set_volume") || slices.Contains(tools, "self.reboot") ||
		slices.Contains(tools, "reboot") {
		t.Errorf("the agent has the tools %q", tools)
	}
}

// own returns the own names of the tools that a node publishes.
func (o *clawAgent) own(n wire.Node) (names []string) {
	for _, tool := range n.PluginTools {
		if tool.MCP != nil {
			names = append(names, tool.MCP.Tool)
		}
	}
	return names
}

// awake wakes the board, which falls asleep after a while.
func (o *clawAgent) awake(t *testing.T) {
	t.Helper()
	if o.speaker.View().SessionID == "" {
		must(t, o.wake(limited(t, time.Minute), o.speaker))
	}
}

// boardUsed turns the volume as the gateway's owner and by its agent.
func (o *clawAgent) boardUsed(t *testing.T) {
	o.awake(t)
	out := o.gateway.CLI(t, "nodes", "invoke", "--node", "Speaker", "--command", "mcp.tools.call", "--json",
		"--params", `{"name":"self.audio_speaker.set_volume","arguments":{"volume":43}}`)
	if v := o.speaker.Volume(); v != 43 {
		t.Errorf("the volume is %d: %s", v, out)
	}
	o.reply("make it louder", answers(openaitest.CallInPieces(0, "call_1", "tool_call",
		`{"id":"mcp:speaker:speaker_self_audio_speaker_set_volume",`, `"args":{"volume":44}}`)...))
	out = o.gateway.CLI(t, "gateway", "call", "agent", "--expect-final", "--timeout", "120000", "--json", "--params",
		`{"message":"make it louder","sessionKey":"agent:main:board","idempotencyKey":"turn-1"}`)
	if v := o.speaker.Volume(); v != 44 {
		t.Errorf("the volume is %d: %s", v, out)
	}
	var calls []control.Call
	waitUntil(t, "the calls are in the trail", func() bool {
		var all struct{ Calls []control.Call }
		must(t, o.boardServer.ask(ctx, http.MethodGet, "/api/v1/calls", nil, &all))
		calls = all.Calls
		return len(calls) == 2
	})
	for _, c := range calls {
		if !strings.HasSuffix(c.Tool, "self_audio_speaker_set_volume") || c.Channel != "shim" || c.Outcome != "done" ||
			c.KeyName != "home" {
			t.Errorf("the trail has %+v", c)
		}
	}
}

// boardTells sends an event from the board, which the agent sees in its next turn.
func (o *clawAgent) boardTells(t *testing.T) {
	o.awake(t)
	o.reply("what is new", answers(openaitest.Text("The bell rang.")))
	o.speaker.Notify("notifications/button", []byte(`{"text":"somebody rings"}`))
	o.gateway.CLI(t, "gateway", "call", "chat.send", "--json", "--params",
		`{"message":"what is new?","sessionKey":"agent:main:main","idempotencyKey":"turn-2"}`)
	waitWithin(t, 2*time.Minute, "the agent is asked", func() bool { return len(o.asked("what is new")) > 0 })
	if r := o.asked("what is new")[0]; !strings.Contains(string(r.Body), "Speaker - button somebody rings") {
		for _, m := range r.Chat.Messages[1:] {
			t.Logf("%s: %.500s", m.Role, m.Text())
		}
		t.Errorf("the agent has not heard of it; %v notices went out", o.metric("patchbay_openclaw_shim_notices_total"))
	}
}

// boardChanges forbids a tool, which the agent then loses, and allows it again.
func (o *clawAgent) boardChanges(t *testing.T) {
	before := o.joined(t, control.UpstreamReady).Taken
	taken := func(want int) {
		waitUntil(t, fmt.Sprintf("the gateway has %d tools", want),
			func() bool { return o.joined(t, control.UpstreamReady).Taken == want })
	}
	o.run(t, "tool", "deny", "speaker_self_screen_set_theme")
	taken(before - 1)
	o.run(t, "tool", "reset", "speaker_self_screen_set_theme")
	taken(before)
}

// gatewayRestarts restarts the gateway and waits until everything reconnects.
func (o *clawAgent) gatewayRestarts(t *testing.T) {
	o.gateway.CLI(t, "gateway", "call", "gateway.restart.request", "--params", `{"reason":"a test"}`)
	began := time.Now()
	o.joined(t, control.UpstreamWaiting)
	if n := o.joined(t, control.UpstreamReady); n.Taken != n.Tools {
		t.Errorf("%+v", n)
	}
	o.reply("is anybody back", answers(openaitest.Text("Here again.")))
	waitWithin(t, 2*time.Minute, "glasses are answered", func() bool {
		return o.answer(t, "back",
			"is anybody back?") == "Here again."
	})
	t.Logf("everybody was back after %v", time.Since(began).Round(time.Millisecond))
	o.awake(t)
	o.gateway.CLI(t, "nodes", "invoke", "--node", "Speaker", "--command", "mcp.tools.call", "--json",
		"--params", `{"name":"self.audio_speaker.set_volume","arguments":{"volume":45}}`)
	if v := o.speaker.Volume(); v != 45 {
		t.Errorf("the volume is %d", v)
	}
}
