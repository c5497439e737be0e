package cli

import (
	"encoding/json"
	"strings"
	"time"

	"golang.org/x/text/width"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

// result prints v as JSON if requested, and calls text otherwise.
func (sh *shell) result(v any, text func()) error {
	if !sh.json {
		text()
		return nil
	}
	return sh.writeJSON(v, "  ")
}

// writeJSON prints v as JSON: indented, or on one line for an empty indent.
func (sh *shell) writeJSON(v any, indent string) error {
	e := json.NewEncoder(sh.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// table prints rows under headings, in columns as wide as their widest cell.
func (sh *shell) table(headings []i18n.Message, rows [][]string) {
	head := make([]string, len(headings))
	for i, h := range headings {
		head[i] = h.In(sh.lang)
	}
	sh.grid("", append([][]string{head}, rows...))
}

// grid prints rows in columns as wide as their widest cell, each row after an indent. All rows have
// the same number of cells.
func (sh *shell) grid(indent string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], columns(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		b.WriteString(indent)
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-columns(cell)+2))
			}
		}
		sh.printf("%s\n", strings.TrimRight(b.String(), " "))
	}
}

// columns returns the width of a text in a terminal: Chinese characters take two columns.
func columns(text string) int {
	n := 0
	for _, r := range text {
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			n++
		}
		n++
	}
	return n
}

const msgNever = i18n.Message("never")

// when formats a time in the local time zone; the zero time is never.
func (sh *shell) when(t time.Time) string {
	if t.IsZero() {
		return msgNever.In(sh.lang)
	}
	return t.Local().Format("2006-01-02 15:04")
}

// took formats a duration briefly enough for a column.
func took(d time.Duration) string { return check.Duration(d) }
