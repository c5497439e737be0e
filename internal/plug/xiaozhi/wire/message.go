package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"patchbay/internal/jsonrpc"
)

// The types of messages.
const (
	TypeHello   = "hello"   // both ways, see [Hello]
	TypeListen  = "listen"  // from the board: it records, or has stopped to
	TypeAbort   = "abort"   // from the board: somebody wants quiet
	TypeMCP     = "mcp"     // both ways: the server calls tools of the board
	TypeGoodbye = "goodbye" // both ways, over MQTT: the conversation is over
	TypeIOT     = "iot"     // from firmware before 1.7: what MCP is today
	TypeSTT     = "stt"     // from the server: what it understood
	TypeLLM     = "llm"     // from the server: a face
	TypeTTS     = "tts"     // from the server: it speaks, or has stopped to
	TypeSystem  = "system"  // from the server: reboot
	TypeAlert   = "alert"   // from the server: show this and make a noise
	TypeCustom  = "custom"  // from the server: for boards that know what it means
	TypeNotify  = "notify"  // from the server, since 2.5: play this when nobody talks
)

// The states of a listen.
const (
	ListenStart  = "start"
	ListenStop   = "stop"   // the button was let go; only in mode manual
	ListenDetect = "detect" // the wake word was heard; not all boards tell
)

// The modes of a listen that starts.
const (
	ModeAuto     = "auto"     // the server decides when somebody has finished
	ModeManual   = "manual"   // the button decides
	ModeRealtime = "realtime" // the board records while it plays
)

// The states of a tts.
const (
	SpeakStart    = "start"
	SpeakStop     = "stop"
	SpeakSentence = "sentence_start" // with the text of what is heard next
	SpeakEnd      = "sentence_end"   // boards ignore it
)

// AbortWakeWord is the reason of an abort by the wake word. By a button there is
// none.
const AbortWakeWord = "wake_word_detected"

// CommandReboot is the only command of a system message that boards follow.
const CommandReboot = "reboot"

// Emotions are the faces that boards can make. With another one they do not change.
var Emotions = []string{
	"neutral", "happy", "laughing", "funny", "sad", "angry", "crying", "loving", "embarrassed", "surprised", "shocked",
	"thinking", "winking", "cool", "relaxed", "delicious", "kissy", "confident", "sleepy", "silly", "confused",
}

// ErrMessage says that something is no message.
var ErrMessage = errors.New("no message of a board or its server")

// Message is a message of either side. Which fields mean something depends on the
// type; the others are empty.
type Message struct {
	Type      string
	SessionID string

	State   string // of listen and tts
	Mode    string // of a listen that starts
	Text    string // the wake word of a detect (web pages put whole questions there); of stt, llm, and of a sentence
	Reason  string // of an abort
	Emotion string // of llm and alert
	Command string // of system
	Status  string // of alert: its title
	Message string // of alert

	AudioURL  string     // of notify: an Ogg file with one channel of Opus
	Subtitles []Subtitle // of notify

	// Payload is the JSON-RPC message of mcp, or what a custom message carries. It
	// is an object, or nil.
	Payload json.RawMessage
	// Glyphs are the characters that come with a text for boards that push them.
	Glyphs json.RawMessage
	// Things are what an iot message describes: its descriptors or states.
	Things json.RawMessage

	// Mended says that the board had sent no valid JSON: firmware does not escape
	// wake words, and before 2.5 not the messages of errors.
	Mended bool
}

// Subtitle is what a board shows while it plays a notification.
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

// Parse reads a message, of either side. It is the caller's business to know the
// types; an unknown one is no error. The error is [ErrMessage].
func Parse(data []byte) (Message, error) {
	if !json.Valid(data) {
		return mend(data)
	}
	var in rawMessage
	if !lenient(data, &in) || in.Type == "" {
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

// object is the value if it is an object.
func object(v json.RawMessage) json.RawMessage {
	if len(v) > 0 && v[0] == '{' {
		return v
	}
	return nil
}

// mend reads the two messages in which firmware forgets to escape a text. It
// writes both always the same way, so the text is what is between the two ends.
func mend(data []byte) (Message, error) {
	data = bytes.TrimSpace(data)
	m := Message{Mended: true, SessionID: between(data, `"session_id":"`, `"`)}
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

// appendPlainError appends an error without a code, as firmware before 2.5 means
// to write it.
func appendPlainError(b []byte, id uint64, text string) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, `,"error":{"message":`...)
	b = jsonrpc.AppendText(b, text)
	return append(b, "}}"...)
}

// between is what follows the first beginning, up to the next end.
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

// inside is what follows the first beginning, up to the end of all.
func inside(data []byte, begin, end string) (string, bool) {
	_, rest, ok := bytes.Cut(data, []byte(begin))
	if !ok {
		return "", false
	}
	rest, ok = bytes.CutSuffix(rest, []byte(end))
	return string(bytes.ToValidUTF8(rest, []byte("\ufffd"))), ok
}
