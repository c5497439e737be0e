package learn

import (
	"net/http"
	"strconv"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	notecard "patchbay/internal/plug/learn/card"
	"patchbay/internal/problem"
)

// Texts about notes.
const (
	msgNote      = i18n.Message("Note")
	msgNoteTold  = i18n.Message("This point is one of %d cards of a note of the type “%s”. All of them are made from its fields.")
	msgNoteHTML  = i18n.Message("Fields are HTML. Pictures: <img src=\"name.png\">, sounds: [sound:name.mp3], formulas: \\(x^2\\), clozes: {{c1::words::hint}}.")
	msgNoteSaved = i18n.Message("Saved with all cards of the note.")
)

// noteForm is the form of a note's fields.
type noteForm struct {
	*learning.Note
	ID    string
	Wrong string
}

// saveNote saves the fields of the note of a point.
func (p *pages) saveNote(v *page.Visit) {
	d, err := p.draftOf(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if d.Notes == nil {
		v.NotFound()
		return
	}
	if err := v.ParseForm(); err != nil {
		v.Fail(problem.New(problem.Invalid, msgTextTooLong, 1<<10))
		return
	}
	fields := map[string]string{}
	for i, name := range d.Notes.Names() {
		key := "field" + strconv.Itoa(i)
		if !v.Form.Has(key) {
			continue
		}
		fields[name] = v.FormValue(key)
		d.Notes.Fields[i] = fields[name]
	}
	if _, err := p.update(v, d.Entry.ID, learning.Edit{Fields: &fields}); err != nil {
		if text, status := v.Wrong(learnError(err)); text != "" {
			d.Notes.Wrong = text
			v.Render(status, pointPage(v, d))
		}
		return
	}
	v.Redirect(pointPath(d.Entry.ID) + "?saved=note")
}

// previewNote shows the card of a point as it would be with the fields of the form.
func (p *pages) previewNote(v *page.Visit) {
	e, err := p.Points.Get(v.Context(), personID(v), v.PathValue("point"))
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	n, err := p.Points.Note(v.Context(), &e.Point)
	if err != nil || n == nil || v.ParseForm() != nil {
		v.NotFound()
		return
	}
	for i := range n.Fields {
		if key := "field" + strconv.Itoa(i); v.Form.Has(key) {
			n.Fields[i] = v.FormValue(key)
		}
	}
	c := &notecard.Card{Type: n.Type, Fields: n.Fields, Ord: e.Ord, Tags: e.Tags, Flag: e.Flag}
	shown, err := notecard.Render(c, notecard.MediaPath)
	if err != nil {
		http.Error(v.W, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	sendCard(v, &learning.CardView{Shown: shown, Framed: true, Ord: e.Ord}, v.FormValue("side") != "front")
}
