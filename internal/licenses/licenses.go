// Package licenses has the copyright notices of everything that is linked into the program
// or embedded in it. Its test collects them from the sources, and fails for a module without
// a licence.
package licenses

import _ "embed"

// Notices is plain text: for each licence text the names of what it covers, one on a line, and
// the text.
//
//go:embed notices.txt
var Notices string
