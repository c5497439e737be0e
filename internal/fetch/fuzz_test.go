package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// inside reports whether an address is not public, in other ways than the tested code: with the
// methods of net.IP and by bytes.
func inside(ip net.IP) bool {
	if ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified() || ip.IsMulticast() ||
		ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsInterfaceLocalMulticast() {
		return true
	}
	if v4 := ip.To4(); v4 != nil {
		a, b, c := v4[0], v4[1], v4[2]
		return a == 0 || a >= 240 || a == 100 && b&0xc0 == 64 || a == 192 && b == 0 && (c == 0 || c == 2) ||
			a == 198 && b&0xfe == 18 || a == 198 && b == 51 && c == 100 || a == 203 && b == 0 && c == 113
	}
	return ip[0]&0xe0 != 0x20 || // not global unicast: NAT64, compatible, local
		ip[0] == 0x20 && ip[1] == 0x02 || // 6to4
		ip[0] == 0x20 && ip[1] == 0x01 && ip[2] < 2 || // Teredo and other protocols
		ip[0] == 0x20 && ip[1] == 0x01 && ip[2] == 0x0d && ip[3] == 0xb8
}

// scripted is a resolver that always returns the same addresses.
type scripted []netip.Addr

func (s scripted) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return append([]netip.Addr(nil), s...), nil
}

// addrs parses bytes as addresses: the lowest bit of a first byte selects the length.
func addrs(b []byte) scripted {
	var out scripted
	for len(b) > 0 && len(out) < 8 {
		n := 4
		if b[0]&1 == 1 {
			n = 16
		}
		if len(b) < n+1 {
			break
		}
		ip, _ := netip.AddrFromSlice(b[1 : n+1])
		out = append(out, ip)
		b = b[n+1:]
	}
	return out
}

var errNoDial = errors.New("no dialling here")

// FuzzAddress checks that whatever the address is and the resolver returns, nothing private is ever
// dialled, and errors do not contain the secret parts of the address.
func FuzzAddress(f *testing.F) {
	public := []byte{0, 8, 8, 8, 8}
	local := []byte{0, 127, 0, 0, 1}
	mapped := append([]byte{1}, netip.MustParseAddr("::ffff:10.0.0.1").AsSlice()...)
	for _, raw := range []string{
		"http://example.com/photo.webp?sig=abc", "https://user:pw@example.com/", "http://127.0.0.1/",
		"http://2130706433/",
		"http://0x7f.1/", "http://0177.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]:80/",
		"http://[fe80::1%25eth0]/",
		"http://[64:ff9b::a00:1]/", "http://localhost./", "http://example.com:99999/", "http://①②⑦.0.0.1/",
		"http://1.1.1.1/", "http://[2606:4700::1111]/", "HTTP://EXAMPLE.com:80", "http://a\\@127.0.0.1/",
	} {
		f.Add(raw, public)
		f.Add(raw, local)
		f.Add(raw, append(public[:5:5], local...))
		f.Add(raw, mapped)
	}
	f.Fuzz(func(t *testing.T, raw string, answer []byte) {
		fe := New(Options{Resolver: addrs(answer)})
		fe.guard.dial = func(_ context.Context, _, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				t.Errorf("dialled %q", address)
			}
			if ip := net.ParseIP(host); ip == nil || inside(ip) {
				t.Errorf("dialled %q for %q", address, raw)
			}
			return nil, &net.OpError{Op: "dial", Err: errNoDial}
		}
		m, err := fe.Image(t.Context(), raw)
		e, ok := errors.AsType[*Error](err)
		if m != nil || !ok || e.Reason == "" {
			t.Fatalf("got %v, %v", m, err)
		}
		u, perr := url.Parse(raw)
		if perr != nil {
			return
		}
		if e.URL != "" && e.URL != u.Scheme+"://"+u.Host {
			t.Errorf("%q is about another address than %q", e.URL, raw)
		}
		told := strings.Replace(e.Error(), e.URL, "", 1)
		if len(u.RawQuery) > 12 && strings.Contains(told, u.RawQuery) {
			t.Errorf("%q tells the query of %q", e, raw)
		}
		if u.User != nil && len(u.User.String()) > 12 && strings.Contains(told, u.User.String()) {
			t.Errorf("%q tells the user of %q", e, raw)
		}
	})
}

// FuzzPublic checks the same property for addresses alone, so that the fuzzer concentrates on them.
func FuzzPublic(f *testing.F) {
	for _, s := range []string{"8.8.8.8", "10.1.2.3", "100.64.0.1", "169.254.169.254", "::1", "64:ff9b::1", "2002::1",
		"2001:0::1", "2606:4700::1111", "fd00::1", "3fff::1"} {
		f.Add(netip.MustParseAddr(s).AsSlice())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ip, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		if isPublic(ip) && inside(net.IP(b)) {
			t.Errorf("%s passes for public", ip)
		}
		if ip.Is6() && ip.Is4In6() && isPublic(ip) {
			t.Errorf("%s passes for public in this form", ip)
		}
	})
}
