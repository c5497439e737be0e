package mcp

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// hostList holds the host names under which the server may be called, and the origins of web pages
// that may call it. It rejects pages that make a browser call the server under a name of their own
// (DNS rebinding), and pages from other origins (2026-07-28 basic/transports/streamable-http,
// "Security & Endpoint").
type hostList struct{ hosts, origins []string }

func newHostList(publicURL string, hosts, origins []string) hostList {
	l := hostList{hosts: slices.Clone(hosts), origins: slices.Clone(origins)}
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		l.hosts = append(l.hosts, u.Hostname())
		l.origins = append(l.origins, u.Scheme+"://"+u.Host)
	}
	return l
}

// isAllowed reports whether the request's Host and Origin are allowed.
func (l *hostList) isAllowed(r *http.Request) bool {
	if !l.isKnownHost(r.Host) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(l.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// IsKnownHost reports whether a host name, with or without a port, certainly belongs to this
// server.
func (s *Server) IsKnownHost(hostport string) bool { return s.hosts.isKnownHost(hostport) }

// IsListedHost reports whether the configuration names a host, with or without a port, as one of
// this server's.
func (s *Server) IsListedHost(hostport string) bool { return s.hosts.isListed(hostport) }

// ServePreflight answers what browsers ask before a page of an allowed origin calls an endpoint
// (https://fetch.spec.whatwg.org/#cors-preflight-fetch). It needs no key: browsers send none.
func (s *Server) ServePreflight(w http.ResponseWriter, r *http.Request) {
	if !s.hosts.isAllowed(r) {
		s.refuse(w, http.StatusForbidden, "origin",
			"this host name or origin is not allowed (settings mcp.hosts and mcp.origins)")
		return
	}
	h := w.Header()
	allowPage(w, r)
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	// The star stands for headers such as Mcp-Param-…, and does not include Authorization.
	h.Set("Access-Control-Allow-Headers", "Authorization, *")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// allowPage lets a page of an origin that is allowed read the response.
func allowPage(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Mcp-Protocol-Version, Retry-After, WWW-Authenticate")
}

// isKnownHost reports whether a name certainly belongs to this server: it is listed, or it
// cannot be registered on the internet.
func (l *hostList) isKnownHost(hostport string) bool {
	host := hostName(hostport)
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if !strings.Contains(host, ".") { // localhost, or a name in the local network
		return host != ""
	}
	for _, local := range []string{".localhost", ".local", ".lan", ".home.arpa", ".internal"} {
		if strings.HasSuffix(host, local) {
			return true
		}
	}
	return l.isListed(host)
}

// isListed reports whether a name is in the configuration.
func (l *hostList) isListed(hostport string) bool {
	host := hostName(hostport)
	return slices.ContainsFunc(l.hosts, func(known string) bool { return strings.EqualFold(known, host) })
}

// hostName returns the name in a host with or without a port, in lower case.
func hostName(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
