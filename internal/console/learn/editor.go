package learn

import (
	"net/http"
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// tagsMost bounds the tags of a point, and tagMost the bytes of each, as the service does.
const tagsMost, tagMost = 20, 100

// historyMost is how many entries of a point's history a page shows.
const historyMost = 100

// draft is a point as its form has it.
type draft struct {
	Learner                *learning.Learner
	Entry                  *learning.Entry // nil: a new one
	Question, Answer, Tags string
	Deck                   string // as addresses name it
	NewDeck                string
	InPlan, Suspended      bool
	Back                   string // where the browser goes after it is saved
	Wrong                  string
	Note                   string
	Log                    []store.LogEntry // newest first
	Undone                 map[string]bool
}

// newPoint asks for a point.
func (p *pages) newPoint(v *page.Visit) {
	l, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		v.Fail(err)
		return
	}
	d := &draft{Learner: l, Deck: v.FormValue("deck"), Tags: v.FormValue("tags"), InPlan: true}
	if d.Deck == "" {
		d.Deck = learning.DefaultDeck
	}
	if v.FormValue("added") != "" {
		d.Note = v.Say(sayAdded)
	}
	v.Show(ok, newPage(v, d))
}

// typed reads what was typed into the form.
func (d *draft) typed(v *page.Visit) {
	d.Question, d.Answer, d.Tags = v.FormValue("question"), v.FormValue("answer"), v.FormValue("tags")
	d.Deck, d.NewDeck = v.FormValue("deck"), strings.TrimSpace(v.FormValue("newdeck"))
	d.InPlan, d.Suspended = v.FormValue("plan") != "", v.FormValue("rest") != ""
	d.Back = backOf(v)
}

// backOf is where a browser goes on after it; empty: it stays.
func backOf(v *page.Visit) string {
	if back := v.FormValue("back"); back != "" {
		return page.Ours(back)
	}
	return ""
}

// missing says what has to be typed still.
func (d *draft) missing(v *page.Visit) string {
	switch {
	case strings.TrimSpace(d.Question) == "":
		return v.Say(sayNeedQuestion)
	case strings.TrimSpace(d.Answer) == "":
		return v.Say(sayNeedAnswer)
	case len(d.Question) > learning.MaxText || len(d.Answer) > learning.MaxText:
		return v.Say(sayTextTooLong, learning.MaxText>>10)
	case len(d.NewDeck) > nameMost:
		return v.Say(sayNameTooLong)
	}
	tags := tagsOf(d.Tags)
	if len(tags) > tagsMost || slices.ContainsFunc(tags, func(tag string) bool { return len(strings.TrimSpace(tag)) > tagMost }) {
		return v.Say(sayTooManyTags, tagsMost, tagMost)
	}
	return ""
}

// deck is the name or id of the deck that was chosen.
func (d *draft) deck() string {
	if d.NewDeck != "" {
		return d.NewDeck
	}
	return d.Deck
}

// addPoint adds a point.
func (p *pages) addPoint(v *page.Visit) {
	l, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		v.Fail(err)
		return
	}
	d := &draft{Learner: l}
	d.typed(v)
	again := func(status int, wrong string) {
		d.Wrong = wrong
		v.Show(status, newPage(v, d))
	}
	if wrong := d.missing(v); wrong != "" {
		again(http.StatusUnprocessableEntity, wrong)
		return
	}
	if _, known := l.DeckID(d.Deck); !known && d.NewDeck == "" {
		again(http.StatusUnprocessableEntity, v.Say(sayNoDeck))
		return
	}
	var made []learning.Created
	err = did(v, "create_knowledge_point", control.NewLearnPoint{Question: d.Question, Answer: d.Answer, Deck: d.deck(), Tags: tagsOf(d.Tags), InPlan: &d.InPlan}, func() (err error) {
		made, err = p.Points.Create(v.Context(), who(v), []learning.Draft{{Question: d.Question, Answer: d.Answer, Deck: d.deck(), Tags: tagsOf(d.Tags), Unplanned: !d.InPlan}})
		if err == nil {
			err = made[0].Err
		}
		return err
	})
	if err != nil {
		if text, status := v.Wrong(told(err)); text != "" {
			again(status, text)
		}
		return
	}
	if v.FormValue("then") == "more" {
		v.To("/learn/points/new?" + query("deck", deckParam(made[0].Entry.Deck)) + "&" + query("tags", d.Tags) + "&added=1")
		return
	}
	v.To(pointPath(made[0].Entry.ID))
}

// preview shows what is typed as it will look.
func (p *pages) preview(v *page.Visit) {
	v.Show(ok, previewed(v, v.FormValue("question"), v.FormValue("answer")))
}

// point shows a point, to be edited.
func (p *pages) point(v *page.Visit) {
	d, err := p.draftOf(v)
	if err != nil {
		v.Fail(err)
		return
	}
	d.Back = backOf(v)
	switch {
	case v.FormValue("saved") != "":
		d.Note = v.Say(saySaved)
	case v.FormValue("back-again") != "":
		d.Note = v.Say(sayRestored)
	}
	v.Show(ok, pointPage(v, d))
}

// draftOf looks a point up.
func (p *pages) draftOf(v *page.Visit) (*draft, error) {
	l, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		return nil, err
	}
	e, err := p.Points.Get(v.Context(), who(v), v.PathValue("point"))
	if err != nil {
		return nil, told(err)
	}
	d := &draft{
		Learner: l, Entry: e, Question: e.Question, Answer: e.Answer, Tags: strings.Join(e.Tags, ", "), Deck: deckParam(e.Deck), InPlan: e.InPlan, Suspended: e.Suspended,
		Undone: map[string]bool{},
	}
	// The log of a point is short: reviews are days apart.
	if d.Log, err = p.Points.Store.Learn.Log(v.Context(), who(v), e.Number, e.Created.AddDate(-100, 0, 0), "", 1000); err != nil {
		return nil, err
	}
	slices.Reverse(d.Log)
	for _, entry := range d.Log {
		d.Undone[entry.Undoes] = true
	}
	d.Log = d.Log[:min(len(d.Log), historyMost)]
	return d, nil
}

// savePoint writes a point anew.
func (p *pages) savePoint(v *page.Visit) {
	d, err := p.draftOf(v)
	if err != nil {
		v.Fail(err)
		return
	}
	d.typed(v)
	again := func(status int, wrong string) {
		d.Wrong = wrong
		v.Show(status, pointPage(v, d))
	}
	if wrong := d.missing(v); wrong != "" {
		again(http.StatusUnprocessableEntity, wrong)
		return
	}
	if _, known := d.Learner.DeckID(d.Deck); !known && d.NewDeck == "" {
		again(http.StatusUnprocessableEntity, v.Say(sayNoDeck))
		return
	}
	deck, tags := d.deck(), tagsOf(d.Tags)
	_, err = p.update(v, d.Entry.ID, learning.Edit{
		Question: &d.Question, Answer: &d.Answer, Deck: &deck, Tags: &tags, InPlan: &d.InPlan, Suspended: &d.Suspended,
	})
	if err != nil {
		if text, status := v.Wrong(told(err)); text != "" {
			again(status, text)
		}
		return
	}
	if d.Back != "" {
		v.To(d.Back)
		return
	}
	v.To(pointPath(d.Entry.ID) + "?saved=1")
}

// update changes a point.
func (p *pages) update(v *page.Visit, id string, edit learning.Edit) (e *learning.Entry, err error) {
	err = did(v, "update_knowledge_point", control.LearnArgs{ID: id, Edit: &edit}, func() (err error) {
		e, err = p.Points.Update(v.Context(), who(v), id, edit)
		return err
	})
	return e, err
}

// putOff lets a point come on a date.
func (p *pages) putOff(v *page.Visit, id string, day store.Day) error {
	return did(v, "reschedule_knowledge_points", control.LearnMoved{IDs: []string{id}, Date: day}, func() error {
		_, err := p.Points.Reschedule(v.Context(), who(v), id, day, door)
		return err
	})
}

// reschedule gives a point another date.
func (p *pages) reschedule(v *page.Visit) {
	d, err := p.draftOf(v)
	if err != nil {
		v.Fail(err)
		return
	}
	day, err := store.ParseDay(v.FormValue("due"))
	if err != nil || day < d.Learner.Today || day > d.Learner.Today+36500 {
		d.Wrong = v.Say(sayBadDay, d.Learner.Today.String())
		v.Show(http.StatusUnprocessableEntity, pointPage(v, d))
		return
	}
	if err := p.putOff(v, d.Entry.ID, day); err != nil {
		v.Fail(told(err))
		return
	}
	v.To(pointPath(d.Entry.ID) + "?saved=1")
}

// confirmPoint says that a draft is right.
func (p *pages) confirmPoint(v *page.Visit) {
	no := false
	if _, err := p.update(v, v.PathValue("point"), learning.Edit{Draft: &no}); err != nil {
		v.Fail(told(err))
		return
	}
	v.To(pointPath(v.PathValue("point")) + "?saved=1")
}

// deletePoint puts a point into the trash.
func (p *pages) deletePoint(v *page.Visit) {
	id := v.PathValue("point")
	err := did(v, "delete_knowledge_point", control.LearnArgs{ID: id}, func() error { return p.Points.Delete(v.Context(), who(v), id) })
	if err != nil {
		v.Fail(told(err))
		return
	}
	if back := backOf(v); back != "" {
		v.To(back)
		return
	}
	v.To("/learn/points?" + query("gone", id))
}

// restorePoint takes a point out of the trash.
func (p *pages) restorePoint(v *page.Visit) {
	id := v.PathValue("point")
	err := did(v, "restore_knowledge_point", control.LearnArgs{ID: id}, func() error {
		_, err := p.Points.Restore(v.Context(), who(v), id)
		return err
	})
	if err != nil {
		v.Fail(told(err))
		return
	}
	v.To(pointPath(id) + "?back-again=1")
}

// kindText says what an entry of the history is.
func kindText(v *page.Visit, e *store.LogEntry) string {
	switch e.Kind {
	case store.LogUndo:
		return v.Say(sayWasUndone)
	case store.LogReschedule:
		return v.Say(sayWasMoved)
	}
	return gradeName(v, e.Grade)
}

var errNoRoom = control.Fail(control.TooMany, sayImportBusy)
