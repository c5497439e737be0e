package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// fastTimings are timings for tests, without periodic work.
var fastTimings = timings{refreshDelay: 20 * time.Millisecond, retryDelay: 20 * time.Millisecond,
	approvalInterval: time.Hour, statsInterval: time.Hour, noticeInterval: time.Hour}

// fakeSource is a Source that stores node secrets in memory.
type fakeSource struct {
	calls  chan Call
	answer func(context.Context, Call) (*tool.Result, error) // nil: "done"

	mu              sync.Mutex
	devices         []Device
	fails           error // of Devices
	watchers        map[chan struct{}]bool
	noticeListeners map[chan hub.Notice]bool
	kept            map[string]NodeSecret
	keeps           error // of Save
}

func newFakeSource(devices ...Device) *fakeSource {
	return &fakeSource{
		calls: make(chan Call, 200), devices: devices, watchers: map[chan struct{}]bool{},
		noticeListeners: map[chan hub.Notice]bool{}, kept: map[string]NodeSecret{},
	}
}

func (h *fakeSource) Devices(Spec) ([]Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.devices), h.fails
}

func (h *fakeSource) Watch() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[ch] = true
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, ch)
	}
}

func (h *fakeSource) Notices(string) (<-chan hub.Notice, func()) {
	ch := make(chan hub.Notice, 100)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noticeListeners[ch] = true
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.noticeListeners, ch)
	}
}

func (h *fakeSource) Call(ctx context.Context, _ Spec, c Call) (*tool.Result, error) {
	h.calls <- c
	if h.answer != nil {
		return h.answer(ctx, c)
	}
	return tool.Text("done"), nil
}

func (h *fakeSource) Message(ctx context.Context, spec Spec, c Call) (*tool.Result, error) {
	return h.Call(ctx, spec, c)
}

// change changes the devices, and notifies the watchers.
func (h *fakeSource) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	for ch := range h.watchers {
		wake(ch)
	}
}

func (h *fakeSource) tell(n hub.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.noticeListeners {
		ch <- n
	}
}

func (h *fakeSource) load(_ context.Context, spec, device string) (NodeSecret, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept[spec+"/"+device], nil
}

func (h *fakeSource) save(_ context.Context, spec, device string, k NodeSecret) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keeps == nil {
		h.kept[spec+"/"+device] = k
	}
	return h.keeps
}

func (h *fakeSource) held(key string) NodeSecret {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept[key]
}

const volume = "self.audio_speaker.set_volume"

// speaker returns a voice board with a tool of its own, and two that must not be published.
func speaker(id int) Device {
	return Device{
		ID: fmt.Sprint("board:", id), Slug: fmt.Sprint("speaker-", id), Title: fmt.Sprint("Speaker ", id),
		Media: []string{"audio"},
		Tools: []tool.Tool{
			{Name: volume, Description: "Sets the volume.",
				Input: json.RawMessage(`{"type":"object","properties":{"volume":{"type":"integer"}},"required":["volume"]}`)},
			{Name: "reboot", Description: "Restarts it.", Input: json.RawMessage(`{"type":"object"}`), Dangerous: true},
			{Name: "audio", Description: "Audio.", Input: json.RawMessage(`{"type":"object"}`), Audience: "user"},
		},
	}
}

func lamp() Device {
	return Device{ID: "glasses:1", Slug: "lamp", Title: "Lamp",
		Tools: []tool.Tool{{Name: "light", Description: "Turns it on.", Input: json.RawMessage(`{"type":"object"}`)}}}
}

// newManager makes a manager that is closed when the test ends.
func newManager(t testing.TB, h *fakeSource, change func(*Options)) *Manager {
	t.Helper()
	o := Options{Source: h, Load: h.load, Save: h.save, Version: "1.2.3", Registerer: prometheus.NewRegistry(),
		times: fastTimings}
	if change != nil {
		change(&o)
	}
	m := New(o)
	t.Cleanup(m.Close)
	return m
}

// spec returns the Spec of a test's gateway.
func spec(g *clienttest.Gateway) Spec {
	return Spec{ID: "gw:1", URL: g.URL, Token: clienttest.Token, Owner: "p1", Version: 1}
}

// await waits until a node has a state. In mode OneNode, the device is "".
func await(t testing.TB, m *Manager, device string, want State) Status {
	t.Helper()
	return awaitStatus(t, m, device, string(want), func(st Status) bool { return st.State == want })
}

func awaitStatus(t testing.TB, m *Manager, device, what string, good func(Status) bool) Status {
	t.Helper()
	return awaitWithin(t, clienttest.Timeout, m, device, what, good)
}

func awaitWithin(t testing.TB, limit time.Duration, m *Manager, device, what string, good func(Status) bool) Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		list, _ := m.Status("gw:1")
		i := slices.IndexFunc(list, func(s Status) bool { return s.Device == device })
		if i >= 0 && good(list[i]) {
			return list[i]
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%q is not %s: %+v", device, what, list)
		}
	}
}

// approve answers a node that has just connected: its approval check, and its published tools,
// which are returned.
func approve(t testing.TB, p *clienttest.Peer) wire.PluginTools {
	t.Helper()
	p.Answer(p.Next(wire.MethodRunnerInventory), json.RawMessage(`{"nodeId":"x"}`))
	return publishes(t, p)
}

// publishes accepts all published tools of a node.
func publishes(t testing.TB, p *clienttest.Peer) wire.PluginTools {
	t.Helper()
	r := p.Next(wire.MethodPluginTools)
	tools, e := wire.ParsePluginTools(r.Params)
	if e != nil {
		t.Fatalf("%s: %v", r.Params, e)
	}
	p.Answer(r, tools)
	return tools
}

// invoke calls a command of a node and returns the result.
func invoke(t testing.TB, p *clienttest.Peer, id, command, params string) wire.InvokeResult {
	t.Helper()
	dispatch(p, id, command, params)
	return resulting(t, p)
}

func dispatch(p *clienttest.Peer, id, command, params string) {
	r := wire.InvokeRequest{ID: id, NodeID: p.Connect.Device.ID, Command: command, Timeout: 30 * time.Second,
		IdempotencyKey: "k"}
	if params != "" {
		r.Params = json.RawMessage(params)
	}
	p.SendEvent(wire.EventInvoke, json.RawMessage(r.Append(nil)))
}

func resulting(t testing.TB, p *clienttest.Peer) wire.InvokeResult {
	t.Helper()
	r := p.Next(wire.MethodInvokeResult)
	result, e := wire.ParseInvokeResult(r.Params)
	if e != nil {
		t.Fatalf("%s: %v", r.Params, e)
	}
	p.Answer(r, json.RawMessage(`{"ok":true}`))
	return result
}

var errTest = errors.New("it is broken")
