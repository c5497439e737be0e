package mcp

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// hostList says under which names the server may be called, and from which web
// pages. A page that makes a browser call us under a name of its own (DNS
// rebinding) is turned away, and so is one that calls us from elsewhere.
type hostList struct{ hosts, origins []string }

func newHostList(publicURL string, hosts, origins []string) hostList {
	l := hostList{hosts: slices.Clone(hosts), origins: slices.Clone(origins)}
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		l.hosts = append(l.hosts, u.Hostname())
		l.origins = append(l.origins, u.Scheme+"://"+u.Host)
	}
	return l
}

// allows says whether a request may come in as it does.
func (l *hostList) allows(r *http.Request) bool {
	if !l.knows(r.Host) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(l.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// knows says whether a name is ours for sure: it is listed, or nobody can own it
// on the internet.
func (l *hostList) knows(hostport string) bool {
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
