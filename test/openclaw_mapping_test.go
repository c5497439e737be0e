package test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
)

// mappedNode is the board as a node of one gateway.
type mappedNode struct {
	gateway  string
	operator *sim.Client
	id       string
	events   chan wire.Frame // notices
}

// invoke calls a command, and returns the payload, or the node's error as "CODE: message".
func (n *mappedNode) invoke(t *testing.T, command, params string) string {
	t.Helper()
	in := wire.Invoke{NodeID: n.id, Command: command, IdempotencyKey: rand.Text(), TimeoutMS: new(int64(60_000))}
	if params != "" {
		in.Params = json.RawMessage(params)
	}
	var out struct{ Payload json.RawMessage }
	err := n.operator.Call(limited(t, 90*time.Second), wire.MethodNodeInvoke, in, &out)
	if e, ok := errors.AsType[*wire.Error](err); ok {
		said, _, _ := wire.NodeErrorOf(e)
		return said.Code + ": " + said.Message
	}
	must(t, err)
	return string(out.Payload)
}

// mappedNodes are the board at the real gateway, through the shim, and at ours.
func (o *clawAgent) mappedNodes(t *testing.T) []*mappedNode {
	t.Helper()
	var key addedKey
	o.json(t, &key, "key", "add", "--user", "ada", "--name", "mapping", "--scope", "operator")
	var nodes []*mappedNode
	for _, g := range []struct{ name, url, token string }{
		{"OpenClaw's", o.gateway.URL, o.gateway.Token},
		{"ours", "ws" + strings.TrimPrefix(o.boardServer.url, "http"), key.Key},
	} {
		n := &mappedNode{gateway: g.name, events: make(chan wire.Frame, 100)}
		var err error
		who := sim.Operator(g.token, wire.ScopeRead, wire.ScopeWrite, wire.ScopePairing, wire.ScopeAdmin)
		n.operator, err = sim.Dial(limited(t, time.Minute), g.url, who, nil, func(f wire.Frame) {
			if f.Event == wire.NodeMCPNotification {
				n.events <- f
			}
		})
		must(t, err)
		t.Cleanup(n.operator.Close)
		nodes = append(nodes, n)
	}
	return nodes
}

// await waits until the board has some commands at both gateways, and approves them at OpenClaw's.
func (o *clawAgent) await(t *testing.T, nodes []*mappedNode, commands ...string) {
	t.Helper()
	limit := limited(t, 3*time.Minute)
	for _, n := range nodes {
		waitWithin(t, 2*time.Minute, "the board has its commands at "+n.gateway+" gateway", func() bool {
			var pairs wire.NodePairs
			must(t, n.operator.Call(limit, wire.MethodNodePairList, given{}, &pairs))
			for _, p := range pairs.Pending {
				// Another connection may take its place meanwhile.
				_ = n.operator.Call(limit, wire.MethodNodeApprove, given{"requestId": p.RequestID}, nil)
			}
			var list wire.NodeList
			must(t, n.operator.Call(limit, wire.MethodNodeList, given{}, &list))
			for _, d := range list.Nodes {
				if d.DisplayName == "Speaker" && d.Connected && !slices.ContainsFunc(commands,
					func(c string) bool { return !slices.Contains(d.Commands, c) }) {
					n.id = d.NodeID
					return true
				}
			}
			return false
		})
	}
}

// mapping goes through the table of the mapping between OpenClaw's commands and MCP (initialize,
// tools/list, tools/call, notifications, media), each row at both gateways. The answers must be the
// same.
func (o *clawAgent) mapping(t *testing.T) {
	o.awake(t)
	o.run(t, "tool", "allow", "speaker_audio")
	o.run(t, "tool", "allow", "speaker_video")
	nodes := o.mappedNodes(t)
	o.await(t, nodes, "audio.start", "video.start")
	volume := func(want int) func(t *testing.T) {
		return func(t *testing.T) {
			if v := o.speaker.Volume(); v != want {
				t.Errorf("the volume is %d", v)
			}
		}
	}
	const setVolume = `"self.audio_speaker.set_volume"`
	for _, row := range []struct {
		name, command, params string
		want                  []string // parts of the answer
		check                 func(t *testing.T)
	}{
		{"initialize", "mcp.initialize", `{"capabilities":{"robots":{"arms":2},"vision":{"url":"http://192.0.2.1/"}}}`,
			[]string{`"protocolVersion":"2024-11-05"`, `"serverInfo":{"name":"bread-compact-wifi","version":"2.4.2"}`,
				`"capabilities":{"tools":{}}`},
			func(t *testing.T) {
				if p := o.speaker.Report().LastInitialize; !strings.Contains(p, `"robots":{"arms":2}`) ||
					strings.Contains(p, "192.0.2.1") {
					t.Errorf("the board got %s", p)
				}
			}},
		{"initialize without capabilities", "mcp.initialize", "", []string{`"name":"bread-compact-wifi"`}, nil},
		{"initialize with wrong ones", "mcp.initialize", `{"capabilities":5}`, []string{"-32602: "}, nil},
		{"list", "mcp.tools.list", `{"cursor":""}`, []string{`{"name":` + setVolume, `"inputSchema":{"`}, nil},
		{"list from nowhere", "mcp.tools.list", `{"cursor":"?"}`, []string{"-32602: "}, nil},
		{"call", "mcp.tools.call", `{"name":` + setVolume + `,"arguments":{"volume":31}}`,
			[]string{`"content":[{"type":"text","text":"true"}]`, `"isError":false`}, volume(31)},
		{"call without a name", "mcp.tools.call", `{}`, []string{"-32602: name is missing"}, nil},
		{"call of nothing", "mcp.tools.call", `{"name":"self.fly"}`, []string{"-32601: ", "self.fly"}, nil},
		{"call with wrong arguments", "mcp.tools.call", `{"name":` + setVolume + `,"arguments":{"volume":"loud"}}`,
			[]string{"-32602: "}, volume(31)},
		{"call for a model", "mcp.tools.call.v1", `{"server":"speaker","tool":` + setVolume + `,"arguments":{"volume":32}}`,
			[]string{`"text":"true"`, `"isError":false`}, volume(32)},
		{"call of nothing for a model", "mcp.tools.call.v1", `{"server":"speaker","tool":"self.fly","arguments":{}}`,
			[]string{`"isError":true`, "self.fly"}, nil},
		{"call of no server", "mcp.tools.call.v1", `{"server":"moon","tool":"x","arguments":{}}`,
			[]string{"MCP_SERVER_UNAVAILABLE: ", "moon"}, nil},
		{"notify", "mcp.notify", `{"method":"notifications/lights","params":{"on":true}}`, []string{`{"delivered":true}`},
			func(t *testing.T) {
				waitUntil(t, "the board hears it", func() bool {
					return slices.Contains(o.speaker.Report().Heard, `notifications/lights {"on":true}`)
				})
			}},
		{"notify with a request", "mcp.notify", `{"method":"tools/call"}`, []string{"-32602: "}, nil},
		{"set the sound", "audio.set", `{"sample_rate":16000}`, []string{`"sample_rate":16000`, "next conversation"}, nil},
		{"set no sound", "audio.set", `{"sample_rate":5}`, []string{"-32602: "}, nil},
		{"stop no sound", "audio.stop", ``, []string{"-32602: "}, nil},
		{"stop no pictures", "video.stop", `{}`, []string{"-32602: "}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			first := ""
			for _, n := range nodes {
				got := n.invoke(t, row.command, row.params)
				for _, part := range row.want {
					if !strings.Contains(got, part) {
						t.Errorf("at %s: %s\nwithout %s", n.gateway, got, part)
					}
				}
				switch {
				case first == "":
					first = got
				case got != first && row.name != "list": // at ours, it has the tools for people, too
					t.Errorf("at %s: %s\nat %s: %s", nodes[0].gateway, first, n.gateway, got)
				}
				if row.check != nil {
					row.check(t)
				}
			}
		})
	}
	for _, n := range nodes {
		t.Run("media at "+n.gateway, func(t *testing.T) { o.mediaMapping(t, n) })
	}
	t.Run("notices", func(t *testing.T) { o.noticeMapping(t, nodes[1]) })
	t.Run("new tools", func(t *testing.T) { o.newToolsMapping(t, nodes) })
	t.Run("asleep", func(t *testing.T) { o.asleepMapping(t, nodes) })
}

// mediaMapping starts and stops sound and pictures. They themselves take the board's own ways.
func (o *clawAgent) mediaMapping(t *testing.T, n *mappedNode) {
	o.awake(t)
	photos := o.speaker.Report().Photos
	for _, step := range []struct{ command, params, want string }{
		{"audio.start", `{}`, `\"recording\":true`},
		{"audio.start", `{}`, "BUSY: "},
		{"video.start", `{"interval":3600}`, `\"interval\":3600`},
		{"video.start", `{}`, "BUSY: "},
	} {
		if got := n.invoke(t, step.command, step.params); !strings.Contains(got, step.want) {
			t.Fatalf("%s %s: %s", step.command, step.params, got)
		}
	}
	taken := func(n int) {
		waitWithin(t, time.Minute, "pictures are taken", func() bool { return o.speaker.Report().Photos >= photos+n })
	}
	taken(1)
	if got := n.invoke(t, "video.set", `{"interval":5}`); !strings.Contains(got, `\"interval\":5`) {
		t.Error(got)
	}
	taken(2)
	waitWithin(t, time.Minute, "two pictures came", func() bool {
		got := n.invoke(t, "video.set", `{"interval":3600}`)
		return !strings.Contains(got, `\"taken\":1`) && !strings.Contains(got, `\"taken\":0`)
	})
	if got := n.invoke(t, "video.stop", `{}`); strings.Count(got, `"mimeType":"image/jpeg"`) < 2 {
		t.Errorf("%.300s", got)
	}
	if got := n.invoke(t, "audio.stop", `{}`); !strings.Contains(got, `"content":[`) {
		t.Errorf("%.300s", got)
	}
}

// noticeMapping hears of a notification of the board within moments. At OpenClaw's gateway it
// appears in the agent's next turn, see boardTells.
func (o *clawAgent) noticeMapping(t *testing.T, n *mappedNode) {
	o.awake(t)
	must(t, n.operator.Call(limited(t, time.Minute), "notices.subscribe", given{}, nil))
	began := time.Now()
	o.speaker.Notify("notifications/button", []byte(`{"pressed":7}`))
	limit := limited(t, time.Minute)
	for {
		select {
		case f := <-n.events:
			if p := string(f.Payload); strings.Contains(p, `"method":"notifications/button"`) &&
				strings.Contains(p, `"params":{"pressed":7}`) && strings.Contains(p, n.id) {
				t.Logf("it took %v", time.Since(began).Round(time.Millisecond))
				return
			}
		case <-limit.Done():
			t.Fatal("the operator hears nothing")
		}
	}
}

// newToolsMapping adds a tool to the board, which says so.
func (o *clawAgent) newToolsMapping(t *testing.T, nodes []*mappedNode) {
	o.awake(t)
	began := time.Now()
	o.speaker.Reflash("", []xiaozhi.Tool{{Name: "self.robot.wave", Description: "Waves."}})
	o.speaker.Notify("notifications/tools/list_changed", nil)
	for _, n := range nodes {
		waitUntil(t, "the new tool is listed at "+n.gateway+" gateway", func() bool {
			return strings.Contains(n.invoke(t, "mcp.tools.list", "{}"), `"self.robot.wave"`)
		})
		t.Logf("at %s after %v", n.gateway, time.Since(began).Round(time.Millisecond))
	}
	waitUntil(t, "OpenClaw's agent has it", func() bool {
		var d wire.Node
		must(t, nodes[0].operator.Call(limited(t, time.Minute), wire.MethodNodeDescribe,
			given{"nodeId": nodes[0].id}, &d))
		return slices.Contains(o.own(d), "self.robot.wave")
	})
	t.Logf("for the agent after %v", time.Since(began).Round(time.Millisecond))
}

// asleepMapping calls a board that is asleep.
func (o *clawAgent) asleepMapping(t *testing.T, nodes []*mappedNode) {
	o.awake(t)
	must(t, o.speaker.Lose(xiaozhi.Reset))
	call := func(n *mappedNode) string {
		return n.invoke(t, "mcp.tools.call", `{"name":"self.audio_speaker.set_volume","arguments":{"volume":33}}`)
	}
	waitUntil(t, "the board is asleep", func() bool {
		return strings.HasPrefix(call(nodes[1]), "MCP_SERVER_UNAVAILABLE: The board is asleep.")
	})
	if a, b := call(nodes[0]), call(nodes[1]); a != b {
		t.Errorf("at %s: %s\nat %s: %s", nodes[0].gateway, a, nodes[1].gateway, b)
	}
	for _, n := range nodes {
		if got := n.invoke(t, "mcp.initialize", "{}"); !strings.Contains(got, `"name":"bread-compact-wifi"`) {
			t.Errorf("at %s: %s", n.gateway, got)
		}
		if got := n.invoke(t, "mcp.notify", `{"method":"notifications/x"}`); !strings.Contains(got,
			`{"delivered":false,"reason":"The board is asleep.`) {
			t.Errorf("at %s: %s", n.gateway, got)
		}
	}
	o.awake(t)
}
