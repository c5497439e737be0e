// Package realtime is the codec of realtime speech APIs: JSON events over a WebSocket, with sound
// in base64. OpenAI defined them, and services such as Qwen of Alibaba, vLLM and speaches follow,
// each in the spelling of its time. Events of the server are accepted in all spellings; what is
// sent is spelt as the service expects.
//
// The events are those of the OpenAI API reference (Realtime, client events and server events) and
// of Alibaba Cloud Model Studio (help.aliyun.com: client events and server events of
// Qwen-Omni-Realtime, Qwen-ASR-Realtime and Qwen-TTS-Realtime).
package realtime

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"

	"patchbay/internal/voice/engine"
)

// Types of events of the server, as OpenAI spells them since general availability.
const (
	SessionCreated  = "session.created"
	SessionUpdated  = "session.updated"
	SessionFinished = "session.finished" // Qwen: the answer to session.finish
	SpeechStarted   = "input_audio_buffer.speech_started"
	SpeechStopped   = "input_audio_buffer.speech_stopped"
	Committed       = "input_audio_buffer.committed"
	// What the person says: InputDelta adds to it, InputText replaces it, and InputDone is final.
	InputDelta  = "conversation.item.input_audio_transcription.delta"
	InputText   = "conversation.item.input_audio_transcription.text"
	InputDone   = "conversation.item.input_audio_transcription.completed"
	InputFailed = "conversation.item.input_audio_transcription.failed"
	// The answer.
	ResponseCreated = "response.created"
	ItemAdded       = "response.output_item.added"
	Audio           = "response.output_audio.delta"
	AudioDone       = "response.output_audio.done"
	AudioText       = "response.output_audio_transcript.delta"
	OutputText      = "response.output_text.delta"
	ArgumentsDone   = "response.function_call_arguments.done"
	ResponseDone    = "response.done"
	Failed          = "error"
)

// earlier are the names that events had in OpenAI's beta, which others still use.
var earlier = map[string]string{
	"response.audio.delta":            Audio,
	"response.audio.done":             AudioDone,
	"response.audio_transcript.delta": AudioText,
	"response.text.delta":             OutputText,
	"transcription_session.created":   SessionCreated,
	"transcription_session.updated":   SessionUpdated,
}

// Statuses of responses.
const (
	Completed  = "completed"
	Cancelled  = "cancelled"
	Incomplete = "incomplete"
	Failure    = "failed"
)

// Event is an event of the server. Fields that its type does not have are zero.
type Event struct {
	Type               string
	ItemID, ResponseID string
	// Text is a piece or the whole of a text, or the arguments of a call. Stash is the part of
	// InputText after Text that may still change.
	Text, Stash  string
	Language     string // of InputText and InputDone, at Qwen
	Sound        []byte // PCM of 16 bits, little endian, one channel, at [OutputRate]
	CallID, Name string // of ArgumentsDone
	IsMessage    bool   // of ItemAdded: it is no call
	Status       string // of ResponseDone
	Usage        Usage  // of ResponseDone and InputDone
	Err          *Error // of Failed, InputFailed, and ResponseDone that failed
}

// Usage is what a service counted, in tokens.
type Usage struct {
	InputText, InputAudio, InputCached, OutputText, OutputAudio int64
}

// Add adds other usage.
func (u *Usage) Add(o Usage) {
	u.InputText += o.InputText
	u.InputAudio += o.InputAudio
	u.InputCached += o.InputCached
	u.OutputText += o.OutputText
	u.OutputAudio += o.OutputAudio
}

// Error is a failure that a service reports. The text of the service is left out: it may repeat
// what was said.
type Error struct{ Type, Code, Param string }

func (e *Error) Error() string {
	text := "the service reports " + strings.TrimSpace(e.Type+" "+e.Code)
	if e.Param != "" {
		text += " (" + e.Param + ")"
	}
	return text
}

// In returns the error with its class.
func (e *Error) In() *engine.Error { return &engine.Error{Class: e.class(), Err: e} }

// class finds the class by the words of OpenAI's error codes (guide "Error codes") and of Model
// Studio ("Error messages": InvalidApiKey, Arrearage, Throttling.RateQuota).
func (e *Error) class() engine.Class {
	text := strings.ToLower(e.Type + " " + e.Code)
	for _, c := range []struct {
		class engine.Class
		words []string
	}{
		{engine.Auth, []string{"api_key", "apikey", "authentication", "permission", "accessdenied", "unauthorized"}},
		{engine.Quota, []string{"quota", "rate_limit", "throttling", "arrearage", "billing"}},
		{engine.Busy, []string{"overloaded", "unavailable", "busy"}},
		{engine.Timeout, []string{"timeout"}},
		{engine.Closed, []string{"session_expired"}},
		{engine.Input, []string{"invalid", "not_found", "notfound", "unknown_parameter", "unsupported"}},
	} {
		for _, word := range c.words {
			if strings.Contains(text, word) {
				return c.class
			}
		}
	}
	return engine.Broken
}

// errGarbled quotes nothing: a message may hold what was said.
var errGarbled = engine.Errorf(engine.Broken, "a message of the service is not the JSON that it should be")

// message has the fields of all events.
type message struct {
	Type       string          `json:"type"`
	ItemID     string          `json:"item_id"`
	ResponseID string          `json:"response_id"`
	Delta      string          `json:"delta"`
	Text       string          `json:"text"`
	Stash      string          `json:"stash"`
	Transcript string          `json:"transcript"`
	Language   string          `json:"language"`
	CallID     string          `json:"call_id"`
	Name       string          `json:"name"`
	Arguments  string          `json:"arguments"`
	Error      json.RawMessage `json:"error"`
	Usage      usage           `json:"usage"`
	Item       struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	} `json:"item"`
	Response struct {
		ID      string `json:"id"`
		Status  string `json:"status"`
		Usage   usage  `json:"usage"`
		Details struct {
			Reason string          `json:"reason"`
			Error  json.RawMessage `json:"error"`
		} `json:"status_details"`
	} `json:"response"`
}

// usage is the form of both spellings; Qwen's names are singular, with and without "details".
type usage struct {
	Input  details `json:"input_token_details"`
	Output details `json:"output_token_details"`
	InputQ details `json:"input_tokens_details"`
	OutQ   details `json:"output_tokens_details"`
}

type details struct {
	Text   int64 `json:"text_tokens"`
	Audio  int64 `json:"audio_tokens"`
	Cached int64 `json:"cached_tokens"`
}

func (u *usage) sum() Usage {
	return Usage{InputText: u.Input.Text + u.InputQ.Text, InputAudio: u.Input.Audio + u.InputQ.Audio,
		InputCached: u.Input.Cached + u.InputQ.Cached, OutputText: u.Output.Text + u.OutQ.Text,
		OutputAudio: u.Output.Audio + u.OutQ.Audio}
}

// Decode parses an event. The error is an [*engine.Error]. Events of unknown types are returned as
// well.
func Decode(data []byte) (Event, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil || m.Type == "" {
		return Event{}, errGarbled
	}
	e := Event{Type: m.Type, ItemID: m.ItemID, ResponseID: m.ResponseID, CallID: m.CallID, Name: m.Name,
		Language: m.Language, Usage: m.Usage.sum()}
	if now, ok := earlier[e.Type]; ok {
		e.Type = now
	}
	switch e.Type {
	case Audio:
		sound, err := base64.StdEncoding.DecodeString(m.Delta)
		if err != nil || len(sound)%2 != 0 {
			return Event{}, engine.Errorf(engine.Broken, "the sound of the service is damaged")
		}
		e.Sound = sound
	case InputDelta, AudioText, OutputText:
		e.Text = m.Delta
	case InputText:
		e.Text, e.Stash = m.Text, m.Stash
	case InputDone:
		e.Text = m.Transcript
	case ArgumentsDone:
		e.Text = m.Arguments
	case ItemAdded:
		e.ItemID, e.IsMessage = m.Item.ID, m.Item.Type == "message"
	case ResponseCreated, ResponseDone:
		e.ResponseID, e.Status, e.Usage = m.Response.ID, m.Response.Status, m.Response.Usage.sum()
		if e.Status == Failure {
			e.Err = decodeError(m.Response.Details.Error)
		}
	case Failed, InputFailed:
		e.Err = decodeError(m.Error)
	}
	return e, nil
}

// notWord matches what no code of an error has.
var notWord = regexp.MustCompile(`[^A-Za-z0-9_.\[\]-]+`)

func decodeError(raw json.RawMessage) *Error {
	var e struct{ Type, Code, Param any } // some services send numbers
	_ = json.Unmarshal(raw, &e)           // an error without details is an error too
	word := func(v any) string {
		s, _ := v.(string)
		if s = notWord.ReplaceAllString(s, "_"); len(s) > 80 {
			s = s[:80]
		}
		return s
	}
	out := &Error{Type: word(e.Type), Code: word(e.Code), Param: word(e.Param)}
	if out.Type == "" && out.Code == "" {
		out.Type = "an error"
	}
	return out
}
