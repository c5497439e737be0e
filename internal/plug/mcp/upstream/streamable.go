package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// goodbyeTimeout bounds telling a server that its session is over: it is a
	// courtesy, and shutting down waits for it.
	goodbyeTimeout = 2 * time.Second
	// drainTimeout is how long the end of a stream is waited for when the answer
	// has come: a connection is used again only if it was read to the end.
	drainTimeout = 200 * time.Millisecond
	// maxResumes is how often a stream is taken up again without anything new
	// having come on it.
	maxResumes = 5
	// longestRetry caps what a server may ask for as a pause before that.
	longestRetry = 30 * time.Second
	// maxSession bounds the name of a session, which goes with every request.
	maxSession = 1 << 10
)

// streamable is the wire of 2025-03-26 and later: each request is a POST, whose
// answer is a message or a stream that ends with one.
type streamable struct {
	s        *session
	settings *Settings
	client   *http.Client

	mu      sync.Mutex
	id      string // the server's name for the session
	version string
	modern  bool
}

func newStreamable(s *session, settings *Settings, dial DialFunc) *streamable {
	return &streamable{s: s, settings: settings, client: newClient(dial)}
}

func (w *streamable) agree(version string, modern bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version, w.modern = version, modern
}

func (w *streamable) sessionless() bool { return w.session() == "" }
func (w *streamable) hangsUp() bool     { return true }

func (w *streamable) session() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id
}

// request makes a request with all headers that it needs.
func (w *streamable) request(ctx context.Context, method string, m *outgoing) (*http.Request, error) {
	var body io.Reader
	if m != nil {
		body = bytes.NewReader(m.body)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.settings.URL, body)
	if err != nil {
		return nil, errors.New("the address is not a web address") // err would tell it
	}
	w.settings.sign(req)
	w.mu.Lock()
	id, version, modern := w.id, w.version, w.modern
	w.mu.Unlock()
	if version != "" {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	if m != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if modern && m.method != "" {
			req.Header.Set("Mcp-Method", m.method)
			if m.name != "" {
				req.Header.Set("Mcp-Name", headerValue(m.name))
			}
			for name, value := range m.heads {
				req.Header.Set(name, value)
			}
		}
	}
	if id != "" && !modern {
		req.Header.Set("Mcp-Session-Id", id)
	}
	return req, nil
}

// headerValue writes a text such that it may stand in a header.
func headerValue(text string) string {
	plain := strings.TrimSpace(text) == text && !strings.HasPrefix(text, "=?base64?")
	for _, c := range []byte(text) {
		plain = plain && c >= 0x20 && c < 0x7f
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// send posts a message, and reads what comes back until that is over.
func (w *streamable) send(ctx context.Context, m *outgoing) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := w.request(ctx, http.MethodPost, m)
	if err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return trouble(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return w.refused(m, resp)
	}
	if m.method == "initialize" {
		w.meet(resp.Header.Get("Mcp-Session-Id"))
	}
	if m.id == 0 || resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent {
		return nil // an answer, if one is due, comes otherwise
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "text/event-stream":
		return w.follow(ctx, cancel, m, resp)
	case "application/json":
		return w.whole(m, resp.Body)
	}
	return errGarbled
}

// meet takes the name of the session that the server opened.
func (w *streamable) meet(id string) {
	if len(id) > maxSession {
		return
	}
	w.mu.Lock()
	w.id = id
	w.mu.Unlock()
}

// refused finds out what an answer other than success means.
func (w *streamable) refused(m *outgoing, resp *http.Response) error {
	e := refusal(resp)
	if w.session() != "" && m.method != "initialize" && forgotten(e) {
		return &unsentError{e}
	}
	if e.spoke != nil && m.id != 0 && !e.auth() {
		return e.spoke
	}
	return e
}

// forgotten says that the server does not know our session any more. It has to
// say so with 404; older servers say 400 and something about sessions.
func forgotten(e *statusError) bool {
	return e.code == http.StatusNotFound ||
		e.code == http.StatusBadRequest && strings.Contains(strings.ToLower(e.text), "session")
}

// whole reads an answer that comes in one piece.
func (w *streamable) whole(m *outgoing, body io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(body, int64(m.limit)+1))
	switch {
	case err != nil:
		return trouble(err)
	case len(data) > m.limit:
		return errTooLarge
	}
	if err := w.s.deliver(m.id, &event{data: data}); err != nil {
		return err
	}
	if w.s.waits(m.id) {
		return errGarbled // it was the answer to something else
	}
	return nil
}

// follow reads a stream until the answer has come on it. If the stream ends
// before and can be taken up again, that is done.
func (w *streamable) follow(ctx context.Context, hangUp func(), m *outgoing, resp *http.Response) error {
	var at place
	for idle := 0; idle <= maxResumes; idle++ {
		was := at.id
		err := w.stream(resp.Body, m, &at)
		if !w.s.waits(m.id) {
			drain(resp.Body, hangUp)
			return nil
		}
		resp.Body.Close()
		if at.id == "" || ctx.Err() != nil || errors.Is(err, errGarbled) || errors.Is(err, errTooLarge) {
			return err
		}
		if at.id != was {
			idle = 0
		}
		if !sleep(ctx, w.s.dead, at.pause()) {
			return &goneError{context.Cause(ctx)}
		}
		if resp, err = w.get(ctx, at.id); err != nil {
			return &goneError{err}
		}
		defer resp.Body.Close()
	}
	return &goneError{io.ErrUnexpectedEOF}
}

// drain reads the rest of a stream whose end is near.
func drain(body io.Reader, hangUp func()) {
	timer := time.AfterFunc(drainTimeout, hangUp)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// place is where a stream can be taken up again.
type place struct {
	id    string
	retry time.Duration
}

func (p *place) pause() time.Duration {
	if p.retry == 0 {
		return time.Second
	}
	return min(p.retry, longestRetry)
}

// stream reads events until the answer to m has come, or without m until the
// stream ends. The error is never nil then.
func (w *streamable) stream(body io.Reader, m *outgoing, at *place) error {
	from, limit := int64(0), maxMessage
	if m != nil {
		from, limit = m.id, m.limit
	}
	in := newEvents(body, limit)
	for {
		e, err := in.next()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return trouble(err)
		}
		at.id, at.retry = e.id, e.retry
		if len(e.data) == 0 && !e.huge || e.name != "" && e.name != "message" {
			continue
		}
		if err := w.s.deliver(from, e); err != nil && m != nil {
			return err // it was to be our answer
		}
		if m != nil && !w.s.waits(m.id) {
			return nil
		}
	}
}

// get opens a stream for what the server says unasked, or takes one up again.
func (w *streamable) get(ctx context.Context, after string) (*http.Response, error) {
	req, err := w.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, trouble(err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil, &statusError{code: http.StatusMethodNotAllowed} // some web page
	}
	return nil, refusal(resp)
}

// listen keeps a stream open for what the server says unasked. Not every server
// has one.
func (w *streamable) listen() {
	w.s.start(func() {
		var at place
		for pause, first := newPause(time.Second, time.Minute), true; ; first = false {
			began := time.Now()
			resp, err := w.get(w.s.ctx, at.id)
			if err == nil {
				if w.s.listening.Store(true); !first {
					w.s.touch() // something may have changed while nobody listened
				}
				_ = w.stream(resp.Body, nil, &at)
				resp.Body.Close()
				w.s.listening.Store(false)
			} else if w.unheard(err, first) {
				return
			}
			if time.Since(began) > steady {
				pause.reset()
			}
			if !sleep(w.s.ctx, w.s.dead, max(pause.next(), min(at.retry, longestRetry))) {
				return
			}
		}
	})
}

// unheard says that listening is over, because the server is gone or has nothing
// to say unasked.
func (w *streamable) unheard(err error, first bool) bool {
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		w.s.fail(err)
		return true
	}
	status, ok := errors.AsType[*statusError](err)
	if !ok || status.code/100 == 5 {
		return false
	}
	if !first && w.session() != "" && status.code == http.StatusNotFound {
		w.s.fail(&unsentError{err})
	}
	return true
}

// close tells the server that the session is over.
func (w *streamable) close() {
	if w.session() != "" {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
		defer cancel()
		if req, err := w.request(ctx, http.MethodDelete, nil); err == nil {
			if resp, err := w.client.Do(req); err == nil {
				resp.Body.Close()
			}
		}
	}
	w.client.CloseIdleConnections()
}
