package page

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/account"
	"patchbay/internal/control"
)

const (
	// livesMost bounds the pages of one person that are kept up to date at a time.
	livesMost = 40
	// liveBeat is after how long a browser that is told nothing gets a sign that the
	// connection is alive, and whether it is signed in still is looked at.
	liveBeat = 20 * time.Second
	// liveWrite is how long a browser may take to receive something.
	liveWrite = 10 * time.Second
)

// lives counts the pages that are kept up to date, and ends them all.
type lives struct {
	mu   sync.Mutex
	of   map[string]int // by person
	end  chan struct{}
	once sync.Once
}

func (l *lives) begin(person string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]int{}
	}
	if l.of[person] >= livesMost {
		return false
	}
	l.of[person]++
	return true
}

func (l *lives) done(person string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[person]--; l.of[person] == 0 {
		delete(l.of, person)
	}
}

// Live is how many pages are kept up to date.
func (h *House) Live() int {
	h.lives.mu.Lock()
	defer h.lives.mu.Unlock()
	n := 0
	for _, of := range h.lives.of {
		n += of
	}
	return n
}

// ended is closed when the server stops.
func (l *lives) ended() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		l.end = make(chan struct{})
	}
	return l.end
}

// Drain ends all that is kept up to date; browsers come back to the server that is
// there then.
func (h *House) Drain() { h.lives.once.Do(func() { close(h.lives.ended()) }) }

// Send gives a browser a part of a page. It is not for several goroutines at a time.
type Send func(templ.Component) error

// Live keeps the browser up to date while f runs: each part that f sends goes to where
// its [Patch] says. The context of f ends when the browser goes, is signed out, or the
// server stops. When f returns, the browser asks again after a while, unless a page
// without it has come. It is for what [Follow] asks for, and for answers that come
// piece by piece to a form.
func (v *Visit) Live(f func(ctx context.Context, send Send) error) {
	person := v.Who.Person.ID
	if !v.House.lives.begin(person) {
		v.W.Header().Set("Retry-After", "10")
		v.Fail(control.Fail(control.TooMany, sayTooManyPages))
		return
	}
	defer v.House.lives.done(person)
	v.FormValue("") // what was sent cannot be read any more once an answer has begun
	in, leave := v.House.Streams.SignIn(v.Context(), v.Who)
	defer leave()
	ctx, cancel := context.WithCancel(in)
	defer cancel()
	h := v.W.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	out := &stream{w: v.W, control: http.NewResponseController(v.W)}
	if out.write([]byte(": hello\n\n")) != nil {
		return
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		defer cancel()
		v.watch(ctx, out)
	})
	err := f(ctx, out.send)
	cancel()
	watching.Wait()
	if err != nil && v.Context().Err() == nil && !errors.Is(err, context.Canceled) {
		v.House.Logger.DebugContext(v.Context(), "what kept a page up to date ended", "path", v.URL.Path, "error", err)
	}
}

// watch returns when the browser must not be told anything any more.
func (v *Visit) watch(ctx context.Context, out *stream) {
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.House.lives.ended():
			return
		case <-beat.C:
		}
		_, err := v.House.Accounts.CheckSignIn(ctx, v.token, v.House.Address(v.Request).String())
		if errors.Is(err, account.ErrSignedOut) || out.write([]byte(": alive\n\n")) != nil {
			return
		}
	}
}

// stream writes server-sent events.
type stream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	page    bytes.Buffer
	event   bytes.Buffer
}

func (s *stream) write(event []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control.SetWriteDeadline(time.Now().Add(liveWrite)) //nolint:errcheck // not every connection has one
	if _, err := s.w.Write(event); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *stream) send(part templ.Component) error {
	s.page.Reset()
	s.event.Reset()
	if err := part.Render(context.Background(), &s.page); err != nil {
		return err
	}
	for line := range bytes.Lines(s.page.Bytes()) {
		s.event.WriteString("data: ")
		s.event.Write(bytes.TrimRight(line, "\r\n"))
		s.event.WriteByte('\n')
	}
	s.event.WriteByte('\n')
	return s.write(s.event.Bytes())
}
