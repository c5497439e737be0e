package test

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// oldWord is a word that was replaced by a standard term.
type oldWord struct {
	stems  string // lower case; a file without any of them is not searched; _ is a space
	match  *regexp.Regexp
	better string
	except []string // files that need the word
}

// oldWords are the words that Go files and templates must not use again.
var oldWords = []oldWord{
	// Identifiers.
	{stems: "door", match: regexp.MustCompile(`\bDoors?[A-Z]\w*|[a-z]Doors?\b`), better: "channel, handler"},
	{stems: "outlet", match: regexp.MustCompile(`Outlet`), better: "ProviderRef"},
	{stems: "glance", match: regexp.MustCompile(`Glance|/glance\b`), better: "Overview"},
	{stems: "trouble", match: regexp.MustCompile(`Trouble`), better: "ConnectionError, Problem"},
	{stems: "house", match: regexp.MustCompile(`\bhouse[A-Z]|House[A-Z]`), better: "instance"},
	{stems: "keeping", match: regexp.MustCompile(`\bKeeping([A-Z]\w*)?\b`), better: "RetentionPolicy"},
	{stems: "act", match: regexp.MustCompile(`\bAct[A-Z]\w*|\b(note|record)Act\b`), better: "AdminEvent"},
	{stems: "hungup stumble errand knack promptbook",
		match: regexp.MustCompile(`(?i)hungup|stumble|errand|knack|promptbook`), better: "a standard term"},
	{stems: "hush farewell parcel", match: regexp.MustCompile(`(?i)\b(hush|farewell|parcels?)\b`),
		better: "stopPlayback, leave, frame",
		except: []string{"internal/cli/device_alert.go"}}, // what a board shows
	// Comments and texts.
	{stems: "door outlet", match: regexp.MustCompile(`(?i)\b(doors?|outlets?)\b`),
		better: "channel, endpoint, handler, provider",
		except: []string{
			// Columns under their first names, with which old rows were hashed.
			"internal/store/audit.go", "internal/store/audit_digest_test.go",
			// Tools of a real door.
			"internal/hub/inventory_test.go", "internal/hub/many_test.go", "internal/plug/mcp/cloud_test.go",
		}},
	{stems: "whether", match: regexp.MustCompile(`(?i)\bsays? whether\b`), better: "reports whether"},
	{stems: "of_life", match: regexp.MustCompile(`(?i)\bsigns? of life\b`), better: "heartbeat"},
	{stems: "hung_up hangs_up", match: regexp.MustCompile(`(?i)\b(hung|hangs) up\b`), better: "disconnected"},
	{stems: "upon whence thither save_for", match: regexp.MustCompile(`(?i)\b(where|t?here)upon\b|\bwhence\b|\bthither\b|\bsave for\b`),
		better: "then, from which, except"},
	{stems: "glance knock", match: regexp.MustCompile(`(?i)\bat a glance\b|\bknocks? at\b`), better: "overview, probe"},
}

// TestOldWords checks that words which were replaced do not come back. Generated files and
// migrations, which are never edited, are not searched.
func TestOldWords(t *testing.T) {
	for _, ending := range []string{".go", ".templ"} {
		walk(t, ending, func(file, text string) {
			if file == "test/oldwords_test.go" || strings.HasSuffix(file, "_templ.go") {
				return
			}
			lower := strings.ToLower(text)
			for _, w := range oldWords {
				absent := !slices.ContainsFunc(strings.Fields(w.stems), func(s string) bool {
					return strings.Contains(lower, strings.ReplaceAll(s, "_", " "))
				})
				if absent || slices.Contains(w.except, file) {
					continue
				}
				for _, at := range w.match.FindAllStringIndex(text, -1) {
					t.Errorf("%s:%d: %q; write %s", file, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], w.better)
				}
			}
		})
	}
}

// Widths of lines, in columns; a tab counts as four.
const (
	codeWidth    = 120
	commentWidth = 100
	tabWidth     = 4
)

// unwrappable matches comments that cannot be wrapped.
var unwrappable = regexp.MustCompile(`https?://|^//(go:|nolint|[\w-]+:)|^// +\S+$`)

// TestLineWidth checks that code and comments fit into a window. Strings are data and may be
// longer.
func TestLineWidth(t *testing.T) {
	walk(t, ".go", func(file, text string) {
		if strings.HasSuffix(file, "_templ.go") || path.Base(file) == "notices.go" {
			return
		}
		wide := wideLines(text)
		if len(wide) == 0 {
			return
		}
		lines := strings.Split(text, "\n")
		for line := range dataLines(t, text) {
			delete(wide, line)
		}
		for line, width := range wide {
			s := strings.TrimSpace(lines[line-1])
			if strings.Contains(s, "//nolint:") || unwrappable.MatchString(s) {
				continue
			}
			t.Errorf("%s:%d is %d columns wide", file, line, width)
		}
	})
}

// wideLines returns the lines that are too wide, with their widths.
func wideLines(text string) map[int]int {
	wide := map[int]int{}
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimRight(s, "\n")
		width := utf8.RuneCountInString(s) + (tabWidth-1)*strings.Count(s, "\t")
		limit := codeWidth
		if strings.HasPrefix(strings.TrimSpace(s), "//") {
			limit = commentWidth
		}
		if width > limit {
			wide[line] = width
		}
	}
	return wide
}

// dataLines returns the lines which strings occupy.
func dataLines(t *testing.T, text string) map[int]bool {
	t.Helper()
	fset := token.NewFileSet()
	if _, err := parser.ParseFile(fset, "", text, parser.PackageClauseOnly); err != nil {
		t.Fatal(err)
	}
	file := fset.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	lines := map[int]bool{}
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return lines
		}
		if kind == token.STRING {
			first := file.Line(pos)
			for i := range 1 + strings.Count(literal, "\n") {
				lines[first+i] = true
			}
		}
	}
}
