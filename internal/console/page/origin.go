package page

import "strings"

// Origin is where others reach the server, as far as is known: what its settings say,
// or else what the browser called it by.
func (v *Visit) Origin() string {
	if u := v.House.Control.PublicURL; u != "" {
		return strings.TrimRight(u, "/")
	}
	if v.secure() {
		return "https://" + v.Host
	}
	return "http://" + v.Host
}

// Public says whether whoever is far away can reach [Visit.Origin], as far as is known.
func (v *Visit) Public() bool { return strings.HasPrefix(v.House.Control.PublicURL, "https://") }
