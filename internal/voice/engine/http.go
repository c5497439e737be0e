package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// connectTimeout limits the connection to an engine, TLS included.
	connectTimeout = 3 * time.Second
	// maxErrorBody limits how much of an error response is read, and maxErrorText how much of it is
	// quoted, in bytes.
	maxErrorBody, maxErrorText = 64 << 10, 300
)

// NewHTTPClient returns a client for engines with an HTTP interface. Requests end with their
// context; redirects are not followed, since keys must not go to other addresses.
func NewHTTPClient(o Options) *http.Client {
	return &http.Client{
		Transport: &http.Transport{DialContext: o.WithDefaults().Dial, TLSHandshakeTimeout: connectTimeout,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RequestError classifies an error of a request that got no response. It leaves out the URL, which
// may contain a secret.
func RequestError(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if e := AsError(err); e == nil || e.Class == Timeout {
		return err
	}
	return &Error{Class: Closed, Err: err}
}

// ResponseError reads a response that is not 200 and classifies it. The secrets do not appear in
// its text.
func ResponseError(resp *http.Response, secrets ...string) *Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	text := Quote(body, secrets...)
	e := &Error{Class: classOf(resp.StatusCode, text), Err: fmt.Errorf("status %d: %s", resp.StatusCode, text)}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = min(time.Duration(seconds), 24*3600) * time.Second
	}
	return e
}

// Quote returns the text of an error that an engine reports, of limited length and without secrets.
// Its body is JSON or plain text.
func Quote(body []byte, secrets ...string) string {
	text := errorText(body)
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "•••")
		}
	}
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

// classOf returns the class of a response. An account without credit is reported with any of
// several statuses (OpenAI API reference, Error codes: insufficient_quota).
func classOf(status int, text string) Class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Auth
	case status == http.StatusPaymentRequired, status == http.StatusTooManyRequests,
		strings.Contains(text, "insufficient_quota"):
		return Quota
	case status == http.StatusServiceUnavailable, status == 529: // overloaded (Anthropic, some proxies)
		return Busy
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout:
		return Timeout
	case status >= 400 && status < 500:
		return Input
	}
	return Broken
}

// errorText returns the text of an error body: {"error":{"message","code"}}, {"error":"…"},
// {"detail":…}, {"message":…} or plain text.
func errorText(body []byte) string {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) == nil {
		var inner struct{ Message, Code string }
		for _, name := range []string{"error", "detail", "message"} {
			raw := outer[name]
			var text string
			switch {
			case len(raw) == 0:
			case json.Unmarshal(raw, &text) == nil:
				body = []byte(text)
			case json.Unmarshal(raw, &inner) == nil && inner.Message != "":
				body = []byte(strings.TrimSpace(inner.Message + " " + inner.Code))
			default:
				body = raw
			}
			if len(raw) > 0 {
				break
			}
		}
	}
	return strings.Join(strings.Fields(string(body)), " ")
}

// minProgress is how many bytes of a sound have to come within soundTimeout: half of what the
// lowest usual bit rate has in that time (Opus, 6 kbit/s).
const minProgress = 2 << 10

// ResponseClip returns the sound of a response with status 200, whose format its first bytes tell.
// If rate is not 0, other bytes are PCM of that rate in Hz, and so is what looks like MP3 without a
// tag but is not declared as such. The clip closes the response, and so does an error.
func ResponseClip(resp *http.Response, rate int) (Clip, error) {
	s := &responseSound{body: resp.Body}
	in := bufio.NewReader(s)
	clip := Clip{Sound: struct {
		io.Reader
		io.Closer
	}{in, s}}
	head, err := in.Peek(4)
	if err != nil && err != io.EOF {
		_ = s.Close() // the first error counts
		return Clip{}, err
	}
	kind := resp.Header.Get("Content-Type")
	isText := strings.HasPrefix(kind, "text/") || strings.HasPrefix(kind, "application/json")
	clip.Format = FormatOf(head)
	untagged := clip.Format == MP3 && head[0] == 0xff && !strings.HasPrefix(kind, "audio/mp")
	if rate > 0 && !isText && (clip.Format == 0 || untagged) {
		clip.Format, clip.Rate = PCM, rate
	}
	if clip.Format == 0 {
		_ = s.Close() // nothing is lost
		return Clip{}, Errorf(Broken, "the response has no known format of sound: it is %q and begins with %q", kind, head)
	}
	return clip, nil
}

// responseSound is the body of a response. It fails if too little comes.
type responseSound struct {
	body    io.ReadCloser
	timer   *time.Timer // nil before the first read
	fresh   int         // bytes since the timer was set
	stalled atomic.Bool
}

// Read implements [io.Reader].
func (s *responseSound) Read(p []byte) (int, error) {
	if s.timer == nil {
		s.timer = time.AfterFunc(soundTimeout, func() {
			s.stalled.Store(true)
			_ = s.body.Close() // ends the read
		})
	}
	n, err := s.body.Read(p)
	if s.fresh += n; s.fresh >= minProgress {
		s.fresh = 0
		s.timer.Reset(soundTimeout)
	}
	switch {
	case err == nil:
		return n, nil
	case s.stalled.Load():
		err = Errorf(Timeout, "the sound did not go on")
	case err != io.EOF:
		err = RequestError(err)
	}
	s.timer.Stop()
	return n, err
}

// Close implements [io.Closer]. It is called after the last read.
func (s *responseSound) Close() error {
	if s.timer != nil {
		s.timer.Stop()
	}
	return s.body.Close()
}
