package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxURL is the maximum length of an address, in bytes. Signed links of object stores have up
	// to 2 KB.
	maxURL = 4096
	// maxHost is the maximum length of a host name (RFC 1035 §2.3.4, without the bytes of the wire
	// format).
	maxHost = 253
	// maxAnswers is the maximum number of addresses of a name. It bounds the work that a hostile
	// DNS server can cause.
	maxAnswers = 64
	// minDial is the minimum time for each address of a host that has several.
	minDial = 2 * time.Second
	// dialLimit is the timeout for a connection to one address.
	dialLimit = 10 * time.Second
)

// Resolver looks up the addresses of a host; *net.Resolver implements it. It is called once per
// connection, and the connection goes to an address that it returned.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// guard decides which addresses may be connected to.
type guard struct {
	hosts    []string // patterns in lower case; empty: any host
	nets     []netip.Prefix
	resolver Resolver
	// dial connects to a validated address.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func newGuard(hosts []string, nets []netip.Prefix, r Resolver) *guard {
	g := &guard{resolver: r}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	for _, n := range nets {
		g.nets = append(g.nets, n.Masked())
	}
	d := &net.Dialer{Timeout: dialLimit, ControlContext: g.control}
	g.dial = d.DialContext
	return g
}

// parse parses an address. It rejects malformed and ambiguous addresses, and hosts that are not
// allowed. It resolves nothing.
func (g *guard) parse(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fail(BadAddress, "longer than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fail(BadAddress, "cannot be parsed") // the parser's error contains the address
	}
	return u, g.check(u)
}

func (g *guard) check(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fail(BadAddress, "neither http nor https")
	}
	if u.User != nil {
		return fail(BadAddress, "has a user name")
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if err := checkHost(host); err != nil {
		return &Error{Reason: BadAddress, URL: redacted(u), Err: err}
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return &Error{Reason: BadAddress, URL: redacted(u), Err: errors.New("bad port")}
		}
	}
	if !g.isHostAllowed(host) {
		return &Error{Reason: ForbiddenAddress, URL: redacted(u), Err: errors.New("host is not on the list")}
	}
	// Rejected here already: a cached image needs no connection, so connect would not check its
	// address.
	if ip, err := netip.ParseAddr(host); err == nil && !g.isAllowed(ip) {
		return &Error{Reason: ForbiddenAddress, URL: redacted(u), Err: errForbidden}
	}
	return nil
}

var errForbidden = errors.New("leads to a private or special network")

// checkHost accepts IP addresses in their usual form, and names of letters, digits, hyphens and
// underscores; internationalized names have to be in Punycode. A host whose last label is a number
// is an IP address to some programs and a name to others (2130706433, 0x7f.1, 127.1, 0177.0.0.1),
// so it has to be an address that every program parses in the same way.
func checkHost(host string) error {
	if host == "" || len(host) > maxHost {
		return errors.New("no host, or too long a one")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return errors.New("IPv6 zone in host")
		}
		return nil
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return errors.New("bad host name")
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return errors.New("bad character in host name")
			}
		}
	}
	if last := host[strings.LastIndexByte(host, '.')+1:]; isNumber(last) {
		return errors.New("ambiguous IP address")
	}
	return nil
}

func isNumber(s string) bool {
	if strings.HasPrefix(s, "0x") {
		return true
	}
	return strings.Trim(s, "0123456789") == ""
}

// isHostAllowed reports whether the list of hosts allows a host in lower case.
func (g *guard) isHostAllowed(host string) bool {
	if len(g.hosts) == 0 {
		return true
	}
	for _, p := range g.hosts {
		if below, ok := strings.CutPrefix(p, "*."); ok {
			if strings.HasSuffix(host, "."+below) {
				return true
			}
		} else if p == host {
			return true
		}
	}
	return false
}

// specialIPv4 are the IPv4 networks outside the public internet, from the IANA IPv4 Special-Purpose
// Address Registry (RFC 6890, RFC 8190), and one address that serves secrets of a virtual machine
// within a public cloud.
var specialIPv4 = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier NAT (RFC 6598); also the metadata service of Alibaba Cloud
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // the host agent of Azure ("What is IP address 168.63.129.16?")
	"169.254.0.0/16",   // link-local; the metadata service of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments; the metadata service of Oracle Cloud
	"192.0.2.0/24",     // documentation (RFC 5737)
	"192.31.196.0/24",  // AS112
	"192.52.193.0/24",  // AMT
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"192.175.48.0/24",  // AS112
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation (RFC 5737)
	"203.0.113.0/24",   // documentation (RFC 5737)
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
)

// globalIPv6 is the IPv6 space for global unicast addresses (RFC 4291 §2.4, IANA IPv6 Address
// Space); specialIPv6 are the parts of it that are not public (IANA IPv6 Special-Purpose Address
// Registry, RFC 6890). Outside of it are loopback, private and link-local addresses, multicast, and
// embedded IPv4 addresses (mapped, compatible, NAT64).
var (
	globalIPv6  = netip.MustParsePrefix("2000::/3")
	specialIPv6 = prefixes(
		"2001::/23",         // protocol assignments: Teredo, benchmarks, ORCHID
		"2001:db8::/32",     // documentation (RFC 3849)
		"2002::/16",         // 6to4: contains an IPv4 address (RFC 3056)
		"2620:4f:8000::/48", // AS112
		"3fff::/20",         // documentation (RFC 9637)
	)
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func inAnyPrefix(ip netip.Addr, nets []netip.Prefix) bool {
	for _, n := range nets {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}

// isPublic reports whether an address belongs to the public internet.
func isPublic(ip netip.Addr) bool {
	if ip.Is4() {
		return !inAnyPrefix(ip, specialIPv4)
	}
	return ip.Zone() == "" && globalIPv6.Contains(ip) && !inAnyPrefix(ip, specialIPv6)
}

// isAllowed reports whether an address may be connected to.
func (g *guard) isAllowed(ip netip.Addr) bool {
	return isPublic(ip) || inAnyPrefix(ip, g.nets)
}

// requestKey is the context key of a request's own context.
type requestKey struct{}

// withRequest passes ctx to connect. http.Transport dials with a context that is detached from the
// request's, to keep the connection for another request. This transport keeps no connections, and
// an abandoned dial would go on for minutes.
func withRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, ctx)
}

// connect is the transport's DialContext. It resolves the host, rejects it if any of its addresses
// is forbidden, and connects to one of those addresses, so a later change of the name has no effect
// (DNS rebinding). The connection is closed when the context of the request ends.
func (g *guard) connect(ctx context.Context, _, address string) (net.Conn, error) {
	if request, ok := ctx.Value(requestKey{}).(context.Context); ok {
		ctx = request
	}
	conn, err := g.dialHost(ctx, address)
	if err == nil {
		context.AfterFunc(ctx, func() { conn.Close() })
	}
	return conn, err
}

// privateAllowedKey marks the context of a connection to a host that may be private.
type privateAllowedKey struct{}

func isPrivateAllowed(ctx context.Context) bool { return ctx.Value(privateAllowedKey{}) != nil }

// dialHost is connect for a connection that outlives its context.
func (g *guard) dialHost(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fail(BadAddress, "cannot be split into host and port")
	}
	ips, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, ip := range ips {
		var conn net.Conn
		if conn, err = g.dialOne(ctx, ip, port, len(ips)-i); err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// dialOne connects to one of several addresses within its share of the remaining time.
func (g *guard) dialOne(ctx context.Context, ip netip.Addr, port string, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(minDial, time.Until(end)/time.Duration(left)))
		defer cancel()
	}
	return g.dial(ctx, "tcp", net.JoinHostPort(ip.String(), port))
}

// resolve looks up the addresses of a host and checks all of them.
func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	var ips []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = []netip.Addr{ip}
	} else if ips, err = g.resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	} else {
		for i := range ips {
			ips[i] = ips[i].Unmap() // resolvers may return IPv4-mapped addresses
		}
	}
	if len(ips) == 0 || len(ips) > maxAnswers {
		return nil, fail(Network, "host has %d addresses", len(ips))
	}
	for _, ip := range ips {
		if !isPrivateAllowed(ctx) && !g.isAllowed(ip) {
			return nil, &Error{Reason: ForbiddenAddress, Err: errForbidden}
		}
	}
	return ips, nil
}

// control checks the address that the system is about to connect to, as a second line of defence.
func (g *guard) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !isPrivateAllowed(ctx) && !g.isAllowed(ap.Addr()) {
		return &Error{Reason: ForbiddenAddress, Err: errForbidden}
	}
	return nil
}
