package page

import (
	"net/url"
	"strings"

	"patchbay/internal/discovery"
	"patchbay/internal/netx"
	"patchbay/internal/observe"
)

// BaseURL returns the URL by which others reach the server, as far as known: the configured public
// URL, or else the one that the browser used.
func (v *Visit) BaseURL() string {
	if u := v.Instance.Control.PublicURL; u != "" {
		return strings.TrimRight(u, "/")
	}
	if v.isHTTPS() {
		return "https://" + v.Host
	}
	return "http://" + v.Host
}

// IsPublic reports whether [Visit.BaseURL] can be reached from the internet, as far as known.
func (v *Visit) IsPublic() bool { return strings.HasPrefix(v.Instance.Control.PublicURL, "https://") }

// LocalOrigin returns the origin of the page in a browser that has opened it as one of this
// machine; empty for every other browser.
func (v *Visit) LocalOrigin() string {
	switch {
	case !observe.IsLocalHost(v.Request):
		return ""
	case v.TLS != nil:
		return "https://" + v.Host
	}
	return "http://" + v.Host
}

// IsLocal reports whether [Visit.BaseURL] can be opened on the server's own machine alone.
func (v *Visit) IsLocal() bool {
	u, err := url.Parse(v.BaseURL())
	return err == nil && netx.IsLoopback(u.Hostname())
}

// localWarning returns the text of [LocalNote], with an address by which other machines probably
// reach this one.
func (v *Visit) localWarning() string {
	host, port := "192.168.1.5", "80"
	for _, own := range discovery.PrivateAddresses() {
		if !strings.HasPrefix(own, "172.") { // mostly of containers
			host = own
			break
		}
	}
	if u, err := url.Parse(v.BaseURL()); err == nil && u.Port() != "" {
		port = u.Port()
	}
	return v.Text(msgLocalOnly, host, port)
}
