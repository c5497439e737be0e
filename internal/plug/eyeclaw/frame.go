package eyeclaw

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// rawJSON is JSON as the far side spelled it.
type rawJSON = json.RawMessage

// frame is a command of the client.
type frame struct {
	Command    string  `json:"command"`
	Identifier rawJSON `json:"identifier"` // a JSON string that holds JSON
	Data       rawJSON `json:"data"`       // likewise; our own connectors may send the object itself
}

// channelIdentifier is what an identifier holds.
type channelIdentifier struct {
	Channel string        `json:"channel"`
	BotID   lenientString `json:"bot_id"`
}

// message is a client's message to a channel. Type names a plugin's message, Action a method that
// any client may call.
type message struct {
	Type   string `json:"type"`
	Action string `json:"action"`

	SessionID    lenientString `json:"session_id"`
	Content      lenientString `json:"content"`
	Chunk        lenientString `json:"chunk"` // an older name of content
	Sequence     rawJSON       `json:"sequence"`
	TotalContent lenientString `json:"total_content"`
	TotalChunks  lenientString `json:"total_chunks"`
	Error        lenientString `json:"error"`

	Command rawJSON       `json:"command"`
	Level   lenientString `json:"level"`
	Message lenientString `json:"message"`
}

// lenientString is a string that may come as a number, or as anything else, which is
// then taken as it is spelled. Null is empty.
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

// parseIdentifier reads an identifier and the string that it is.
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

// text is the piece of the answer that a chunk carries.
func (m *message) text() string {
	if m.Content != "" {
		return string(m.Content)
	}
	return string(m.Chunk)
}

// sequence is the number of a chunk within its answer, or -1.
func (m *message) sequence() int {
	if len(m.Sequence) == 0 || len(m.Sequence) > 9 {
		return -1
	}
	return parseCount(string(m.Sequence))
}

// parseCount reads a count. What is none gives -1.
func parseCount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Frames of the server.

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

// subscriptionFrame confirms or rejects. Identifiers go back byte for byte, as
// Rails clients compare them as strings.
func subscriptionFrame(ident rawJSON, typ string) []byte {
	b := make([]byte, 0, len(ident)+64)
	b = append(b, `{"identifier":`...)
	b = append(b, ident...)
	b = append(b, `,"type":"`...)
	b = append(b, typ...)
	return append(b, `"}`...)
}

// messageFrame is a message of the channel.
func messageFrame(ident rawJSON, v any) []byte {
	body := encode(v)
	b := make([]byte, 0, len(ident)+len(body)+32)
	b = append(b, `{"identifier":`...)
	b = append(b, ident...)
	b = append(b, `,"message":`...)
	b = append(b, body...)
	return append(b, '}')
}

// encode writes JSON without spelling <, > and & out, which doubles addresses.
// The values are ours and can always be encoded, except what a device put into
// its metadata, which has been checked.
func encode(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

// Messages of the bot channel.

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
