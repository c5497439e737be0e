package openai

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/fetch"
	"patchbay/internal/netx"
)

const (
	// maxAnswer limits a response on the wire, in bytes: 100,000 chunks of 300 bytes, more than a
	// model writes or reasons in one response.
	maxAnswer = 32 << 20
	// maxWhole limits a response that is not streamed, in bytes. It is held in memory.
	maxWhole = 8 << 20
	// maxErrorBody limits how much of an error response is read, in bytes.
	maxErrorBody = 64 << 10
	// maxRetryDelay caps the delay that a server requests with Retry-After: a person is waiting.
	maxRetryDelay = 10 * time.Second
	// firstRetryDelay is the delay before the first retry. It doubles with each retry.
	firstRetryDelay = 500 * time.Millisecond
	// tailTimeout is how long the end of the stream is awaited after a finish_reason: the usage may
	// still come, and a connection is reused only if its response was read to the end.
	tailTimeout = 500 * time.Millisecond
	// drainTimeout is how long the end of the body is awaited after the end of the stream, so that
	// the connection can be reused. The end of the answer waits for it.
	drainTimeout = 100 * time.Millisecond
)

var (
	errFirstByte = errors.New("the model did not begin to answer in time")
	errIdle      = errors.New("the model stopped in the middle and stayed silent")
	errTail      = errors.New("the stream did not end")
	errTooLong   = errors.New("the answer is too long")
	errWebPage   = errors.New("a web page came instead of an answer")
)

// reply is a response that has begun.
type reply struct {
	body   io.Closer
	in     *bufio.Reader
	pace   *timedReader
	events *events // nil for a response that is not streamed
	done   bool
}

// next reads the next chunk into d. It returns io.EOF at the end.
func (r *reply) next(d *delta) error {
	if r.done {
		return io.EOF
	}
	if r.events == nil {
		r.done = true
		all, err := io.ReadAll(io.LimitReader(r.in, maxWhole+1))
		if err != nil {
			return err
		}
		if len(all) > maxWhole {
			return errTooLong
		}
		return d.decode(all)
	}
	data, isError, err := r.events.read()
	switch {
	case err != nil:
		return err
	case bytes.Equal(bytes.TrimSpace(data), doneMark):
		r.done = true
		return io.EOF
	case isError:
		return readServerError(data)
	}
	return d.decode(data)
}

// close closes the response. The body of a complete stream is read to its end first, so that the
// connection can be reused.
func (r *reply) close() {
	if r.done {
		r.pace.limit(drainTimeout, errTail)
		_, _ = io.CopyN(io.Discard, r.in, 4<<10)
	}
	r.body.Close()
}

// timedReader reads the body of a response. It limits the length of the body and the time without
// data. Only the time spent waiting for the server counts, not the time between reads.
type timedReader struct {
	body      io.Reader
	remaining int64
	idle      time.Duration
	timer     *time.Timer // stopped unless a Read is running
	cancel    context.CancelCauseFunc
}

// limit sets the timeout of each of the following reads, and the error with which a timeout cancels
// the request.
func (p *timedReader) limit(d time.Duration, why error) {
	p.idle = d
	p.timer = time.AfterFunc(d, func() { p.cancel(why) })
	p.timer.Stop()
}

func (p *timedReader) Read(buf []byte) (int, error) {
	if p.remaining <= 0 {
		return 0, errTooLong
	}
	p.timer.Reset(p.idle)
	n, err := p.body.Read(buf)
	p.timer.Stop()
	p.remaining -= int64(n)
	return n, err
}

// openReply sends the request, and retries until a response begins or a retry is pointless. If the
// server is too slow, it cancels ctx with a cause that explains it.
func (b *Bot) openReply(ctx context.Context, cancel context.CancelCauseFunc, body []byte) (*reply, error) {
	limit := b.settings.firstByte()
	until := time.Now().Add(limit)
	timer := time.AfterFunc(limit, func() { cancel(errFirstByte) })
	defer timer.Stop()
	backoff := netx.Backoff{First: firstRetryDelay, Max: maxRetryDelay, Jitter: b.jitter}
	for try := 0; ; try++ {
		r, err := b.attempt(ctx, cancel, body)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		pause, again := b.retryDelay(err, try, backoff.Next())
		if !again || time.Now().Add(pause).After(until) {
			return nil, err
		}
		b.log.Debug("asking the model again", "model", b.settings.Model, "try", try+2, "pause", pause,
			"error", b.redact(err.Error()))
		if err := b.sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// attempt sends the request once and waits for the first byte of the body.
func (b *Bot) attempt(ctx context.Context, cancel context.CancelCauseFunc, body []byte) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.endpoint.chat, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	b.setHeaders(req)
	b.tracer.LinkTo(ctx).AddTo(req.Header)
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, responseError(resp)
	}
	p := &timedReader{body: resp.Body, remaining: maxAnswer, cancel: cancel}
	p.limit(b.settings.firstByte(), errFirstByte)
	r := &reply{body: resp.Body, in: bufio.NewReader(p), pace: p}
	first, err := r.in.Peek(1)
	p.limit(b.settings.idle(), errIdle)
	if err != nil && err != io.EOF {
		resp.Body.Close()
		return nil, unreachable(err)
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case kind == "text/html":
		resp.Body.Close()
		return nil, errWebPage
	case kind != "application/json" && string(first) != "{":
		r.events = newEvents(r.in)
	}
	return r, nil
}

// setHeaders adds the API key and the owner's headers.
func (b *Bot) setHeaders(req *http.Request) {
	req.Header.Set("User-Agent", "patchbay")
	if b.settings.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+b.settings.APIKey)
	}
	for name, value := range b.settings.Headers {
		req.Header.Set(name, value)
	}
}

// unreachableError means that a connection failed before the server had responded.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// unreachable wraps a connection error without the URL, which may contain a secret.
func unreachable(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return &unreachableError{err}
}

// responseError returns the error for a response with a status other than 200.
func responseError(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	e := readServerError(body)
	e.status = resp.StatusCode
	e.retryAfter = retryAfter(resp.Header, time.Now())
	if resp.StatusCode/100 == 3 {
		if to, err := resp.Location(); err == nil {
			e.message = "it points to " + to.Scheme + "://" + to.Host + to.Path
		}
	}
	return e
}

// retryAfter returns how long a server asks to wait (Retry-After, RFC 9110 §10.2.3), or a negative
// duration if it does not ask. The non-standard Retry-After-Ms takes precedence, as in OpenAI's own
// client (openai-python, _base_client.py, _parse_retry_after_header). Fractions are accepted.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 && seconds < 1e6 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return -1
}

// retryDelay returns the delay before the next attempt: backoff, or what the server asks for. It
// reports whether to retry at all.
func (b *Bot) retryDelay(err error, try int, backoff time.Duration) (time.Duration, bool) {
	if try >= b.settings.retries() {
		return 0, false
	}
	if e, ok := errors.AsType[*serverError](err); ok {
		if !e.isTransient() {
			return 0, false
		}
		if e.retryAfter >= 0 {
			return min(e.retryAfter, maxRetryDelay), true
		}
		return backoff, true
	}
	if e, ok := errors.AsType[*unreachableError](err); ok {
		return backoff, !isPermanent(e.err)
	}
	return 0, false
}

// isPermanent reports whether a retry cannot succeed after a connection error.
func isPermanent(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return true
	}
	return isTLS(err) || fetch.IsForbidden(err)
}
