package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/fetch"
)

const (
	// dialTimeout and tlsTimeout prevent a silent host from using up the whole connect timeout.
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// maxHeader limits the header of a response.
	maxHeader = 64 << 10
	// maxErrorBody limits how much of an error page is read.
	maxErrorBody = 64 << 10
	// maxRedirects suffices for a server that redirects to a trailing slash.
	maxRedirects = 3
)

// DialFunc connects to an address.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns the HTTP client of one connection. It has no overall timeout; every request
// has its own.
func newClient(dial DialFunc) *http.Client {
	t := &http.Transport{
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    tlsTimeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        90 * time.Second,
	}
	if dial == nil {
		t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
		t.Proxy = http.ProxyFromEnvironment // a proxy would bypass the guard
	}
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}
}

// checkRedirect allows redirects only within the owner's scheme, host and port: the headers are
// secrets meant for that server alone. It also refuses to turn a POST into a GET. No Referer is
// sent: it has the address before, whose query can be a secret that the log of a server would keep.
func checkRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer")
	first := via[0]
	same := req.URL.Host == first.URL.Host && req.URL.Scheme == first.URL.Scheme
	if !same || req.Method != first.Method || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// statusError is a response with an error status.
type statusError struct {
	code int
	// location is the target of a redirect; empty otherwise.
	location string
	// metadata is the resource_metadata URL of WWW-Authenticate (RFC 9728 §5.1).
	metadata string
	// rpc is the JSON-RPC error in the body, if any.
	rpc  *rpcError
	text string
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.code, http.StatusText(e.code))
	if e.location != "" {
		return text + ": it points to " + e.location
	}
	if e.text != "" {
		return text + ": " + e.text
	}
	return text
}

// isAuth reports whether the token is missing, wrong, or insufficient.
func (e *statusError) isAuth() bool {
	return e.code == http.StatusUnauthorized || e.code == http.StatusForbidden
}

// readStatusError reads a response with an error status.
func readStatusError(resp *http.Response) *statusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	e := &statusError{code: resp.StatusCode, metadata: resourceMetadata(resp.Header.Values("WWW-Authenticate"))}
	if resp.StatusCode/100 == 3 {
		if to, err := resp.Location(); err == nil {
			e.location = (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
		}
	}
	if list, err := readMessages(body); err == nil && len(list) == 1 && list[0].Error != nil {
		e.rpc = list[0].Error
		e.text = clip(e.rpc.Message, 200)
	} else if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/plain" {
		e.text = clip(strings.Join(strings.Fields(string(body)), " "), 200)
	}
	return e
}

// resourceMetadata returns the resource_metadata URL of WWW-Authenticate headers (RFC 9728
// §5.1).
func resourceMetadata(challenges []string) string {
	for _, c := range challenges {
		_, after, ok := strings.Cut(c, `resource_metadata="`)
		if where, _, end := strings.Cut(after, `"`); ok && end {
			return clip(where, 500)
		}
	}
	return ""
}

// transportError strips the address from an error of the HTTP client, because it may hold a
// secret, and wraps the error if the request cannot have reached the server.
func transportError(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if isUnreachable(err) {
		return &unsentError{err}
	}
	return &connectionLostError{err}
}

// isUnreachable reports whether no connection was established.
func isUnreachable(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*fetch.Error](err); ok { // refused by the address guard
		return true
	}
	return isTLS(err) || errors.Is(err, http.ErrSchemeMismatch)
}

func isTLS(err error) bool {
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	return verify || record || authority || host
}

// setHeaders adds the owner's token and headers.
func (s *Settings) setHeaders(req *http.Request) {
	req.Header.Set("User-Agent", "patchbay")
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	if name, password, ok := strings.Cut(s.Basic, ":"); ok {
		req.SetBasicAuth(name, password)
	}
	for name, value := range s.Headers {
		req.Header.Set(name, value)
	}
}
