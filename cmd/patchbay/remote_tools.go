package main

import (
	"context"
	"net/http"
	"net/url"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
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

// findToolServer is findServer for data that only a server has; without one it fails.
func findToolServer(ctx context.Context, sh *shell, d dataFlags, f serverFlags) (*remote, error) {
	r, err := findServer(ctx, sh, d, f)
	if r == nil && err == nil {
		err = i18n.Message("tools are known only while a server runs; start one with: patchbay serve%s").
			Errorf(d.retryFlags())
	}
	return r, err
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

// call calls a tool and calls line with the lines of the response as they arrive.
func (r *remote) call(ctx context.Context, name string, c api.ToolCall, line func(api.ToolLine) error) error {
	return stream(ctx, r, "/api/v1/tools/"+url.PathEscape(name)+"/call", c,
		func(l api.ToolLine) (bool, error) { return l.End, line(l) })
}

// upstreams lists the upstreams that the key may see, with their state.
func (r *remote) upstreams(ctx context.Context) ([]control.Upstream, error) {
	var out struct {
		Upstreams []control.Upstream `json:"upstreams"`
	}
	err := r.do(ctx, http.MethodGet, "/api/v1/upstreams", nil, &out)
	return out.Upstreams, err
}
