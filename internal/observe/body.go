package observe

import (
	"io"
	"net/http"
	"time"
)

const (
	// BodyGrace is how long a request's body may take to begin to come. It is also how
	// long the server waits for the head of a request.
	BodyGrace = 10 * time.Second
	// minBodyRate is how many bytes a second of it have to come from then on: a slow mobile
	// network has as much. Who sends less holds a connection for nothing.
	minBodyRate = 16 << 10
	// deadlineStep is how far the limit moves before it is set again.
	deadlineStep = time.Second
)

// deadlineBody is a request's body that has to come in time. A handler can set a nearer limit
// with [http.ResponseController]; one that is further away, or none, does not help.
type deadlineBody struct {
	io.ReadCloser
	limits *http.ResponseController // of the connection

	grace           time.Duration
	began           time.Time
	read            int64
	deadline        time.Time // the limit as it is set
	handlerDeadline time.Time // what the handler wants; zero: nothing
	done            bool
}

// withBodyDeadline makes the body of a request come in time. The server's own limit for a whole
// request, which is BodyGrace, holds until then; it is taken away at once from a request
// without a body, and otherwise at the end of the body: answers may last.
func withBodyDeadline(w http.ResponseWriter, r *http.Request) *deadlineBody {
	b := &deadlineBody{ReadCloser: r.Body, limits: http.NewResponseController(w), grace: BodyGrace}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		b.end()
		return b
	}
	b.began = time.Now()
	b.deadline = b.began.Add(b.grace)
	r.Body = b
	return b
}

func (b *deadlineBody) end() {
	if !b.done {
		b.done = true
		b.limits.SetReadDeadline(b.handlerDeadline) //nolint:errcheck // not every connection has one
	}
}

// nextDeadline is until when the next bytes have to come.
func (b *deadlineBody) nextDeadline() time.Time {
	at := b.began.Add(b.grace + time.Duration(b.read)*time.Second/minBodyRate)
	if !b.handlerDeadline.IsZero() && b.handlerDeadline.Before(at) {
		at = b.handlerDeadline
	}
	return at
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	if b.read == 0 && b.handlerDeadline.IsZero() {
		// What a handler does before it reads does not count.
		if now := time.Now(); now.Sub(b.began) > deadlineStep {
			b.began = now
		}
	}
	if at := b.nextDeadline(); at.Sub(b.deadline) >= deadlineStep {
		b.deadline = at
		b.limits.SetReadDeadline(at) //nolint:errcheck // as above
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF {
		b.end()
	}
	return n, err
}

// setHandlerDeadline sets what the handler wants.
func (b *deadlineBody) setHandlerDeadline(at time.Time) error {
	b.handlerDeadline = at
	if !b.done {
		at = b.nextDeadline()
		b.deadline = at
	}
	return b.limits.SetReadDeadline(at)
}
