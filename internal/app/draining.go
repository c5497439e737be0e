package app

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/bus"
	"patchbay/internal/i18n"
)

// drainLimit is how long active turns may take to end when the server stops, and lastWords how long
// their last events may then take to be sent.
const (
	drainLimit = 20 * time.Second
	lastWords  = 2 * time.Second
)

// drainRetry is the Retry-After (RFC 9110 §10.2.3), in seconds, while the server stops.
const drainRetry = "5"

// cablePath is where plugins connect.
const cablePath = "/cable"

const msgDraining = i18n.Message("the server is stopping; try again in a moment")

// refuseWhileDraining rejects new work once the server is stopping. Until its active turns have
// ended the server still accepts connections, so that clients get a reason instead of a closed
// port.
//
// Without other instances, plugins that lost their connection may come back meanwhile: active turns
// wait for them, and they can go nowhere else.
func refuseWhileDraining(ready *atomic.Bool, messages *bus.Bus, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ready.Load() || r.URL.Path == cablePath && isAlone(messages) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close") // the next request may reach another instance
		if servedWhileDraining(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", drainRetry)
		if strings.Contains(r.Header.Get("Accept"), "text/html") { // a browser
			http.Error(w, msgDraining.In(langOf(r)), http.StatusServiceUnavailable)
			return
		}
		writeInvalid(w, r, http.StatusServiceUnavailable, msgDraining.Errorf())
	})
}

// servedWhileDraining reports whether a request is served although the server is stopping. Wearers'
// questions are, since the hub refuses them with a message for the glasses. So are status requests,
// images that active turns refer to, and messages in MCP sessions, which an active call may wait
// for. The hub refuses new calls in those sessions.
func servedWhileDraining(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return false
	}
	path := r.URL.Path
	switch {
	case slices.Contains(lingzhuPaths, path), path == "/healthz", path == "/readyz", path == "/metrics",
		strings.HasPrefix(path, "/media/"):
		return true
	case r.Method == http.MethodGet: // a new stream of a session would have to end at once
		return false
	case path == "/mcp" || path == "/api/mcp":
		return r.Header.Get("Mcp-Session-Id") != ""
	}
	return path == "/mcp/messages" || path == "/api/mcp/messages" || path == "/messages" ||
		strings.HasPrefix(path, "/messages/")
}
