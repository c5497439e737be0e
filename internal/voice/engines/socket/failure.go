package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/fetch"
	"patchbay/internal/voice/engine"
)

// maxRetryAfter limits what a server may ask to wait.
const maxRetryAfter = time.Hour

// StatusError is the cause of an error: a response that does not upgrade to a WebSocket.
type StatusError struct {
	Status int
	Header http.Header
	Reason string // as the server puts it, without secrets; empty: it is not quoted
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d %s instead of a WebSocket", e.Status, http.StatusText(e.Status))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// refused returns the error of a response that does not upgrade. It is quoted if the secrets are
// known that it could repeat.
func (s *Server) refused(res *http.Response) *engine.Error {
	reason := ""
	if len(s.Secrets) > 0 {
		body, _ := io.ReadAll(res.Body) // websocket.Dial limits it
		reason = engine.Quote(body, s.Secrets...)
	}
	e := &engine.Error{Class: statusClass(res.StatusCode), Err: &StatusError{res.StatusCode, res.Header, reason}}
	if e.Class == engine.Quota || e.Class == engine.Busy {
		e.RetryAfter = retryAfter(res.Header.Get("Retry-After"), time.Now())
	}
	return e
}

func statusClass(status int) engine.Class {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return engine.Auth
	case status == http.StatusTooManyRequests:
		return engine.Quota
	case status == http.StatusServiceUnavailable:
		return engine.Busy
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return engine.Timeout
	case status >= 300 && status < 500: // the address is wrong
		return engine.Input
	}
	return engine.Broken
}

// retryAfter parses a Retry-After header: seconds or a date (RFC 9110, 10.2.3). What is invalid or
// in the past is 0.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// Classify returns an error of a connection, with a WebSocket or without, as an [*engine.Error].
// Texts of the server are not quoted, and no address with a query.
func Classify(err error) *engine.Error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return closeError(e)
	}
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return engine.Errorf(engine.Broken, "a message of the server has more than %d MiB", MaxMessage>>20)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return engine.Errorf(engine.Timeout, "the server did not read or answer in time")
	}
	return networkError(err)
}

// networkError classifies an error below the WebSocket.
func networkError(err error) *engine.Error {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return &engine.Error{Class: engine.Closed, Err: e}
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &engine.Error{Class: engine.Closed, Err: e}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return engine.Errorf(engine.Closed, "the server does not speak TLS; try ws:// instead of wss://")
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if e.Timeout() {
			return &engine.Error{Class: engine.Timeout, Err: e}
		}
		return &engine.Error{Class: engine.Closed, Err: e}
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return &engine.Error{Class: engine.Closed, Err: e}
	}
	switch {
	case fetch.IsForbidden(err):
		return engine.Errorf(engine.Closed, "the address is in a network that engines may not have")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return engine.Errorf(engine.Closed, "the server closed the connection")
	}
	return engine.Errorf(engine.Broken, "the server violates its protocol")
}

// closeError classifies a Close frame by its code (RFC 6455, 7.4.1, and the registry of codes).
func closeError(e websocket.CloseError) *engine.Error {
	class := engine.Closed
	switch e.Code {
	case websocket.StatusTryAgainLater:
		class = engine.Busy
	case websocket.StatusProtocolError, websocket.StatusUnsupportedData, websocket.StatusInvalidFramePayloadData,
		websocket.StatusMessageTooBig, websocket.StatusInternalError:
		class = engine.Broken
	}
	return engine.Errorf(class, "the server closed the connection with code %d", int(e.Code))
}
