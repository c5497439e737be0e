// Package card makes pages of the cards of notes: it fills the templates of a note type with the
// fields of a note, as Anki does, draws formulas, sounds and covered pictures without a script, and
// cleans what comes out.
//
//	template   Anki's template language; cloze, occlusion its clozes, and shapes on pictures
//	marks      formulas and sounds in a text; tex is formulas as MathML
//	clean      what of the HTML may stay; css what of style sheets
//	card       a card of a note, and its document
//
// Notes are untrusted: they come from packages of strangers. No text costs more than time and
// memory proportional to its size, which is limited.
//
// Comments cite Anki's sources, rslib/, at github.com/ankitects/anki c32cb29 (August 2026).
package card

import (
	"html"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/plug/learn/note"
)

// MediaPath is where pages find the pictures and sounds of the person who is signed in.
const MediaPath = "/learn/media/"

// Card is a card of a note.
type Card struct {
	Type   *note.Type
	Fields []string // HTML
	Ord    int      // which of the note's cards, from 0
	Deck   string   // its name, with "::" between levels
	Tags   []string
	Flag   int // 1 to 7; 0: none
}

// Shown is what both sides of a card show. Everything is clean: nothing runs in it, and nothing is
// loaded but media.
type Shown struct {
	Front, Back string   // HTML for a body
	CSS         string   // style sheet of both
	Media       []string // names of pictures, sounds and fonts, in the order of their use
	Typed       string   // what the person is to type, as text; empty if the card does not ask for it
	Empty       bool     // nothing of the note is in the question
	// FrontMedia and BackMedia are the names of the pictures and sounds of each side, without those
	// of the style. Covered means that shapes lie on a picture of the question.
	FrontMedia, BackMedia []string
	Covered               bool
}

// Render renders both sides of a card. Addresses of media begin with prefix. A card of which the
// type has no template shows the fields of the note. It returns [ErrTooLarge] for cards that make
// too much of their fields.
func Render(c *Card, prefix string) (*Shown, error) {
	front, back := c.templates()
	q := Side{Values: c.values(), Ordinal: c.Ord + 1}
	question, err := q.Render(Parse(front))
	if err != nil {
		return nil, err
	}
	a := Side{Values: q.Values, Ordinal: q.Ordinal, Answer: true, Work: q.Work}
	a.Values["FrontSide"] = question
	answer, err := a.Render(Parse(back))
	if err != nil {
		return nil, err
	}
	out := &Shown{Typed: a.Typed}
	if out.Typed == "" {
		out.Typed = q.Typed
	}
	cq := cleaner{prefix: prefix, shapes: q.shapes}
	out.Front = cq.clean(marks(question))
	ca := cleaner{prefix: prefix, shapes: a.shapes}
	out.Back = ca.clean(marks(answer))
	out.FrontMedia, out.BackMedia, out.Covered = cq.media, ca.media, len(q.shapes) > 0
	cc := cleaner{prefix: prefix, media: slices.Clone(cq.media)}
	for _, name := range ca.media {
		if !slices.Contains(cc.media, name) {
			cc.media = append(cc.media, name)
		}
	}
	out.CSS = cleanCSS(c.css()+"\n"+cq.css.String()+"\n"+ca.css.String(), false, cc.address)
	out.Media = cc.media
	out.Empty = strings.TrimSpace(StripHTML(out.Front)) == "" && !strings.Contains(out.Front, " src=")
	return out, nil
}

// Clean returns a text of HTML, such as a field, as a card shows it.
func Clean(src, prefix string) (out string, media []string) {
	c := cleaner{prefix: prefix}
	out = c.clean(marks(src))
	return out, c.media
}

func (c *Card) css() string {
	if len(c.Type.CSS) > maxSide {
		return ""
	}
	return c.Type.CSS
}

// templates returns the templates of the card's sides.
func (c *Card) templates() (front, back string) {
	at := c.Ord
	if c.Type.Cloze {
		at = 0
	}
	if at >= 0 && at < len(c.Type.Templates) {
		return c.Type.Templates[at].Front, c.Type.Templates[at].Back
	}
	for i, f := range c.Type.Fields {
		if i == 0 {
			front = "{{" + f.Name + "}}"
		} else {
			back += "<div>{{" + f.Name + "}}</div>"
		}
	}
	return front, "{{FrontSide}}<hr id=answer>" + back
}

// values returns the fields by name, with those that every card has
// (rslib/src/notetype/render.rs).
func (c *Card) values() map[string]string {
	deck := c.Deck
	sub := deck[strings.LastIndex(deck, "::")+1:]
	name := ""
	if at := c.Ord; c.Type.Cloze {
		name = "Cloze " + strconv.Itoa(at+1)
	} else if at >= 0 && at < len(c.Type.Templates) {
		name = c.Type.Templates[at].Name
	}
	out := map[string]string{"Tags": html.EscapeString(strings.Join(c.Tags, " ")), "Type": html.EscapeString(c.Type.Name),
		"Deck": html.EscapeString(deck), "Subdeck": html.EscapeString(strings.TrimPrefix(sub, ":")),
		"Card": html.EscapeString(name), "CardFlag": "", "CardID": ""}
	if c.Flag > 0 {
		out["CardFlag"] = "flag" + strconv.Itoa(c.Flag)
	}
	for i, f := range c.Type.Fields {
		if i < len(c.Fields) {
			out[f.Name] = c.Fields[i]
		} else {
			out[f.Name] = ""
		}
	}
	return out
}

// Ords returns which cards a note has: those whose question shows something of a field, or one for
// each number of a cloze.
func Ords(t *note.Type, fields []string) []int {
	if t.Cloze {
		numbers := ClozeNumbers(fields...)
		for i := range numbers {
			numbers[i]--
		}
		return numbers
	}
	var out []int
	for ord := range t.Templates {
		c := Card{Type: t, Fields: fields, Ord: ord}
		full := Side{Values: c.values(), Ordinal: ord + 1}
		blank := Card{Type: t, Ord: ord}
		bare := Side{Values: blank.values(), Ordinal: ord + 1}
		template := Parse(t.Templates[ord].Front)
		with, err1 := full.Render(template)
		without, err2 := bare.Render(template)
		if err1 == nil && err2 == nil && with != without && !IsEmpty(with) {
			out = append(out, ord)
		}
	}
	return out
}
