// Package signin signs Patchbay in to tool servers that want OAuth: it is an OAuth 2.1 client of
// other people's authorization servers.
//
// A server that answers 401 says where tokens are to be had (challenge.go, discover.go). There this
// installation says who it is (client.go), sends a person to consent, and exchanges the code that
// comes back for tokens, which it refreshes (token.go). These are plain functions. What is known of
// an upstream is one row of the database, so that any instance can serve each step (service.go);
// source.go gives the connections their tokens.
//
// Comments cite RFC 6749 (OAuth 2.0), 7591 (registration), 7636 (PKCE), 8252 (native programs),
// 8414 and 9728 (metadata), 8707 (resources) and 9207 (issuers), and the pages "Authorization" of
// the MCP specification of 2026-07-28.
package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
)

const (
	// maxDocument limits every answer: metadata, registrations and tokens.
	maxDocument = 256 << 10
	// requestTimeout limits one request.
	requestTimeout = 10 * time.Second
	// maxHeader limits the header of an answer.
	maxHeader = 64 << 10
	// maxTextLength limits texts of servers that people are shown.
	maxTextLength = 200
)

// Errors for the owner of an upstream.
const (
	msgDocument    = i18n.Message("What the server says about signing in cannot be used: %s")
	msgUnreachable = i18n.Message("The server where one signs in cannot be reached.")
	msgRefused     = i18n.Message("The server where one signs in refused: %s")
)

// Client makes the requests. Dial connects; nil means that any address may be reached.
func Client(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	t := &http.Transport{
		DialContext: dial, ForceAttemptHTTP2: true, DisableKeepAlives: true, TLSHandshakeTimeout: requestTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	if dial == nil {
		t.DialContext = (&net.Dialer{Timeout: requestTimeout}).DialContext
		t.Proxy = http.ProxyFromEnvironment // a proxy would bypass the guard
	}
	return &http.Client{Transport: t, Timeout: requestTimeout, CheckRedirect: sameOrigin}
}

// sameOrigin follows a redirect of a document within its server. What has a body is not sent
// elsewhere: it holds codes, tokens and secrets.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host ||
		len(via) > 3 {
		return http.ErrUseLastResponse
	}
	return nil
}

// statusError is an answer with an error status.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return fmt.Sprintf("it answered %d %s", e.code, http.StatusText(e.code))
}

// isAbsent reports whether there is no document at an address.
func isAbsent(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code/100 == 4 && status.code != http.StatusTooManyRequests
}

// transportError is a request without an answer. It does not quote the address, which may hold a
// secret.
type transportError struct{ cause error }

func (e *transportError) Error() string {
	if inner, ok := errors.AsType[*url.Error](e.cause); ok {
		return inner.Err.Error()
	}
	return e.cause.Error()
}

func (e *transportError) Unwrap() error { return e.cause }

// get reads a JSON document.
func get(ctx context.Context, c *http.Client, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("the address is not a web address")
	}
	req.Header.Set("Accept", "application/json")
	// Servers may vary documents by revision (2026-07-28 basic/authorization).
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	status, text, err := do(c, req)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return &statusError{status}
	}
	if json.Unmarshal(text, into) != nil {
		return errNotJSON
	}
	return nil
}

// errNotJSON is a document of another kind. Many web servers have a page for every address.
var errNotJSON = errors.New("it is not the JSON that was expected")

// do makes a request, and reads the answer.
func do(c *http.Client, req *http.Request) (status int, text []byte, err error) {
	req.Header.Set("User-Agent", "patchbay")
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, &transportError{err}
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(resp.Body, maxDocument+1)); err != nil {
		return 0, nil, &transportError{err}
	}
	if len(text) > maxDocument {
		return 0, nil, errors.New("it is too large")
	}
	return resp.StatusCode, text, nil
}

// explain wraps an error of a document or a request for the owner.
func explain(err error) error {
	if told, ok := errors.AsType[*i18n.Error](err); ok {
		return told
	}
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return &failure{msgRefused.Errorf(err.Error()), err}
	}
	if _, ok := errors.AsType[*transportError](err); ok {
		// The cause may have details of this machine's network, so it is for the log only.
		return &failure{msgUnreachable.Errorf(), err}
	}
	return &failure{msgDocument.Errorf(clip(err.Error())), err}
}

// failure is an error for the owner with its cause.
type failure struct {
	told  error
	cause error
}

func (e *failure) Error() string   { return e.told.Error() + " (" + e.cause.Error() + ")" }
func (e *failure) Unwrap() []error { return []error{e.told, e.cause} }

// IsTemporary reports whether an error says nothing about what it was asked for: the server could
// not be reached, or has trouble of its own.
func IsTemporary(err error) bool {
	if _, ok := errors.AsType[*transportError](err); ok {
		return true
	}
	status, ok := errors.AsType[*statusError](err)
	return ok && (status.code/100 == 5 || status.code == http.StatusTooManyRequests)
}

// clip shortens a text of a server, and removes what is not text.
func clip(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	text = strings.ToValidUTF8(text, "")
	if r := []rune(text); len(r) > maxTextLength {
		return string(r[:maxTextLength]) + "…"
	}
	return text
}

// checkAddress checks an address that a server names. Secrets are sent there, or a person's
// browser, so it is https, except on this machine and on the host of an upstream, if that is not
// https itself.
func checkAddress(name, address string, upstream *url.URL) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%s is not a web address", name)
	}
	switch {
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("%s is not a web address", name)
	case upstream.Scheme == "http" && (netx.IsLoopback(u.Hostname()) || strings.EqualFold(u.Hostname(),
		upstream.Hostname())):
		return nil
	}
	return fmt.Errorf("%s is not https", name)
}
