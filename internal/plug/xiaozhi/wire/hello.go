package wire

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"patchbay/internal/jsonrpc"
)

// Hello is the first message of a board, and the server's response (xiaozhi-esp32
// docs/websocket.md, docs/mqtt-udp.md).
type Hello struct {
	// Version is 3 over MQTT, in both directions, and the Framing in a board's hello over a
	// WebSocket.
	Version   int
	Transport string // WebSocket or UDP; boards crash without it (websocket_protocol.cc, ParseServerHello)
	SessionID string // from the server; without one, boards keep an old one
	Audio     Audio  // format of the sender's audio

	// From the board.
	Features Features
	Font     *Font

	// From the server, if the transport is UDP.
	Link *Link
}

// Features are the capabilities of a board.
type Features struct {
	AEC       bool `json:"aec"`        // the server has to cancel the echo of its own audio
	MCP       bool `json:"mcp"`        // it has MCP tools; firmware before 1.7 may not
	GlyphPush bool `json:"glyph_push"` // it accepts glyphs that its font lacks
}

// Font is the font of a board's display (xiaozhi-esp32 docs/glyph-push.md).
type Font struct {
	Bundle  string `json:"bundle"`
	Charset string `json:"charset"`
	Size    int    `json:"size"`
	BPP     int    `json:"bpp"`
}

// Audio is an audio format. Zero fields were absent. The names are those of audio_params
// (xiaozhi-esp32 main/protocols/websocket_protocol.cc, WebsocketProtocol::GetHelloMessage).
type Audio struct {
	Format        string `json:"format"` // "opus"
	SampleRate    int    `json:"sample_rate"`
	Channels      int    `json:"channels"`
	FrameDuration int    `json:"frame_duration"` // in milliseconds
}

// Frame returns the length of a packet, [DownlinkFrame] if it was absent.
func (a Audio) Frame() time.Duration {
	if a.FrameDuration <= 0 {
		return DownlinkFrame
	}
	return time.Duration(a.FrameDuration) * time.Millisecond
}

// Playable returns an error if boards cannot play the format.
func (a Audio) Playable() error {
	switch a.SampleRate {
	case 8000, 12000, 16000, 24000, 48000:
	default:
		return fmt.Errorf("a sample rate of %d", a.SampleRate)
	}
	switch a.FrameDuration {
	case 5, 10, 20, 40, 60, 80, 100, 120:
		return nil
	}
	return fmt.Errorf("a frame duration of %d", a.FrameDuration)
}

// Link is where a board sends its datagrams, and their encryption.
type Link struct {
	Server     string `json:"server"` // IPv4 address, or a name that resolves to one
	Port       int    `json:"port"`
	Encryption string `json:"encryption"` // "aes-128-ctr"
	Key        string `json:"key"`        // 32 hex digits
	Nonce      string `json:"nonce"`      // 32 hex digits
}

// Secrets returns key and nonce as bytes. It fails if a board would ignore the hello because of the
// link (xiaozhi-esp32 main/protocols/mqtt_protocol.cc, MqttProtocol::ParseServerHello).
func (l *Link) Secrets() (key, nonce [HeaderSize]byte, err error) {
	switch {
	case l.Server == "":
		return key, nonce, errors.New("no server in udp")
	case l.Port < 1 || l.Port > 65535:
		return key, nonce, errors.New("no port in udp")
	case len(l.Key) != 2*len(key):
		return key, nonce, errors.New("the key in udp is not 32 hex digits")
	case len(l.Nonce) != 2*len(nonce):
		return key, nonce, errors.New("the nonce in udp is not 32 hex digits")
	}
	if _, err := hex.Decode(key[:], []byte(l.Key)); err != nil {
		return key, nonce, errors.New("the key in udp is not 32 hex digits")
	}
	if _, err := hex.Decode(nonce[:], []byte(l.Nonce)); err != nil {
		return key, nonce, errors.New("the nonce in udp is not 32 hex digits")
	}
	if nonce[0] != DatagramType {
		return key, nonce, errors.New("the nonce in udp does not begin with 01")
	}
	return key, nonce, nil
}

// ParseHello parses the hello of either side. The error is [ErrMessage].
func ParseHello(data []byte) (Hello, error) {
	var in struct {
		Type      string   `json:"type"`
		Version   number   `json:"version"`
		Transport string   `json:"transport"`
		SessionID string   `json:"session_id"`
		Audio     Audio    `json:"audio_params"`
		Features  Features `json:"features"`
		Font      *Font    `json:"text_font"`
		Link      *Link    `json:"udp"`
	}
	if !unmarshalLenient(data, &in) || in.Type != TypeHello {
		return Hello{}, ErrMessage
	}
	return Hello{
		Version: in.Version.int(), Transport: in.Transport, SessionID: in.SessionID, Audio: in.Audio,
		Features: in.Features, Font: in.Font, Link: in.Link,
	}, nil
}

// AppendBoard appends the hello of a board.
func (h *Hello) AppendBoard(b []byte) []byte {
	b = append(b, `{"type":"hello","version":`...)
	b = strconv.AppendInt(b, int64(h.Version), 10)
	b = append(b, `,"features":{`...)
	for _, f := range []struct {
		name string
		on   bool
	}{{"aec", h.Features.AEC}, {"mcp", h.Features.MCP}, {"glyph_push", h.Features.GlyphPush}} {
		if f.on {
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), f.name...), `":true`...)
		}
	}
	b = append(b, '}')
	if h.Font != nil {
		b = appendMember(b, "text_font", h.Font)
	}
	b = append(b, `,"transport":`...)
	b = jsonrpc.AppendText(b, h.Transport)
	return append(appendMember(b, "audio_params", h.Audio), '}')
}

// AppendServer appends the hello of a server.
func (h *Hello) AppendServer(b []byte) []byte {
	b = append(b, `{"type":"hello"`...)
	if h.Version != 0 {
		b = append(b, `,"version":`...)
		b = strconv.AppendInt(b, int64(h.Version), 10)
	}
	b = append(b, `,"transport":`...)
	b = jsonrpc.AppendText(b, h.Transport)
	b = append(b, `,"session_id":`...)
	b = jsonrpc.AppendText(b, h.SessionID)
	if h.Link != nil {
		b = appendMember(b, "udp", h.Link)
	}
	return append(appendMember(b, "audio_params", h.Audio), '}')
}

// appendMember appends another member of an object.
func appendMember(b []byte, name string, value any) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // the values are this package's own structs
	}
	return append(b, text...)
}

// unmarshalLenient parses an object and skips members of the wrong type. It reports whether data is
// an object at all.
func unmarshalLenient(data []byte, into any) bool {
	err := json.Unmarshal(data, into)
	var mismatch *json.UnmarshalTypeError
	return err == nil && len(data) > 0 || errors.As(err, &mismatch) && mismatch.Field != ""
}

// number is a number that may be sent as a string.
type number string

// UnmarshalJSON accepts a number or a string, and ignores other values.
func (n *number) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*n = number(jsonrpc.Text(data))
	} else if len(data) > 0 && (data[0] == '-' || '0' <= data[0] && data[0] <= '9') {
		*n = number(data)
	}
	return nil
}

func (n number) int() int {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || f < -1<<31 || f > MaxID {
		return 0
	}
	return int(f)
}
