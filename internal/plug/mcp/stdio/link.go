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
)

const (
	// patience is how long a server that cannot be reached is waited for: longer
	// than it takes to start one.
	patience = 30 * time.Second
	// firstPause is how long to wait at first before trying again; each pause is
	// twice as long, up to lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// beginWithin is how long the server may take to begin an answer. It begins one
	// that takes longer with a sign of life.
	beginWithin = 2 * time.Minute
	// quietAtMost is how long a stream may be without a sign of life; the server
	// gives one every 15 seconds.
	quietAtMost = time.Minute
)

// newClient is how the server is reached. Redirects are not followed: the key goes
// where its owner said, and nowhere else.
func newClient() *http.Client {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: beginWithin, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 8,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Why an answer does not come.
var (
	errSession = errors.New("the server does not know the session any more")
	errLarge   = fmt.Errorf("the server's answer is larger than %d MiB; ask for less", maxMessage>>20)
	errBroken  = errors.New("the connection broke, and it is not known whether the server did what was asked")
	errNothing = errors.New("the server gave no answer")
	errGivenUp = errors.New("the request was given up")
)

// refused is an answer of the server that is none to the message.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string {
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

// metaVersion is where a message that stands for itself, as they all do since
// 2026-07-28, says of which revision it is.
const metaVersion = "io.modelcontextprotocol/protocolVersion"

// standsAlone is the revision of a message that needs no session, or "".
func standsAlone(m *jsonrpc.Message) string {
	for in := jsonrpc.Scan(param(m, "_meta")); in.Next(); {
		if string(in.Key) == metaVersion {
			return jsonrpc.Text(in.Value)
		}
	}
	return ""
}

func param(m *jsonrpc.Message, name string) json.RawMessage {
	for in := jsonrpc.Scan(m.Params); in.Next(); {
		if string(in.Key) == name {
			return in.Value
		}
	}
	return nil
}

// request makes a request in a session; m may be nil.
func (p *proxy) request(ctx context.Context, method string, s session, m *jsonrpc.Message) (*http.Request, error) {
	var body io.Reader
	if m != nil {
		body = bytes.NewReader(m.Raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, p.door, body)
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
		if version := standsAlone(m); version != "" {
			mirror(h, m, version)
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

// mirror repeats in the headers what a message that stands for itself says, as its
// revision wants.
func mirror(h http.Header, m *jsonrpc.Message, version string) {
	set := func(name, value string) {
		if value == "" {
			return
		}
		if strings.HasPrefix(value, "=?base64?") || strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			value = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
		}
		h.Set(name, value)
	}
	set("Mcp-Protocol-Version", version)
	set("Mcp-Method", m.Method)
	switch m.Method {
	case "tools/call", "prompts/get":
		set("Mcp-Name", jsonrpc.Text(param(m, "name")))
	case "resources/read":
		set("Mcp-Name", jsonrpc.Text(param(m, "uri")))
	}
}

// post brings the server a message. While that cannot be reached it is tried again;
// also when it may have been reached, if the message can do no harm twice.
func (p *proxy) post(ctx context.Context, s session, m *jsonrpc.Message) (*http.Response, error) {
	harmless := m.Method != "tools/call"
	for began, pause := time.Now(), firstPause; ; pause = min(2*pause, lastPause) {
		r, err := p.request(ctx, http.MethodPost, s, m)
		if err != nil {
			return nil, err
		}
		resp, err := p.client.Do(r)
		if err == nil && resp.StatusCode != http.StatusServiceUnavailable && !(harmless && resp.StatusCode == http.StatusBadGateway) {
			return resp, nil
		}
		if ctx.Err() != nil {
			if err == nil {
				resp.Body.Close()
			}
			return nil, ctx.Err()
		}
		if err != nil && !harmless && !unsent(err) {
			p.Logger.Warn("the server went away", "error", err)
			return nil, errBroken
		}
		if time.Since(began) >= p.patience {
			if err == nil {
				return resp, nil
			}
			return nil, fmt.Errorf("the server cannot be reached: %w", bare(err))
		}
		if err == nil {
			resp.Body.Close()
		}
		if pause == firstPause {
			p.Logger.Warn("the server cannot be reached; it is tried again", "server", p.door, "cause", cause(resp, err))
		}
		wait(ctx, pause)
	}
}

// cause says why an attempt failed.
func cause(resp *http.Response, err error) string {
	if err != nil {
		return bare(err).Error()
	}
	return resp.Status
}

// bare is an error without the address, which the log has already.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// unsent says whether an error came before anything reached the server.
func unsent(err error) bool {
	o, ok := errors.AsType[*net.OpError](err)
	return ok && o.Op == "dial"
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// fetch is the answer to a request, from the server or else about it.
func (p *proxy) fetch(ctx context.Context, m *jsonrpc.Message) []byte {
	s := p.current()
	answer, _, err := p.exchange(ctx, s, m)
	if errors.Is(err, errSession) {
		if err = p.renew(ctx, s); err == nil {
			answer, _, err = p.exchange(ctx, p.current(), m)
		}
	}
	if err != nil {
		return p.failed(m, err)
	}
	return answer
}

// failed is the answer to a request that the server did not answer.
func (p *proxy) failed(m *jsonrpc.Message, err error) []byte {
	if errors.Is(err, context.Canceled) {
		err = errGivenUp
	} else {
		p.Logger.Error("a request brought no answer", "method", m.Method, "server", p.door, "error", err)
	}
	return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: codeServer, Message: err.Error()})
}

// exchange brings the server a request and returns the answer, and the session that
// began with it, if one did. What the server says before goes to the program.
func (p *proxy) exchange(ctx context.Context, s session, m *jsonrpc.Message) (answer []byte, began string, err error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := p.post(reading, s, m)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	began = resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode == http.StatusOK && streams(resp) {
		answer, err = p.stream(ctx, s, watch(resp.Body, cancel), m)
		return answer, began, err
	}
	body, err := io.ReadAll(io.LimitReader(watch(resp.Body, cancel), maxMessage+1))
	switch {
	case len(body) > maxMessage:
		return nil, "", errLarge
	case err != nil:
		return nil, "", errBroken
	}
	if answers(body, m.ID) {
		return body, began, nil
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && s.id != "" && standsAlone(m) == "":
		return nil, "", errSession
	case resp.StatusCode < 300:
		return nil, "", errNothing
	}
	return nil, "", &refused{resp.StatusCode, said(resp, body)}
}

func streams(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// answers says whether a text is the answer to a request.
func answers(text []byte, id json.RawMessage) bool {
	m, err := jsonrpc.Parse(text)
	return err == nil && m.Method == "" && bytes.Equal(m.ID, id)
}

// said is what a refusal says, for people.
func said(resp *http.Response, body []byte) string {
	var e struct{ Error struct{ Message string } }
	text := ""
	if json.Unmarshal(body, &e) == nil {
		text = e.Error.Message
	} else if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		text = string(body)
	}
	const most = 300
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
}

// stream reads an answer that is a stream. If that breaks off, the rest is fetched.
func (p *proxy) stream(ctx context.Context, s session, body io.Reader, m *jsonrpc.Message) ([]byte, error) {
	in := newEvents(body)
	answer, err := p.pass(in, m.ID)
	for broke := time.Now(); answer == nil && err == nil; {
		if in.last == "" || standsAlone(m) != "" || ctx.Err() != nil || time.Since(broke) > p.patience {
			return nil, errBroken
		}
		wait(ctx, cmp.Or(in.retry, firstPause))
		before := in.last
		answer, err = p.rest(ctx, s, in, m.ID)
		if in.last != before {
			broke = time.Now()
		}
	}
	return answer, err
}

// rest continues a stream behind the last event that came.
func (p *proxy) rest(ctx context.Context, s session, in *events, id json.RawMessage) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := p.request(ctx, http.MethodGet, s, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Last-Event-Id", in.last)
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, nil // it is tried again
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !streams(resp) {
		return nil, errBroken
	}
	in.from(watch(resp.Body, cancel))
	return p.pass(in, id)
}

// pass passes on what a stream says until the answer to a request, which is
// returned. Without one the stream has ended. A nil id is no request's.
func (p *proxy) pass(in *events, id json.RawMessage) ([]byte, error) {
	for {
		e, err := in.next()
		switch {
		case err != nil:
			return nil, nil
		case e.huge && id != nil:
			return nil, errLarge
		case e.huge:
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

// watch reads a stream that must not be quiet for too long.
func watch(r io.Reader, cancel context.CancelFunc) io.Reader {
	return &watched{r, cancel}
}

type watched struct {
	r      io.Reader
	cancel context.CancelFunc
}

func (w *watched) Read(b []byte) (int, error) {
	t := time.AfterFunc(quietAtMost, w.cancel)
	defer t.Stop()
	return w.r.Read(b)
}
