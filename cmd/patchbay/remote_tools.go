package main

import (
	"context"
	"net/http"
	"net/url"

	"patchbay/internal/control"
)

// findServer returns the server that was named or runs on the data directory; nil if there is none.
func findServer(ctx context.Context, sh *shell, d dataFlags, f serverFlags) (*remote, error) {
	r, err := f.remote(sh)
	if r != nil || err != nil {
		return r, err
	}
	settings, err := d.load(sh)
	if err != nil {
		return nil, err
	}
	if !hasData(settings) {
		return nil, d.noData(settings)
	}
	return findRunning(ctx, sh, settings)
}

// tools lists the tools that the key may see, filtered by person and, with their schemas, by name.
func (r *remote) tools(ctx context.Context, user, name string) ([]control.Tool, error) {
	query := url.Values{}
	if user != "" {
		query.Set("user", user)
	}
	if name != "" {
		query.Set("name", name)
	}
	var out struct {
		Tools []control.Tool `json:"tools"`
	}
	err := r.do(ctx, http.MethodGet, "/api/v1/tools?"+query.Encode(), nil, &out)
	return out.Tools, err
}
