package oauth

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/netx"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// maxClients bounds the clients that registered themselves, and maxUnused those of an address
	// within unusedWindow that nobody has let in. Programs that people do let in may register
	// anew as often as they like: some do for each connection. When there are maxClients, the
	// oldest dropAtOnce that nobody has let in make room, so that a flood keeps nobody out.
	maxClients   = 10_000
	maxUnused    = 60
	unusedWindow = time.Hour
	dropAtOnce   = 100
	// maxRedirects and maxRedirect bound the redirects of a client, and their length in bytes.
	maxRedirects, maxRedirect = 20, 2048
	// maxClientName is the maximum length of a name, in characters: that of a key's name.
	maxClientName = 60
)

// ErrRedirects means that a client has no redirect that may be used, or one that may not.
var ErrRedirects = errors.New("no redirect_uri is usable: https, http of this machine, or a scheme of the program's own are")

var (
	errUnknownClient = errors.New("unknown client")
	errManyClients   = errors.New("too many clients have registered; try again later")
)

// client returns the client with an id. A document is read again when it has expired. The error is
// errUnknownClient if there is none.
func (s *Service) client(ctx context.Context, id string) (store.OAuthClient, error) {
	if isDocumentID(id) {
		return s.documentClient(ctx, id)
	}
	c, err := s.Store.OAuth.Client(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		err = errUnknownClient
	}
	return c, err
}

// registration is what a program says about itself (RFC 7591 §2). Other members are ignored.
type registration struct {
	RedirectURIs    []string `json:"redirect_uris"`
	Name            string   `json:"client_name,omitempty"`
	URI             string   `json:"client_uri,omitempty"`
	Method          string   `json:"token_endpoint_auth_method,omitempty"`
	GrantTypes      []string `json:"grant_types,omitempty"`
	ResponseTypes   []string `json:"response_types,omitempty"`
	Scope           string   `json:"scope,omitempty"`
	ApplicationType string   `json:"application_type,omitempty"`
	SoftwareID      string   `json:"software_id,omitempty"`
	SoftwareVersion string   `json:"software_version,omitempty"`
}

// registered is the response to a registration (RFC 7591 §3.2.1). Absent members are left out: null
// breaks the parsers of some programs.
type registered struct {
	ID       string `json:"client_id"`
	IssuedAt int64  `json:"client_id_issued_at"`
	Secret   string `json:"client_secret,omitempty"`
	Expires  *int64 `json:"client_secret_expires_at,omitempty"` // 0: never; required with a secret
	registration
}

// Authentication methods of clients at the token endpoint.
const (
	methodNone  = "none"
	methodPost  = "client_secret_post"
	methodBasic = "client_secret_basic"
)

// register adds a client that describes itself.
func (s *Service) register(ctx context.Context, in registration, address string) (registered, error) {
	in.RedirectURIs = claimedRedirects(in.RedirectURIs)
	if len(in.RedirectURIs) == 0 {
		return registered{}, ErrRedirects
	}
	now := s.Now()
	switch unused, err := s.Store.OAuth.CountUnused(ctx, address, now.Add(-unusedWindow)); {
	case err != nil:
		return registered{}, err
	case unused >= maxUnused:
		return registered{}, errManyClients
	}
	if err := s.makeRoom(ctx); err != nil {
		return registered{}, err
	}
	c, secret := newClient(store.ClientRegistered, in.Name, in.RedirectURIs,
		in.Method == methodPost || in.Method == methodBasic)
	c.URI, c.Address, c.Created = usableURI(in.URI), address, now
	if err := s.Store.OAuth.SaveClient(ctx, c); err != nil {
		return registered{}, err
	}
	out := registered{ID: c.ID, IssuedAt: now.Unix(), Secret: secret, registration: in}
	if secret == "" {
		out.Method = methodNone
	} else {
		out.Expires = new(int64)
	}
	out.GrantTypes, out.ResponseTypes = []string{"authorization_code", "refresh_token"}, []string{"code"}
	return out, nil
}

// makeRoom returns errManyClients if nobody may add a client.
func (s *Service) makeRoom(ctx context.Context) error {
	all, err := s.Store.OAuth.CountClients(ctx)
	if err != nil || all < s.maxClients {
		return err
	}
	n, err := s.Store.OAuth.DropUnused(ctx, dropAtOnce)
	if err == nil && n == 0 {
		err = errManyClients
	}
	return err
}

// registrant returns what counts as one address of programs that register: of IPv6 a /64, because
// one customer has that many.
func registrant(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if p, err := a.Prefix(64); err == nil && a.Is6() && !a.IsLoopback() {
		return p.String()
	}
	return a.String()
}

// newClient returns a client that is not stored yet, and its secret if it has one.
func newClient(kind, name string, redirects []string, secret bool) (c store.OAuthClient, plain string) {
	c = store.OAuthClient{ID: uuid.Must(uuid.NewV7()).String(), Kind: kind, Name: cleanName(name), Redirects: redirects}
	if secret {
		plain = newSecret("pbc_")
		c.SecretHash = seal.Hash(plain)
	}
	return c, plain
}

// AddClient adds a client for a program that cannot register itself. The secret is empty unless it
// is asked for, and not stored. The error says which redirect is not usable.
func (s *Service) AddClient(ctx context.Context, name string, redirects []string,
	secret bool) (store.OAuthClient, string, error) {
	if good := usableRedirects(redirects); len(good) != len(redirects) || len(good) == 0 {
		return store.OAuthClient{}, "", ErrRedirects
	}
	c, plain := newClient(store.ClientConfigured, name, redirects, secret)
	c.Created = s.Now()
	return c, plain, s.Store.OAuth.SaveClient(ctx, c)
}

// cleanName makes a name that a program claims fit for lists and logs.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, name)
	name = strings.TrimSpace(name)
	if runes := []rune(name); len(runes) > maxClientName {
		name = strings.TrimSpace(string(runes[:maxClientName]))
	}
	if name == "" {
		return "OAuth"
	}
	return name
}

// usableRedirects returns the redirects to which a person's browser may be sent. One that is not
// usable does not spoil the others: Cursor registers several, of different kinds.
func usableRedirects(list []string) []string {
	var good []string
	for _, r := range list {
		if len(good) < maxRedirects && isUsableRedirect(r) && !slices.Contains(good, r) {
			good = append(good, r)
		}
	}
	return good
}

// claimedRedirects is usableRedirects for what programs say of themselves. A scheme that any
// program could take on the person's machine has to be one of an editor, or one that names its
// owner.
func claimedRedirects(list []string) []string {
	return slices.DeleteFunc(usableRedirects(list), func(r string) bool {
		scheme, _, _ := strings.Cut(r, ":")
		return !strings.Contains(scheme, ".") && !slices.Contains(claimedSchemes, scheme)
	})
}

// claimedSchemes are the schemes that programs may name without an administrator: those of the web,
// and those of editors that do not follow RFC 8252 section 7.1, which wants the reversed name of a
// domain. Cursor was seen to register its own; VS Code documents its two for extensions
// (https://code.visualstudio.com/api/references/vscode-api, env.uriScheme).
var claimedSchemes = []string{"https", "http", "cursor", "vscode", "vscode-insiders"}

// forbiddenSchemes are executed or read by the browser itself.
var forbiddenSchemes = []string{"javascript", "data", "file", "blob", "vbscript", "about", "view-source", "filesystem",
	"chrome", "ws", "wss", "ftp", "mailto", "tel", "sms", "intent"}

func isUsableRedirect(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxRedirect || u.Scheme == "" || u.Fragment != "" || strings.Contains(raw, "#") ||
		u.User != nil || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) ||
		!isPlainHost(u.Host) {
		return false
	}
	switch u.Scheme {
	case "https":
		return u.Host != ""
	case "http":
		return netx.IsLoopback(u.Hostname())
	}
	return u.Opaque == "" && !slices.Contains(forbiddenSchemes, u.Scheme)
}

// isPlainHost reports whether a host, with or without a port, consists of the characters of names
// and addresses. People decide by it, and letters of other alphabets look like these: such names
// have to be written with xn--. It is also in a header of the page of consent.
func isPlainHost(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:[]", r)
	})
}

// usableURI returns the address of a program's page; empty if it is not usable.
func usableURI(raw string) string {
	if u, err := url.Parse(raw); err != nil || u.Scheme != "https" || !isUsableRedirect(raw) {
		return ""
	}
	return raw
}

// allowsRedirect reports whether a client may use a redirect: one of its own, byte for byte, or the
// same on another port of this machine (RFC 8252 §7.3).
func allowsRedirect(c *store.OAuthClient, redirect string) bool {
	if slices.Contains(c.Redirects, redirect) {
		return isUsableRedirect(redirect)
	}
	u, err := url.Parse(redirect)
	if err != nil || u.Scheme != "http" || !netx.IsLoopback(u.Hostname()) || !isUsableRedirect(redirect) {
		return false
	}
	return slices.ContainsFunc(c.Redirects, func(own string) bool {
		o, err := url.Parse(own)
		return err == nil && o.Scheme == "http" && strings.EqualFold(o.Hostname(), u.Hostname()) &&
			o.Path == u.Path && o.RawQuery == u.RawQuery
	})
}

// VerifiedHost returns the host that a client has proved to belong to: that of its document. It is
// empty if the client has proved nothing.
func VerifiedHost(c *store.OAuthClient) string {
	u, err := url.Parse(c.ID)
	if err != nil || c.Kind != store.ClientDocument {
		return ""
	}
	return u.Host
}

// RedirectHost returns where a redirect leads, for people: a host, or a scheme of a program on the
// person's machine.
func RedirectHost(redirect string) (host string, local bool) {
	u, err := url.Parse(redirect)
	if err != nil {
		return "", false
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return u.Scheme + ":", true
	}
	name := u.Host
	if h, _, err := net.SplitHostPort(u.Host); err == nil && netx.IsLoopback(h) {
		name = h
	}
	return name, netx.IsLoopback(u.Hostname())
}
