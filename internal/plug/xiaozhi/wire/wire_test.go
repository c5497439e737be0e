package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/golden.txt anew")

func TestFraming(t *testing.T) {
	opus := []byte{0x58, 1, 2, 3}
	for _, c := range []struct {
		f    Framing
		want string
	}{
		{FramingBare, "58010203"},
		{FramingTimed, "00020000000000000001e240" + "00000004" + "58010203"},
		{FramingShort, "00000004" + "58010203"},
	} {
		frame := c.f.Append(nil, 123456, opus)
		if hex.EncodeToString(frame) != c.want || len(frame) != c.f.Header()+len(opus) {
			t.Errorf("framing %d writes %x", c.f, frame)
		}
		got, at, err := c.f.Parse(frame)
		if err != nil || !bytes.Equal(got, opus) || (at == 123456) != (c.f == FramingTimed) {
			t.Errorf("framing %d reads %x at %d, %v", c.f, got, at, err)
		}
		if c.f == FramingBare {
			continue
		}
		for n := range len(frame) {
			if got, _, err := c.f.Parse(frame[:n]); !errors.Is(err, ErrFrame) {
				t.Errorf("framing %d reads %x from %d bytes, %v", c.f, got, n, err)
			}
		}
		if b := c.f.Append(nil, 0, make([]byte, MaxPacket+1)); b != nil {
			t.Errorf("framing %d writes a packet whose length does not fit", c.f)
		}
	}
}

func TestFramingRefuses(t *testing.T) {
	for _, c := range []struct {
		f     Framing
		frame string
	}{
		{FramingTimed, "0001000000000000000000000000000158"}, // another version
		{FramingTimed, "0002000100000000000000000000000158"}, // JSON
		{FramingTimed, "00020000000000000000000000ffffff58"}, // too long
		{FramingTimed, "00020000000000000000000080000000"},
		{FramingShort, "0100000158"},
		{FramingShort, "0000000258"},
	} {
		frame, _ := hex.DecodeString(c.frame)
		if _, _, err := c.f.Parse(frame); !errors.Is(err, ErrFrame) {
			t.Errorf("framing %d reads %s: %v", c.f, c.frame, err)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	opus := make([]byte, 180)
	buffer := make([]byte, 0, MaxDatagram)
	opened := make([]byte, 0, MaxDatagram)
	cipher, _ := NewCipher(make([]byte, 16))
	for name, f := range map[string]func(){
		"frames": func() {
			for f := FramingBare; f <= FramingShort; f++ {
				_, _, _ = f.Parse(f.Append(buffer, 1, opus))
			}
		},
		"datagrams": func() { _, _, _ = cipher.Open(opened, cipher.Seal(buffer, Header{SSRC: 1}, opus)) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Seal and Open agree with vectors that OpenSSL computed: "openssl enc -aes-128-ctr" with the
// header as -iv.
func TestDatagram(t *testing.T) {
	key, _ := hex.DecodeString("000102030405060708090a0b0c0d0e0f")
	payload := bytes.Repeat([]byte{0xa5}, 40)
	var sealed [][]byte
	for _, c := range []struct {
		h    Header
		want string
	}{
		{Header{SSRC: 0xdeadbeef, Sequence: 1},
			"01000028deadbeef000000000000000169c07b3d24ced1c4eb87e3b322f8b4277104b17d50e875acbd31bf61759027fb6e22b661b7724d49"},
		{Header{SSRC: 0xdeadbeef, Sequence: 2},
			"01000028deadbeef00000000000000027104b17d50e875acbd31bf61759027fb6e22b661b7724d49e56ecb15b027ff35a701dff4b4528fb8"},
		{Header{SSRC: 0xdeadbeef, Sequence: 1, Timestamp: 60},
			"01000028deadbeef0000003c000000013e9754372d4bf937753c243020c7166888321295206ef247862c1b521b698406eccb71687fffacfb"},
	} {
		cipher, err := NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		d := cipher.Seal(nil, c.h, payload)
		if hex.EncodeToString(d) != c.want {
			t.Errorf("%+v:\n got %x\nwant %s", c.h, d, c.want)
		}
		sealed = append(sealed, d)
		got, h, err := cipher.Open([]byte("x"), d)
		if err != nil || h != c.h || string(got) != "x"+string(payload) {
			t.Errorf("opened %x %+v %v", got, h, err)
		}
	}
	if !bytes.Equal(sealed[0][32:], sealed[1][16:40]) {
		t.Error("the weakness that the comments warn of is not there")
	}
}

func TestDatagramCarry(t *testing.T) {
	cipher, _ := NewCipher(make([]byte, 16))
	h := Header{Flags: DownlinkFlags, SSRC: 1, Timestamp: 2, Sequence: 1<<32 - 1} // the counter overflows
	got, back, err := cipher.Open(nil, cipher.Seal(nil, h, make([]byte, 100)))
	if err != nil || back != h || !bytes.Equal(got, make([]byte, 100)) {
		t.Errorf("%x %+v %v", got, back, err)
	}
}

func TestDatagramRefuses(t *testing.T) {
	cipher, _ := NewCipher(make([]byte, 16))
	good := cipher.Seal(nil, Header{}, []byte{1})
	for name, d := range map[string][]byte{
		"empty": nil, "short": good[:15], "cut": good[:16], "long": append(bytes.Clone(good), 0),
		"type": append([]byte{2}, good[1:]...),
	} {
		if _, _, err := cipher.Open(nil, d); !errors.Is(err, ErrDatagram) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewCipher(make([]byte, 32)); err == nil {
		t.Error("a key of 32 bytes is taken")
	}
	if b := cipher.Seal(nil, Header{}, make([]byte, MaxDatagram)); b != nil {
		t.Error("a datagram that is too long is written")
	}
}

func TestDuration(t *testing.T) {
	for packet, want := range map[string]time.Duration{
		"58":     60 * time.Millisecond, // silence
		"5801":   60 * time.Millisecond,
		"bb83":   60 * time.Millisecond, // three of 20 ms, CELT
		"6b03":   60 * time.Millisecond, // three of 20 ms, hybrid
		"e0":     2500 * time.Microsecond,
		"49":     40 * time.Millisecond,
		"":       0,
		"5b":     0, // no frame count
		"5b00":   0,
		"5b0300": 0, // 180 ms
	} {
		b, _ := hex.DecodeString(packet)
		got, err := Duration(b)
		if got != want || (want == 0) != errors.Is(err, ErrOpus) {
			t.Errorf("%s: %v %v", packet, got, err)
		}
	}
}

// Speech as boards encode it has valid packets, some of one byte; testdata/SOURCE.txt describes the
// recording.
func TestDurationOfSpeech(t *testing.T) {
	data, err := os.ReadFile("testdata/08_yes.opk")
	if err != nil {
		t.Fatal(err)
	}
	silent := 0
	for len(data) > 0 {
		n := int(binary.BigEndian.Uint16(data))
		if d, err := Duration(data[2:][:n]); err != nil || d != UplinkFrame {
			t.Errorf("%x: %v %v", data[2:][:n], d, err)
		}
		if n == 1 {
			silent++
		}
		data = data[2+n:]
	}
	if silent != 16 {
		t.Errorf("%d packets of one byte", silent)
	}
}

// golden returns everything that is written, by name.
func golden() [][2]string {
	boardAudio := Audio{"opus", UplinkRate, 1, 60}
	serverAudio := Audio{"opus", DownlinkRate, 1, 60}
	board := Hello{Version: 1, Transport: WebSocket, Audio: boardAudio, Features: Features{MCP: true, GlyphPush: true},
		Font: &Font{"noto-v1", "common", 20, 4}}
	old := Hello{Version: 3, Transport: UDP, Audio: boardAudio}
	server := Hello{Transport: WebSocket, SessionID: "s", Audio: serverAudio}
	mqtt := Hello{Version: 3, Transport: UDP, SessionID: "s", Audio: serverAudio,
		Link: &Link{"192.0.2.1", 8884, "aes-128-ctr", strings.Repeat("0f", 16), "01000000deadbeef0000000000000000"}}
	out := [][2]string{
		{"hello of a board", string(board.AppendBoard(nil))},
		{"hello of an old board over MQTT", string(old.AppendBoard(nil))},
		{"hello of a server", string(server.AppendServer(nil))},
		{"hello of a server over MQTT", string(mqtt.AppendServer(nil))},
		{"detect", string(AppendDetect(nil, "s", `你好"小智"`))},
	}
	for _, m := range []Message{
		{Type: TypeListen, State: ListenStart, Mode: ModeAuto},
		{Type: TypeListen, State: ListenStop},
		{Type: TypeAbort},
		{Type: TypeAbort, Reason: AbortWakeWord},
		{Type: TypeMCP, Payload: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)},
		{Type: TypeGoodbye},
		{Type: TypeSTT, Text: "say \"hi\"\n你好"},
		{Type: TypeLLM, Emotion: "happy"},
		{Type: TypeLLM, Emotion: "happy", Text: "😀"},
		{Type: TypeTTS, State: TTSStart},
		{Type: TypeTTS, State: TTSSentenceStart, Text: "Good morning."},
		{Type: TypeTTS, State: TTSSentenceStart, Text: "龘", Glyphs: []byte(`{"version":1}`)},
		{Type: TypeTTS, State: TTSStop},
		{Type: TypeSystem, Command: CommandReboot},
		{Type: TypeAlert, Status: "Battery", Emotion: "sad"},
		{Type: TypeCustom, Payload: []byte(`{"a":1}`)},
		{Type: TypeNotify, AudioURL: "https://board.example.org/n/1",
			Subtitles: []Subtitle{{0, "Tea"}, {900, "is ready"}}},
		{Type: TypeNotify, AudioURL: "https://board.example.org/n/2"},
	} {
		m.SessionID = "s"
		out = append(out, [2]string{strings.TrimSpace(m.Type + " " + m.State), string(m.Append(nil))})
	}
	answer := OTAResponse{
		Time: &ServerTime{1790000000000, 480}, Firmware: Firmware{Version: "2.4.2"},
		WebSocket:  &WebSocketConfig{"wss://board.example.org/xiaozhi/v1/", "t", FramingBare},
		MQTT:       &MQTTConfig{"board.example.org:8883", "GID@@@aa_bb@@@u", "u", "p", "device-server", "null", 240},
		Activation: &Activation{"123456", "board.example.org\n123456", "c", 30000},
	}
	body, err := answer.Marshal()
	if err != nil {
		body = []byte(err.Error())
	}
	return append(out, [2]string{"answer to the call home", strings.TrimSpace(string(body))})
}

func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, g := range golden() {
		b.WriteString(g[0] + "\n    " + g[1] + "\n")
	}
	const file = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
