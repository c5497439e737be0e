// Package licenses has the copyright notices of everything that is linked into the program
// or embedded in it. Its test collects them from the sources, and fails for a module without
// a licence.
package licenses

import (
	_ "embed"
	"strings"
)

// Notices is plain text: for each licence text the names of what it covers, one on a line, and
// the text.
//
//go:embed notices.txt
var Notices string

// rule is the line above each notice.
var rule = strings.Repeat("=", 80) + "\n"

// Notice is one licence text.
type Notice struct {
	Names []string // of what it covers: modules with their versions, "example.org/module v1.2.3", and others
	Text  string
}

// List returns the parts of Notices.
func List() []Notice {
	var list []Notice
	for part := range strings.SplitSeq(strings.TrimPrefix(Notices, rule), rule) {
		names, text, _ := strings.Cut(part, "\n\n")
		list = append(list, Notice{strings.Split(names, "\n"), strings.TrimSpace(text)})
	}
	return list
}
