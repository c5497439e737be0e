package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// All devices are one node.
func TestOne(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(speaker(1), speaker(2), lamp())
	m := newManager(t, h, nil)
	s := spec(g)
	s.Mode, s.Title = OneNode, "My house"
	m.Set([]Spec{s})
	p := g.Peer()
	if p.Connect.Client.DisplayName != "My house" {
		t.Errorf("%+v", p.Connect.Client)
	}
	tools := approve(t, p).Tools
	if len(tools) != 3 {
		t.Fatalf("%+v", tools)
	}
	for i, want := range []wire.ToolRef{{Server: "lamp", Tool: "light"}, {Server: "speaker-1", Tool: volume},
		{Server: "speaker-2", Tool: volume}} {
		if *tools[i].MCP != want {
			t.Errorf("%+v", tools[i])
		}
	}
	await(t, m, "", Ready)

	call := func(command, params, device, name, args string) {
		t.Helper()
		if r := invoke(t, p, "1", command, params); !r.OK ||
			string(r.Payload) != `{"content":[{"type":"text","text":"done"}],"isError":false}` {
			t.Errorf("%s: %+v %s", params, r.Error, r.Payload)
		}
		if c := <-h.calls; c.Device != device || c.Tool != name || string(c.Args) != args {
			t.Errorf("%s calls %s at %s with %s", params, c.Tool, c.Device, c.Args)
		}
	}
	call(wire.CommandTool, `{"server":"speaker-2","tool":"`+volume+`","arguments":{"volume":44}}`, "board:2", volume,
		`{"volume":44}`)
	call(wire.CommandTool, `{"server":"speaker-2","tool":"speaker-2_self_audio_speaker_set_volume"}`, "board:2", volume,
		`{}`)
	call(mcpnode.CommandCall, `{"name":"speaker-1_self_audio_speaker_set_volume","arguments":{"volume":1}}`, "board:1", volume,
		`{"volume":1}`)
	call(mcpnode.CommandCall, `{"server":"speaker-1","name":"`+volume+`","arguments":null}`, "board:1", volume, `{}`)
	call("audio.start", `{"server":"speaker-2","frame_ms":20,"action":"x"}`, "board:2", "audio",
		`{"action":"start","frame_ms":20}`)
	for params, want := range map[string]string{
		`{"server":"cellar","tool":"light"}`:                  wire.NodeNoServer,
		`{"server":"lamp"}`:                                   "-32602",
		`{"server":"lamp","tool":"light","arguments":[1]}`:    "-32602",
		`{"server":"speaker-1","tool":"reboot"}`:              "",
		`{"server":"speaker-1","tool":"audio"}`:               "",
		`{"server":"lamp","tool":"` + volume + `"}`:           "",
		`{"server":"lamp","tool":"speaker-1_` + volume + `"}`: "",
	} {
		r := invoke(t, p, "2", wire.CommandTool, params)
		if want == "" && (!r.OK || !strings.Contains(string(r.Payload), `"isError":true`)) ||
			want != "" && (r.OK || r.Error == nil || r.Error.Code != want) {
			t.Errorf("%s: %+v %s", params, r.Error, r.Payload)
		}
	}
	if r := invoke(t, p, "3", "audio.stop", ""); r.Error == nil || r.Error.Code != "-32602" { // ambiguous
		t.Errorf("%+v", r)
	}
	if len(h.calls) != 0 {
		t.Errorf("%+v was called", <-h.calls)
	}
}

// All commands of a node, with their results.
func TestCommands(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(speaker(1))
	fails := func(c tool.Code) error { return tool.Fail(c, "in words", nil) }
	h.answer = func(_ context.Context, c Call) (*tool.Result, error) {
		var a struct {
			Do string `json:"do"`
		}
		_ = json.Unmarshal(c.Args, &a)
		switch a.Do {
		case "structured":
			return &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"<ok> 好"}]`),
				Structured: json.RawMessage(`{"n":1.50}`), Meta: json.RawMessage(`{"m":1}`)}, nil
		case "trouble":
			return tool.ErrorResult("too loud"), nil
		case "empty":
			return &tool.Result{}, nil
		case "need":
			return &tool.Result{InputRequired: &tool.InputRequired{}}, nil
		case "":
			return tool.Text("args " + string(c.Args)), nil
		case "plain error":
			return nil, errTest
		}
		return nil, fails(tool.Code(a.Do))
	}
	m := newManager(t, h, nil)
	m.Set([]Spec{spec(g)})
	p := g.Peer()
	approve(t, p)
	await(t, m, "board:1", Ready)

	do := func(what string) string { return `{"name":"` + volume + `","arguments":{"do":"` + what + `"}}` }
	agent := func(what string) string {
		return `{"server":"speaker-1","tool":"` + volume + `","arguments":{"do":"` + what + `"}}`
	}
	const inWords = `{"content":[{"type":"text","text":"in words"}],"isError":true}`
	for _, c := range []struct{ command, params, payload, code string }{
		{mcpnode.CommandInitialize, ``,
			`{"protocolVersion":"2025-11-25","serverInfo":{"name":"speaker-1","title":"Speaker 1","version":"1.2.3"},"capabilities":{"tools":{}}}`, ""},
		{mcpnode.CommandInitialize, `{"capabilities":{}}`,
			`{"protocolVersion":"2025-11-25","serverInfo":{"name":"speaker-1","title":"Speaker 1","version":"1.2.3"},"capabilities":{"tools":{}}}`, ""},
		{mcpnode.CommandList, `{}`,
			`{"tools":[{"name":"self.audio_speaker.set_volume","description":"Sets the volume.","inputSchema":{"type":"object","properties":{"volume":{"type":"integer"}},"required":["volume"]}}]}`, ""},
		{mcpnode.CommandList, `{"cursor":"!"}`, "", "-32602"},
		{mcpnode.CommandList, `{"cursor":5}`, "", "-32602"},
		{mcpnode.CommandNotify, `{"method":"notifications/initialized"}`, `{"delivered":false,"reason":"This server takes no notifications."}`, ""},
		{mcpnode.CommandNotify, `{"method":"initialize"}`, "", "-32602"},
		{mcpnode.CommandCall, `{"name":"` + volume + `"}`, `{"content":[{"type":"text","text":"args {}"}],"isError":false}`, ""},
		{mcpnode.CommandCall, `{"name":"` + volume + `","arguments":{"volume":5.0}}`,
			`{"content":[{"type":"text","text":"args {\"volume\":5.0}"}],"isError":false}`, ""},
		{mcpnode.CommandCall, do("structured"),
			`{"content":[{"type":"text","text":"\u003cok\u003e 好"}],"structuredContent":{"n":1.50},"isError":false,"_meta":{"m":1}}`, ""},
		{mcpnode.CommandCall, do("trouble"), `{"content":[{"type":"text","text":"too loud"}],"isError":true}`, ""},
		{mcpnode.CommandCall, do("empty"), `{"content":[],"isError":false}`, ""},
		{mcpnode.CommandCall, do("need"), "", "MCP_ERROR"},
		{mcpnode.CommandCall, do("plain error"), "", "FAILED"},
		{mcpnode.CommandCall, do("bad_arguments"), "", "-32602"},
		{mcpnode.CommandCall, do("denied"), "", "DENIED"},
		{mcpnode.CommandCall, do("rate_limited"), "", "RATE_LIMITED"},
		{mcpnode.CommandCall, do("busy"), "", "BUSY"},
		{mcpnode.CommandCall, `{"name":"what"}`, "", "-32601"},
		{wire.CommandTool, agent("plain error"), `{"content":[{"type":"text","text":"%"}],"isError":true}`, ""},
		{wire.CommandTool, agent("bad_arguments"), inWords, ""},
		{wire.CommandTool, agent("denied"), inWords, ""},
		{wire.CommandTool, agent("rate_limited"), inWords, ""},
		{wire.CommandTool, agent("busy"), inWords, ""},
		{wire.CommandTool, agent("offline"), "", wire.NodeNoServer},
		{mcpnode.CommandCall, do("offline"), "", wire.NodeNoServer},
		{mcpnode.CommandCall, do("lost"), "", wire.NodeNoServer},
		{mcpnode.CommandCall, do("timeout"), "", wire.NodeTimeout},
		{mcpnode.CommandCall, `{}`, "", "-32602"},
		{mcpnode.CommandCall, ``, "", "-32602"},
		{mcpnode.CommandCall, `[1]`, "", "-32602"},
		{mcpnode.CommandCall, `{"name":"` + volume + `","arguments":"x"}`, "", "-32602"},
		{mcpnode.CommandCall, `{"name":"` + volume + `","server":"lamp"}`, "", wire.NodeNoServer},
		{"audio.set", ` {"sample_rate":16000}`,
			`{"content":[{"type":"text","text":"args {\"action\":\"set\",\"sample_rate\":16000}"}],"isError":false}`,
			""},
		{"audio.stop", ``, `{"content":[{"type":"text","text":"args {\"action\":\"stop\"}"}],"isError":false}`, ""},
		{"audio.set", `5`, "", "-32602"},
		{"audio.play", `{}`, "", wire.NodeUnavailable},
		{"system.run", `{}`, "", wire.NodeUnavailable},
	} {
		r := invoke(t, p, "id of "+c.command, c.command, c.params)
		if r.ID != "id of "+c.command || r.NodeID != p.Connect.Device.ID {
			t.Errorf("%s %s is answered as %s of %s", c.command, c.params, r.ID, r.NodeID)
		}
		if c.code != "" {
			if r.OK || r.Error == nil || r.Error.Code != c.code || r.Error.Message == "" {
				t.Errorf("%s %s: %+v %s", c.command, c.params, r.Error, r.Payload)
			}
			continue
		}
		before, after, any := strings.Cut(c.payload, "%")
		if got := string(r.Payload); !r.OK || !any && got != c.payload ||
			any && !(strings.HasPrefix(got, before) && strings.HasSuffix(got, after)) {
			t.Errorf("%s %s: %+v\n got %s\nwant %s", c.command, c.params, r.Error, got, c.payload)
		}
	}
	if r := invoke(t, p, "x", "system.run", ""); r.Error.Message != "command not supported" {
		t.Errorf("%+v", r.Error)
	}
	p.SendEvent(wire.EventInvoke, json.RawMessage(`{"id":"y","nodeId":"`+p.Connect.Device.ID+
		`","command":"mcp.notify","paramsJSON":"{"}`))
	if r := resulting(t, p); r.ID != "y" || r.Error == nil || r.Error.Code != "-32602" {
		t.Errorf("%+v", r)
	}
}

// The pages of a list together contain every tool once.
func TestPages(t *testing.T) {
	d := lamp()
	d.Tools = nil
	for i := range 250 {
		d.Tools = append(d.Tools, tool.Tool{Name: fmt.Sprint("tool.", i), Description: "x"})
	}
	o := newSurface("x", []Device{d})
	node := mcpnode.Node{Servers: o.servers, Tools: o.listedTools}
	seen, cursor := map[string]bool{}, ""
	for n := 0; n == 0 || cursor != ""; n++ {
		data, e := node.Run(t.Context(), mcpnode.CommandList, json.RawMessage(`{"cursor":"`+cursor+`"}`))
		var page struct {
			Tools []tool.Tool `json:"tools"`
			Next  string      `json:"nextCursor"`
		}
		if e != nil || json.Unmarshal(data, &page) != nil || len(page.Tools) == 0 || len(page.Tools) > 100 {
			t.Fatalf("%v: %s", e, data)
		}
		for _, l := range page.Tools {
			if seen[l.Name] || string(l.Input) != `{"type":"object"}` {
				t.Errorf("%+v", l)
			}
			seen[l.Name] = true
		}
		cursor = page.Next
	}
	if len(seen) != 250 {
		t.Errorf("%d tools were told", len(seen))
	}
	if o.publishedCount != maxPublished || o.omittedCount != 250-maxPublished {
		t.Errorf("%d are published, %d left out", o.publishedCount, o.omittedCount)
	}
	if tools, e := wire.ParsePluginTools(o.publishedJSON); e != nil || len(tools.Tools) != maxPublished {
		t.Errorf("%v", e)
	}
}

// Whatever the names and descriptions of tools are, a gateway accepts the list.
func TestPublishable(t *testing.T) {
	d := Device{ID: "x", Slug: "lamp", Tools: []tool.Tool{
		{Name: "a", Description: " \n "}, {Name: "b", Title: "Title", Description: "", Input: json.RawMessage(`[]`)},
		{Name: "c", Description: strings.Repeat("好", 5000)},
		{Name: "开灯", Description: "x", Input: json.RawMessage(`{`)},
		{Name: "关灯", Description: "x", Input: json.RawMessage(` {"type":"object"} `)}, {Name: " d", Description: "x"},
		{Name: strings.Repeat("n", 100), Description: "\xff"}, {Name: "a", Description: "again"},
		{Name: "", Description: "x"},
	}}
	o := newSurface("x", []Device{d})
	tools, e := wire.ParsePluginTools(o.publishedJSON)
	if e != nil || len(tools.Tools) != 6 {
		t.Fatalf("%v: %s", e, o.publishedJSON)
	}
	for _, p := range tools.Tools {
		ref := *p.MCP
		if got := o.findTool(ref.Server, ref.Tool); got == nil || got.name != p.Name || o.findTool("", p.Name) != got ||
			o.findTool("lamp", p.Name) != got {
			t.Errorf("%+v is found as %+v", p, got)
		}
		if (p.Parameters != nil) != (ref.Tool == "关灯") || len([]rune(p.Description)) > maxDescription {
			t.Errorf("%+v", p)
		}
	}
	if a := o.findTool("", "a"); a.Description == "again" {
		t.Error("the second of two tools of one name was taken")
	}
}

// Calls end with their connection, when they are canceled, and at their timeout.
func TestCallsEnd(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(lamp())
	causes := make(chan error, 3)
	h.answer = func(ctx context.Context, _ Call) (*tool.Result, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	m := newManager(t, h, nil)
	m.Set([]Spec{spec(g)})
	p := g.Peer()
	approve(t, p)

	dispatch(p, "1", mcpnode.CommandCall, `{"name":"light"}`)
	<-h.calls
	p.SendEvent(wire.EventInvokeCancel, json.RawMessage(`{"invokeId":"1","nodeId":"x"}`))
	if r := resulting(t, p); r.Error == nil || r.Error.Code != "ABORTED" {
		t.Errorf("%+v", r)
	}
	if cause := <-causes; cause != errCallCancelled {
		t.Error(cause)
	}

	r := wire.InvokeRequest{ID: "2", NodeID: p.Connect.Device.ID, Command: mcpnode.CommandCall,
		Params: json.RawMessage(`{"name":"light"}`), Timeout: 30 * time.Millisecond}
	p.SendEvent(wire.EventInvoke, json.RawMessage(r.Append(nil)))
	<-h.calls
	if r := resulting(t, p); r.Error == nil || r.Error.Code != wire.NodeTimeout {
		t.Errorf("%+v", r)
	}
	if cause := <-causes; cause != context.DeadlineExceeded {
		t.Error(cause)
	}

	dispatch(p, "3", mcpnode.CommandCall, `{"name":"light"}`)
	<-h.calls
	p.Cut()
	if cause := <-causes; cause != context.Canceled {
		t.Error(cause)
	}
	m.Close() // waits for all goroutines
}

// Calls above the concurrency limit are refused as retryable, and results that are too long become
// an error.
func TestLimits(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{Policy: `{"maxPayload":4096}`})
	h := newFakeSource(lamp())
	go_ := make(chan struct{})
	h.answer = func(_ context.Context, c Call) (*tool.Result, error) {
		<-go_
		if string(c.Args) == `{"large":true}` {
			return tool.Text(strings.Repeat("x", 5000)), nil
		}
		return tool.Text("done"), nil
	}
	m := newManager(t, h, nil)
	m.Set([]Spec{spec(g)})
	p := g.Peer()
	approve(t, p)
	for i := range maxCalls {
		dispatch(p, fmt.Sprint(i), mcpnode.CommandCall, `{"name":"light"}`)
		<-h.calls
	}
	dispatch(p, "0", mcpnode.CommandCall, `{"name":"light"}`) // occupies a slot
	dispatch(p, "one more", mcpnode.CommandCall, `{"name":"light"}`)
	for range 2 {
		if r := resulting(t, p); r.Error == nil || r.Error.Code != wire.NodeNotReady {
			t.Errorf("%+v", r)
		}
	}
	close(go_)
	for range maxCalls {
		if r := resulting(t, p); !r.OK {
			t.Errorf("%+v", r)
		}
	}
	// A slot is free after the gateway has acknowledged the result, a moment after it was sent.
	var r wire.InvokeResult
	for n := 0; ; n++ {
		r = invoke(t, p, fmt.Sprint("large ", n), mcpnode.CommandCall, `{"name":"light","arguments":{"large":true}}`)
		if r.Error == nil || r.Error.Code != wire.NodeNotReady {
			break
		}
	}
	if !r.OK || !strings.Contains(string(r.Payload), "too large") {
		t.Errorf("%+v, %v", r, r.Error)
	}
}

// Notifications of devices are forwarded if the owner enabled that, within the rate limit.
func TestNotices(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(lamp(), speaker(1))
	m := newManager(t, h, nil)
	s := spec(g)
	s.Notices, s.Devices = true, []string{"lamp"}
	m.Set([]Spec{s})
	p := g.Peer()
	approve(t, p)
	await(t, m, "glasses:1", Ready)

	h.tell(hub.Notice{Provider: "board:1", Method: "notifications/button"}) // a device that has not joined
	h.tell(hub.Notice{Provider: "glasses:1", Title: "Lamp", Method: "patchbay/awake"})
	for i, n := range []struct{ method, params, text string }{
		{"notifications/button", `{"pressed":true}`, `button {"pressed":true}`},
		{"notifications/message", `{"level":"info","text":"the bulb\nis hot"}`, "message the bulb is hot"},
		{"smells", "", "smells"},
	} {
		h.tell(hub.Notice{Provider: "glasses:1", Title: "Lamp", Method: n.method, Params: json.RawMessage(n.params)})
		r := p.Next(wire.MethodNodeEvent)
		e, wrong := wire.ParseNodeEvent(r.Params)
		got := clienttest.Params[notification](t, wire.Request{Params: e.Payload})
		want := notification{"posted", "glasses:1:" + strings.TrimPrefix(n.method, "notifications/"), "Lamp", n.text}
		if wrong != nil || e.Event != wire.NodeNotifications || got != want {
			t.Errorf("%d: %v %s: %+v", i, wrong, e.Event, got)
		}
		p.Answer(r, wire.EventAck{OK: true})
	}
	h.tell(hub.Notice{Provider: "glasses:1", Title: "Lamp", Method: "notifications/button"}) // above the rate limit
	h.change(func() { h.devices = []Device{{ID: "glasses:1", Slug: "lamp", Title: "Lamp"}} })
	publishes(t, p) // the first request
	if !p.HasNoRequest() {
		t.Error("there is more")
	}
}

// The machine's load is reported as soon as the gateway accepts it.
func TestStats(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	m := newManager(t, newFakeSource(lamp()), func(o *Options) {
		o.Stats = func() (Stats, bool) {
			return Stats{CPUs: 2, Load: []float64{1, 0.5, 0.25}, Total: 1000, Free: 400}, true
		}
		o.times.statsInterval = 30 * time.Millisecond
	})
	m.Set([]Spec{spec(g)})
	p := g.Peer()
	approve(t, p)
	for range 2 {
		r := p.Next(wire.MethodNodeEvent)
		e, wrong := wire.ParseNodeEvent(r.Params)
		if wrong != nil || e.Event != wire.NodeStats ||
			string(e.Payload) != `{"cpuCount":2,"loadAverage":[1,0.5,0.25],"memoryTotalBytes":1000,"memoryFreeBytes":400}` {
			t.Errorf("%v: %s %s", wrong, e.Event, e.Payload)
		}
		p.Answer(r, wire.EventAck{OK: true})
	}
}

func TestMachineStats(t *testing.T) {
	total, free, ok := readMemory([]byte("MemTotal:       16318456 kB\nMemFree: 1 kB\nMemAvailable:   12345678 kB\n"))
	if !ok || total != 16318456<<10 || free != 12345678<<10 {
		t.Error(total, free, ok)
	}
	for _, bad := range []string{"", "MemTotal: 5 kB", "MemAvailable: 5 kB", "MemTotal: -5 kB\nMemAvailable: 5 kB",
		"MemTotal: 5\nMemAvailable: 5"} {
		if _, _, ok := readMemory([]byte(bad)); ok {
			t.Errorf("%q says something", bad)
		}
	}
	if _, free, _ := readMemory([]byte("MemTotal: 5 kB\nMemAvailable: 9 kB")); free != 5<<10 {
		t.Error("more is free than there is")
	}
	if got := readLoad("0.50 1.25 2.00 1/234 567"); !slices.Equal(got, []float64{0.5, 1.25, 2}) {
		t.Error(got)
	}
	for _, bad := range []string{"", "1 2", "a b c", "NaN 1 1", "-1 1 1", "Inf 1 1"} {
		if readLoad(bad) != nil {
			t.Errorf("%q says something", bad)
		}
	}
	if s, ok := MachineStats(); ok && (s.CPUs < 1 || s.Total <= 0 || s.Free > s.Total) {
		t.Errorf("%+v", s)
	}
}
