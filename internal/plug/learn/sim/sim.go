// Package sim simulates a learner: it writes a package of Anki with notes of several types,
// pictures, sounds, formulas and clozes, and with the log of months of reviews. Everything is made
// here, and the same options always give the same notes and reviews. It is for tests, the demo and
// benchmarks.
package sim

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// Options say for whom the package is.
type Options struct {
	Lang i18n.Lang // of the learner
	Now  time.Time
	Zone *time.Location // of the learner's calendar
	// DayStart is when the learner's day begins, after midnight.
	DayStart time.Duration
}

// Contents is what a package has.
type Contents struct {
	Poem, Words, Flags, Ear, Formulas string // names of its decks
	Cards, Due, Fresh                 int    // all, those that are due today, those that were never reviewed
	Reviews, Media                    int
	Readings                          map[string]string // answers about the words, by questions
}

// Write writes the package. Three cards of the poem and some of the words are due today, which need
// neither a picture nor a sound.
func Write(w io.Writer, o Options) (Contents, error) {
	d := &deck{o: o, media: map[string][]byte{}}
	d.Readings = map[string]string{}
	d.Poem, d.Words, d.Flags = poemDeck.in(o.Lang), wordsDeck.in(o.Lang), flagsDeck.in(o.Lang)
	d.Ear, d.Formulas = earDeck.in(o.Lang), formulasDeck.in(o.Lang)
	for _, add := range []func() error{d.addPoem, d.addWords, d.addFlags, d.addIntervals, d.addFormulas} {
		if err := add(); err != nil {
			return d.Contents, err
		}
	}
	d.Cards, d.Media = len(d.items), len(d.media)
	return d.Contents, d.write(w)
}

// deck is a package in the making.
type deck struct {
	Contents
	o     Options
	types []store.NoteType
	items []transfer.Item
	media map[string][]byte
}

// addType adds a note type. Its id is the place among the types, from 1.
func (d *deck) addType(t note.Type, fields ...string) error {
	t.ID = firstType + int64(len(d.types))
	for _, f := range fields {
		t.Fields = append(t.Fields, note.Field{Name: f, Font: "Arial", Size: 20})
	}
	text, err := t.JSON()
	if err != nil {
		return err
	}
	d.types = append(d.types, store.NoteType{Origin: t.Origin(), Name: t.Name, Model: text, Updated: d.o.Now})
	return nil
}

// firstType is the id of the first note type: milliseconds since 1970, as Anki has it.
const firstType = 1_700_000_000_000

// addNote adds a note of the newest type, with a card for each history.
func (d *deck) addNote(deckName, tag string, histories []history, fields ...string) error {
	kind := d.types[len(d.types)-1]
	guid := fmt.Sprintf("patchbay-demo-%d", len(d.items))
	created := d.o.Now.AddDate(-1, 0, 0).Add(time.Duration(len(d.items)) * time.Minute)
	n := &transfer.Note{GUID: guid, Type: kind.Origin, Fields: fields, Updated: created}
	for ord, h := range histories {
		it := transfer.Item{Deck: deckName, Note: n, Ord: ord, Tags: []string{tag}, InPlan: true, Created: created,
			Updated: created}
		if err := d.learn(&it, h, int64(len(d.items))); err != nil {
			return err
		}
		d.items = append(d.items, it)
	}
	return nil
}

// write writes the package.
func (d *deck) write(w io.Writer) error {
	var names []string
	for name := range d.media {
		names = append(names, name)
	}
	slices.Sort(names)
	out, err := transfer.NewWriter(transfer.Anki, w, transfer.WriteOptions{Zone: d.o.Zone, DayStart: d.o.DayStart,
		Now: d.o.Now, Types: d.types, Media: func(put func(string, io.Reader) error) error {
			for _, name := range names {
				if err := put(name, bytes.NewReader(d.media[name])); err != nil {
					return err
				}
			}
			return nil
		}})
	if err != nil {
		return err
	}
	for _, it := range d.items {
		if err := out.Write(it); err != nil {
			out.Close() //nolint:errcheck // the first error counts
			return err
		}
	}
	return out.Close()
}

// words is a text in the languages of the demo.
type words struct{ en, zh, ja string }

func (w words) in(l i18n.Lang) string {
	switch l {
	case i18n.Chinese:
		return w.zh
	case "ja":
		return w.ja
	}
	return w.en
}

// picture returns the HTML of a picture, and sound the reference to a sound.
func picture(name string) string { return `<img src="` + name + `">` }
func sound(name string) string   { return "[sound:" + name + "]" }

// backWith makes the back of a card from its front and what is below.
func backWith(below ...string) string {
	return "{{FrontSide}}<hr id=answer>" + strings.Join(below, "<br>")
}
