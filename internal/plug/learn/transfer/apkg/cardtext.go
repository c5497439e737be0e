package apkg

import (
	"html"
	"strings"

	notecard "patchbay/internal/plug/learn/card"
	notetype "patchbay/internal/plug/learn/note"
)

// CardText returns what a card of a note asks and answers as text, for where there is no page: what
// reading a package makes of it. deck is its name.
func CardText(t *notetype.Type, fields []string, ord int, deck string,
	tags []string) (question, answer string, err error) {
	kind := noteType{cloze: t.Cloze}
	for _, f := range t.Fields {
		kind.fields = append(kind.fields, f.Name)
	}
	for _, m := range t.Templates {
		kind.templates = append(kind.templates, template{notecard.Parse(m.Front), notecard.Parse(m.Back)})
	}
	values := map[string]string{"Tags": html.EscapeString(strings.Join(tags, " ")), "Type": html.EscapeString(t.Name),
		"Deck": html.EscapeString(deck), "Subdeck": html.EscapeString(deck[strings.LastIndex(deck, ":")+1:])}
	return kind.card(fields, ord, values, new(int64))
}
