package xiaozhi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
)

// A hello as documented in the firmware gets a response, and one with an unsupported audio format
// gets an alert.
func TestHellos(t *testing.T) {
	ctx := limit(t, 30*time.Second)
	h := newTestServer(t, testServerOptions{})
	b := h.device(sim.Options{Lang: "en-US"})
	must(t, b.Boot(ctx))
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(t, err)
	for _, c := range []struct{ hello, kind, says string }{
		{`{"type":"hello","version":1,"features":{"mcp":true},"transport":"websocket","audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}`, wire.TypeHello, ""},
		{`{"type":"hello","version":1,"features":{"mcp":true},"transport":"mqtt","audio_params":{},"session_id":""}`,
			wire.TypeHello, ""},
		{`{"type":"hello","transport":"websocket","audio_params":{"format":"g711","sample_rate":8000}}`, wire.TypeAlert,
			"g711"},
	} {
		url := "ws" + strings.TrimPrefix(h.http.URL, "http") + xiaozhi.SocketPath
		header := http.Header{wire.HeaderDevice: {b.MAC()}, wire.HeaderClient: {b.UUID()},
			"Authorization": {"Bearer " + h.Accounts.SocketToken(d)}}
		conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: header})
		must(t, err)
		must(t, conn.Write(ctx, websocket.MessageText, []byte(c.hello)))
		_, text, err := conn.Read(ctx)
		must(t, err)
		m, err := wire.Parse(text)
		must(t, err)
		if m.Type != c.kind || !strings.Contains(m.Message, c.says) {
			t.Errorf("%s\nis answered %s", c.hello, text)
		}
		_ = conn.CloseNow()
	}
}

// The same over MQTT, whatever transport the hello names: the audio goes over UDP.
func TestHellosOverMQTT(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:07:01")
		m, _ := a.connect(a.Accounts.MQTTLogin(d, ""))
		for _, c := range []struct{ hello, kind, says string }{
			{`{"type":"hello","version":3,"transport":"udp","features":{"mcp":true},"audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}`, wire.TypeHello, ""},
			{`{"type":"hello","version":3,"transport":"mqtt","features":{"mcp":true},"audio_params":{},"session_id":""}`, wire.TypeHello, ""},
			{`{"type":"hello","version":3,"transport":"udp","audio_params":{"format":"pcm","sample_rate":16000}}`,
				wire.TypeAlert, "pcm"},
			// the connection stays
			{`{"type":"hello","version":3,"transport":"mqtt","audio_params":{"format":"OPUS"}}`, wire.TypeHello, ""},
		} {
			must(t, m.say(c.hello))
			for { // other messages may come first
				text, err := m.hear()
				must(t, err)
				got, err := wire.Parse(text)
				must(t, err)
				if got.Type != wire.TypeHello && got.Type != wire.TypeAlert {
					continue
				}
				if got.Type != c.kind || !strings.Contains(got.Message, c.says) {
					t.Errorf("%s\nis answered %s", c.hello, text)
				}
				if h, err := wire.ParseHello(text); c.kind == wire.TypeHello &&
					(err != nil || h.Transport != wire.UDP || h.Link == nil || h.Link.Port == 0) {
					t.Errorf("%s\nis answered %s: %v", c.hello, text, err)
				}
				break
			}
		}
		must(t, m.Close())
	})
}
