package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// writeLimit bounds one write to a client: one that does not read is gone.
	writeLimit = 10 * time.Second
	// resumeWithin is how long a client may take to come back for the rest of an
	// answer.
	resumeWithin = 60 * time.Second
	// logBytes bounds what is kept of one stream to be sent again.
	logBytes = 1 << 20
	// logsPerSession bounds the streams of a session that are kept.
	logsPerSession = 64
)

// events writes server-sent events. It is not safe for concurrent use.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     []byte
}

// newEvents begins a stream.
func newEvents(w http.ResponseWriter) *events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &events{w: w, control: http.NewResponseController(w)}
}

// event writes one event. An empty name, and an empty id, are left out.
func (e *events) event(name, id string, data []byte) error {
	b := e.buf[:0]
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	e.buf = b
	return e.write(b)
}

func (e *events) write(b []byte) error {
	e.control.SetWriteDeadline(time.Now().Add(writeLimit)) //nolint:errcheck // not every connection has one
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return e.control.Flush()
}

// hangUp ends the stream before its handler returns. That costs the connection,
// and HTTP/2 cannot do it.
func (e *events) hangUp() error {
	conn, _, err := e.control.Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "0\r\n\r\n") // the last chunk
	return err
}

// comment keeps a quiet connection open.
func (e *events) comment() error { return e.write([]byte(":\n\n")) }

// eventLog is what was sent in the answer to one request, for a client that lost
// its connection and comes back. It is safe for concurrent use.
type eventLog struct {
	id string

	mu     sync.Mutex
	first  int // number of the first of kept
	kept   [][]byte
	bytes  int
	done   bool
	ended  time.Time
	change chan struct{} // closed and replaced at every change
}

func newEventLog(id string) *eventLog {
	return &eventLog{id: id, first: 1, change: make(chan struct{})}
}

// add keeps an event and returns its id.
func (l *eventLog) add(data []byte, last bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, data)
	l.bytes += len(data)
	for l.bytes > logBytes && len(l.kept) > 1 {
		l.bytes -= len(l.kept[0])
		l.kept, l.first = l.kept[1:], l.first+1
	}
	if last {
		l.done, l.ended = true, time.Now()
	}
	close(l.change)
	l.change = make(chan struct{})
	return l.id + "." + strconv.Itoa(l.first+len(l.kept)-1)
}

// from are the events behind a number, the number of the last of them, whether
// there will be more, and what tells of more.
func (l *eventLog) from(n int) (events [][]byte, last int, done bool, change <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last = l.first + len(l.kept) - 1
	if n < last {
		events = l.kept[max(n+1-l.first, 0):]
	}
	return events, last, l.done, l.change
}

var errBadEvent = errors.New("this Last-Event-ID is not known any more")

// openLog begins to keep what is sent in a new stream.
func (s *session) openLog() *eventLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	l := newEventLog("s" + strconv.Itoa(s.opened))
	for id, old := range s.streams {
		old.mu.Lock()
		stale := old.done && time.Since(old.ended) > resumeWithin
		old.mu.Unlock()
		if stale {
			delete(s.streams, id)
		}
	}
	if len(s.streams) < logsPerSession {
		s.streams[l.id] = l
	}
	return l
}

// resume sends again what came behind an event, and what is still to come.
func (s *session) resume(ctx context.Context, w http.ResponseWriter, lastEvent string, keepAlive time.Duration) error {
	id, number, _ := strings.Cut(lastEvent, ".")
	n, err := strconv.Atoi(number)
	s.mu.Lock()
	l := s.streams[id]
	s.mu.Unlock()
	if l == nil || err != nil {
		return errBadEvent
	}
	e := newEvents(w)
	e.comment() //nolint:errcheck // shows at the next write
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		some, last, done, change := l.from(n)
		for i, data := range some {
			if err := e.event("message", l.id+"."+strconv.Itoa(last-len(some)+1+i), data); err != nil {
				return nil
			}
		}
		if n = last; done {
			return nil
		}
		select {
		case <-change:
		case <-tick.C:
			if e.comment() != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
