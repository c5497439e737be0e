package mcp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// reply is the HTTP response to one POST: a JSON message, or an event stream if messages precede
// the response. It is safe for concurrent use.
type reply struct {
	session           *session // nil in the stateless era
	acceptsStream     bool     // the client accepts event streams
	keepAliveInterval time.Duration

	mu     sync.Mutex
	w      http.ResponseWriter // nil after the handler has returned
	stream *sseWriter          // nil until a message was sent before the response
	log    *eventLog
	timer  *time.Timer
}

var errClosed = errors.New("the client is gone")

// send sends a message before the response.
func (r *reply) send(msg []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.beginStream() {
		return errClosed
	}
	return r.writeEvent(msg, false)
}

// beginStream turns the HTTP response into an event stream. It returns false if the client
// accepts none. The caller holds mu.
func (r *reply) beginStream() bool {
	if r.stream != nil || r.log != nil {
		return true
	}
	if r.w == nil || !r.acceptsStream {
		return false
	}
	r.stream = newSSEWriter(r.w)
	if r.session != nil {
		r.log = r.session.openLog()
		if r.session.version >= "2025-11-25" { // older clients fail on an event without data (2025-11-25 basic/transports)
			r.stream.write([]byte("id: " + r.log.id + ".0\ndata: \n\n")) //nolint:errcheck // an error shows at the next write
		}
	}
	return true
}

// writeEvent writes an event and logs it if the client can resume the stream. The caller holds
// mu.
func (r *reply) writeEvent(msg []byte, last bool) error {
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
	if err := r.stream.writeEvent("message", id, msg); err != nil {
		r.w = nil
		if r.log == nil {
			return err
		}
	}
	return nil
}

// sendKeepAlive writes a keep-alive comment while the response is pending.
func (r *reply) sendKeepAlive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil || r.timer == nil || !r.beginStream() {
		return
	}
	if r.stream.writeComment() == nil {
		r.timer.Reset(r.keepAliveInterval)
	}
}

// startKeepAlive sends keep-alive comments from now until the response.
func (r *reply) startKeepAlive() {
	if r.acceptsStream {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.timer = time.AfterFunc(r.keepAliveInterval, r.sendKeepAlive)
	}
}

// answer sends the response and ends the reply.
func (r *reply) answer(status int, msg []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	switch {
	case r.stream != nil || r.log != nil:
		r.writeEvent(msg, true) //nolint:errcheck // the client may have disconnected
	case r.w != nil:
		writeJSON(r.w, status, msg)
	}
}

// detach ends the HTTP response before the request is answered. It reports whether the client
// can resume for the rest.
func (r *reply) detach() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.w = nil
	return r.log != nil
}

// disconnect ends the HTTP response while the request continues: until the resume window ends if
// the client can come back, otherwise it is cancelled.
func (r *reply) disconnect(ctx context.Context, cancel context.CancelCauseFunc) {
	if !r.detach() {
		cancel(errClosed)
		return
	}
	late := time.AfterFunc(resumeWindow, func() { cancel(errClosed) })
	context.AfterFunc(ctx, func() { late.Stop() })
}

// closeForReconnect turns the response into a stream, tells the client when to reconnect for the
// rest, and disconnects (2025-11-25 basic/transports, "Sending Messages to the Server"). It returns
// false if the client cannot resume.
func (r *reply) closeForReconnect() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil || r.session.version < "2025-11-25" || r.w == nil || !r.beginStream() {
		return false
	}
	return r.stream.write([]byte("event: close\nretry: "+strconv.Itoa(reconnectMillis)+"\ndata: \n\n")) == nil &&
		r.stream.closeStream() == nil
}

// reconnectMillis is the reconnect delay given to a client, in milliseconds.
const reconnectMillis = 10

var jsonType = []string{"application/json"}

func writeJSON(w http.ResponseWriter, status int, msg []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(msg) > 2000 { // net/http sets it for smaller bodies
		h["Content-Length"] = []string{strconv.Itoa(len(msg))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	w.Write(msg) //nolint:errcheck // the client has disconnected
}
