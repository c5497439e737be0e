package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// endpoint is the handler for tool servers that connect to us and are called over that connection,
// as with XiaoZhi's cloud: a WebSocket, with the token that the upstream got when it was added.
type endpoint struct {
	base    *Base
	servers *upstream.Manager
	// refresh updates the known servers from the database.
	refresh func(context.Context) error
	guard   *account.Guard
	log     *slog.Logger
	address func(*http.Request) netip.Addr
}

// ServeHTTP serves /mcp_endpoint/mcp/?token=…. The token may also be a bearer token.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The token may be newer than this instance's state of the database.
	for known := false; ; known = true {
		u, err := e.find(r)
		switch {
		case errors.Is(err, store.ErrNotFound):
			e.refuse(w, r)
			return
		case err != nil:
			e.later(w, r, err)
			return
		}
		err = e.servers.Accept(w, r, UpstreamProviderID(u), u.Version)
		switch {
		case errors.Is(err, upstream.ErrTooOften):
			e.log.WarnContext(r.Context(), "a tool server connects too often; perhaps two of them share a token",
				"upstream", u.Slug, "address", e.address(r))
			w.Header().Set("Retry-After", "10")
			http.Error(w, "too many connections in a short time", http.StatusTooManyRequests)
			return
		case !errors.Is(err, upstream.ErrNoUpstream):
			return // it was served, or got an error response
		case known:
			e.later(w, r, err)
			return
		}
		if err := e.refresh(r.Context()); err != nil {
			e.later(w, r, err)
			return
		}
	}
}

// find returns the upstream of the token in a request.
func (e *endpoint) find(r *http.Request) (store.Upstream, error) {
	token := r.URL.Query().Get("token")
	if kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "Bearer") {
		token = strings.TrimSpace(secret)
	}
	if token == "" {
		return store.Upstream{}, store.ErrNotFound
	}
	u, err := e.base.Store.Upstreams.ByTokenHash(r.Context(), seal.Hash(token))
	if err == nil && u.Kind != UpstreamDialsIn {
		err = store.ErrNotFound
	}
	return u, err
}

// refuse responds to a missing or unknown token.
func (e *endpoint) refuse(w http.ResponseWriter, r *http.Request) {
	from := e.address(r)
	tooMany := e.guard.Refuse(from)
	e.log.WarnContext(r.Context(), "the token of a tool server was refused", "address", from)
	if tooMany {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many refused tokens from this address; wait a minute", http.StatusTooManyRequests)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="patchbay"`)
	http.Error(w, "the token of an upstream is needed, as ?token=… or as Authorization: Bearer …",
		http.StatusUnauthorized)
}

// later responds with a temporary error, without revealing the reason.
func (e *endpoint) later(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		e.log.ErrorContext(r.Context(), "a tool server could not be let in", "error", err)
	}
	w.Header().Set("Retry-After", "2")
	http.Error(w, "not now; try again in a moment", http.StatusServiceUnavailable)
}

// offeredElsewhere returns how many tools another instance offers for a server that connects to us.
// It is 0 if the server is connected here, as here states.
func offeredElsewhere(h *hub.Hub, u store.Upstream, here upstream.Status) int {
	if u.Kind != UpstreamDialsIn || here.State == upstream.Ready || here.Tools > 0 {
		return 0
	}
	_, held, tools := h.FindProvider(UpstreamProviderID(u))
	if !held || len(tools) == 0 || tools[0].IsLocal() { // it has connected here since its status was read
		return 0
	}
	return len(tools)
}
