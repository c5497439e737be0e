package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
