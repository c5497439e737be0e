package tool

import "strings"

// Several upstreams can have resources with the same URI, so the URIs of an upstream have its slug
// in front of what follows the scheme: file:///notes is file://SLUG//notes for callers, and
// ui://clock/app is ui://SLUG/clock/app. The scheme stays, because it tells what the resource is
// for (ui:// is an interface, MCP Apps 2026-01-26). Web addresses stay as they are: callers fetch
// them themselves (2025-11-25 server/resources, "Common URI Schemes"). A URI template is mapped
// like a URI.

// MapURI returns the URI by which callers know a resource of a server.
func MapURI(slug, uri string) string {
	if slug == "" || isWeb(uri) {
		return uri
	}
	head, rest := CutScheme(uri)
	return head + slug + "/" + rest
}

// UnmapURI is the inverse of MapURI. It returns false for a URI of another provider.
func UnmapURI(slug, uri string) (string, bool) {
	if slug == "" || isWeb(uri) {
		return uri, true
	}
	head, rest := CutScheme(uri)
	rest, ok := strings.CutPrefix(rest, slug+"/")
	return head + rest, ok
}

func isWeb(uri string) bool {
	return strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")
}

// CutScheme splits a URI after its scheme, and after the slashes of an authority (RFC 3986 §3).
func CutScheme(uri string) (head, rest string) {
	for i := range len(uri) {
		switch c := uri[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case c == ':' && i > 0:
			if rest, ok := strings.CutPrefix(uri[i+1:], "//"); ok {
				return uri[:i+3], rest
			}
			return uri[:i+1], uri[i+1:]
		default:
			return "", uri
		}
	}
	return "", uri
}
