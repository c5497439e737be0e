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

// Reason says why a picture did not come, for programs and for metrics.
type Reason string

// The reasons why a picture does not come.
const (
	BadAddress       Reason = "bad_address"       // not an address that can be fetched
	ForbiddenAddress Reason = "forbidden_address" // leads to a host or network that is off limits
	TooLarge         Reason = "too_large"         // too many bytes or too many pixels
	NotAnImage       Reason = "not_an_image"      // not WebP, JPEG, PNG or GIF, whatever it is called
	Timeout          Reason = "timeout"           // not complete in time
	HTTPStatus       Reason = "http_status"       // the far side refused, or kept redirecting
	Network          Reason = "network"           // the far side could not be reached, or broke off
	Canceled         Reason = "canceled"          // whoever wanted the picture does not want it any more
)

// Error is why a picture did not come. Its text holds no path, query or
// credentials of the address, as those of a photo are secrets.
type Error struct {
	Reason Reason
	// URL is scheme and host of the address, as far as it has them.
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

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsForbidden reports whether an error says that an address leads to a host or a network that
// connections of this kind may not reach.
func IsForbidden(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == ForbiddenAddress
}

// fail makes an Error.
func fail(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// redacted is what may be told of an address.
func redacted(u *url.URL) string { return u.Scheme + "://" + u.Host }

// netError gives what went wrong on the way its reason.
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

// safeCause lets errors of the network through. Others may quote what the far side
// said, and the far side may have said the address that it was asked for.
func safeCause(err error) error {
	var network net.Error
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &network) || errors.As(err, &certificate) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) {
		return err
	}
	return errors.New("the far side does not speak HTTP as it should")
}
