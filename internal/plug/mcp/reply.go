package mcp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// reply is the HTTP answer to one POST: a JSON message, or a stream of events if
// something has to be said before the answer. It is safe for concurrent use.
type reply struct {
	session *session // nil in the stateless era
	streams bool     // the client takes streams
	every   time.Duration

	mu     sync.Mutex
	w      http.ResponseWriter // nil when the handler has returned
	stream *events             // nil until something was said before the answer
	log    *eventLog
	timer  *time.Timer
}

var errClosed = errors.New("the client is gone")

// send says something before the answer.
func (r *reply) send(msg []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begin() {
		return errClosed
	}
	return r.event(msg, false)
}

// begin makes the answer a stream. It is false if it cannot be one. With mu held.
func (r *reply) begin() bool {
	if r.stream != nil || r.log != nil {
		return true
	}
	if r.w == nil || !r.streams {
		return false
	}
	r.stream = newEvents(r.w)
	if r.session != nil {
		r.log = r.session.openLog()
		if r.session.version >= "2025-11-25" { // older clients choke on an event without data
			r.stream.write([]byte("id: " + r.log.id + ".0\ndata: \n\n")) //nolint:errcheck // shows at the next write
		}
	}
	return true
}

// event writes an event, and keeps it if the client can come back for it. With mu
// held.
func (r *reply) event(msg []byte, last bool) error {
	id := ""
	if r.log != nil {
		id = r.log.add(msg, last)
	}
	if r.w == nil {
		if r.log == nil {
			return errClosed
		}
		return nil
	}
	if err := r.stream.event("message", id, msg); err != nil {
		r.w = nil
		if r.log == nil {
			return err
		}
	}
	return nil
}

// beat keeps the connection open while the answer takes its time.
func (r *reply) beat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil || r.timer == nil || !r.begin() {
		return
	}
	if r.stream.comment() == nil {
		r.timer.Reset(r.every)
	}
}

// patient keeps the connection open from now on, until the answer.
func (r *reply) patient() {
	if r.streams {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.timer = time.AfterFunc(r.every, r.beat)
	}
}

// answer is the end of it.
func (r *reply) answer(status int, msg []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	switch {
	case r.stream != nil || r.log != nil:
		r.event(msg, true) //nolint:errcheck // nobody is left to be told
	case r.w != nil:
		writeJSON(r.w, status, msg)
	}
}

// leave ends the HTTP answer before the request is answered. It says whether the
// client can come back for the rest.
func (r *reply) leave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.w = nil
	return r.log != nil
}

// lose ends the HTTP answer while the work goes on: for a while if the client can
// come back for the rest, else no longer.
func (r *reply) lose(ctx context.Context, cancel context.CancelCauseFunc) {
	if !r.leave() {
		cancel(errClosed)
		return
	}
	late := time.AfterFunc(resumeWithin, func() { cancel(errClosed) })
	context.AfterFunc(ctx, func() { late.Stop() })
}

// pauseNow makes the answer a stream, tells the client when to come back for its
// rest, and hangs up. It is false if the client could not.
func (r *reply) pauseNow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil || r.session.version < "2025-11-25" || r.w == nil || !r.begin() {
		return false
	}
	return r.stream.write([]byte("event: close\nretry: "+strconv.Itoa(pauseMillis)+"\ndata: \n\n")) == nil && r.stream.hangUp() == nil
}

// pauseMillis is how soon a client that was sent away comes back.
const pauseMillis = 10

var jsonType = []string{"application/json"}

func writeJSON(w http.ResponseWriter, status int, msg []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(msg) > 2000 { // smaller ones get it from net/http
		h["Content-Length"] = []string{strconv.Itoa(len(msg))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	w.Write(msg) //nolint:errcheck // the client has gone
}
