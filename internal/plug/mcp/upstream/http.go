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
	// dialTimeout and tlsTimeout keep a host that is silent from taking up all
	// the time for connecting.
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// maxHeader bounds the header of an answer.
	maxHeader = 64 << 10
	// maxErrorBody is how much of an error page is read.
	maxErrorBody = 64 << 10
	// maxRedirects is enough for a server that wants a slash at the end.
	maxRedirects = 3
)

// DialFunc connects to an address.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newClient makes the HTTP client of one connection. It has no time limit: every
// request has one of its own.
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
		t.Proxy = http.ProxyFromEnvironment // behind a guard the proxy would be what is guarded
	}
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}
}

// checkRedirect stays with the scheme, host and port that the owner gave: our headers are
// secrets, and were given for nothing else. A POST must not become a GET either.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	same := req.URL.Host == first.URL.Host && req.URL.Scheme == first.URL.Scheme
	if !same || req.Method != first.Method || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// statusError is an answer other than success.
type statusError struct {
	code int
	// where an answer points to that is a redirection; empty otherwise.
	where string
	// metadata is where a server says how to get a token.
	metadata string
	// spoke says that the server speaks JSON-RPC and refused in it.
	spoke *rpcError
	text  string
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.code, http.StatusText(e.code))
	if e.where != "" {
		return text + ": it points to " + e.where
	}
	if e.text != "" {
		return text + ": " + e.text
	}
	return text
}

// auth says that a token is missing, wrong, or not good enough.
func (e *statusError) auth() bool {
	return e.code == http.StatusUnauthorized || e.code == http.StatusForbidden
}

// refusal reads an answer other than success.
func refusal(resp *http.Response) *statusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	e := &statusError{code: resp.StatusCode, metadata: resourceMetadata(resp.Header.Values("WWW-Authenticate"))}
	if resp.StatusCode/100 == 3 {
		if to, err := resp.Location(); err == nil {
			e.where = (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
		}
	}
	if list, err := readMessages(body); err == nil && len(list) == 1 && list[0].Error != nil {
		e.spoke = list[0].Error
		e.text = clip(e.spoke.Message, 200)
	} else if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/plain" {
		e.text = clip(strings.Join(strings.Fields(string(body)), " "), 200)
	}
	return e
}

// resourceMetadata finds where a server says how to get a token.
func resourceMetadata(challenges []string) string {
	for _, c := range challenges {
		_, after, ok := strings.Cut(c, `resource_metadata="`)
		if where, _, end := strings.Cut(after, `"`); ok && end {
			return clip(where, 500)
		}
	}
	return ""
}

// trouble leaves the address out of an error of the HTTP client, since it may
// hold a secret, and says whether the request can have reached the server.
func trouble(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if unreached(err) {
		return &unsentError{err}
	}
	return &goneError{err}
}

// unreached says that there was no connection to send anything by.
func unreached(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*fetch.Error](err); ok { // the guard of addresses said no
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

// sign adds the owner's token and headers.
func (s *Settings) sign(req *http.Request) {
	req.Header.Set("User-Agent", "patchbay")
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	for name, value := range s.Headers {
		req.Header.Set(name, value)
	}
}
