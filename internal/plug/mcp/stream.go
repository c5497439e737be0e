package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// writeTimeout limits one write to a client; a client that does not read by then is
	// disconnected.
	writeTimeout = 10 * time.Second
	// resumeWindow is how long a client may take to reconnect for the rest of a response.
	resumeWindow = 60 * time.Second
	// maxLogBytes limits the events kept per stream for replay.
	maxLogBytes = 1 << 20
	// maxLogsPerSession limits the number of streams kept per session.
	maxLogsPerSession = 64
)

// sseWriter writes server-sent events. It is not safe for concurrent use.
type sseWriter struct {
	conn net.Conn // a connection of its own, see [eventStream]; else nil
	w    http.ResponseWriter
	buf  []byte // to write before the next bytes: the head of the response
}

// newSSEWriter starts an event stream.
func newSSEWriter(w http.ResponseWriter) *sseWriter {
	setStreamHeader(w.Header())
	w.WriteHeader(http.StatusOK)
	return &sseWriter{w: w}
}

func setStreamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// writeEvent writes one event. An empty name or id is omitted.
func (e *sseWriter) writeEvent(name, id string, data []byte) error {
	b := e.buf
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	return e.flush(append(append(append(b, "data: "...), data...), "\n\n"...))
}

func (e *sseWriter) write(b []byte) error { return e.flush(append(e.buf, b...)) }

// flush sends bytes, with what was to be written before them.
func (e *sseWriter) flush(b []byte) error {
	by := time.Now().Add(writeTimeout)
	if e.conn != nil {
		e.buf = nil                 // a stream that waits keeps no buffer
		e.conn.SetWriteDeadline(by) //nolint:errcheck // the write fails too
		_, err := e.conn.Write(b)
		return err
	}
	e.buf = b[:0]
	c := http.NewResponseController(e.w)
	c.SetWriteDeadline(by) //nolint:errcheck // not every connection supports deadlines
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return c.Flush()
}

// closeStream ends the stream before its handler returns. That closes the connection; HTTP/2
// does not support it.
func (e *sseWriter) closeStream() error {
	conn, _, err := http.NewResponseController(e.w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "0\r\n\r\n") // the last chunk
	return err
}

// writeComment writes an empty comment, which keeps an idle connection open.
func (e *sseWriter) writeComment() error { return e.write([]byte(":\n\n")) }

// eventLog holds the events sent in response to one request, for a client that reconnects. It is
// safe for concurrent use.
type eventLog struct {
	id string

	mu      sync.Mutex
	first   int // number of the first entry
	entries [][]byte
	bytes   int
	done    bool
	ended   time.Time
	change  chan struct{} // closed and replaced at every change
}

func newEventLog(id string) *eventLog {
	return &eventLog{id: id, first: 1, change: make(chan struct{})}
}

// add appends an event and returns its id.
func (l *eventLog) add(data []byte, last bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, data)
	l.bytes += len(data)
	for l.bytes > maxLogBytes && len(l.entries) > 1 {
		l.bytes -= len(l.entries[0])
		l.entries, l.first = l.entries[1:], l.first+1
	}
	if last {
		l.done, l.ended = true, time.Now()
	}
	close(l.change)
	l.change = make(chan struct{})
	return l.id + "." + strconv.Itoa(l.first+len(l.entries)-1)
}

// after returns the events after number n, the number of the last of them, whether the log is
// complete, and a channel that is closed at the next change.
func (l *eventLog) after(n int) (events [][]byte, last int, done bool, change <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last = l.first + len(l.entries) - 1
	if n < last {
		events = l.entries[max(n+1-l.first, 0):]
	}
	return events, last, l.done, l.change
}

var errBadEvent = errors.New("this Last-Event-ID is not known any more")

// openLog starts the event log of a new stream.
func (s *session) openLog() *eventLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streamCount++
	l := newEventLog("s" + strconv.Itoa(s.streamCount))
	for id, old := range s.streams {
		old.mu.Lock()
		stale := old.done && time.Since(old.ended) > resumeWindow
		old.mu.Unlock()
		if stale {
			delete(s.streams, id)
		}
	}
	if len(s.streams) < maxLogsPerSession {
		s.streams[l.id] = l
	}
	return l
}

// resume replays the events after lastEvent and then sends new ones (2025-11-25 basic/transports,
// "Resumability and Redelivery").
func (s *session) resume(ctx context.Context, w http.ResponseWriter, lastEvent string, keepAlive time.Duration) error {
	id, number, _ := strings.Cut(lastEvent, ".")
	n, err := strconv.Atoi(number)
	s.mu.Lock()
	l := s.streams[id]
	s.mu.Unlock()
	if l == nil || err != nil {
		return errBadEvent
	}
	e := newSSEWriter(w)
	e.writeComment() //nolint:errcheck // an error shows at the next write
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		some, last, done, change := l.after(n)
		for i, data := range some {
			if err := e.writeEvent("message", l.id+"."+strconv.Itoa(last-len(some)+1+i), data); err != nil {
				return nil
			}
		}
		if n = last; done {
			return nil
		}
		select {
		case <-change:
		case <-tick.C:
			if e.writeComment() != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
