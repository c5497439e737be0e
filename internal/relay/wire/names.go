package wire

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	maxHost  = 253 // RFC 1035, section 2.3.4, as text
	maxLabel = 63  // RFC 1035, section 2.3.4
	// MaxNames bounds the names of a home: the main one and 20 others.
	MaxNames = 21
)

// Canonical returns a host name as homes are found by it: in lower case, without a final dot.
func Canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// IsFullName reports whether a text is the full name of a host, such as relay.example.org, in any
// case.
func IsFullName(name string) bool {
	name = Canonical(name)
	_, err := netip.ParseAddr(name)
	return err != nil && IsHost(name) && strings.Contains(name, ".")
}

// IsHost reports whether a name in lower case consists of labels of letters, digits, dashes and
// underscores.
func IsHost(name string) bool {
	if name == "" || len(name) > maxHost {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "."), func(l string) bool { return !isLabel(l, true) })
}

// IsLabel reports whether a text in lower case is a label of a host name (RFC 1123, section 2.1).
func IsLabel(l string) bool { return isLabel(l, false) }

// isLabel allows underscores if wide: only names of others have them.
func isLabel(l string, wide bool) bool {
	if l == "" || len(l) > maxLabel || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for _, r := range l {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && (!wide || r != '_') {
			return false
		}
	}
	return true
}

// AreNames reports whether a list may be that of a home: 1 to MaxNames full names in canonical
// form. They come from the relay, and become addresses and names of certificates.
func AreNames(names []string) bool {
	return len(names) > 0 && len(names) <= MaxNames && !slices.ContainsFunc(names, func(name string) bool {
		return name != Canonical(name) || !IsFullName(name)
	})
}
