package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

// serverFlags name a server other than the one of the data directory.
type serverFlags struct {
	Server string `help:"Server to ask, wherever it runs; or PATCHBAY_SERVER." placeholder:"URL"`
	Key    string `help:"Key with scope operator or admin for that server; better given as PATCHBAY_KEY." placeholder:"KEY"`
}

// remote returns the named server, or nil if none was named.
func (f serverFlags) remote(sh *shell) (*remote, error) {
	address, key := f.Server, f.Key
	if address == "" {
		address = sh.getenv(config.EnvServer)
	}
	if key == "" {
		key = sh.getenv(config.EnvKey)
	}
	if address == "" {
		if f.Key != "" {
			return nil, usage(i18n.Message("--key is given without --server"))
		}
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, usage(i18n.Message("the server's address has to look like https://board.example.org"))
	}
	if key == "" {
		return nil, usage(i18n.Message("a key for the server is missing; give --key or PATCHBAY_KEY (patchbay key add --scope operator makes one)"))
	}
	return newRemote(strings.TrimRight(address, "/"), key, sh), nil
}

// remote is a server accessed through /api/v1.
type remote struct {
	url, key, lang string
	client         *http.Client
}

func newRemote(address, key string, sh *shell) *remote {
	return &remote{url: address, key: key, lang: string(sh.lang), client: &http.Client{
		// A redirect would send the key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// findRunning returns the server that runs on a data directory, or nil if none responds there.
func findRunning(ctx context.Context, sh *shell, c *config.Config) (*remote, error) {
	at, err := app.FindRunning(c.Data)
	if errors.Is(err, app.ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := newRemote(at.URL, at.Key, sh)
	r.client.Transport = app.LocalTransport()
	err = r.do(ctx, http.MethodGet, "/api/v1/status", nil, &struct{}{})
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errUnauthorized) {
		return nil, nil // it crashed, and another program may have its port now
	}
	return r, err
}

var errUnauthorized = i18n.Message("the server refuses the key; it needs scope operator or admin, and must not be revoked").Errorf()

const (
	// callLimit is the timeout of a call that is not a question.
	callLimit = 15 * time.Second
	// maxReply is the maximum size of a response to such a call.
	maxReply = 16 << 20
)

// do sends a request and decodes its response.
func (r *remote) do(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	resp, err := r.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(into); err != nil {
		return i18n.Message("%s does not answer as a Patchbay server does").Errorf(r.url)
	}
	return nil
}

// send sends a request. A response without a success status is returned as an error.
func (r *remote) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Accept-Language", r.lang)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "patchbay")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, i18n.Message("%s cannot be reached: %v").Errorf(r.url, unwrapURL(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, r.refusal(resp)
}

// unwrapURL removes the wrapper that repeats method and URL, and explains why a host could not be
// reached.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return app.Explain(err)
}

func (r *remote) refusal(resp *http.Response) error {
	if resp.StatusCode == http.StatusUnauthorized {
		return errUnauthorized
	}
	var said api.Failure // a superset of every error response
	if json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&said) != nil || said.Message == "" {
		return i18n.Message("%s answers %s; is it a Patchbay server?").Errorf(r.url,
			resp.Status)
	}
	return &serverError{said, resp.StatusCode}
}

// serverError is an error response of a server.
type serverError struct {
	api.Failure
	status int // HTTP status
}

func (e *serverError) Error() string { return e.Message }
