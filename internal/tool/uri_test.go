package tool

import (
	"strings"
	"testing"
)

func TestMapURI(t *testing.T) {
	for _, c := range []struct{ uri, mapped string }{
		{"test://static-text", "test://up/static-text"}, {"file:///home/a b", "file://up//home/a b"},
		{"ui://clock/app.html", "ui://up/clock/app.html"}, {"urn:isbn:1", "urn:up/isbn:1"},
		{"test://template/{id}/data", "test://up/template/{id}/data"}, {"{+path}", "up/{+path}"}, {"notes", "up/notes"},
		{"https://example.com/x", "https://example.com/x"}, {"1:x", "up/1:x"}, {"", "up/"}, {":x", "up/:x"},
	} {
		if got := MapURI("up", c.uri); got != c.mapped {
			t.Errorf("%s is %s, want %s", c.uri, got, c.mapped)
		}
		if got, ok := UnmapURI("up", c.mapped); got != c.uri || !ok {
			t.Errorf("%s is %s again, %v", c.mapped, got, ok)
		}
		if got, ok := UnmapURI("up", MapURI("other", c.uri)); ok && got != "https://example.com/x" {
			t.Errorf("%s of another is %s", c.uri, got)
		}
		if MapURI("", c.uri) != c.uri {
			t.Errorf("%s is mapped without a slug", c.uri)
		}
	}
}

func FuzzMapURI(f *testing.F) {
	f.Add("up", "test://a")
	f.Add("a-b", "x:up/y")
	f.Fuzz(func(t *testing.T, slug, uri string) {
		if strings.Trim(slug, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return // no slug, see hub.CheckSlug
		}
		if got, ok := UnmapURI(slug, MapURI(slug, uri)); got != uri || !ok {
			t.Errorf("%q is %q", uri, got)
		}
	})
}
