package page

import (
	"regexp"
	"strings"
)

// manualPages says which page of the manual tells about the pages below a path, and which of its
// sections, by the anchor that the heading has in English. The longest path counts; * is a number.
var manualPages = map[string]struct{ page, anchor string }{
	"/":                  {"console", ""},
	"/guide":             {"console", ""},
	"/find":              {"console", ""},
	"/guide/glasses":     {"start-glasses", ""},
	"/guide/board":       {"start-board", ""},
	"/guide/agent":       {"openclaw", ""},
	"/guide/program":     {"start-programs", ""},
	"/talk":              {"voice", ""},
	"/bots":              {"bots", ""},
	"/bots/*/bind":       {"binding", ""},
	"/bots/*/glasses":    {"start-glasses", ""},
	"/devices":           {"boards", ""},
	"/gateway":           {"openclaw", ""},
	"/tools":             {"tools", ""},
	"/tools/sets":        {"programs", "few-tools-in-view"},
	"/keys":              {"security", ""},
	"/learn":             {"learn", "in-a-browser"},
	"/learn/settings":    {"learn", "settings"},
	"/learn/decks":       {"learn", "settings"},
	"/learn/import":      {"learn", "files-in-and-out"},
	"/learn/export":      {"learn", "files-in-and-out"},
	"/activity":          {"operating", ""},
	"/settings":          {"console", ""},
	"/settings/backup":   {"operating", ""},
	"/settings/people":   {"people", ""},
	"/settings/passkeys": {"security", ""},
	"/settings/voice":    {"voice", ""},
	"/docs":              {"", ""},
}

var numbers = regexp.MustCompile(`/[0-9]+`)

// ManualAddress returns where the manual tells about the visited page.
func (v *Visit) ManualAddress() string {
	path := numbers.ReplaceAllString(v.URL.Path, "/*")
	for {
		if p, ok := manualPages[path]; ok {
			address := "/docs/" + p.page
			if p.anchor != "" {
				address += "?at=" + p.anchor
			}
			return strings.TrimSuffix(address, "/")
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
		if path == "" {
			return "/docs"
		}
	}
}
