package shim

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// All requests of a node match the published schema: it joins, publishes, is called, and reports
// the machine's load and notifications.
func TestPublishedFrames(t *testing.T) {
	schema := openclawtest.LoadSchema(t)
	g := clienttest.Start(t, clienttest.Options{RecordFrames: true})
	device := speaker(1)
	device.Tools = append(device.Tools,
		tool.Tool{Name: "开灯", Description: " \n "}, tool.Tool{Name: strings.Repeat("n", 100),
			Input: json.RawMessage(`[]`)},
		tool.Tool{Name: "c", Description: strings.Repeat("好", 5000), Input: json.RawMessage(`{"type":"object"}`)},
	)
	h := newFakeSource(device)
	h.answer = func(_ context.Context, c Call) (*tool.Result, error) {
		switch string(c.Args) {
		case `{"do":"structured"}`:
			return &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"<ok> 好"}]`),
				Structured: json.RawMessage(`{"n":1.50}`), Meta: json.RawMessage(`{"m":1}`)}, nil
		case `{"do":"empty"}`:
			return &tool.Result{}, nil
		case `{"do":"need"}`:
			return &tool.Result{InputRequired: &tool.InputRequired{}}, nil
		case `{"do":"offline"}`:
			return nil, tool.Fail(tool.Offline, "it is asleep", nil)
		case `{"do":"break"}`:
			return nil, errTest
		}
		return tool.Text("done"), nil
	}
	m := newManager(t, h, func(o *Options) {
		o.Stats = func() (Stats, bool) {
			return Stats{CPUs: 2, Load: []float64{1, 0.5, 0.25}, Total: 1000, Free: 400}, true
		}
	})
	s := spec(g)
	s.Notices = true
	m.Set([]Spec{s})
	p := g.Peer()
	p.Fail(p.Next(wire.MethodRunnerInventory), wire.SurfacePending("r"))
	publishes(t, p)
	p.SendEvent(wire.EventNodeResolved, wire.Decision{RequestID: "r", NodeID: p.Connect.Device.ID,
		Decision: wire.DecisionApproved})
	if tools := approve(t, p).Tools; len(tools) != 4 {
		t.Errorf("%+v", tools)
	}
	p.Answer(p.Next(wire.MethodNodeEvent), wire.EventAck{OK: true})
	await(t, m, "board:1", Ready)

	calls := [][2]string{
		{mcpnode.CommandInitialize, ``}, {mcpnode.CommandList, `{}`}, {mcpnode.CommandList, `{"cursor":"!"}`},
		{mcpnode.CommandNotify, `{"method":"notifications/initialized"}`}, {"audio.set", `{"sample_rate":16000}`},
		{mcpnode.CommandCall, `{"name":"what"}`}, {mcpnode.CommandCall, `{}`}, {wire.CommandTool,
			`{"server":"speaker-1","tool":"` + volume + `"}`}, {wire.CommandTool, `{"server":"cellar","tool":"x"}`},
		{"system.run", ``},
	}
	for _, do := range []string{"structured", "empty", "need", "offline", "break"} {
		calls = append(calls, [2]string{mcpnode.CommandCall, `{"name":"` + volume + `","arguments":{"do":"` + do + `"}}`})
	}
	failed := 0
	for _, c := range calls {
		if r := invoke(t, p, "id", c[0], c[1]); !r.OK {
			failed++
		}
	}
	if failed == 0 || failed == len(calls) {
		t.Errorf("%d of %d calls failed", failed, len(calls))
	}
	for _, params := range []string{``, `{"text":"the bulb\nis hot"}`, `{"long":"` + strings.Repeat("好", 500) + `"}`} {
		h.tell(hub.Notice{Provider: "board:1", Title: "Speaker 1", Method: "notifications/button",
			Params: json.RawMessage(params)})
		p.Answer(p.Next(wire.MethodNodeEvent), wire.EventAck{OK: true})
	}
	m.Set(nil)
	p.CloseCode()
	want := map[string]int{
		wire.MethodConnect: 1, wire.MethodRunnerInventory: 2, wire.MethodPluginTools: 2,
		wire.MethodInvokeResult:                     len(calls),
		wire.MethodNodeEvent + " " + wire.NodeStats: 1, wire.MethodNodeEvent + " " + wire.NodeNotifications: 3,
	}
	if said := g.Check(schema); !maps.Equal(said, want) {
		t.Errorf("the node said %v, not %v", said, want)
	}
}
