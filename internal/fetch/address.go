package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxURL bounds an address in bytes. Signed links of object stores have up to
	// 2 KB.
	maxURL = 4096
	// maxHost is the longest name that the DNS knows.
	maxHost = 253
	// maxAnswers bounds the addresses that a name may have: more are an attempt
	// to keep us busy.
	maxAnswers = 64
	// minDial is the least time given to each address of a host when it has
	// several.
	minDial = 2 * time.Second
	// dialLimit is how long an address may take to answer, whoever waits for it.
	dialLimit = 10 * time.Second
)

// Resolver finds the addresses of a host; *net.Resolver is one. It is asked
// exactly once per connection, and the connection goes to what it said.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// guard decides where connections may go.
type guard struct {
	hosts    []string // lower-case patterns; empty: any
	nets     []netip.Prefix
	resolver Resolver
	// dial connects to an address that was checked.
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

// CheckHosts says which of some patterns for [Options].AllowHosts is none: they
// are host names or IP addresses, or "*." and a name for everything below it.
func CheckHosts(patterns []string) error {
	for _, p := range patterns {
		name := strings.TrimPrefix(p, "*.")
		if err := checkHost(strings.ToLower(name)); err != nil {
			return fmt.Errorf("%q is not a host name: %w", p, err)
		}
	}
	return nil
}

// parse reads an address and refuses what is ill-formed or ambiguous, and what
// the list of hosts does not have. It asks no resolver.
func (g *guard) parse(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fail(BadAddress, "longer than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fail(BadAddress, "cannot be parsed") // the parser's error repeats the address
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
	// Refused here already, so that a picture of such an address that is in the
	// cache, or a name that looks like one, needs no second thought.
	if ip, err := netip.ParseAddr(host); err == nil && !g.isAllowed(ip) {
		return &Error{Reason: ForbiddenAddress, URL: redacted(u), Err: errForbidden}
	}
	return nil
}

var errForbidden = errors.New("leads to a private or special network")

// checkHost accepts IP addresses in their usual form and names of letters,
// digits, hyphens and underscores. Names in other scripts come in Punycode. A
// host whose last part is a number is an IP address to some programs and a name
// to others (2130706433, 0x7f.1, 127.1, 0177.0.0.1), so it has to be an address
// that everybody reads in the same way.
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

// isHostAllowed looks a lower-case host up in the list.
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

// specialIPv4 are the IPv4 networks that are not the public internet, by the
// registries of IANA (RFC 6890 and successors), and one address that answers
// with a machine's secrets inside of a public cloud.
var specialIPv4 = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier NAT; also metadata of Alibaba Cloud
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // the host agent of Azure
	"169.254.0.0/16",   // link-local; metadata of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments; metadata of Oracle
	"192.0.2.0/24",     // documentation
	"192.31.196.0/24",  // AS112
	"192.52.193.0/24",  // AMT
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"192.175.48.0/24",  // AS112
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
)

// global is the part of IPv6 that is in use as the public internet; special6 are
// the parts of it that are not. Outside of it are loopback, private and
// link-local addresses, multicast, and IPv4 addresses in disguise (mapped,
// compatible, NAT64).
var (
	globalIPv6  = netip.MustParsePrefix("2000::/3")
	specialIPv6 = prefixes(
		"2001::/23",         // protocol assignments: Teredo, benchmarks, ORCHID
		"2001:db8::/32",     // documentation
		"2002::/16",         // 6to4: contains an IPv4 address
		"2620:4f:8000::/48", // AS112
		"3fff::/20",         // documentation
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

// requestKey is the key of a request's own context among its values.
type requestKey struct{}

// withRequest makes ctx known to connect. The transport detaches the context that
// it dials with from the request's, so as to keep the connection for another
// request; here there is none, and a forgotten dial would go on for minutes.
func withRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, ctx)
}

// connect is the transport's way to connect. It resolves the host, refuses it if
// any of its addresses is off limits, and connects to one of those addresses: a
// name that changes its mind afterwards changes nothing. The connection is closed
// when the context of the request ends.
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

// dialOne gives one of several addresses its share of the time that is left.
func (g *guard) dialOne(ctx context.Context, ip netip.Addr, port string, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(minDial, time.Until(end)/time.Duration(left)))
		defer cancel()
	}
	return g.dial(ctx, "tcp", net.JoinHostPort(ip.String(), port))
}

// resolve finds the addresses of a host and checks all of them.
func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	var ips []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = []netip.Addr{ip}
	} else if ips, err = g.resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	} else {
		for i := range ips {
			ips[i] = ips[i].Unmap() // resolvers like to hand out IPv4 in this form
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

// control looks at the address that the system is about to connect to: the last
// word, should anything above be wrong.
func (g *guard) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !isPrivateAllowed(ctx) && !g.isAllowed(ap.Addr()) {
		return &Error{Reason: ForbiddenAddress, Err: errForbidden}
	}
	return nil
}
