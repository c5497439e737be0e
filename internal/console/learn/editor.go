package learn

import (
	"net/http"
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	notecard "patchbay/internal/plug/learn/card"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// tagsMost is the maximum number of tags of a point, and tagMost the maximum length of each in
// bytes, as in the service.
const tagsMost, tagMost = 20, 100

// historyMost is how many entries of a point's history are shown.
const historyMost = 100

// draft is the form of a point.
type draft struct {
	Learner                *learning.Learner
	Entry                  *learning.Entry // nil means a new one
	Question, Answer, Tags string
	Deck                   string // as in URLs
	NewDeck                string
	InPlan, Suspended      bool
	Back                   string // where the browser goes after saving
	Wrong                  string
	Note                   string
	Log                    []store.LogEntry // newest first
	Undone                 map[string]bool
	Notes                  *noteForm // nil unless the point is a card of a note
}

// newPoint shows the form for a new point.
func (p *pages) newPoint(v *page.Visit) {
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	d := &draft{Learner: l, Deck: v.FormValue("deck"), Tags: v.FormValue("tags"), InPlan: true}
	if d.Deck == "" {
		d.Deck = learning.DefaultDeck
	}
	if v.FormValue("added") != "" {
		d.Note = v.Text(msgAdded)
	}
	v.Render(ok, newPage(v, d))
}

// readForm reads the submitted form.
func (d *draft) readForm(v *page.Visit) {
	d.Question, d.Answer, d.Tags = v.FormValue("question"), v.FormValue("answer"), v.FormValue("tags")
	d.Deck, d.NewDeck = v.FormValue("deck"), strings.TrimSpace(v.FormValue("newdeck"))
	d.InPlan, d.Suspended = v.FormValue("plan") != "", v.FormValue("rest") != ""
	d.Back = returnPath(v)
}

// returnPath returns where the browser goes afterwards; empty means that it stays.
func returnPath(v *page.Visit) string {
	if back := v.FormValue("back"); back != "" {
		return page.LocalPath(back)
	}
	return ""
}

// missing returns an error about a required field that is empty.
func (d *draft) missing(v *page.Visit) string {
	switch {
	case strings.TrimSpace(d.Question) == "":
		return v.Text(msgNeedQuestion)
	case strings.TrimSpace(d.Answer) == "" && (d.Entry != nil || len(notecard.ClozeNumbers(d.Question)) == 0):
		return v.Text(msgNeedAnswer)
	case len(d.Question) > learning.MaxText || len(d.Answer) > learning.MaxText:
		return v.Text(msgTextTooLong, learning.MaxText>>10)
	case len(d.NewDeck) > nameMost:
		return v.Text(msgNameTooLong)
	}
	tags := tagsOf(d.Tags)
	if len(tags) > tagsMost || slices.ContainsFunc(tags,
		func(tag string) bool { return len(strings.TrimSpace(tag)) > tagMost }) {
		return v.Text(msgTooManyTags, tagsMost, tagMost)
	}
	return ""
}

// deck returns the name or ID of the chosen deck.
func (d *draft) deck() string {
	if d.NewDeck != "" {
		return d.NewDeck
	}
	return d.Deck
}

// addPoint adds a point.
func (p *pages) addPoint(v *page.Visit) {
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	d := &draft{Learner: l}
	d.readForm(v)
	again := func(status int, wrong string) {
		d.Wrong = wrong
		v.Render(status, newPage(v, d))
	}
	if wrong := d.missing(v); wrong != "" {
		again(http.StatusUnprocessableEntity, wrong)
		return
	}
	if _, known := l.DeckID(d.Deck); !known && d.NewDeck == "" {
		again(http.StatusUnprocessableEntity, v.Text(msgNoDeck))
		return
	}
	var made []learning.CreateResult
	err = changeAudited(v, "create_knowledge_point", control.NewLearnPoint{Question: d.Question, Answer: d.Answer,
		Deck: d.deck(), Tags: tagsOf(d.Tags), InPlan: &d.InPlan}, func() (err error) {
		made, err = p.Points.Create(v.Context(), personID(v),
			[]learning.Draft{{Question: d.Question, Answer: d.Answer, Deck: d.deck(), Tags: tagsOf(d.Tags),
				Unplanned: !d.InPlan}})
		if err == nil {
			err = made[0].Err
		}
		return err
	})
	if err != nil {
		if text, status := v.Wrong(learnError(err)); text != "" {
			again(status, text)
		}
		return
	}
	if v.FormValue("then") == "more" {
		v.Redirect("/learn/points/new?" + query("deck", deckParam(made[0].Entry.Deck)) + "&" + query("tags", d.Tags) +
			"&added=1")
		return
	}
	v.Redirect(pointPath(made[0].Entry.ID))
}

// preview shows the rendered text of the form.
func (p *pages) preview(v *page.Visit) {
	v.Render(ok, previewed(v, v.FormValue("question"), v.FormValue("answer")))
}

// point shows the form of a point.
func (p *pages) point(v *page.Visit) {
	d, err := p.draftOf(v)
	if err != nil {
		v.Fail(err)
		return
	}
	d.Back = returnPath(v)
	switch {
	case v.FormValue("saved") == "note":
		d.Note = v.Text(msgNoteSaved)
	case v.FormValue("saved") != "":
		d.Note = v.Text(msgSaved)
	case v.FormValue("back-again") != "":
		d.Note = v.Text(msgRestored)
	}
	v.Render(ok, pointPage(v, d))
}

// draftOf loads the point that the path names.
func (p *pages) draftOf(v *page.Visit) (*draft, error) {
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		return nil, err
	}
	e, err := p.Points.Get(v.Context(), personID(v), v.PathValue("point"))
	if err != nil {
		return nil, learnError(err)
	}
	d := &draft{
		Learner: l, Entry: e, Question: e.Question, Answer: e.Answer, Tags: strings.Join(e.Tags, ", "),
		Deck: deckParam(e.Deck), InPlan: e.InPlan, Suspended: e.Suspended,
		Undone: map[string]bool{},
	}
	n, err := p.Points.Note(v.Context(), &e.Point)
	if err != nil {
		return nil, err
	}
	if n != nil {
		d.Notes = &noteForm{Note: n, ID: e.ID}
	}
	// The history of a point is short: reviews are days apart.
	if d.Log, err = p.Points.Log(v.Context(), personID(v), e); err != nil {
		return nil, err
	}
	slices.Reverse(d.Log)
	for _, entry := range d.Log {
		d.Undone[entry.Undoes] = true
	}
	d.Log = d.Log[:min(len(d.Log), historyMost)]
	return d, nil
}

// savePoint saves a point.
func (p *pages) savePoint(v *page.Visit) {
	d, err := p.draftOf(v)
	if err != nil {
		v.Fail(err)
		return
	}
	question, answer := d.Question, d.Answer
	d.readForm(v)
	if d.Notes != nil { // its texts come from the fields of the note
		d.Question, d.Answer = question, answer
	}
	again := func(status int, wrong string) {
		d.Wrong = wrong
		v.Render(status, pointPage(v, d))
	}
	if wrong := d.missing(v); wrong != "" {
		again(http.StatusUnprocessableEntity, wrong)
		return
	}
	if _, known := d.Learner.DeckID(d.Deck); !known && d.NewDeck == "" {
		again(http.StatusUnprocessableEntity, v.Text(msgNoDeck))
		return
	}
	deck, tags := d.deck(), tagsOf(d.Tags)
	_, err = p.update(v, d.Entry.ID, learning.Edit{
		Question: &d.Question, Answer: &d.Answer, Deck: &deck, Tags: &tags, InPlan: &d.InPlan, Suspended: &d.Suspended,
	})
	if err != nil {
		if text, status := v.Wrong(learnError(err)); text != "" {
			again(status, text)
		}
		return
	}
	if d.Back != "" {
		v.Redirect(d.Back)
		return
	}
	v.Redirect(pointPath(d.Entry.ID) + "?saved=1")
}

// update changes a point.
func (p *pages) update(v *page.Visit, id string, edit learning.Edit) (e *learning.Entry, err error) {
	err = changeAudited(v, "update_knowledge_point", control.LearnArgs{ID: id, Edit: &edit}, func() (err error) {
		e, err = p.Points.Update(v.Context(), personID(v), id, edit)
		return err
	})
	return e, err
}

// postpone makes a point due on a date.
func (p *pages) postpone(v *page.Visit, id string, day store.Day) error {
	return changeAudited(v, "reschedule_knowledge_points", control.LearnMoved{IDs: []string{id}, Date: day},
		func() error {
			_, err := p.Points.Reschedule(v.Context(), personID(v), id, day, channel)
			return err
		})
}

// reschedule changes the due date of a point.
func (p *pages) reschedule(v *page.Visit) {
	d, err := p.draftOf(v)
	if err != nil {
		v.Fail(err)
		return
	}
	day, err := store.ParseDay(v.FormValue("due"))
	if err != nil || day < d.Learner.Today || day > d.Learner.Today+36500 {
		d.Wrong = v.Text(msgBadDay, d.Learner.Today.String())
		v.Render(http.StatusUnprocessableEntity, pointPage(v, d))
		return
	}
	if err := p.postpone(v, d.Entry.ID, day); err != nil {
		v.Fail(learnError(err))
		return
	}
	v.Redirect(pointPath(d.Entry.ID) + "?saved=1")
}

// confirmPoint confirms a draft.
func (p *pages) confirmPoint(v *page.Visit) {
	no := false
	if _, err := p.update(v, v.PathValue("point"), learning.Edit{Draft: &no}); err != nil {
		v.Fail(learnError(err))
		return
	}
	v.Redirect(pointPath(v.PathValue("point")) + "?saved=1")
}

// deletePoint moves a point to the trash.
func (p *pages) deletePoint(v *page.Visit) {
	id := v.PathValue("point")
	err := changeAudited(v, "delete_knowledge_point", control.LearnArgs{ID: id},
		func() error { return p.Points.Delete(v.Context(), personID(v), id) })
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	if back := returnPath(v); back != "" {
		v.Redirect(back)
		return
	}
	v.Redirect("/learn/points?" + query("gone", id))
}

// restorePoint moves a point out of the trash.
func (p *pages) restorePoint(v *page.Visit) {
	id := v.PathValue("point")
	err := changeAudited(v, "restore_knowledge_point", control.LearnArgs{ID: id}, func() error {
		_, err := p.Points.Restore(v.Context(), personID(v), id)
		return err
	})
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	v.Redirect(pointPath(id) + "?back-again=1")
}

// kindText returns the name of a history entry's kind.
func kindText(v *page.Visit, e *store.LogEntry) string {
	switch e.Kind {
	case store.LogUndo:
		return v.Text(msgWasUndone)
	case store.LogReschedule:
		return v.Text(msgWasMoved)
	}
	return gradeName(v, e.Grade)
}

var errNoRoom = problem.New(problem.RateLimited, msgImportBusy)
