package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"patchbay/internal/config"
	"patchbay/internal/console"
	"patchbay/internal/i18n"
	"patchbay/internal/oauth"
	"patchbay/internal/plug/eyeclaw/connector"
	"patchbay/internal/plug/learn/ankiconnect"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/xiaozhi"
)

// handlers are the handlers that routes maps to paths.
type handlers struct {
	lingzhu, cable, connector, join, media, api, metrics, ready http.Handler
	endpoint, client, anki                                      http.Handler
	mcp                                                         *mcp.Server
	oauth                                                       *oauth.Service
	boards                                                      *voiceBoards
	pages                                                       *console.Server
}

// homePattern is the pattern of the console's home page.
const homePattern = "/{$}"

// lingzhuPaths are the paths that the glasses' platform sends questions to.
var lingzhuPaths = []string{"/sse/rokid", "/metis/agent/api/sse"}

// routes returns the handlers of all paths; [orGateway] handles WebSockets elsewhere.
func routes(d handlers) *http.ServeMux {
	mux := http.NewServeMux()
	for _, path := range lingzhuPaths {
		mux.Handle(path, d.lingzhu)
	}
	mux.Handle(cablePath, d.cable)
	mux.Handle("GET "+connector.Path, d.connector)
	mux.Handle("GET "+gateway.JoinPath+"{code}", d.join)
	mux.Handle("GET /media/{token}", d.media)
	mux.Handle("/mcp", d.mcp)
	for _, path := range []string{"/mcp/sse", "/mcp/messages"} {
		mux.HandleFunc("OPTIONS "+path, d.mcp.ServePreflight)
	}
	mux.HandleFunc("GET /mcp/sse", d.mcp.ServeSSE)
	mux.HandleFunc("POST /mcp/messages", d.mcp.ServeMessages)
	mux.HandleFunc("GET /mcp_endpoint/call/", d.mcp.ServeWebSocket)
	mux.Handle("GET /mcp_endpoint/mcp", d.endpoint)
	mux.Handle("GET /mcp_endpoint/mcp/{$}", d.endpoint)
	mux.HandleFunc("GET /mcp/rokid/sse", d.mcp.ServeRokid)
	mux.HandleFunc("POST /messages", d.mcp.ServeRokidMessages)
	mux.HandleFunc("POST /messages/", d.mcp.ServeRokidMessages)
	mux.HandleFunc("/api/mcp", d.mcp.ServeLearn)
	mux.HandleFunc("/api/mcp/sse", d.mcp.ServeLearnSSE)
	mux.HandleFunc("/api/mcp/messages", d.mcp.ServeLearnMessages)
	mux.Handle(ankiconnect.Path, d.anki)
	mux.Handle(ankiconnect.Path+"/{$}", d.anki)
	d.oauth.Register(mux)
	mux.Handle("GET "+clientPath, d.client)
	if d.boards != nil {
		d.boards.routes(mux)
	}
	mux.Handle("/api/v1/", d.api)
	mux.Handle("GET /metrics", d.metrics)
	mux.Handle("GET /readyz", d.ready)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"ok": true, "status": "live"})
	})
	for _, path := range d.pages.Paths() {
		mux.Handle(path, d.pages)
	}
	return mux
}

// routes registers the paths of voice boards.
func (v *voiceBoards) routes(mux *http.ServeMux) {
	pages := xiaozhi.Origins(v.base.Config.XiaoZhi.Origins)
	// both forms, since boards follow no redirect
	for _, path := range []string{xiaozhi.OTAPath, strings.TrimSuffix(xiaozhi.OTAPath, "/")} {
		mux.Handle(path, pages.Handler(v.home))
	}
	for _, path := range []string{xiaozhi.SocketPath, strings.TrimSuffix(xiaozhi.SocketPath, "/")} {
		mux.Handle("GET "+path, pages.Handler(http.HandlerFunc(v.boards.ServeSocket)))
	}
	mux.HandleFunc("GET "+xiaozhi.FirmwarePath, v.home.ServeFirmware)
	mux.Handle(xiaozhi.VisionPath, pages.Handler(v.photos))
	if b := v.broker; b != nil {
		mux.HandleFunc("POST /xiaozhi/mqtt/auth", b.ServeAuth)
		mux.HandleFunc("POST /xiaozhi/mqtt/acl", b.ServeACL)
	}
}

// readiness responds whether the server is ready, and what is failing.
func readiness(failing func(context.Context) []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what, status := failing(r.Context()), http.StatusOK
		if len(what) > 0 {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, map[string]any{"ready": len(what) == 0, "failing": what})
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client has disconnected
}

// langOf returns the language that a request asks for.
func langOf(r *http.Request) i18n.Lang {
	return i18n.ParseLang(r.Header.Get("Accept-Language"), i18n.English)
}

// writeInvalid writes an error response in the language that the request asks for.
func writeInvalid(w http.ResponseWriter, r *http.Request, status int, err error) {
	writeJSON(w, status, map[string]string{"error": i18n.Localize(err, langOf(r))})
}

// byHTTPS reports whether the public address of the server is https.
func byHTTPS(c *config.Config) bool { return strings.HasPrefix(c.PublicURL, "https://") }
