package rokid

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"patchbay/internal/talk"
)

// writeTimeout is how long the platform may take to accept one write. A reader
// that is slower has gone.
const writeTimeout = 10 * time.Second

// stream writes one answer as server-sent events. Each piece is one write and
// one flush, made under mu by whoever has something to say: the bot, the
// heartbeat, the handler.
type stream struct {
	w                 http.ResponseWriter
	control           *http.ResponseController
	answerPrefix      []byte // of an answer event, up to the text
	idsSuffix         []byte // of any event, after the text
	heartbeatInterval time.Duration

	mu             sync.Mutex
	buf            []byte
	headerSent     bool // the head has been written
	closed         bool
	answered       bool // a piece of text was sent
	err            error
	lastWrite      time.Time
	deadline       time.Time
	heartbeatTimer *time.Timer
	heartbeats     int
	recorded       []byte // all that was written, also if the connection broke
	recording      bool   // what is said
	finished       bool
}

const (
	eventMessage = "event: message\ndata: "
	eventDone    = "event: done\ndata: "
	eventEnd     = "\n\n"
)

// newStream makes a stream for one request. Nothing is written yet.
func newStream(w http.ResponseWriter, messageID, agentID string, heartbeatInterval time.Duration) *stream {
	s := &stream{w: w, control: http.NewResponseController(w), heartbeatInterval: heartbeatInterval, recording: true}
	s.answerPrefix = []byte(eventMessage + `{"role":"agent","type":"answer","answer_stream":`)
	s.idsSuffix = append(s.idsSuffix, `,"message_id":`...)
	s.idsSuffix = appendString(s.idsSuffix, messageID)
	s.idsSuffix = append(s.idsSuffix, `,"agent_id":`...)
	s.idsSuffix = appendString(s.idsSuffix, agentID)
	return s
}

// start sends the head and, unless quiet, a comment, so that the platform knows
// at once that somebody is there; then it keeps the connection awake.
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
	h.Set("X-Accel-Buffering", "no") // nginx would hold pieces back
	s.w.WriteHeader(http.StatusOK)
	s.lastWrite = time.Now()
}

// heartbeat writes a comment when nothing else was written for a while.
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
		s.heartbeats++
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

// commandArgs are the fields of a tool_call beside its command.
var commandArgs = []string{"action", "poi_name", "navi_type", "title", "start_time", "end_time"}

// finish ends the answer: one message that is the last, with the suggestions if
// there are any, and done. Done carries no text: some versions of the app would
// show it again.
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

// finishedAnswer is all of an answer that was finished, or nil.
func (s *stream) finishedAnswer() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.finished {
		return nil
	}
	return s.recorded
}

// stopRecording keeps nothing of what is said, from now on.
func (s *stream) stopRecording() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded, s.recording = nil, false
}

// replay answers as a request was answered before.
func (s *stream) replay(said []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendHeader()
	s.buf = append(s.buf, said...)
	s.send() //nolint:errcheck // nothing follows
	s.close()
}

// fail ends the stream with an error for the program that called, in the form
// of the documents. It is not for wearers: glasses show no event of this type.
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

// stop ends the stream without another word, when nobody reads it any more.
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

// send writes what was built and flushes it.
func (s *stream) send() error {
	if s.recording {
		s.recorded = append(s.recorded, s.buf...)
	}
	if s.err == nil {
		now := time.Now()
		// Moving the deadline costs more than the write; once in a while is enough.
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

// appendString appends s as a JSON string. Text stays as it is, apart from what
// JSON forbids and the two line separators that JavaScript once did.
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
