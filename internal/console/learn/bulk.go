package learn

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Points are chosen in the list, or all that match its filters, and changed together. Without a
// script the form works the same.

// bulkChoices are what can be done to chosen points.
var bulkChoices = []struct {
	value string
	name  i18n.Message
}{
	{"suspend", msgBulkSuspend}, {"resume", msgBulkResume}, {"bury", msgBulkBury}, {"unbury", msgBulkUnbury},
	{"deck", msgBulkDeck}, {"tag", msgBulkTag}, {"untag", msgBulkUntag}, {"flag", msgBulkFlag}, {"due", msgBulkDue},
	{"delete", msgBulkDelete},
}

// bulkForm is a submitted change of many points.
type bulkForm struct {
	list
	What, Value string
	IDs         []string
	All         bool
	Matched     int // for the confirmation
	Wrong       string
}

// readBulk reads the form.
func readBulk(v *page.Visit) *bulkForm {
	_ = v.FormValue("what") // parses the form
	return &bulkForm{list: list{Query: strings.TrimSpace(v.FormValue("q")), Deck: v.FormValue("deck"),
		Tag: v.FormValue("tag"), State: v.FormValue("state")},
		What: v.FormValue("what"), Value: strings.TrimSpace(v.FormValue("value")), IDs: v.Form["id"],
		All: v.FormValue("all") != ""}
}

// edit returns the change that the form describes.
func (f *bulkForm) edit() (e learning.BulkEdit, err error) {
	yes, no := true, false
	switch f.What {
	case "suspend":
		e.Suspended = &yes
	case "resume":
		e.Suspended = &no
	case "bury":
		e.Bury = &yes
	case "unbury":
		e.Bury = &no
	case "deck":
		name := cmp.Or(f.Value, learning.DefaultDeck)
		e.Deck = &name
	case "tag":
		e.AddTags = tagsOf(f.Value)
	case "untag":
		e.RemoveTags = tagsOf(f.Value)
	case "flag":
		n, err := strconv.Atoi(f.Value)
		if err != nil {
			n = -1 // refused with the range
		}
		e.Flag = &n
	case "due":
		day, err := store.ParseDay(f.Value)
		if err != nil {
			return e, problem.New(problem.Invalid, msgBulkBadDay)
		}
		e.Due = &day
	case "delete":
		e.Deleted = &yes
	case "restore":
		e.Deleted = &no
	}
	return e, nil
}

// target returns the points that the form is for.
func (f *bulkForm) target(l *learning.Learner) (to learning.BulkTarget, err error) {
	if !f.All {
		if len(f.IDs) == 0 {
			return to, problem.New(problem.Invalid, msgBulkNone)
		}
		to.IDs = f.IDs
		return to, nil
	}
	if to.Query, err = learning.ParseExpression(f.Query); err != nil {
		return to, err
	}
	to.Tag, to.State = f.Tag, f.State
	to.Deck, err = deckOf(l, f.Deck)
	return to, err
}

// editPoints changes the chosen points. All that match are counted and confirmed before.
func (p *pages) editPoints(v *page.Visit) {
	f := readBulk(v)
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	f.Learner = l
	to, err := f.target(l)
	var e learning.BulkEdit
	if err == nil {
		e, err = f.edit()
	}
	if err == nil && f.All && v.FormValue("sure") == "" {
		if f.Matched, err = p.Points.CountTarget(v.Context(), l, to, f.What == "restore"); err == nil {
			v.Render(ok, bulkPage(v, f))
			return
		}
	}
	var done *learning.BulkResult
	if err == nil {
		args := control.LearnEdit{IDs: to.IDs, Deck: e.Deck, AddTags: e.AddTags, RemoveTags: e.RemoveTags,
			Suspended: e.Suspended, Flag: e.Flag, Bury: e.Bury, Deleted: e.Deleted}
		if f.All {
			args.Query = f.Query
		}
		if e.Due != nil {
			args.Date = e.Due.String()
		}
		err = changeAudited(v, "edit_knowledge_points", args, func() (err error) {
			done, err = p.Points.Bulk(v.Context(), personID(v), to, e, channel, nil)
			return err
		})
	}
	if err != nil {
		if text, status := v.Wrong(learnError(err)); text != "" {
			f.Wrong = text
			v.Render(status, bulkPage(v, f))
		}
		return
	}
	after := url.Values{"edited": {strconv.Itoa(done.Changed)}}
	if done.Skipped > 0 {
		after.Set("skipped", strconv.Itoa(done.Skipped))
	}
	v.Redirect(f.address("after", "") + "&" + after.Encode())
}

// undoEdit takes the last change of many points back.
func (p *pages) undoEdit(v *page.Visit) {
	f := readBulk(v)
	var done *learning.UndoneBulk
	err := changeAudited(v, "undo_edit", control.LearnEditUndo{}, func() (err error) {
		done, err = p.Points.UndoBulk(v.Context(), personID(v), channel, nil)
		return err
	})
	if err != nil {
		if text, status := v.Wrong(learnError(err)); text != "" {
			f.Wrong = text
			v.Render(status, bulkPage(v, f))
		}
		return
	}
	v.Redirect(f.address("after", "") + "&" + url.Values{"undone": {strconv.Itoa(done.Points)}}.Encode())
}

const (
	msgBulkTitle   = i18n.Message("Change many points")
	msgBulkChoose  = i18n.Message("Choose: %s")
	msgBulkLegend  = i18n.Message("With the chosen points")
	msgBulkAll     = i18n.Message("All that match, on other pages too")
	msgBulkWhat    = i18n.Message("Change")
	msgBulkValue   = i18n.Message("Deck, tag, flag (0 to 7) or date")
	msgBulkApply   = i18n.Message("Apply")
	msgBulkSure    = i18n.Message("%d points match. Change all of them?")
	msgBulkNone    = i18n.Message("Choose points first.")
	msgBulkBadDay  = i18n.Message("Write the date like 2026-12-24.")
	msgBulkEdited  = i18n.Message("Changed: %s.")
	msgBulkSkipped = i18n.Message("Could not be changed: %s.")
	msgBulkUndone  = i18n.Message("Undone for %s.")
	msgBulkLast    = i18n.Message("Last change of many points: %s (%d).")
	msgBulkUndo    = i18n.Message("Undo it")
	msgBulkSuspend = i18n.Message("Let them rest")
	msgBulkResume  = i18n.Message("Wake them")
	msgBulkBury    = i18n.Message("Bury until tomorrow")
	msgBulkUnbury  = i18n.Message("No longer bury")
	msgBulkDeck    = i18n.Message("Move to a deck")
	msgBulkTag     = i18n.Message("Add a tag")
	msgBulkUntag   = i18n.Message("Remove a tag")
	msgBulkFlag    = i18n.Message("Set the flag")
	msgBulkDue     = i18n.Message("Let them come on a date")
	msgBulkDelete  = i18n.Message("Put into the trash")
	msgLeechList   = i18n.Message("Rewrite these as smaller questions, split them, or let them rest. Without the tag leech a point is not listed here any more.")
	msgFlagged     = i18n.Message("Flag %d")
	msgReviewThese = i18n.Message("Review what is due of these")
	msgBack        = i18n.Message("Back")
)
