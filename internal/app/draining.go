package app

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/talk"
)

// drainLimit is how long running turns may take to end when the server stops, and
// lastWords how much longer what they ended with may take to be sent.
const (
	drainLimit = 20 * time.Second
	lastWords  = 2 * time.Second
)

// drainRetry is how many seconds callers are told to wait for the server that comes next.
const drainRetry = "5"

var sayDraining = talk.Say{Zh: "服务正在停止，请稍后再试", En: "the server is stopping; try again in a moment"}

// refuseWhileDraining answers, once the server stops, what would begin new work. Until its
// running turns have ended the server still takes connections: whoever asks is told why
// nothing happens, where a closed port would tell nothing.
func refuseWhileDraining(ready *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ready.Load() {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close") // the next request may find a server that stays
		if servedWhileDraining(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", drainRetry)
		if strings.Contains(r.Header.Get("Accept"), "text/html") { // a person reads it
			http.Error(w, sayDraining.In(langOf(r)), http.StatusServiceUnavailable)
			return
		}
		tellWrong(w, r, http.StatusServiceUnavailable, sayDraining.Wrong())
	})
}

// servedWhileDraining reports whether a request is answered although the server stops: a
// wearer's question is, since the board refuses it in words that glasses show; so are looks
// at the server's state, pictures that running turns refer to, and messages in MCP sessions,
// which may be what a running call waits for. New calls in those the board refuses.
func servedWhileDraining(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return false
	}
	path := r.URL.Path
	switch {
	case slices.Contains(lingzhuPaths, path), path == "/healthz", path == "/readyz", path == "/metrics", strings.HasPrefix(path, "/media/"):
		return true
	case r.Method == http.MethodGet: // a new stream of a session, which would have to end at once
		return false
	case path == "/mcp" || path == "/api/mcp":
		return r.Header.Get("Mcp-Session-Id") != ""
	}
	return path == "/mcp/messages" || path == "/api/mcp/messages" || path == "/messages" || strings.HasPrefix(path, "/messages/")
}
