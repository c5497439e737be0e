// Package mcpregistry finds MCP servers in a registry that follows the MCP Registry API, such as
// the official one, and turns an entry into the settings of an upstream.
//
// What an entry says is the claim of whoever published it: the registry checks only that the
// publisher owns the namespace. So everything is bounded, a package becomes only a command of known
// runners, and nothing is contacted or run here.
//
// Source: github.com/modelcontextprotocol/registry, docs/reference/api/openapi.yaml (2025-12-01).
package mcpregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/i18n"
)

// DefaultURL is the address of the official registry.
const DefaultURL = "https://registry.modelcontextprotocol.io"

const (
	// requestTimeout limits one request.
	requestTimeout = 15 * time.Second
	// maxResponse limits a response in bytes; a page of a hundred servers has about 200 KB.
	maxResponse = 4 << 20
	// pageLimit and maxPages limit a search.
	pageLimit, maxPages = 100, 3
	// maxFound limits the servers that a search returns.
	maxFound = 50
	// maxRequests limits the concurrent requests; further ones wait.
	maxRequests = 4
	// maxQuery limits what is searched for, in bytes.
	maxQuery = 200
)

// Errors of registries.
const (
	msgUnreachable = i18n.Message("The registry at %s cannot be reached.")
	msgStatus      = i18n.Message("The registry at %s answered %d %s.")
	msgUnreadable  = i18n.Message("What the registry at %s answers cannot be read.")
	msgNoServer    = i18n.Message("The registry has no server called %s. Search for its full name, such as io.github.somebody/weather.")
	msgNoWords     = i18n.Message("Say what to search for.")
)

// Client asks one registry. It is safe for concurrent use.
type Client struct {
	url   string
	http  *http.Client
	slots chan struct{} // one entry per running request
}

// New returns a client for the registry at an address.
func New(address string) *Client {
	return &Client{url: strings.TrimRight(address, "/"), slots: make(chan struct{}, maxRequests),
		http: &http.Client{Timeout: requestTimeout, CheckRedirect: sameHost}}
}

// sameHost keeps a registry from sending this server elsewhere.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || len(via) > 3 {
		return http.ErrUseLastResponse
	}
	return nil
}

// Search returns the newest versions of the servers whose name has the first word, and whose name,
// title or description have the others. More reports whether there may be further ones.
func (c *Client) Search(ctx context.Context, words string) (list []Server, more bool, err error) {
	fields := strings.Fields(strings.ToLower(words))
	if len(fields) == 0 || len(words) > maxQuery {
		return nil, false, msgNoWords.Errorf()
	}
	cursor := ""
	for range maxPages {
		query := url.Values{"search": {fields[0]}, "version": {"latest"}, "limit": {fmt.Sprint(pageLimit)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page struct {
			Servers  []entry `json:"servers"`
			Metadata struct {
				Next string `json:"nextCursor"`
			} `json:"metadata"`
		}
		if err := c.get(ctx, "/v0.1/servers?"+query.Encode(), &page); err != nil {
			return nil, false, err
		}
		for i := range page.Servers {
			s, ok := page.Servers[i].server()
			if !ok || s.Status == "deleted" || !s.has(fields[1:]) {
				continue
			}
			if len(list) == maxFound {
				return list, true, nil
			}
			list = append(list, s)
		}
		if cursor = page.Metadata.Next; cursor == "" {
			return list, false, nil
		}
	}
	return list, true, nil
}

// has reports whether a server has all words.
func (s *Server) has(words []string) bool {
	text := strings.ToLower(s.Name + " " + s.Title + " " + s.Description)
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// Server returns a server by its full name; an empty version means the newest.
func (c *Client) Server(ctx context.Context, name, version string) (Server, error) {
	if !isServerName(name) || len(version) > maxVersion {
		return Server{}, msgNoServer.Errorf(clip(name, 200))
	}
	if version == "" {
		version = "latest"
	}
	var e entry
	err := c.get(ctx, "/v0.1/servers/"+url.PathEscape(name)+"/versions/"+url.PathEscape(version), &e)
	if status, ok := errors.AsType[*statusError](err); ok && status.code == http.StatusNotFound {
		return Server{}, msgNoServer.Errorf(name)
	}
	if err != nil {
		return Server{}, err
	}
	s, ok := e.server()
	if !ok || s.Name != name {
		return Server{}, msgUnreadable.Errorf(c.url)
	}
	return s, nil
}

// IsUnavailable reports whether an error is the registry's, and not that of who asked.
func IsUnavailable(err error) bool {
	text, ok := errors.AsType[*i18n.Error](err)
	return ok && (text.Message == msgUnreachable || text.Message == msgStatus || text.Message == msgUnreadable)
}

// statusError is an error status of the registry.
type statusError struct {
	error
	code int
}

func (e *statusError) Unwrap() error { return e.error }

func (c *Client) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return msgUnreachable.Errorf(c.url)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "patchbay")
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return msgUnreachable.Errorf(c.url)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &statusError{msgStatus.Errorf(c.url, resp.StatusCode, http.StatusText(resp.StatusCode)), resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil || len(body) > maxResponse || json.Unmarshal(body, into) != nil {
		return msgUnreadable.Errorf(c.url)
	}
	return nil
}
