package observe

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Addresses finds out from where a request comes.
type Addresses struct {
	// Proxies are the reverse proxies whose X-Forwarded-For is believed.
	Proxies []netip.Prefix
}

// ClientAddress is the address of a request's client. Behind trusted proxies that is the
// last address in X-Forwarded-For that is not a trusted proxy itself: what
// stands before it was written by the client.
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

func (a Addresses) trusted(addr netip.Addr) bool {
	for _, p := range a.Proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// IsForwarded says that a request came through a proxy, trusted or not, so that
// its socket says nothing of where it is from.
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

// IsLocalHost reports whether a request names this machine itself as its host. A page of
// somebody else, whose name was made to lead here, does not.
func IsLocalHost(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}
