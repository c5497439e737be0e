package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/store"
)

// A program may be described by a document at an https address, which is its id then
// (draft-ietf-oauth-client-id-metadata-document-00).

const (
	maxDocument     = 64 << 10 // bytes
	documentTimeout = 5 * time.Second
	// documents are kept for as long as their HTTP headers say, within these limits.
	minDocumentLife, maxDocumentLife = 5 * time.Minute, 24 * time.Hour
	// failedLife is how long a document that could not be read is not read again.
	failedLife = 30 * time.Second
	// maxFailed bounds what is remembered of documents that could not be read.
	maxFailed = 1000
)

// clientDocument is what a document says. A document may list several authentication methods;
// ours has to be among them.
type clientDocument struct {
	ID           string   `json:"client_id"`
	Name         string   `json:"client_name"`
	URI          string   `json:"client_uri"`
	RedirectURIs []string `json:"redirect_uris"`
	Method       string   `json:"token_endpoint_auth_method"`
	Methods      []string `json:"token_endpoint_auth_methods_supported"`
	Secret       string   `json:"client_secret"`
}

// isDocumentID reports whether an id is the address of a document.
func isDocumentID(id string) bool {
	u, err := url.Parse(id)
	return err == nil && u.Scheme == "https" && u.Host != "" && isPlainHost(u.Host) && len(u.Path) > 1 && u.User == nil && u.Fragment == "" &&
		!strings.Contains(id, "#") && len(id) <= maxRedirect && path.Clean(u.Path) == strings.TrimSuffix(u.Path, "/")
}

// documentRead is the reading of a document, so that there is one at a time for each host, and the
// memory of one that failed.
type documentRead struct {
	turn   chan struct{} // holds a value while a document is read
	failed map[string]time.Time
}

func newDocumentClient(dial func(context.Context, string, string) (net.Conn, error),
	instead http.RoundTripper) *http.Client {
	if dial == nil && instead == nil {
		return nil
	}
	if instead == nil {
		instead = &http.Transport{DialContext: dial, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: maxDocument}
	}
	return &http.Client{
		Timeout:       documentTimeout,
		Transport:     instead,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// documentClient returns the client that a document describes, as it is stored if it is fresh.
func (s *Service) documentClient(ctx context.Context, id string) (store.OAuthClient, error) {
	old, err := s.Store.OAuth.Client(ctx, id)
	if err == nil && s.Now().Before(old.FreshUntil) {
		return old, nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return old, err
	}
	if s.documents == nil {
		return old, errUnknownClient
	}
	u, err := url.Parse(id)
	if err != nil {
		return old, errUnknownClient
	}
	leave, err := s.beginReading(ctx, u.Host, id)
	if err != nil {
		return old, err
	}
	c, err := s.readDocument(ctx, id)
	leave(err)
	if err != nil {
		s.Logger.WarnContext(ctx, "the document of an OAuth client was not accepted", "client", id, "error", err)
		return old, fmt.Errorf("%w: %w", errUnknownClient, err)
	}
	if old.ID == "" {
		if err := s.makeRoom(ctx); err != nil {
			return old, err
		}
	}
	return c, s.Store.OAuth.SaveClient(ctx, c)
}

var errFailedBefore = errors.New("the document could not be read a moment ago")

// beginReading waits for the turn to read a document of a host. Call leave with the result.
func (s *Service) beginReading(ctx context.Context, host, id string) (leave func(error), err error) {
	s.mu.Lock()
	if len(s.reading) >= maxFailed {
		for other, d := range s.reading {
			if len(d.turn) == 0 {
				delete(s.reading, other)
			}
		}
	}
	d := s.reading[host]
	if d == nil {
		d = &documentRead{turn: make(chan struct{}, 1), failed: map[string]time.Time{}}
		s.reading[host] = d
	}
	s.mu.Unlock()
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if at, ok := d.failed[id]; ok && s.Now().Sub(at) < failedLife {
		<-d.turn
		return nil, fmt.Errorf("%w: %w", errUnknownClient, errFailedBefore)
	}
	return func(err error) {
		switch {
		case err == nil:
			delete(d.failed, id)
		case ctx.Err() == nil: // else whoever asked has left, which says nothing about the document
			if len(d.failed) >= maxFailed {
				clear(d.failed)
			}
			d.failed[id] = s.Now()
		}
		<-d.turn
	}, nil
}

// readDocument reads and validates a document.
func (s *Service) readDocument(ctx context.Context, id string) (store.OAuthClient, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return store.OAuthClient{}, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.documents.Do(req)
	if err != nil {
		return store.OAuthClient{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return store.OAuthClient{}, fmt.Errorf("status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return store.OAuthClient{}, err
	}
	if len(text) > maxDocument {
		return store.OAuthClient{}, errors.New("it is too large")
	}
	c, err := parseDocument(id, text)
	if err != nil {
		return store.OAuthClient{}, err
	}
	c.Created = s.Now()
	c.FreshUntil = c.Created.Add(documentLife(resp.Header))
	return c, nil
}

// parseDocument validates a document.
func parseDocument(id string, text []byte) (store.OAuthClient, error) {
	var d clientDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return store.OAuthClient{}, fmt.Errorf("it is no JSON object of metadata: %w", err)
	}
	switch {
	case d.ID != id:
		return store.OAuthClient{}, errors.New("its client_id is not its address")
	case d.Name == "":
		return store.OAuthClient{}, errors.New("client_name is missing")
	case d.Secret != "":
		return store.OAuthClient{}, errors.New("it has a client_secret, which everybody can read")
	case d.Method != "" && d.Method != methodNone && !slices.Contains(d.Methods, methodNone):
		return store.OAuthClient{}, fmt.Errorf("authentication by %.40q is not supported, only %s", d.Method, methodNone)
	}
	redirects := claimedRedirects(d.RedirectURIs)
	if len(redirects) == 0 {
		return store.OAuthClient{}, ErrRedirects
	}
	return store.OAuthClient{ID: id, Kind: store.ClientDocument, Name: cleanName(d.Name), URI: usableURI(d.URI),
		Redirects: redirects}, nil
}

// documentLife returns how long a document is kept, by its HTTP headers.
func documentLife(h http.Header) time.Duration {
	for _, part := range strings.Split(h.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seconds, err := strconv.ParseInt(value, 10, 32); err == nil && strings.EqualFold(name, "max-age") {
			return min(max(time.Duration(seconds)*time.Second, minDocumentLife), maxDocumentLife)
		}
	}
	return minDocumentLife
}
