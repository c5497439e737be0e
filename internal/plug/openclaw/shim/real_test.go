//go:build openclaw

package shim

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/board"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// agentModel is a model that does what it is asked for: it calls a tool when it hears
// "louder", and says what came of it.
func agentModel(t *testing.T) *openaitest.Server {
	t.Helper()
	m, err := openaitest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	m.Answer = func(r *openaitest.Request) openaitest.Reply {
		if results := r.Chat.Results(); len(results) > 0 {
			return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("It says: " + results[0].Text())}}
		}
		if strings.Contains(string(r.Body), "make it louder") {
			return openaitest.Reply{Steps: openaitest.CallInPieces(0, "call_1", "tool_call",
				`{"id":"mcp:speaker-1:speaker-1_self_audio_speaker_set_volume",`, `"args":{"volume":44}}`)}
		}
		return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("Well.")}}
	}
	return m
}

// The whole story with a real gateway: a board is let in and approved with the
// commands that its owner is told, its tools are there for the command line and for
// agents, and it comes back when the gateway restarts.
func TestRealGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("a real gateway takes 20 seconds to start")
	}
	model := agentModel(t)
	allow := append(slices.Clone(commonCommands), audioCommands...)
	g := openclawtest.Gateway(t, openclawtest.Options{Manual: true, Allow: allow, Model: model.URL})
	h := newHouse(speaker(1))
	m := newManager(t, h, func(o *Options) {
		o.times, o.Stats = timings{}, MachineStats
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	})
	m.Set([]Spec{{ID: "gw:1", URL: g.URL, Token: g.Token, Owner: "p1", Notices: true, Version: 1}})
	await := func(want State) Status {
		t.Helper()
		return awaitWithin(t, openclawtest.Patience, m, "board:1", string(want), func(s Status) bool { return s.State == want })
	}
	run := func(command string) {
		t.Helper()
		words := strings.Fields(command)
		if len(words) < 4 || words[0] != "openclaw" {
			t.Fatalf("the owner is told to run %q", command)
		}
		g.CLI(t, words[1:]...)
	}
	describe := func() (n wire.Node) {
		t.Helper()
		out := g.CLI(t, "nodes", "describe", "--node", "Speaker 1", "--json")
		if err := json.Unmarshal(out, &n); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return n
	}

	run(await(Pairing).Command)
	run(await(Approval).Command)
	st := await(Ready)
	if st.Tools != 1 || st.Taken != 1 || st.Gateway == "" {
		t.Errorf("%+v", st)
	}
	n := describe()
	ref := wire.ToolRef{Server: "speaker-1", Tool: volume}
	if len(n.PluginTools) != 1 || *n.PluginTools[0].MCP != ref || n.NodeID != st.Node || len(n.Commands) != len(allow) || n.Approval != wire.Approved {
		t.Errorf("%+v", n)
	}
	if _, ok := MachineStats(); ok && !strings.Contains(string(n.HostStats), "cpuCount") {
		t.Errorf("the gateway knows of the machine %s", n.HostStats)
	}

	t.Run("invoke", func(t *testing.T) { invokedByHand(t, g, h) })
	t.Run("agent", func(t *testing.T) { usedByAgent(t, g, h) })
	t.Run("notice", func(t *testing.T) { noticedByAgent(t, g, h, model) })

	t.Run("change", func(t *testing.T) {
		d := speaker(1)
		d.Tools = append(d.Tools, tool.Tool{Name: "self.lamp.set", Description: "Turns the lamp on.", Input: json.RawMessage(`{"type":"object"}`)})
		h.change(func() { h.devices = []Device{d} })
		awaitWithin(t, openclawtest.Patience, m, "board:1", "changed", func(s Status) bool { return s.Taken == 2 })
		if n := describe(); len(n.PluginTools) != 2 {
			t.Errorf("%+v", n.PluginTools)
		}
	})

	t.Run("restart", func(t *testing.T) {
		g.CLI(t, "gateway", "call", "gateway.restart.request", "--params", `{"reason":"a test"}`)
		await(Waiting)
		if st := await(Ready); st.Taken != 2 {
			t.Errorf("%+v", st)
		}
		invokedByHand(t, g, h)
	})
}

// invokedByHand has the real command line call the board.
func invokedByHand(t *testing.T, g *openclawtest.RealGateway, h *house) {
	invoke := func(command, params string) string {
		t.Helper()
		return string(g.CLI(t, "nodes", "invoke", "--node", "Speaker 1", "--command", command, "--params", params, "--json"))
	}
	called := func(name, args string) {
		t.Helper()
		if c := <-h.calls; c.Device != "board:1" || c.Tool != name || string(c.Args) != args {
			t.Errorf("%s is called at %s with %s", c.Tool, c.Device, c.Args)
		}
	}
	if out := invoke(wire.CommandTool, `{"server":"speaker-1","tool":"`+volume+`","arguments":{"volume":43}}`); !strings.Contains(out, `"done"`) {
		t.Error(out)
	}
	called(volume, `{"volume":43}`)
	if out := invoke(cmdList, `{}`); !strings.Contains(out, volume) || strings.Contains(out, "reboot") {
		t.Error(out)
	}
	if out := invoke("audio.set", `{"frame_ms":20}`); !strings.Contains(out, `"done"`) {
		t.Error(out)
	}
	called("audio", `{"action":"set","frame_ms":20}`)
	h.answer = func(context.Context, Call) (*tool.Result, error) {
		return nil, tool.Fail(tool.Offline, "The board is asleep.", nil)
	}
	out, err := openclawtest.TryCLI(t, g.URL, g.Token, "nodes", "invoke", "--node", "Speaker 1", "--command", wire.CommandTool,
		"--params", `{"server":"speaker-1","tool":"`+volume+`"}`, "--json")
	if err == nil || !strings.Contains(string(out), "MCP_SERVER_UNAVAILABLE: The board is asleep.") {
		t.Errorf("%v: %s", err, out)
	}
	called(volume, `{}`)
	h.answer = nil
}

// usedByAgent has the gateway's agent use the board in a turn.
func usedByAgent(t *testing.T, g *openclawtest.RealGateway, h *house) {
	out := g.CLI(t, "gateway", "call", "agent", "--expect-final", "--timeout", "120000", "--json", "--params",
		`{"message":"make it louder","sessionKey":"agent:main:shim","idempotencyKey":"turn-1"}`)
	if !strings.Contains(string(out), "done") {
		t.Errorf("%s", out)
	}
	select {
	case c := <-h.calls:
		if c.Device != "board:1" || c.Tool != volume || string(c.Args) != `{"volume":44}` {
			t.Errorf("%s is called at %s with %s", c.Tool, c.Device, c.Args)
		}
	default:
		t.Error("the board was not called")
	}
}

// noticedByAgent has the board tell something, which the agent hears of in its next
// turn.
func noticedByAgent(t *testing.T, g *openclawtest.RealGateway, h *house, model *openaitest.Server) {
	before := len(model.Requests())
	h.tell(board.Notice{Outlet: "board:1", Title: "Speaker 1", Method: "notifications/button", Params: json.RawMessage(`{"text":"somebody rings"}`)})
	g.CLI(t, "gateway", "call", "chat.send", "--json", "--params", `{"message":"what is new?","sessionKey":"agent:main:main","idempotencyKey":"turn-2"}`)
	ctx, cancel := context.WithTimeout(t.Context(), openclawtest.Patience)
	defer cancel()
	r, err := model.Await(ctx, before+1)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(r.Body), "Speaker 1 - button somebody rings") {
		for _, m := range r.Chat.Messages[1:] {
			t.Logf("%s: %s", m.Role, m.Text())
		}
		t.Error("the agent has not heard of it")
	}
}
