package eyeclaw

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// rawJSON is JSON exactly as the client wrote it.
type rawJSON = json.RawMessage

// frame is a command of the client.
type frame struct {
	Command    string  `json:"command"`
	Identifier rawJSON `json:"identifier"` // a JSON string that contains JSON
	Data       rawJSON `json:"data"`       // likewise; our own connectors may send an object
}

// channelIdentifier is the content of an identifier.
type channelIdentifier struct {
	Channel string        `json:"channel"`
	BotID   lenientString `json:"bot_id"`
	// Connector is the version of what our own connector understands in addition; 0 for others.
	Connector int `json:"connector"`
}

// message is a client's message to a channel. Type names a message of a plugin, Action a method
// that any client may call (EyeClaw, app/channels/bot_channel.rb).
type message struct {
	Type   string `json:"type"`
	Action string `json:"action"`

	SessionID    lenientString `json:"session_id"`
	Content      lenientString `json:"content"`
	Chunk        lenientString `json:"chunk"` // older name of content
	Sequence     rawJSON       `json:"sequence"`
	TotalContent lenientString `json:"total_content"`
	TotalChunks  lenientString `json:"total_chunks"`
	Error        lenientString `json:"error"`

	Command rawJSON       `json:"command"`
	Level   lenientString `json:"level"`
	Message lenientString `json:"message"`

	hello                   // of a connector, which also calls functions:
	CallID    lenientString `json:"call_id"`
	Name      lenientString `json:"name"`
	Arguments rawJSON       `json:"arguments"`
}

// lenientString is a string that may come as a number, or as any other JSON, which is then kept as
// written. Null becomes "".
type lenientString string

func (w *lenientString) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) > 0 && b[0] == '"':
		return json.Unmarshal(b, (*string)(w))
	case string(b) == "null":
		*w = ""
	default:
		*w = lenientString(b)
	}
	return nil
}

var errNoObject = errors.New("data is neither an object nor a string that holds one")

func parseFrame(b []byte) (frame, error) {
	var f frame
	err := json.Unmarshal(b, &f)
	return f, err
}

// parseIdentifier parses an identifier and returns it as a string too.
func parseIdentifier(raw rawJSON) (key string, ch channelIdentifier, err error) {
	if err = json.Unmarshal(raw, &key); err != nil {
		return "", ch, err
	}
	return key, ch, json.Unmarshal([]byte(key), &ch)
}

func parseMessage(data rawJSON) (message, error) {
	var m message
	if len(data) > 0 && data[0] == '"' {
		var inner string
		if err := json.Unmarshal(data, &inner); err != nil {
			return m, err
		}
		data = []byte(inner)
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return m, errNoObject
	}
	return m, json.Unmarshal(data, &m)
}

// text returns the piece of the answer in a chunk.
func (m *message) text() string {
	if m.Content != "" {
		return string(m.Content)
	}
	return string(m.Chunk)
}

// sequence returns the number of a chunk within its answer, or -1.
func (m *message) sequence() int {
	if len(m.Sequence) == 0 || len(m.Sequence) > 9 {
		return -1
	}
	return parseCount(string(m.Sequence))
}

// parseCount parses a count and returns -1 if it is invalid.
func parseCount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Frames of the server (Rails, actioncable/lib/action_cable.rb, INTERNAL).

var welcomeFrame = []byte(`{"type":"welcome"}`)

func pingFrame(now time.Time) []byte {
	b := append([]byte(nil), `{"type":"ping","message":`...)
	return append(strconv.AppendInt(b, now.Unix(), 10), '}')
}

func (b closeReason) frame() []byte {
	return encode(struct {
		Type      string `json:"type"`
		Reason    string `json:"reason"`
		Reconnect bool   `json:"reconnect"`
	}{"disconnect", b.reason, b.reconnect})
}

// subscriptionFrame confirms or rejects a subscription. It echoes the identifier byte for byte,
// because Rails clients compare identifiers as strings.
func subscriptionFrame(ident rawJSON, typ string) []byte {
	b := make([]byte, 0, len(ident)+64)
	b = append(b, `{"identifier":`...)
	b = append(b, ident...)
	b = append(b, `,"type":"`...)
	b = append(b, typ...)
	return append(b, `"}`...)
}

// messageFrame returns a message of the channel.
func messageFrame(ident rawJSON, v any) []byte {
	body := encode(v)
	b := make([]byte, 0, len(ident)+len(body)+32)
	b = append(b, `{"identifier":`...)
	b = append(b, ident...)
	b = append(b, `,"message":`...)
	b = append(b, body...)
	return append(b, '}')
}

// encode returns JSON without HTML escapes, which double the length of addresses. All values can be
// encoded: they are ours, except for a device's metadata, which is validated before.
func encode(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

// Messages of the bot channel (EyeClaw, app/channels/bot_channel.rb).

type connectedMessage struct {
	Type      string `json:"type"`
	BotID     int64  `json:"bot_id"`
	SessionID string `json:"session_id"`
	Message   string `json:"message"`
}

type pongMessage struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
}

type ackMessage struct {
	Type      string  `json:"type"`
	Sequence  rawJSON `json:"sequence"`
	SessionID string  `json:"session_id"`
	Timestamp string  `json:"timestamp"`
}

type statusMessage struct {
	Type           string `json:"type"`
	Status         string `json:"status"`
	Online         bool   `json:"online"`
	ActiveSessions int    `json:"active_sessions"`
	TotalSessions  int64  `json:"total_sessions"`
	Uptime         int64  `json:"uptime"` // seconds
}

type receivedMessage struct {
	Type      string  `json:"type"`
	Command   rawJSON `json:"command,omitempty"`
	SessionID string  `json:"session_id,omitempty"`
	Status    string  `json:"status"`
}

type logMessage struct {
	Type      string `json:"type"`
	Level     string `json:"level"`
	Message   string `json:"message"`
	Timestamp string `json:"timestamp"`
}

type cancelMessage struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id"`
}

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }
