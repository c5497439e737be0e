package xiaozhi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// quiet is an MQTT connection that discards everything.
type quiet struct {
	id    string
	asked chan []byte
}

func (q quiet) ID() string                 { return q.id }
func (q quiet) Push(b []byte) error        { q.asked <- b; return nil }
func (q quiet) Close()                     {}
func (q quiet) RemoteAddr() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.1:4000") }
func (q quiet) LocalAddr() netip.AddrPort  { return netip.MustParseAddrPort("192.0.2.2:1883") }

// usual is the catalog of a board with a display and a camera.
func usual() remote.Catalog {
	c := remote.Catalog{Board: "bread-compact-wifi", Firmware: "2.4.2"}
	for i := range 20 {
		c.Tools = append(c.Tools, tool.Tool{
			Name: fmt.Sprintf("self.part%d.do_something", i), Description: strings.Repeat("Does something. ", 15),
			Input: json.RawMessage(`{"type":"object","properties":{"volume":{"type":"integer","minimum":0,"maximum":100}},"required":["volume"]}`),
		})
	}
	return c
}

// measureBoards makes approved boards, and returns the memory of each in bytes: asleep, and
// connected to MQTT without a conversation.
func measureBoards(t testing.TB, boards int) (asleep, awake float64) {
	t.Helper()
	ctx := context.Background()
	r := hubtest.New(t, hubtest.Options{})
	text, err := json.Marshal(usual())
	if err != nil {
		t.Fatal(err)
	}
	for i := range boards {
		call := store.DeviceCall{
			Kind: Kind, Hardware: mac(i), Client: fmt.Sprintf("11111111-1111-4111-8111-%012d", i),
			Family: "bread-compact-wifi", Article: "bread-compact-wifi",
			Version: "2.4.2", Language: "zh-CN", Features: json.RawMessage(`{"x":"` + strings.Repeat("y", 800) + `"}`),
			At: time.Now(),
		}
		d, err := r.Store.Devices.Seen(ctx, call)
		if err == nil {
			err = r.Store.Devices.SetCode(ctx, d, fmt.Sprint("code", i), call.At.Add(time.Minute), call.At)
		}
		if err == nil {
			d, err = r.Store.Devices.Approve(ctx, store.DeviceApproval{CodeHash: fmt.Sprint("code", i),
				Owner: r.Person.ID, Name: fmt.Sprintf("board %d", i), At: call.At})
		}
		if err == nil {
			err = r.Store.Devices.SetCatalog(ctx, d.Number, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := heap()
	h, err := NewBoards(Options{
		Accounts: r.Accounts, Store: r.Store, Hub: r.Hub, Logger: slog.New(slog.NewTextHandler(discard{},
			&slog.HandlerOptions{Level: slog.LevelError})),
		PublicURL: "http://board.example.org",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	asleep = float64(heap()-before) / float64(boards)
	base := runtime.NumGoroutine()
	sessions := make([]mqtt.Session, boards)
	for i := range boards {
		asked := make(chan []byte, 8)
		x := h.NewMQTTSession(quiet{mac(i), asked})
		if x == nil {
			t.Fatalf("%s is not plugged in", mac(i))
		}
		m, err := wire.Parse(<-asked)
		if err != nil || m.Type != wire.TypeMCP {
			t.Fatalf("%+v %v", m, err)
		}
		reply := wire.Message{Type: wire.TypeMCP,
			Payload: []byte(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"bread-compact-wifi","version":"2.4.2"}}}`)}
		x.Message(reply.Append(nil))
		sessions[i] = x
	}
	for limit := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > base && time.Now().Before(limit); {
		runtime.Gosched() // until all tools were listed
	}
	awake = float64(heap()-before) / float64(boards)
	for _, x := range sessions {
		x.Closed(nil)
	}
	return asleep, awake
}

func mac(i int) string { return fmt.Sprintf("aa:bb:cc:%02x:%02x:%02x", i>>16&255, i>>8&255, i&255) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// An idle board uses little memory: there can be ten thousand.
func TestMemory(t *testing.T) {
	asleep, awake := measureBoards(t, 300)
	t.Logf("asleep %.0f bytes, awake %.0f", asleep, awake)
	if asleep > 8<<10 || awake > 14<<10 {
		t.Errorf("a board has %.0f bytes asleep, and %.0f awake", asleep, awake)
	}
}

// BenchmarkMemory measures the memory of idle boards.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		asleep, awake := measureBoards(b, 1000)
		b.ReportMetric(asleep, "B/asleep")
		b.ReportMetric(awake, "B/awake")
	}
}
