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
	// bodyRate is how many bytes a second of it have to come from then on: a slow mobile
	// network has as much. Who sends less holds a connection for nothing.
	bodyRate = 16 << 10
	// bodyStep is how far the limit moves before it is set again.
	bodyStep = time.Second
)

// body is a request's body that has to come in time. A handler can set a nearer limit
// with [http.ResponseController]; one that is further away, or none, does not help.
type body struct {
	io.ReadCloser
	limits *http.ResponseController // of the connection

	grace time.Duration
	began time.Time
	read  int64
	set   time.Time // the limit as it is set
	own   time.Time // what the handler wants; zero: nothing
	done  bool
}

// inTime makes the body of a request come in time. The server's own limit for a whole
// request, which is BodyGrace, holds until then; it is taken away at once from a request
// without a body, and otherwise at the end of the body: answers may last.
func inTime(w http.ResponseWriter, r *http.Request) *body {
	b := &body{ReadCloser: r.Body, limits: http.NewResponseController(w), grace: BodyGrace}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		b.end()
		return b
	}
	b.began = time.Now()
	b.set = b.began.Add(b.grace)
	r.Body = b
	return b
}

func (b *body) end() {
	if !b.done {
		b.done = true
		b.limits.SetReadDeadline(b.own) //nolint:errcheck // not every connection has one
	}
}

// limit is until when the next bytes have to come.
func (b *body) limit() time.Time {
	at := b.began.Add(b.grace + time.Duration(b.read)*time.Second/bodyRate)
	if !b.own.IsZero() && b.own.Before(at) {
		at = b.own
	}
	return at
}

func (b *body) Read(p []byte) (int, error) {
	if b.read == 0 && b.own.IsZero() {
		// What a handler does before it reads does not count.
		if now := time.Now(); now.Sub(b.began) > bodyStep {
			b.began = now
		}
	}
	if at := b.limit(); at.Sub(b.set) >= bodyStep {
		b.set = at
		b.limits.SetReadDeadline(at) //nolint:errcheck // as above
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF {
		b.end()
	}
	return n, err
}

// handlers sets what the handler wants.
func (b *body) handlers(at time.Time) error {
	b.own = at
	if !b.done {
		at = b.limit()
		b.set = at
	}
	return b.limits.SetReadDeadline(at)
}
