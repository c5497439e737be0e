package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
)

// Reason is the class of a failure, for programs and for metrics.
type Reason string

// The reasons of failures.
const (
	BadAddress       Reason = "bad_address"       // not an address that can be fetched
	ForbiddenAddress Reason = "forbidden_address" // leads to a host or network that is not allowed
	TooLarge         Reason = "too_large"         // too many bytes or pixels
	NotAnImage       Reason = "not_an_image"      // not WebP, JPEG, PNG or GIF (by content)
	Timeout          Reason = "timeout"           // not complete in time
	HTTPStatus       Reason = "http_status"       // error status, or too many redirects
	Network          Reason = "network"           // unreachable, or connection closed
	Canceled         Reason = "canceled"          // the caller cancelled
)

// Error is the failure of a download. Its text contains no path, query or credentials of the
// address, because those of a photo are secrets.
type Error struct {
	Reason Reason
	// URL is the scheme and the host of the address, if known.
	URL string
	// Status is the HTTP status for [HTTPStatus], else 0.
	Status int
	// Err is the cause; it may be nil.
	Err error
}

func (e *Error) Error() string {
	text := "fetch"
	if e.URL != "" {
		text += " " + e.URL
	}
	text += ": " + string(e.Reason)
	if e.Status != 0 {
		text += fmt.Sprintf(" %d", e.Status)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsForbidden reports whether an error means that an address leads to a host or a network that is
// not allowed.
func IsForbidden(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == ForbiddenAddress
}

// fail returns an Error.
func fail(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// redacted returns the part of an address that is not secret.
func redacted(u *url.URL) string { return u.Scheme + "://" + u.Host }

// netError assigns a Reason to an error of the network or of the context.
func netError(ctx context.Context, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &Error{Reason: Canceled, Err: context.Cause(ctx)}
	case ctx.Err() != nil:
		return &Error{Reason: Timeout, Err: context.Cause(ctx)}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Reason: Timeout, Err: err}
	}
	return &Error{Reason: Network, Err: safeCause(err)}
}

// safeCause passes errors of the network. Other errors may quote the server's response, which may
// contain the requested address.
func safeCause(err error) error {
	var network net.Error
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &network) || errors.As(err, &certificate) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) {
		return err
	}
	return errors.New("the far side does not speak HTTP as it should")
}
