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
	"patchbay/internal/problem"
)

const (
	// maxLivePerPerson is the maximum number of live pages of one person at a time.
	maxLivePerPerson = 40
	// heartbeatInterval is how often an idle stream gets a heartbeat, and how often it is checked
	// that the browser is still signed in.
	heartbeatInterval = 20 * time.Second
	// liveWriteTimeout is how long one write to a browser may take.
	liveWriteTimeout = 10 * time.Second
)

// liveStreams counts the live pages and can end them all.
type liveStreams struct {
	mu        sync.Mutex
	perPerson map[string]int // number of live pages by person
	end       chan struct{}
	once      sync.Once
}

func (l *liveStreams) acquire(person string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perPerson == nil {
		l.perPerson = map[string]int{}
	}
	if l.perPerson[person] >= maxLivePerPerson {
		return false
	}
	l.perPerson[person]++
	return true
}

func (l *liveStreams) release(person string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perPerson[person]--; l.perPerson[person] == 0 {
		delete(l.perPerson, person)
	}
}

// LiveCount returns the number of live pages.
func (h *Instance) LiveCount() int {
	h.live.mu.Lock()
	defer h.live.mu.Unlock()
	n := 0
	for _, of := range h.live.perPerson {
		n += of
	}
	return n
}

// ended returns a channel that is closed when the server stops.
func (l *liveStreams) ended() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		l.end = make(chan struct{})
	}
	return l.end
}

// Drain ends all live pages; browsers reconnect to the server that runs by then.
func (h *Instance) Drain() { h.live.once.Do(func() { close(h.live.ended()) }) }

// Send sends a part of a page to the browser. It is not safe for concurrent use.
type Send func(templ.Component) error

// Live keeps the page up to date while f runs: each part that f sends replaces what its [Patch]
// targets. The context of f ends when the browser disconnects or is signed out, or when the server
// stops. When f returns, the browser reconnects after a while, unless it has loaded a page without
// live updates. Live serves the requests of [LiveUpdates], and responses to forms that arrive piece
// by piece.
func (v *Visit) Live(f func(ctx context.Context, send Send) error) {
	person := v.Session.Person.ID
	if !v.Instance.live.acquire(person) {
		v.W.Header().Set("Retry-After", "10")
		v.Fail(problem.New(problem.RateLimited, msgTooManyPages))
		return
	}
	defer v.Instance.live.release(person)
	v.FormValue("") // the request body cannot be read once the response has begun
	in, leave := v.Instance.Streams.SignIn(v.Context(), v.Session)
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
		v.waitRevoked(ctx, out)
	})
	err := f(ctx, out.send)
	cancel()
	watching.Wait()
	if err != nil && v.Context().Err() == nil && !errors.Is(err, context.Canceled) {
		v.Instance.Logger.DebugContext(v.Context(), "what kept a page up to date ended", "path", v.URL.Path,
			"error", err)
	}
}

// waitRevoked returns when the browser must not get any more data.
func (v *Visit) waitRevoked(ctx context.Context, out *stream) {
	beat := time.NewTicker(heartbeatInterval)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.Instance.live.ended():
			return
		case <-beat.C:
		}
		_, err := v.Instance.Accounts.CheckSignIn(ctx, v.token, v.Instance.Address(v.Request).String())
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
	s.control.SetWriteDeadline(time.Now().Add(liveWriteTimeout)) //nolint:errcheck // not every connection supports deadlines
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
