package xiaozhi

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi/wire"
)

// place is where boards reach the server.
type place struct {
	secure bool
	host   string // with the port, if it has to be said
	name   string // without
	path   string // before ours; no slash at the end
}

// CheckPublicURL finds out whether boards can use the server's public address: they
// know no IPv6, for one.
func CheckPublicURL(public string) error {
	_, err := publicPlace(public)
	return err
}

// publicPlace takes the server's public address apart.
func publicPlace(public string) (place, error) {
	u, err := url.Parse(strings.TrimRight(public, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return place{}, errors.New("it is not http:// or https:// with a host and perhaps a port and a path")
	}
	return newPlace(u.Scheme == "https", u.Host, u.EscapedPath())
}

// place is where the board can reach the server that has reached it just now.
func (d *Discovery) place(r *http.Request) (place, error) {
	if d.public != nil {
		return *d.public, nil
	}
	// A proxy's word is believed without looking who it is: the answer goes to no one
	// but the caller.
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return newPlace(secure, r.Host, "")
}

// newPlace sees to it that boards, which take the first colon for the one before the
// port, find the right one.
func newPlace(secure bool, host, path string) (place, error) {
	p := place{secure: secure, host: host, path: path}
	if strings.Contains(path, ":") && !strings.Contains(host, ":") {
		p.host += map[bool]string{true: ":443", false: ":80"}[secure]
	}
	a, err := wire.ParseSocketURL(p.socket())
	if err != nil {
		return place{}, err
	}
	if strings.ContainsAny(a.Host, "\\\"<>%|^`{}") {
		return place{}, fmt.Errorf("%q is no host", a.Host)
	}
	p.name = a.Host
	return p, nil
}

// socket is the URL of the WebSocket.
func (p place) socket() string {
	scheme := "ws"
	if p.secure {
		scheme = "wss"
	}
	return scheme + "://" + p.host + p.path + SocketPath
}

// file is the URL of something that is fetched.
func (p place) file(path string) string {
	scheme := "http"
	if p.secure {
		scheme = "https"
	}
	return scheme + "://" + p.host + p.path + path
}

// remoteAddress is the other end of a request's connection.
func remoteAddress(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap()
}

// Who says which board makes a request, by its headers, or by the query, which web
// pages have to use. It is false if there is no MAC address, or no client id.
func Who(r *http.Request) (account.DeviceID, bool) { return identify(r, wire.Board{}) }

// identify is Who for a request with a body that says it too.
func identify(r *http.Request, b wire.Board) (account.DeviceID, bool) {
	query := r.URL.Query()
	first := func(check func(string) (string, bool), said ...string) (string, bool) {
		for _, s := range said {
			if good, ok := check(strings.TrimSpace(s)); ok {
				return good, true
			}
		}
		return "", false
	}
	mac, ok1 := first(hardware, r.Header.Get(wire.HeaderDevice), query.Get("device-id"), b.MAC, b.Board.MAC)
	client, ok2 := first(client, r.Header.Get(wire.HeaderClient), query.Get("client-id"), b.UUID)
	return account.DeviceID{Kind: Kind, Hardware: mac, Client: client}, ok1 && ok2
}

// hardware writes a MAC address as boards do: lower case, with colons.
func hardware(s string) (string, bool) {
	if len(s) > len("aa:bb:cc:dd:ee:ff") {
		return "", false
	}
	digits := strings.NewReplacer(":", "", "-", "", "_", "").Replace(strings.ToLower(s))
	if len(digits) != 12 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", false
	}
	var out strings.Builder
	for i := 0; i < len(digits); i += 2 {
		if i > 0 {
			out.WriteByte(':')
		}
		out.WriteString(digits[i : i+2])
	}
	return out.String(), true
}

// client checks a client id. Boards have a UUID and others have anything; here it
// must not be able to end where credentials are put together.
func client(s string) (string, bool) {
	const longest = 64
	if s == "" || len(s) > longest {
		return "", false
	}
	for _, r := range s {
		switch {
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '-', r == '_', r == '.':
		default:
			return "", false
		}
	}
	return s, true
}
