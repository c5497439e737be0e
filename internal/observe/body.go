package observe

import (
	"io"
	"net/http"
	"time"
)

const (
	// BodyGrace is the maximum wait for the first bytes of a request's body. It is also the
	// server's timeout for the header of a request.
	BodyGrace = 10 * time.Second
	// minBodyRate is the minimum average rate of the body from then on, in bytes per second: slow
	// mobile networks reach it. A slower client would hold a connection for nothing.
	minBodyRate = 16 << 10
	// deadlineStep is the minimum change of the deadline that is applied to the connection.
	deadlineStep = time.Second
)

// deadlineBody is the body of a request that has to arrive in time. A handler can set an earlier
// deadline with [http.ResponseController]; a later one, or none, has no effect.
type deadlineBody struct {
	io.ReadCloser
	limits *http.ResponseController // sets the deadline of the connection

	grace           time.Duration
	began           time.Time
	read            int64
	deadline        time.Time // the deadline that is applied
	handlerDeadline time.Time // the deadline set by the handler; zero: none
	done            bool
}

// withBodyDeadline applies deadlines to the body of a request. Until then the server's own timeout
// for a whole request holds, which is BodyGrace. The deadline is removed at once from a request
// without a body, and otherwise at the end of the body, because responses may take long.
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
		b.limits.SetReadDeadline(b.handlerDeadline) //nolint:errcheck // may be unsupported
	}
}

// nextDeadline is the deadline for the next bytes.
func (b *deadlineBody) nextDeadline() time.Time {
	at := b.began.Add(b.grace + time.Duration(b.read)*time.Second/minBodyRate)
	if !b.handlerDeadline.IsZero() && b.handlerDeadline.Before(at) {
		at = b.handlerDeadline
	}
	return at
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	if b.read == 0 && b.handlerDeadline.IsZero() {
		// The time that a handler takes before it reads does not count.
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

// setHandlerDeadline sets the deadline of the handler.
func (b *deadlineBody) setHandlerDeadline(at time.Time) error {
	b.handlerDeadline = at
	if !b.done {
		at = b.nextDeadline()
		b.deadline = at
	}
	return b.limits.SetReadDeadline(at)
}
