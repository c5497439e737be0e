package card

import (
	"html"
	"net/url"
	"regexp"
	"strings"
)

// refs matches what may refer to a file of a person's media, in HTML, CSS and Markdown.
var refs = regexp.MustCompile(`(?i)(?:src|poster|data)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))|url\(\s*["']?([^"')]*)["']?\s*\)|` +
	`\[sound:([^\]]*)\]|\]\(<?([^)>]*)>?\)`)

// MediaRefs calls yield with each name of a picture or sound that a text of HTML, CSS or Markdown
// may refer to. It finds too many rather than too few.
func MediaRefs(text string, yield func(name string)) {
	if !strings.ContainsAny(text, "=([") {
		return
	}
	for _, m := range refs.FindAllStringSubmatch(text, -1) {
		for _, ref := range m[1:] {
			if ref = strings.TrimSpace(html.UnescapeString(ref)); ref == "" {
				continue
			}
			yield(ref)
			if plain, err := url.PathUnescape(ref); err == nil && plain != ref {
				yield(plain)
			}
		}
	}
}
