package xiaozhi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// AnyOrigin in [Origins] stands for every page.
const AnyOrigin = "*"

// preflightLife is how long browsers may remember what a page may send, in seconds. Chromium
// remembers it for no longer.
const preflightLife = "7200"

// Origins are the origins of the web pages that may act as boards, such as
// https://talk.example.org, or [AnyOrigin]. The server's own pages always may, and so may
// programs, which send no origin.
//
// Boards authenticate by what they send, and never by a cookie, which pages are not allowed to send
// here: a page can do no more than any program that reaches the server.
type Origins []string

// Handler answers the questions of browsers about next (cross-origin resource sharing,
// https://fetch.spec.whatwg.org/#http-cors-protocol), and refuses the requests of other pages. It
// also refuses their WebSockets, about which browsers do not ask.
func (o Origins) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin == "" {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		switch any := slices.Contains(o, AnyOrigin); {
		case any:
			h.Set("Access-Control-Allow-Origin", AnyOrigin)
		case slices.Contains(o, origin) || isOwnPage(r, origin):
			h.Set("Access-Control-Allow-Origin", origin)
			h.Add("Vary", "Origin")
		default:
			h.Add("Vary", "Origin")
			http.Error(w, "this page may not act as a board; its origin is not in xiaozhi.origins", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		// The star does not include Authorization (https://fetch.spec.whatwg.org/#cors-preflight-fetch-0).
		h.Set("Access-Control-Allow-Headers", "Authorization, *")
		h.Set("Access-Control-Max-Age", preflightLife)
		w.WriteHeader(http.StatusNoContent)
	})
}

// isOwnPage reports whether a request comes from a page of this server.
func isOwnPage(r *http.Request, origin string) bool {
	if r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
