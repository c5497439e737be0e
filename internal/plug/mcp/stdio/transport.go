package stdio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
)

const (
	// retryTimeout is how long to retry an unreachable server: longer than it takes to start one.
	retryTimeout = 30 * time.Second
	// minBackoff is the first retry delay; each further one is twice as long, up to maxBackoff.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 2 * time.Second
	// responseTimeout is how long the server may take to start a response. For a slow one it
	// starts with a keep-alive comment.
	responseTimeout = 2 * time.Minute
	// idleTimeout limits the silence on a stream; the server sends a keep-alive comment every 15
	// seconds.
	idleTimeout = time.Minute
)

// newClient returns an HTTP client that follows no redirects: the key must only reach the
// configured server.
func newClient() *http.Client {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: responseTimeout,
		IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 8,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// Reasons for a missing response.
var (
	errUnknownSession = errors.New("the server does not know the session any more")
	errTooLarge       = fmt.Errorf("the server's answer is larger than %d MiB; ask for less", maxAnswer>>20)
	errConnectionLost = errors.New("the connection broke, and it is not known whether the server did what was asked")
	errNoAnswer       = errors.New("the server gave no answer")
	errCancelled      = errors.New("the request was given up")
)

// serverRefusal is an HTTP error response.
type serverRefusal struct {
	status int
	text   string
}

func (r *serverRefusal) Error() string {
	what := "the server answers " + strings.TrimSpace(fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)))
	switch {
	case r.status == http.StatusUnauthorized:
		what = "the server refuses the key"
	case r.status >= 300 && r.status < 400:
		what += ", so this is not its address"
	}
	if r.text != "" {
		what += ": " + r.text
	}
	return what
}

// metaVersion is the _meta key with the revision of a sessionless message, as all have since
// 2026-07-28 (basic/index, "_meta").
const metaVersion = "io.modelcontextprotocol/protocolVersion"

// statelessVersion returns the revision of a sessionless message, or "".
func statelessVersion(m *jsonrpc.Message) string {
	return jsonrpc.Text(jsonrpc.Member(jsonrpc.Member(m.Params, "_meta"), metaVersion))
}

// request returns an HTTP request of a session; m may be nil.
func (p *proxy) request(ctx context.Context, method string, s session, m *jsonrpc.Message) (*http.Request, error) {
	var body io.Reader
	if m != nil {
		body = bytes.NewReader(m.Raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, p.endpoint, body)
	if err != nil {
		return nil, err
	}
	h := r.Header
	h.Set("Authorization", "Bearer "+p.Key)
	h.Set("User-Agent", cmp.Or(p.Program, "patchbay"))
	h.Set("Accept", "text/event-stream")
	if m != nil {
		h.Set("Accept", "application/json, text/event-stream")
		h.Set("Content-Type", "application/json")
		if version := statelessVersion(m); version != "" {
			setMirrorHeaders(h, m, version)
			return r, nil
		}
	}
	if s.id != "" {
		h.Set("Mcp-Session-Id", s.id)
	}
	if s.version != "" {
		h.Set("Mcp-Protocol-Version", s.version)
	}
	return r, nil
}

// setMirrorHeaders repeats parts of a sessionless message in headers, as its revision requires
// (2026-07-28 basic/transports/streamable-http, "Standard Request Headers").
func setMirrorHeaders(h http.Header, m *jsonrpc.Message, version string) {
	set := func(name, value string) {
		if value == "" {
			return
		}
		if strings.HasPrefix(value, "=?base64?") || strings.TrimSpace(value) != value ||
			strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			value = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
		}
		h.Set(name, value)
	}
	set("Mcp-Protocol-Version", version)
	set("Mcp-Method", m.Method)
	switch m.Method {
	case "tools/call", "prompts/get":
		set("Mcp-Name", jsonrpc.Text(jsonrpc.Member(m.Params, "name")))
	case "resources/read":
		set("Mcp-Name", jsonrpc.Text(jsonrpc.Member(m.Params, "uri")))
	}
}

// post sends a message. It retries while the server is unreachable, and also after ambiguous
// failures if the message is idempotent.
func (p *proxy) post(ctx context.Context, s session, m *jsonrpc.Message) (*http.Response, error) {
	idempotent := m.Method != "tools/call"
	pause := netx.Backoff{First: minBackoff, Max: maxBackoff}
	for began, first := time.Now(), true; ; first = false {
		r, err := p.request(ctx, http.MethodPost, s, m)
		if err != nil {
			return nil, err
		}
		resp, err := p.client.Do(r)
		if err == nil && resp.StatusCode != http.StatusServiceUnavailable &&
			!(idempotent && resp.StatusCode == http.StatusBadGateway) {
			return resp, nil
		}
		if ctx.Err() != nil {
			if err == nil {
				resp.Body.Close()
			}
			return nil, ctx.Err()
		}
		if err != nil && !idempotent && !isDialError(err) {
			p.Logger.Warn("the server went away", "error", err)
			return nil, errConnectionLost
		}
		if time.Since(began) >= p.retryTimeout {
			if err == nil {
				return resp, nil
			}
			return nil, fmt.Errorf("the server cannot be reached: %w", withoutURL(err))
		}
		if err == nil {
			resp.Body.Close()
		}
		if first {
			p.Logger.Warn("the server cannot be reached; it is tried again", "server", p.endpoint,
				"cause", cause(resp, err))
		}
		_ = netx.Wait(ctx, pause.Next()) // an ended context fails the next attempt
	}
}

// cause returns why an attempt failed.
func cause(resp *http.Response, err error) string {
	if err != nil {
		return withoutURL(err).Error()
	}
	return resp.Status
}

// withoutURL returns an error without the address, which the log has already.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// isDialError reports whether an error came before anything reached the server.
func isDialError(err error) bool {
	o, ok := errors.AsType[*net.OpError](err)
	return ok && o.Op == "dial"
}

// callServer returns the response to a request, from the server or an error response of this
// bridge.
func (p *proxy) callServer(ctx context.Context, m *jsonrpc.Message) []byte {
	s := p.current()
	answer, _, err := p.exchange(ctx, s, m)
	if errors.Is(err, errUnknownSession) {
		if err = p.renew(ctx, s); err == nil {
			answer, _, err = p.exchange(ctx, p.current(), m)
		}
	}
	if err != nil {
		return p.errorResponse(m, err)
	}
	return answer
}

// errorResponse returns an error response for a failed request.
func (p *proxy) errorResponse(m *jsonrpc.Message, err error) []byte {
	if errors.Is(err, context.Canceled) {
		err = errCancelled
	} else {
		p.Logger.Error("a request brought no answer", "method", m.Method, "server", p.endpoint, "error", err)
	}
	return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: codeServer, Message: err.Error()})
}

// exchange sends a request and returns the response, and the session that it created, if any.
// Messages before the response go to the program.
func (p *proxy) exchange(ctx context.Context, s session, m *jsonrpc.Message) (answer []byte, began string, err error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := p.post(reading, s, m)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	began = resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode == http.StatusOK && isEventStream(resp) {
		answer, err = p.stream(ctx, s, withIdleTimeout(resp.Body, cancel), m)
		return answer, began, err
	}
	body, err := io.ReadAll(io.LimitReader(withIdleTimeout(resp.Body, cancel), maxAnswer+1))
	switch {
	case len(body) > maxAnswer:
		return nil, "", errTooLarge
	case err != nil:
		return nil, "", errConnectionLost
	}
	if isAnswerTo(body, m.ID) {
		return body, began, nil
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && s.id != "" && statelessVersion(m) == "":
		return nil, "", errUnknownSession
	case resp.StatusCode < 300:
		return nil, "", errNoAnswer
	}
	return nil, "", &serverRefusal{resp.StatusCode, refusalText(resp, body)}
}

func isEventStream(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// isAnswerTo reports whether a message is the response to a request.
func isAnswerTo(text []byte, id json.RawMessage) bool {
	m, err := jsonrpc.Parse(text)
	return err == nil && m.Method == "" && bytes.Equal(m.ID, id)
}

// refusalText returns the text of an HTTP error response.
func refusalText(resp *http.Response, body []byte) string {
	var e struct{ Error struct{ Message string } }
	text := ""
	if json.Unmarshal(body, &e) == nil {
		text = e.Error.Message
	} else if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		text = string(body)
	}
	const limit = 300
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
}

// stream reads a response that is a stream. If the stream breaks, it resumes it.
func (p *proxy) stream(ctx context.Context, s session, body io.Reader, m *jsonrpc.Message) ([]byte, error) {
	in := newEventReader(body)
	answer, err := p.forward(in, m.ID)
	for broke := time.Now(); answer == nil && err == nil; {
		if in.lastID == "" || statelessVersion(m) != "" || ctx.Err() != nil || time.Since(broke) > p.retryTimeout {
			return nil, errConnectionLost
		}
		_ = netx.Wait(ctx, cmp.Or(in.retry, minBackoff)) // an ended context fails the next attempt
		before := in.lastID
		answer, err = p.resume(ctx, s, in, m.ID)
		if in.lastID != before {
			broke = time.Now()
		}
	}
	return answer, err
}

// resume resumes a stream after the last received event.
func (p *proxy) resume(ctx context.Context, s session, in *eventReader, id json.RawMessage) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := p.request(ctx, http.MethodGet, s, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Last-Event-Id", in.lastID)
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, nil // the caller retries
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !isEventStream(resp) {
		return nil, errConnectionLost
	}
	in.reset(withIdleTimeout(resp.Body, cancel))
	return p.forward(in, id)
}

// forward forwards a stream's messages until the response to a request, which it returns.
// Without one the stream has ended. A nil id matches no request.
func (p *proxy) forward(in *eventReader, id json.RawMessage) ([]byte, error) {
	for {
		e, err := in.next()
		switch {
		case err != nil:
			return nil, nil
		case e.tooLarge && id != nil:
			return nil, errTooLarge
		case e.tooLarge:
			p.Logger.Warn("the server said something that is too large")
			continue
		case e.name != "" && e.name != "message" || len(e.data) == 0:
			continue
		}
		m, err := jsonrpc.Parse(e.data)
		switch {
		case err != nil:
			p.Logger.Warn("the server said something that is no message")
		case id != nil && m.Method == "" && bytes.Equal(m.ID, id):
			return e.data, nil
		default:
			p.write(e.data)
		}
	}
}

// withIdleTimeout returns a reader that cancels a silent stream.
func withIdleTimeout(r io.Reader, cancel context.CancelFunc) io.Reader {
	return &idleTimeoutReader{r, cancel}
}

type idleTimeoutReader struct {
	r      io.Reader
	cancel context.CancelFunc
}

func (w *idleTimeoutReader) Read(b []byte) (int, error) {
	t := time.AfterFunc(idleTimeout, w.cancel)
	defer t.Stop()
	return w.r.Read(b)
}
