package apkg

import (
	"encoding/json"
	"html"
	"io"
	"strings"
)

// NoteRow is a row of notes. Its JSON has the columns that are not zero, by their names.
type NoteRow struct {
	ID       int64    `json:"id"`
	GUID     string   `json:"guid,omitempty"`
	Type     int64    `json:"mid"`
	Modified int64    `json:"mod"` // seconds since 1970
	USN      int64    `json:"usn,omitempty"`
	Tags     string   `json:"tags,omitempty"` // separated by spaces
	Fields   []string `json:"-"`              // HTML
	// Sort is the text by which the note is sorted; empty: its first field.
	Sort string `json:"sfld,omitempty"`
	// Checksum is that of the first field, as [NoteRow.Refresh] computes it.
	Checksum int64  `json:"csum,omitempty"`
	Flags    int64  `json:"flags,omitempty"`
	Data     string `json:"data,omitempty"`
}

// Refresh sets what depends on the fields, after they were changed.
func (n *NoteRow) Refresh() {
	n.Sort, n.Checksum = "", 0
	if len(n.Fields) > 0 {
		text := stripHTML(n.Fields[0])
		n.Sort, n.Checksum = text, checksum(text)
	}
}

// CardRow is a row of cards. Its JSON is as that of [NoteRow].
type CardRow struct {
	ID       int64  `json:"id"`
	Note     int64  `json:"nid"`
	Deck     int64  `json:"did"`
	Order    int64  `json:"ord,omitempty"`
	Modified int64  `json:"mod,omitempty"`
	USN      int64  `json:"usn,omitempty"`
	Type     int64  `json:"type,omitempty"`
	Queue    int64  `json:"queue,omitempty"`
	Due      int64  `json:"due,omitempty"`
	Interval int64  `json:"ivl,omitempty"`
	Factor   int64  `json:"factor,omitempty"`
	Reps     int64  `json:"reps,omitempty"`
	Lapses   int64  `json:"lapses,omitempty"`
	Left     int64  `json:"left,omitempty"`
	HomeDue  int64  `json:"odue,omitempty"`
	HomeDeck int64  `json:"odid,omitempty"`
	Flags    int64  `json:"flags,omitempty"`
	Data     string `json:"data,omitempty"`
}

// LogRow is a row of revlog. Its JSON is as that of [NoteRow].
type LogRow struct {
	ID       int64 `json:"id"` // milliseconds since 1970
	Card     int64 `json:"cid"`
	USN      int64 `json:"usn,omitempty"`
	Ease     int64 `json:"ease,omitempty"`
	Interval int64 `json:"ivl,omitempty"`
	Last     int64 `json:"lastIvl,omitempty"`
	Factor   int64 `json:"factor,omitempty"`
	Took     int64 `json:"time,omitempty"` // milliseconds
	Kind     int64 `json:"type,omitempty"`
}

// Part is a note type, a deck, or a set of deck options, with its JSON in the form of schema 11.
type Part struct {
	ID   int64
	Name string // of a deck with "::" between its levels
	JSON json.RawMessage
}

// Media is a picture or sound of a package.
type Media struct {
	Name string // as the fields refer to it
	Size int64  // bytes; −1: unknown
	// Open opens its content, which the archive may claim to be of any size.
	Open func() (io.ReadCloser, error)
}

// Contents is what a package has beside its notes and cards.
type Contents struct {
	Types, Decks, Options []Part
	Media                 []Media
	// Created is when the collection was made, in seconds since 1970, and Day the date from which
	// due dates are counted, in days since 1970.
	Created, Day int64
	Config       json.RawMessage // of the collection, as in schema 11
	// Orphans belong to no card.
	Orphans Orphans
}

// stripHTML removes tags and keeps the names of pictures and sounds, as the column sfld has it
// (rslib/src/text.rs, strip_html_preserving_media_filenames).
func stripHTML(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "<")
		b.WriteString(before)
		tag, after, closed := strings.Cut(rest, ">")
		if !found || !closed {
			break
		}
		if len(tag) > 3 && strings.EqualFold(tag[:3], "img") {
			if _, name, ok := strings.Cut(tag, "src="); ok {
				b.WriteString(" " + imageName(name) + " ")
			}
		}
		s = after
	}
	return unescape(b.String())
}

// imageName returns the value of an attribute that begins here.
func imageName(s string) string {
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		name, _, _ := strings.Cut(s[1:], s[:1])
		return name
	}
	name, _, _ := strings.Cut(s, " ")
	return name
}

// unescape replaces entities of HTML.
func unescape(s string) string { return strings.ReplaceAll(html.UnescapeString(s), "\u00a0", " ") }
