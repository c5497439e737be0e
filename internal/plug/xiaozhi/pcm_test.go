package xiaozhi_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/opus"
)

// A client without Opus talks in samples, at its own rate: the server plays back what it heard.
func TestPCM(t *testing.T) {
	for _, c := range []struct {
		format  string
		rate    int
		framing wire.Framing
	}{{"pcm", 16000, wire.FramingBare}, {"pcm16", 24000, wire.FramingShort}} {
		t.Run(fmt.Sprint(c.format, " ", c.rate), func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, time.Minute)
			h := newTestServer(t, testServerOptions{})
			conn := h.connect(ctx, fmt.Sprint(int(c.framing)))
			must(t, conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil,
				`{"type":"hello","transport":"websocket","audio_params":{"format":%q,"sample_rate":%d,"channels":1}}`,
				c.format, c.rate)))
			_, text, err := conn.Read(ctx)
			must(t, err)
			hello, err := wire.ParseHello(text)
			must(t, err)
			if a := hello.Audio; a.Format != c.format || a.SampleRate != c.rate || a.Channels != 1 {
				t.Fatalf("the hello is answered %s", text)
			}
			must(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"listen","state":"start","mode":"manual"}`)))
			said := samplesOf(t, sim.GoodMorning(), c.rate)
			for rest := said; len(rest) > 0; { // in pieces that are no frames
				n := min(len(rest), 4098)
				must(t, conn.Write(ctx, websocket.MessageBinary, c.framing.Append(nil, 0, rest[:n])))
				rest = rest[n:]
			}
			must(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"listen","state":"stop"}`)))
			heard := playedPCM(ctx, t, conn, c.framing)
			frame := c.rate * 60 / 1000 * 2
			if diff := len(heard) - len(said); diff < -frame || diff > frame {
				t.Errorf("said %d bytes, heard %d", len(said), len(heard))
			}
			if a, b := loudest(said), loudest(heard); b < a/2 || a < b/2 {
				t.Errorf("said %d loud, heard %d loud", a, b)
			}
		})
	}
}

// What cannot be spoken is refused in words.
func TestPCMIsRefused(t *testing.T) {
	ctx := limit(t, time.Minute)
	h := newTestServer(t, testServerOptions{})
	for _, params := range []string{`"format":"pcm","sample_rate":44100`, `"format":"pcm","channels":2`,
		`"format":"pcm","sample_rate":-1`} {
		conn := h.connect(ctx, "")
		must(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"hello","audio_params":{`+params+`}}`)))
		_, text, err := conn.Read(ctx)
		must(t, err)
		if m, err := wire.Parse(text); err != nil || m.Type != wire.TypeAlert || !strings.Contains(m.Message, "48000") {
			t.Errorf("%s is answered %s", params, text)
		}
	}
}

// connect opens the WebSocket of an approved board.
func (h *testServer) connect(ctx context.Context, framing string) *websocket.Conn {
	h.t.Helper()
	b := h.device(sim.Options{Lang: "en-US"})
	must(h.t, b.Boot(ctx))
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(h.t, err)
	header := http.Header{wire.HeaderDevice: {b.MAC()}, wire.HeaderClient: {b.UUID()},
		"Authorization": {"Bearer " + h.Accounts.SocketToken(d)}}
	if framing != "" {
		header.Set(wire.HeaderFraming, framing)
	}
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(h.http.URL, "http")+xiaozhi.SocketPath,
		&websocket.DialOptions{HTTPHeader: header})
	must(h.t, err)
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// samplesOf decodes packets to samples, as bytes.
func samplesOf(t *testing.T, packets [][]byte, rate int) (sound []byte) {
	t.Helper()
	d, err := opus.NewDecoder(rate)
	must(t, err)
	pcm := make([]int16, d.Samples(opus.MaxDuration))
	for _, p := range packets {
		n, err := d.Decode(p, pcm)
		must(t, err)
		for _, x := range pcm[:n] {
			sound = binary.LittleEndian.AppendUint16(sound, uint16(x))
		}
	}
	return sound
}

// playedPCM returns the sound of an answer.
func playedPCM(ctx context.Context, t *testing.T, conn *websocket.Conn, framing wire.Framing) (sound []byte) {
	t.Helper()
	for {
		kind, data, err := conn.Read(ctx)
		must(t, err)
		if kind == websocket.MessageBinary {
			piece, _, err := framing.Parse(data)
			must(t, err)
			sound = append(sound, piece...)
			continue
		}
		if m, err := wire.Parse(data); err == nil && m.Type == wire.TypeTTS && m.State == wire.TTSStop {
			return sound
		}
	}
}

func loudest(sound []byte) (most int16) {
	for i := 0; i+1 < len(sound); i += 2 {
		most = max(most, int16(binary.LittleEndian.Uint16(sound[i:])))
	}
	return most
}
