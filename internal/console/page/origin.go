package page

import "strings"

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
