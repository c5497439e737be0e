package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"patchbay/internal/jsonrpc"
)

// Types of messages. Boards handle those of the server in xiaozhi-esp32 main/application.cc,
// Application::InitializeProtocol, and write their own in main/protocols/protocol.cc.
const (
	TypeHello   = "hello"   // both directions, see [Hello]
	TypeListen  = "listen"  // from the board: it listens, or stops listening
	TypeAbort   = "abort"   // from the board: the person interrupts
	TypeMCP     = "mcp"     // both directions: MCP requests and responses
	TypeGoodbye = "goodbye" // both directions, over MQTT: end of the conversation
	TypeIOT     = "iot"     // from firmware before 1.7: predecessor of mcp
	TypeSTT     = "stt"     // from the server: transcript of the speech
	TypeLLM     = "llm"     // from the server: emotion on the display
	TypeTTS     = "tts"     // from the server: playback starts or stops
	TypeSystem  = "system"  // from the server: reboot
	TypeAlert   = "alert"   // from the server: show a text and make a noise
	TypeCustom  = "custom"  // from the server: only for custom firmware
	TypeNotify  = "notify"  // from the server: play a sound without a conversation; since 2.5 (docs/notify.md)
)

// States of a listen message (xiaozhi-esp32 main/protocols/protocol.cc).
const (
	ListenStart  = "start"
	ListenStop   = "stop"   // the button was released; only in mode manual
	ListenDetect = "detect" // the wake word was heard; only with CONFIG_SEND_WAKE_WORD_DATA
)

// Modes of listen/start (xiaozhi-esp32 main/protocols/protocol.cc, Protocol::SendStartListening).
const (
	ModeAuto     = "auto"     // the server detects the end of speech
	ModeManual   = "manual"   // the button ends the speech
	ModeRealtime = "realtime" // the board also records while it plays
)

// States of a tts message (xiaozhi-esp32 main/application.cc, Application::InitializeProtocol).
const (
	TTSStart         = "start"
	TTSStop          = "stop"
	TTSSentenceStart = "sentence_start" // with the text of the audio that follows
	TTSSentenceEnd   = "sentence_end"   // boards ignore it
)

// AbortWakeWord is the reason of an abort by the wake word. An abort by button has no reason
// (xiaozhi-esp32 main/protocols/protocol.cc, Protocol::SendAbortSpeaking).
const AbortWakeWord = "wake_word_detected"

// CommandReboot is the only command of a system message that boards execute (xiaozhi-esp32
// main/application.cc, Application::InitializeProtocol).
const CommandReboot = "reboot"

// Emotions are the emotions that boards can show; they ignore others.
var Emotions = []string{
	"neutral", "happy", "laughing", "funny", "sad", "angry", "crying", "loving", "embarrassed", "surprised", "shocked",
	"thinking", "winking", "cool", "relaxed", "delicious", "kissy", "confident", "sleepy", "silly", "confused",
}

// ErrMessage reports data that is not a message.
var ErrMessage = errors.New("no message of a board or its server")

// Message is a message of either side. The type determines which fields are used; the others are
// empty.
type Message struct {
	Type      string
	SessionID string

	State   string // of listen and tts
	Mode    string // of listen/start
	Text    string // of listen/detect (the wake word; web pages send whole questions), stt, llm and tts/sentence_start
	Reason  string // of an abort
	Emotion string // of llm and alert
	Command string // of system
	Status  string // of alert: its title
	Message string // of alert

	AudioURL  string     // of notify: a mono Ogg-Opus file
	Subtitles []Subtitle // of notify

	// Payload is the JSON-RPC message of mcp, or the content of a custom message. It is an object
	// or nil.
	Payload json.RawMessage
	// Glyphs are the glyphs for a text, for boards with glyph_push.
	Glyphs json.RawMessage
	// Things are the descriptors or states of an iot message.
	Things json.RawMessage

	// Repaired reports that the message was not valid JSON: firmware does not escape wake words
	// (xiaozhi-esp32 main/protocols/protocol.cc, Protocol::SendWakeWordDetected), and before 2.5
	// not error messages either (main/mcp_server.cc, McpServer::ReplyError).
	Repaired bool
}

// Subtitle is a text shown during a notification.
type Subtitle struct {
	StartMS int    `json:"start_ms"`
	Text    string `json:"text"`
}

type rawMessage struct {
	Type      string          `json:"type"`
	SessionID string          `json:"session_id"`
	State     string          `json:"state"`
	Mode      string          `json:"mode"`
	Text      string          `json:"text"`
	Reason    string          `json:"reason"`
	Emotion   string          `json:"emotion"`
	Command   string          `json:"command"`
	Status    string          `json:"status"`
	Message   string          `json:"message"`
	AudioURL  string          `json:"audio_url"`
	Subtitles []Subtitle      `json:"subtitles"`
	Payload   json.RawMessage `json:"payload"`
	Glyphs    json.RawMessage `json:"glyph_push"`
	Desc      json.RawMessage `json:"descriptors"`
	States    json.RawMessage `json:"states"`
}

// Parse parses a message of either side. Unknown types are not an error. The error is [ErrMessage].
func Parse(data []byte) (Message, error) {
	if !jsonrpc.Valid(data) {
		return repair(data)
	}
	var in rawMessage
	if !unmarshalLenient(data, &in) || in.Type == "" {
		return Message{}, ErrMessage
	}
	m := Message{
		Type: in.Type, SessionID: in.SessionID, State: in.State, Mode: in.Mode, Text: in.Text, Reason: in.Reason,
		Emotion: in.Emotion, Command: in.Command, Status: in.Status, Message: in.Message,
		AudioURL: in.AudioURL, Subtitles: in.Subtitles,
		Payload: object(in.Payload), Glyphs: object(in.Glyphs), Things: in.Desc,
	}
	if m.Things == nil {
		m.Things = in.States
	}
	return m, nil
}

// object returns v if it is an object, or else nil.
func object(v json.RawMessage) json.RawMessage {
	if len(v) > 0 && v[0] == '{' {
		return v
	}
	return nil
}

// repair parses the two messages in which firmware does not escape a text; see [Message].Repaired.
// Firmware always writes them in the same form, so the text is what is between the fixed parts.
func repair(data []byte) (Message, error) {
	data = bytes.TrimSpace(data)
	m := Message{Repaired: true, SessionID: between(data, `"session_id":"`, `"`)}
	switch {
	case bytes.Contains(data, []byte(`"state":"detect"`)):
		text, ok := inside(data, `"text":"`, `"}`)
		if !ok {
			return Message{}, ErrMessage
		}
		m.Type, m.State, m.Text = TypeListen, ListenDetect, text
	case bytes.Contains(data, []byte(`"type":"mcp"`)):
		i := bytes.Index(data, []byte(`"payload":`))
		if i < 0 {
			return Message{}, ErrMessage
		}
		id := between(data[i:], `"id":`, `,`)
		text, ok := inside(data[i:], `"message":"`, `"}}}`)
		if n, err := strconv.ParseUint(id, 10, 31); err != nil || !ok {
			return Message{}, ErrMessage
		} else {
			m.Type, m.Payload = TypeMCP, appendPlainError(nil, n, text)
		}
	default:
		return Message{}, ErrMessage
	}
	return m, nil
}

// appendPlainError appends an error without a code, as firmware before 2.5 intends to write it.
func appendPlainError(b []byte, id uint64, text string) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, `,"error":{"message":`...)
	b = jsonrpc.AppendText(b, text)
	return append(b, "}}"...)
}

// between returns the text after the first begin, up to the next end.
func between(data []byte, begin, end string) string {
	_, rest, ok := bytes.Cut(data, []byte(begin))
	if !ok {
		return ""
	}
	value, _, ok := bytes.Cut(rest, []byte(end))
	if !ok {
		return ""
	}
	return string(bytes.TrimSpace(value))
}

// inside returns the text after the first begin, up to the end of data, which must be end.
func inside(data []byte, begin, end string) (string, bool) {
	_, rest, ok := bytes.Cut(data, []byte(begin))
	if !ok {
		return "", false
	}
	rest, ok = bytes.CutSuffix(rest, []byte(end))
	return string(bytes.ToValidUTF8(rest, []byte("\ufffd"))), ok
}
