package realtimetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/netx"
	"patchbay/internal/voice/realtime"
)

type object = map[string]any

// item is an item of a conversation.
type item struct {
	isBot bool
	call  string // its id, of a call
	sound int    // bytes sent
}

// conn is a connection. Its fields are guarded by mu, and got by that of the server.
type conn struct {
	s       *Server
	ws      *websocket.Conn
	raw     net.Conn
	ctx     context.Context
	fault   Fault
	purpose realtime.Purpose
	got     *Session
	work    sync.WaitGroup // answers

	writeMu    sync.Mutex
	mu         sync.Mutex
	configured bool
	commits    bool // Speak: mode commit
	detects    bool
	buffer     []byte // not committed
	appends    int
	ids        int
	items      map[string]*item
	lastSaid   string             // the last transcript or typed text
	cancel     context.CancelFunc // of the running response; nil: none
	texts      string             // to speak
	results    int
	pending    int // transcripts
}

func (c *conn) serve() {
	if c.begins() {
		return
	}
	c.send(object{"type": "session.created", "session": object{"id": "sess_1", "object": "realtime.session"}})
	if c.s.opt.Lifetime > 0 {
		timer := time.AfterFunc(c.s.opt.Lifetime, func() {
			c.fail("session_expired", "")
			_ = c.raw.Close()
		})
		defer timer.Stop()
	}
	for {
		_, data, err := c.ws.Read(c.ctx)
		if err != nil {
			return
		}
		var m clientEvent
		if err := json.Unmarshal(data, &m); err != nil {
			c.s.violation("not JSON: " + string(data))
			continue
		}
		if m.Type != "input_audio_buffer.append" {
			c.s.update(func() { c.got.Types = append(c.got.Types, m.Type) })
		}
		if !c.onEvent(&m) {
			return
		}
	}
}

// clientEvent has the fields of all events of clients.
type clientEvent struct {
	Type    string          `json:"type"`
	Session json.RawMessage `json:"session"`
	Audio   string          `json:"audio"`
	Text    string          `json:"text"`
	ItemID  string          `json:"item_id"`
	EndMS   int64           `json:"audio_end_ms"`
	Item    struct {
		Type, Role, Output string
		CallID             string `json:"call_id"`
		Content            []struct {
			Type, Text string
			ImageURL   string `json:"image_url"`
		}
	} `json:"item"`
}

// onEvent handles an event, and reports whether the connection goes on.
func (c *conn) onEvent(m *clientEvent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.configured && m.Type != "session.update" {
		c.s.violation(m.Type + " before session.update")
	}
	switch m.Type {
	case "session.update":
		c.onSession(m.Session)
	case "input_audio_buffer.append":
		c.onAudio(m.Audio)
	case "input_audio_buffer.commit":
		c.onCommit()
	case "input_audio_buffer.clear":
		c.buffer = nil
		c.send(object{"type": "input_audio_buffer.cleared"})
	case "input_text_buffer.append":
		c.texts += m.Text
		c.s.update(func() { c.got.Spoken = append(c.got.Spoken, m.Text) })
		if !c.commits {
			c.speak()
		}
	case "input_text_buffer.commit":
		if !c.commits {
			c.s.violation("a commit in mode server_commit")
		}
		c.speak()
	case "session.finish":
		c.onFinish()
	case "conversation.item.create":
		c.onItem(m)
	case "conversation.item.truncate":
		c.onTruncate(m)
	case "conversation.item.delete":
		if c.items[m.ItemID] == nil {
			c.fail("item_delete_invalid_item_id", "item_id")
		}
		delete(c.items, m.ItemID)
	case "response.create":
		c.respond()
	case "response.cancel":
		c.s.update(func() { c.got.Cancels++ })
		if c.cancel == nil {
			c.fail("response_cancel_not_active", "")
			break
		}
		c.cancel()
	default:
		c.s.violation("an unknown event: " + m.Type)
		c.fail("invalid_value", "type")
	}
	return true
}

// onSession checks the configuration to the letter.
func (c *conn) onSession(raw json.RawMessage) {
	c.s.update(func() { c.got.Update = raw })
	for _, problem := range checkSession(c.s.opt.Spelling, c.purpose, raw) {
		c.s.violation(problem + " in " + string(raw))
	}
	var session struct {
		Mode, Voice string
		Detection   json.RawMessage `json:"turn_detection"`
		Audio       struct {
			Input struct {
				Detection json.RawMessage `json:"turn_detection"`
			}
			Output struct{ Voice string }
		}
	}
	_ = json.Unmarshal(raw, &session)
	if voice := session.Voice + session.Audio.Output.Voice; voice != "" && c.s.opt.Voices != nil &&
		!slices.Contains(c.s.opt.Voices, voice) {
		c.fail("invalid_value", "session.audio.output.voice")
		c.configured = true // with its defaults
		return
	}
	c.configured, c.commits = true, session.Mode == "commit"
	c.detects = len(session.Detection) > 4 || len(session.Audio.Input.Detection) > 4 // not null
	c.send(object{"type": "session.updated", "session": object{}})
}

func (c *conn) onAudio(audio string) {
	sound, err := base64.StdEncoding.DecodeString(audio)
	if err != nil || len(sound) == 0 || len(sound)%2 != 0 {
		c.s.violation("sound that is empty or damaged")
		return
	}
	c.buffer = append(c.buffer, sound...)
	c.appends++
	if c.detects && c.s.opt.Detect != nil {
		switch c.s.opt.Detect(c.at16(sound)) {
		case NothingNew:
		case SpeechBegan:
			c.speech("speech_started")
		case SpeechEnded:
			c.speechStopped()
		}
	}
	partials := c.s.opt.Partials
	if c.purpose != realtime.Transcribe || c.s.opt.Spelling == realtime.OpenAI || c.appends > len(partials) {
		return
	}
	c.send(object{"type": "conversation.item.input_audio_transcription.text", "item_id": "item_1",
		"text": partials[c.appends-1], "stash": "…"})
}

// SpeechStarted and SpeechStopped have a server that detects turns find speech.
func (s *Server) SpeechStarted() { s.toAll(func(c *conn) { c.speech("speech_started") }) }

// SpeechStopped has the server find the end of speech: it commits the sound.
func (s *Server) SpeechStopped() { s.toAll((*conn).speechStopped) }

// speechStopped ends an utterance that the server has detected. Requires mu.
func (c *conn) speechStopped() {
	c.speech("speech_stopped")
	c.commit()
	if c.s.opt.Spelling == realtime.Qwen {
		c.respond()
	}
}

func (s *Server) toAll(do func(*conn)) {
	s.mu.Lock()
	var all []*conn
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		do(c)
		c.mu.Unlock()
	}
}

func (c *conn) speech(kind string) {
	if !c.detects {
		c.s.violation("the test finds speech, and the client does not want it to")
	}
	c.send(object{"type": "input_audio_buffer." + kind, "item_id": "item_next"})
}

// onCommit handles the end of an utterance.
func (c *conn) onCommit() {
	// Less than 100 ms is refused (OpenAI, error input_audio_buffer_commit_empty).
	if rate := c.s.opt.Spelling.InputRate(); len(c.buffer) < 2*rate/10 {
		c.fail("input_audio_buffer_commit_empty", "")
		return
	}
	if c.detects {
		c.s.violation("a commit while the server detects turns")
	}
	c.commit()
}

// commit makes an item of the sound, and transcribes it.
func (c *conn) commit() {
	id := c.newItem(&item{})
	samples := c.at16(c.buffer)
	c.buffer = nil
	c.s.update(func() { c.got.Samples = append(c.got.Samples, samples...) })
	c.send(object{"type": "input_audio_buffer.committed", "item_id": id})
	text := c.fault.text(c.s.opt.Transcript(samples))
	c.said("person: " + text)
	c.lastSaid = text
	c.pending++
	c.work.Go(func() {
		if c.transcribe(id, text) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.pending--
		}
	})
}

// transcribe sends the transcript of an item, and reports whether it has come to its end.
func (c *conn) transcribe(id, text string) bool {
	const kind = "conversation.item.input_audio_transcription."
	if !c.wait(c.s.opt.Delay) {
		return false
	}
	if c.purpose == realtime.Converse { // its answer fails in place of it
		c.send(object{"type": kind + "completed", "item_id": id, "transcript": text})
		return true
	}
	if c.fault == WrongItem {
		id = "item_of_others"
	}
	if c.s.opt.Spelling == realtime.OpenAI {
		for _, word := range strings.SplitAfter(text, " ") {
			if c.results++; c.interrupts(c.results) {
				return false
			}
			c.send(object{"type": kind + "delta", "item_id": id, "delta": word})
		}
	} else if c.interrupts(1) || c.interrupts(3) {
		return false
	}
	if c.last() {
		return false
	}
	if c.fault == FailedText {
		c.send(object{"type": kind + "failed", "item_id": id,
			"error": object{"type": "server_error", "code": "audio_unintelligible"}})
		return true
	}
	done := object{"type": kind + "completed", "item_id": id, "transcript": text, "language": "en"}
	c.send(done)
	if c.fault == DoubleEnd {
		c.send(done)
	}
	return true
}

// onFinish ends a session of Qwen, after what is under way.
func (c *conn) onFinish() {
	if c.s.opt.Spelling == realtime.OpenAI {
		c.s.violation("session.finish")
	}
	if c.purpose == realtime.Transcribe && c.detects && len(c.buffer) > 0 {
		c.commit()
	}
	c.work.Go(func() {
		for c.isBusy() && c.wait(time.Millisecond) {
		}
		if c.fault != Silence && c.fault != WrongItem {
			c.send(object{"type": "session.finished"})
		}
	})
}

// onItem adds an item.
func (c *conn) onItem(m *clientEvent) {
	switch m.Item.Type {
	case "function_call_output":
		known := false
		for _, x := range c.items {
			known = known || x.call == m.Item.CallID && x.call != ""
		}
		if !known {
			c.fail("invalid_value", "item.call_id")
			c.s.violation("a result of an unknown call")
		}
		c.said("result: " + m.Item.Output)
		c.newItem(&item{})
	case "message":
		text := ""
		kinds := map[string][]string{"user": {"input_text", "input_image"}, "assistant": {"output_text"}}
		if c.s.opt.Spelling == realtime.Qwen {
			kinds["assistant"] = []string{"text"}
		}
		for _, p := range m.Item.Content {
			if !slices.Contains(kinds[m.Item.Role], p.Type) {
				c.s.violation("content " + p.Type + " of " + m.Item.Role)
			}
			text += p.Text + p.ImageURL
		}
		if m.Item.Role == "user" {
			c.said("person: " + text)
			c.lastSaid = text
		} else {
			c.said("bot: " + text)
		}
		c.newItem(&item{})
	default:
		c.s.violation("an item of type " + m.Item.Type)
	}
}

func (c *conn) said(text string) {
	c.s.update(func() { c.got.Said = append(c.got.Said, text) })
}

// onTruncate checks a truncation (OpenAI API reference, conversation.item.truncate: an error if the
// item is no message of the assistant, or shorter).
func (c *conn) onTruncate(m *clientEvent) {
	x := c.items[m.ItemID]
	if c.s.opt.Spelling == realtime.Qwen {
		c.s.violation("conversation.item.truncate")
	}
	if x == nil || !x.isBot || x.sound == 0 {
		c.fail("item_truncate_invalid_item_id", "item_id")
		c.s.violation("a truncation of an item without sound")
		return
	}
	had, at := duration(x.sound), time.Duration(m.EndMS)*time.Millisecond
	c.s.update(func() {
		c.got.Truncations = append(c.got.Truncations, Truncation{m.ItemID, at, had})
	})
	if at > had || at < 0 {
		c.fail("invalid_value", "audio_end_ms")
		c.s.violation(fmt.Sprintf("a truncation at %s of %s", at, had))
		return
	}
	c.send(object{"type": "conversation.item.truncated", "item_id": m.ItemID, "audio_end_ms": m.EndMS})
}

func duration(bytes int) time.Duration {
	return time.Duration(bytes/2) * time.Second / realtime.OutputRate
}

func (c *conn) newItem(x *item) string {
	c.ids++
	id := fmt.Sprintf("item_%d", c.ids)
	c.items[id] = x
	return id
}

// fail sends an error event.
func (c *conn) fail(code, param string) {
	kind := "invalid_request_error"
	if code == "session_expired" || code == "server_error" {
		kind = "server_error"
	}
	c.send(object{"type": "error", "error": object{"type": kind, "code": code, "message": "Details with " + Key + ".",
		"param": param, "event_id": nil}})
}

func (c *conn) wait(d time.Duration) bool { return netx.Wait(c.ctx, d) == nil }

// send sends an event in the server's spelling.
func (c *conn) send(event object) {
	event["event_id"] = "event_1"
	if c.s.opt.Spelling == realtime.Qwen {
		if name, ok := event["type"].(string); ok {
			event["type"] = strings.NewReplacer("output_audio", "audio", "output_text", "text").Replace(name)
		}
	}
	text, _ := json.Marshal(event) // texts and numbers
	c.write(text)
}

func (c *conn) write(text []byte) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	_ = c.ws.Write(c.ctx, websocket.MessageText, text)
}
