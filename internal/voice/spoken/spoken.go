// Package spoken makes of an answer what a voice speaks: pieces of some words without markup and
// stage directions, with numbers in words for voices that cannot read them.
package spoken

import (
	"patchbay/internal/i18n"
	"patchbay/internal/plain"
)

// Text makes pieces of an answer that is still being written. It is not safe for concurrent use.
type Text struct {
	clean *plain.Filter
	split plain.Splitter
}

// New returns a text without pieces. Lang is the language of the person. Clauses are shorter
// pieces, for engines that take a text while it is written.
func New(lang i18n.Lang, clauses bool) *Text {
	return &Text{clean: plain.NewFilter(plain.Options{Speech: true, Lang: lang}),
		split: plain.Splitter{Clauses: clauses}}
}

// Write adds to the text and returns the pieces that are complete now. What they are does not
// depend on how the text was divided.
func (t *Text) Write(text string) (pieces []string) {
	return withoutDirections(t.split.Write(t.clean.Write(text)))
}

// Pause returns the whole words so far, for when the text has not grown for a while. It may be
// empty.
func (t *Text) Pause() string { return withoutDirection(t.split.Pause()) }

// Flush ends the text and returns its last pieces.
func (t *Text) Flush() (pieces []string) {
	pieces = t.split.Write(t.clean.Flush())
	if rest := t.split.Flush(); rest != "" {
		pieces = append(pieces, rest)
	}
	return withoutDirections(pieces)
}

// Pieces returns the pieces of a whole text.
func Pieces(text string, lang i18n.Lang) []string {
	t := New(lang, false)
	return append(t.Write(text), t.Flush()...)
}
