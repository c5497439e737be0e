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

// serverURL is the address at which boards reach the server.
type serverURL struct {
	secure bool
	host   string // with the port, unless it is the default
	name   string // the host without the port
	path   string // prefix of all paths; no slash at the end
}

// CheckPublicURL returns an error if boards cannot use the server's public URL: they do not support
// IPv6, for example.
func CheckPublicURL(public string) error {
	_, err := parsePublicURL(public)
	return err
}

// parsePublicURL parses the server's public URL.
func parsePublicURL(public string) (serverURL, error) {
	u, err := url.Parse(strings.TrimRight(public, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return serverURL{}, errors.New("it is not http:// or https:// with a host and perhaps a port and a path")
	}
	return newServerURL(u.Scheme == "https", u.Host, u.EscapedPath())
}

// serverURL returns the address by which a board can reach the server that received its request.
func (d *Discovery) serverURL(r *http.Request) (serverURL, error) {
	if d.publicURL != nil {
		return *d.publicURL, nil
	}
	// X-Forwarded-Proto is trusted from any sender: only the sender gets the response.
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return newServerURL(secure, r.Host, "")
}

// newServerURL makes a URL that boards parse correctly: they take the first colon after :// for the
// port separator (esp-ml307 src/web_socket.cc, WebSocket::Connect), so a path with a colon needs an
// explicit port.
func newServerURL(secure bool, host, path string) (serverURL, error) {
	p := serverURL{secure: secure, host: host, path: path}
	if strings.Contains(path, ":") && !strings.Contains(host, ":") {
		p.host += map[bool]string{true: ":443", false: ":80"}[secure]
	}
	a, err := wire.ParseSocketURL(p.webSocket())
	if err != nil {
		return serverURL{}, err
	}
	if strings.ContainsAny(a.Host, "\\\"<>%|^`{}") {
		return serverURL{}, fmt.Errorf("%q is no host", a.Host)
	}
	p.name = a.Host
	return p, nil
}

// webSocket returns the URL of the WebSocket.
func (p serverURL) webSocket() string {
	scheme := "ws"
	if p.secure {
		scheme = "wss"
	}
	return scheme + "://" + p.host + p.path + SocketPath
}

// file returns the HTTP URL of a path.
func (p serverURL) file(path string) string {
	scheme := "http"
	if p.secure {
		scheme = "https"
	}
	return scheme + "://" + p.host + p.path + path
}

// remoteAddress returns the address of a request's peer.
func remoteAddress(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap()
}

// DeviceFromRequest returns the board that makes a request, from its headers, or from the query,
// which web pages have to use. It returns false if the MAC address or the client id is missing or
// invalid.
func DeviceFromRequest(r *http.Request) (account.DeviceID, bool) {
	return identifyDevice(r, wire.OTARequest{})
}

// identifyDevice is DeviceFromRequest for a request whose body may name the board too.
func identifyDevice(r *http.Request, b wire.OTARequest) (account.DeviceID, bool) {
	query := r.URL.Query()
	first := func(check func(string) (string, bool), said ...string) (string, bool) {
		for _, s := range said {
			if good, ok := check(strings.TrimSpace(s)); ok {
				return good, true
			}
		}
		return "", false
	}
	mac, ok1 := first(normalizeMAC, r.Header.Get(wire.HeaderDevice), query.Get("device-id"), b.MAC, b.Board.MAC)
	client, ok2 := first(checkClientID, r.Header.Get(wire.HeaderClient), query.Get("client-id"), b.UUID)
	return account.DeviceID{Kind: Kind, Hardware: mac, Client: client}, ok1 && ok2
}

// normalizeMAC writes a MAC address as boards do: lower case, with colons.
func normalizeMAC(s string) (string, bool) {
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

// checkClientID checks a client id. Boards have a UUID, other clients any text. The allowed
// characters exclude the separators in credentials.
func checkClientID(s string) (string, bool) {
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
