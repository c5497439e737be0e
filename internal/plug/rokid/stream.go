package rokid

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"patchbay/internal/talk"
)

// writeTimeout limits one write. A reader that is slower is treated as gone.
const writeTimeout = 10 * time.Second

// stream writes one answer as server-sent events. Each piece is one write and one flush under mu,
// by the bot, the heartbeat or the handler.
type stream struct {
	w                 http.ResponseWriter
	control           *http.ResponseController
	answerPrefix      []byte // of an answer event, up to the text
	idsSuffix         []byte // of any event, after the text
	heartbeatInterval time.Duration

	mu             sync.Mutex
	buf            []byte
	headerSent     bool // the header has been written
	closed         bool
	answered       bool // a piece of text was sent
	err            error
	lastWrite      time.Time
	deadline       time.Time
	heartbeatTimer *time.Timer
	recorded       []byte // everything that was written, even if the connection broke
	recording      bool   // whether to record
	finished       bool
}

const (
	// The events of an answer (documentation, "SSE Event Types").
	eventMessage = "event: message\ndata: "
	eventDone    = "event: done\ndata: "
	eventEnd     = "\n\n"
)

// newStream returns a stream for one request. It writes nothing yet.
func newStream(w http.ResponseWriter, messageID, agentID string, heartbeatInterval time.Duration) *stream {
	s := &stream{w: w, control: http.NewResponseController(w), heartbeatInterval: heartbeatInterval, recording: true}
	s.answerPrefix = []byte(eventMessage + `{"role":"agent","type":"answer","answer_stream":`)
	s.idsSuffix = append(s.idsSuffix, `,"message_id":`...)
	s.idsSuffix = appendString(s.idsSuffix, messageID)
	s.idsSuffix = append(s.idsSuffix, `,"agent_id":`...)
	s.idsSuffix = appendString(s.idsSuffix, agentID)
	return s
}

// start sends the header and, unless quiet, a comment, so that the platform gets a response at
// once. Then it starts the heartbeat. The platform ignores comments (EyeClaw sends ": connected"
// first).
func (s *stream) start(quiet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendHeader()
	if quiet {
		s.flush()
	} else {
		s.buf = append(s.buf, ": connected\n\n"...)
		s.send()
	}
	if s.heartbeatInterval > 0 {
		s.heartbeatTimer = time.AfterFunc(s.heartbeatInterval, s.heartbeat)
	}
}

func (s *stream) sendHeader() {
	if s.headerSent {
		return
	}
	s.headerSent = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // against buffering in nginx (proxy_buffering)
	s.w.WriteHeader(http.StatusOK)
	s.lastWrite = time.Now()
}

// heartbeat writes a comment if nothing else was written during the interval.
func (s *stream) heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.err != nil {
		return
	}
	next := s.heartbeatInterval
	if idle := time.Since(s.lastWrite); idle < s.heartbeatInterval {
		next = s.heartbeatInterval - idle
	} else {
		s.buf = append(s.buf, ": heartbeat\n\n"...)
		s.send()
	}
	s.heartbeatTimer.Reset(next)
}

// text sends a piece of the answer.
func (s *stream) text(piece string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if piece == "" || s.closed {
		return s.err
	}
	s.sendHeader()
	s.answered = true
	s.appendAnswer(piece, false)
	return s.send()
}

// command sends a device command.
func (s *stream) command(c *talk.Command, recall *bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.err
	}
	s.sendHeader()
	s.buf = append(s.buf, eventMessage+`{"role":"agent","type":"tool_call","tool_call":{"command":`...)
	s.buf = appendString(s.buf, c.Name)
	for _, name := range commandArgs { // in a fixed order, and no others
		if v, ok := c.Args[name]; ok {
			s.buf = append(s.buf, `,"`+name+`":`...)
			s.buf = appendString(s.buf, v)
		}
	}
	if recall != nil {
		s.buf = append(s.buf, `,"handling_required":true,"is_recall":`...)
		s.buf = appendBool(s.buf, *recall)
	}
	s.buf = append(s.buf, '}')
	s.appendSuffix(false)
	return s.send()
}

// commandArgs are the fields of a tool_call besides command (documentation, "Tool Object").
var commandArgs = []string{"action", "poi_name", "navi_type", "title", "start_time", "end_time"}

// finish ends the answer with one message that has is_finish, with the suggestions if there are
// any, and with done. The done event has no text, because the glasses show such a text a second
// time (sengmitnick/eyeclaw, docs/BUGFIX_DUPLICATE_ERROR_MESSAGE.md).
func (s *stream) finish(lastWords string, suggest []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.sendHeader()
	switch {
	case len(suggest) == 0:
		s.appendAnswer(lastWords, true)
	default:
		if lastWords != "" {
			s.appendAnswer(lastWords, false)
		}
		list, _ := json.Marshal(suggest)
		s.buf = append(s.buf, eventMessage+`{"role":"agent","type":"follow_up","follow_up":`...)
		s.buf = append(s.buf, list...)
		s.appendSuffix(true)
	}
	s.buf = append(s.buf, eventDone+`{"role":"agent","type":"answer"`...)
	s.appendSuffix(true)
	s.send() //nolint:errcheck // nothing follows
	s.finished = true
	s.close()
}

// finishedAnswer returns all bytes of a finished answer, or nil.
func (s *stream) finishedAnswer() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.finished {
		return nil
	}
	return s.recorded
}

// stopRecording drops the recording and stops it.
func (s *stream) stopRecording() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded, s.recording = nil, false
}

// replay sends the recorded answer of an earlier request.
func (s *stream) replay(said []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendHeader()
	s.buf = append(s.buf, said...)
	s.send() //nolint:errcheck // nothing follows
	s.close()
}

// fail ends the stream with an error for the calling program, in the documentation's form ("错误响应").
// It is not for wearers: the platform's own types are answer, tool_call and follow_up only, and the
// glasses do not show an error.
func (s *stream) fail(message string, withIDs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.sendHeader()
	for _, event := range []string{eventMessage, eventDone} {
		s.buf = append(s.buf, event+`{"role":"agent","type":"error","message":`...)
		s.buf = appendString(s.buf, message)
		if withIDs {
			s.buf = append(s.buf, s.idsSuffix...)
		}
		s.buf = append(s.buf, `,"is_finish":true}`+eventEnd...)
	}
	s.send() //nolint:errcheck // nothing follows
	s.close()
}

// stop ends the stream without further output, because nobody reads it any more.
func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
}

func (s *stream) close() {
	s.closed = true
	if s.heartbeatTimer != nil {
		s.heartbeatTimer.Stop()
	}
}

func (s *stream) appendAnswer(text string, last bool) {
	s.buf = append(s.buf, s.answerPrefix...)
	s.buf = appendString(s.buf, text)
	s.appendSuffix(last)
}

func (s *stream) appendSuffix(last bool) {
	s.buf = append(s.buf, s.idsSuffix...)
	s.buf = append(s.buf, `,"is_finish":`...)
	s.buf = appendBool(s.buf, last)
	s.buf = append(s.buf, '}')
	s.buf = append(s.buf, eventEnd...)
}

// send writes and flushes the buffer.
func (s *stream) send() error {
	if s.recording {
		s.recorded = append(s.recorded, s.buf...)
	}
	if s.err == nil {
		now := time.Now()
		// Setting the deadline costs more than the write, so it is not done for every write.
		if s.deadline.Sub(now) < writeTimeout/2 {
			s.deadline = now.Add(writeTimeout)
			s.control.SetWriteDeadline(s.deadline) //nolint:errcheck // not every writer has one
		}
		s.lastWrite = now
		_, s.err = s.w.Write(s.buf)
		s.flush()
	}
	s.buf = s.buf[:0]
	return s.err
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.control.Flush()
	}
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, "true"...)
	}
	return append(b, "false"...)
}

const hex = "0123456789abcdef"

// appendString appends s as a JSON string (RFC 8259 §7). It escapes only what JSON requires, and
// U+2028 and U+2029, which JavaScript string literals did not allow before ES2019.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, s[start:i]...)
			b = append(b, `\ufffd`...)
			start = i + n
		case r == '\u2028' || r == '\u2029':
			b = append(b, s[start:i]...)
			b = append(b, `\u202`...)
			b = append(b, hex[r&15])
			start = i + n
		}
		i += n
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
