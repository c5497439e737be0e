package observe

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"patchbay/internal/netx"
)

// Addresses determines the address of a request's client.
type Addresses struct {
	// Proxies are the reverse proxies whose X-Forwarded-… headers are trusted.
	Proxies []netip.Prefix
}

// ClientAddress returns the address of a request's client. Behind trusted proxies that is the last
// address in X-Forwarded-For that is not a trusted proxy itself: the client may have written
// everything before it.
func (a Addresses) ClientAddress(r *http.Request) netip.Addr {
	at := remoteAddress(r)
	if !a.trusted(at) {
		return at
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return at
		}
		at = hop.Unmap()
		if !a.trusted(at) {
			return at
		}
	}
	return at
}

// IsFromProxy reports whether a request comes through a trusted proxy, whose headers can be
// believed.
func (a Addresses) IsFromProxy(r *http.Request) bool { return a.trusted(remoteAddress(r)) }

func (a Addresses) trusted(addr netip.Addr) bool {
	for _, p := range a.Proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// IsForwarded reports whether a request came through a proxy, trusted or not, so that its socket
// does not tell its origin (X-Forwarded-For, or Forwarded of RFC 7239).
func IsForwarded(r *http.Request) bool {
	return r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
}

func remoteAddress(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// IsLocalHost reports whether the Host header of a request is this machine itself. It is not for a
// page whose host name was made to resolve to this machine (DNS rebinding).
func IsLocalHost(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return netx.IsLoopback(host)
}
