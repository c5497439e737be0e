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

// isKnownHost reports whether a name certainly belongs to this server: it is listed, or it
// cannot be registered on the internet.
func (l *hostList) isKnownHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
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
	return slices.ContainsFunc(l.hosts, func(known string) bool { return strings.EqualFold(known, host) })
}
