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

	"patchbay/internal/netx"
)

const (
	// endSessionTimeout limits the DELETE of a session: it is optional, and shutdown waits for
	// it.
	endSessionTimeout = 2 * time.Second
	// drainTimeout is how long to wait for the end of a stream after the response: a connection
	// is reused only if its body was read to the end.
	drainTimeout = 200 * time.Millisecond
	// maxResumes limits how often a stream is resumed without a new event.
	maxResumes = 5
	// maxRetryDelay limits the reconnect delay that a server may request.
	maxRetryDelay = 30 * time.Second
	// maxSession limits the length of a session id, which is part of every request.
	maxSession = 1 << 10
)

// streamable is the Streamable HTTP transport of 2025-03-26 and later (basic/transports): each
// request is a POST, and the response is a message or a stream that ends with one.
type streamable struct {
	s        *session
	settings *Settings
	sender   sender

	mu      sync.Mutex
	id      string // session id assigned by the server
	version string
	modern  bool
}

func newStreamable(s *session, settings *Settings, out sender) *streamable {
	return &streamable{s: s, settings: settings, sender: out}
}

func (w *streamable) setVersion(version string, modern bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version, w.modern = version, modern
}

func (w *streamable) isStateless() bool         { return w.session() == "" }
func (w *streamable) cancelsByDisconnect() bool { return true }

func (w *streamable) session() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id
}

// request returns an HTTP request with all headers it needs.
func (w *streamable) request(ctx context.Context, method string, m *outgoing) (*http.Request, error) {
	var body io.Reader
	if m != nil {
		body = bytes.NewReader(m.body)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.settings.URL, body)
	if err != nil {
		return nil, errors.New("the address is not a web address") // err would show the address
	}
	w.settings.setHeaders(req)
	w.mu.Lock()
	id, version, modern := w.id, w.version, w.modern
	w.mu.Unlock()
	if version != "" {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	if m != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		m.trace.AddTo(req.Header)
		if modern && m.method != "" {
			req.Header.Set("Mcp-Method", m.method)
			if m.name != "" {
				req.Header.Set("Mcp-Name", headerValue(m.name))
			}
			for name, value := range m.headers {
				req.Header.Set(name, value)
			}
		}
	}
	if id != "" && !modern {
		req.Header.Set("Mcp-Session-Id", id)
	}
	return req, nil
}

// headerValue encodes a text for a header (2026-07-28 basic/transports/streamable-http, "Value
// Encoding").
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

// send posts a message, and reads the response to its end.
func (w *streamable) send(ctx context.Context, m *outgoing) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := w.sender.do(ctx, func() (*http.Request, error) { return w.request(ctx, http.MethodPost, m) })
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return w.handleRefusal(m, resp)
	}
	if m.method == "initialize" {
		w.setSession(resp.Header.Get("Mcp-Session-Id"))
	}
	if m.id == 0 || resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent {
		return nil // accepted; a response, if due, comes elsewhere
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "text/event-stream":
		return w.readStream(ctx, cancel, m, resp)
	case "application/json":
		return w.readBody(m, resp.Body)
	}
	return errMalformed
}

// setSession stores the session id assigned by the server.
func (w *streamable) setSession(id string) {
	if len(id) > maxSession {
		return
	}
	w.mu.Lock()
	w.id = id
	w.mu.Unlock()
}

// handleRefusal converts an error status into an error.
func (w *streamable) handleRefusal(m *outgoing, resp *http.Response) error {
	e := readStatusError(resp)
	if w.session() != "" && m.method != "initialize" && isUnknownSession(e) {
		return &unsentError{e}
	}
	if e.rpc != nil && m.id != 0 && !e.isAuth() {
		return e.rpc
	}
	return e
}

// isUnknownSession reports whether the server no longer knows the session. The specification
// requires 404 (2025-11-25 basic/transports, "Session Management"); older servers send 400 with a
// text about sessions.
func isUnknownSession(e *statusError) bool {
	return e.code == http.StatusNotFound ||
		e.code == http.StatusBadRequest && strings.Contains(strings.ToLower(e.text), "session")
}

// readBody reads a response that is a single JSON message.
func (w *streamable) readBody(m *outgoing, body io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(body, int64(m.limit)+1))
	switch {
	case err != nil:
		return transportError(err)
	case len(data) > m.limit:
		return errTooLarge
	}
	if err := w.s.deliver(m.id, &event{data: data}); err != nil {
		return err
	}
	if w.s.isPending(m.id) {
		return errMalformed // a response to another request
	}
	return nil
}

// readStream reads a stream until the response has arrived. If the stream ends before and can be
// resumed, it resumes it.
func (w *streamable) readStream(ctx context.Context, hangUp func(), m *outgoing, resp *http.Response) error {
	var at resumePoint
	for idle := 0; idle <= maxResumes; idle++ {
		was := at.id
		err := w.stream(resp.Body, m, &at)
		if !w.s.isPending(m.id) {
			drain(resp.Body, hangUp)
			return nil
		}
		resp.Body.Close()
		if at.id == "" || ctx.Err() != nil || errors.Is(err, errMalformed) || errors.Is(err, errTooLarge) {
			return err
		}
		if at.id != was {
			idle = 0
		}
		if !netx.WaitUnless(ctx, w.s.done, at.delay()) {
			return &connectionLostError{context.Cause(ctx)}
		}
		if resp, err = w.get(ctx, at.id); err != nil {
			return &connectionLostError{err}
		}
		defer resp.Body.Close()
	}
	return &connectionLostError{io.ErrUnexpectedEOF}
}

// drain reads the rest of a stream that is about to end.
func drain(body io.Reader, hangUp func()) {
	timer := time.AfterFunc(drainTimeout, hangUp)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// resumePoint is where a stream can be resumed.
type resumePoint struct {
	id    string
	retry time.Duration
}

func (p *resumePoint) delay() time.Duration {
	if p.retry == 0 {
		return time.Second
	}
	return min(p.retry, maxRetryDelay)
}

// stream reads events until the response to m has arrived, or, without m, until the stream ends.
// The error is never nil in the latter case.
func (w *streamable) stream(body io.Reader, m *outgoing, at *resumePoint) error {
	from, limit := int64(0), maxMessage
	if m != nil {
		from, limit = m.id, m.limit
	}
	in := newEventReader(body, limit)
	for {
		e, err := in.next()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return transportError(err)
		}
		at.id, at.retry = e.id, e.retry
		if len(e.data) == 0 && !e.tooLarge || e.name != "" && e.name != "message" {
			continue
		}
		if err := w.s.deliver(from, e); err != nil && m != nil {
			return err // it was the response
		}
		if m != nil && !w.s.isPending(m.id) {
			return nil
		}
	}
}

// get opens a stream for unsolicited messages, or resumes one.
func (w *streamable) get(ctx context.Context, after string) (*http.Response, error) {
	resp, err := w.sender.do(ctx, func() (*http.Request, error) {
		req, err := w.request(ctx, http.MethodGet, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream")
		if after != "" {
			req.Header.Set("Last-Event-ID", after)
		}
		return req, nil
	})
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil, &statusError{code: http.StatusMethodNotAllowed} // a web page, not a stream
	}
	return nil, readStatusError(resp)
}

// listen keeps a stream open for unsolicited messages. Not every server has one.
func (w *streamable) listen() {
	w.s.start(func() {
		var at resumePoint
		for pause, first := listenBackoff(), true; ; first = false {
			began := time.Now()
			resp, err := w.get(w.s.ctx, at.id)
			if err == nil {
				if w.s.listening.Store(true); !first {
					w.s.markChanged() // changes may have been missed
				}
				_ = w.stream(resp.Body, nil, &at)
				resp.Body.Close()
				w.s.listening.Store(false)
			} else if w.isListenOver(err, first) {
				return
			}
			if time.Since(began) > stableAfter {
				pause.Reset()
			}
			if !netx.WaitUnless(w.s.ctx, w.s.done, max(pause.Next(), min(at.retry, maxRetryDelay))) {
				return
			}
		}
	})
}

// isListenOver reports whether to stop listening, because the server is gone or has no
// unsolicited messages.
func (w *streamable) isListenOver(err error, first bool) bool {
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

// close ends the session at the server (2025-11-25 basic/transports, "Session Management").
func (w *streamable) close() {
	if w.session() != "" {
		ctx, cancel := context.WithTimeout(context.Background(), endSessionTimeout)
		defer cancel()
		resp, err := w.sender.do(ctx, func() (*http.Request, error) { return w.request(ctx, http.MethodDelete, nil) })
		if err == nil {
			resp.Body.Close()
		}
	}
	w.sender.client.CloseIdleConnections()
}
