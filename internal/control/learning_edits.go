package control

import (
	"context"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const msgNoTarget = i18n.Message("Say which points: ids, or a query.")

// LearnEdit is a change of many points: those with the ids, and those that match the query.
type LearnEdit struct {
	IDs   []string `json:"ids,omitempty"`   // at most 10,000
	Query string   `json:"query,omitempty"` // such as tag:x is:new; see the manual
	// DryRun only counts the points.
	DryRun     bool     `json:"dry_run,omitempty"`
	Deck       *string  `json:"deck,omitempty"` // name; created if it does not exist
	AddTags    []string `json:"add_tags,omitempty"`
	RemoveTags []string `json:"remove_tags,omitempty"`
	Suspended  *bool    `json:"suspended,omitempty"`
	Flag       *int     `json:"flag,omitempty"` // 1 to 7; 0: none
	Bury       *bool    `json:"bury,omitempty"` // hides them until tomorrow; false shows them again
	Date       string   `json:"date,omitempty"` // such as 2026-12-24
	InDays     *int     `json:"in_days,omitempty"`
	Deleted    *bool    `json:"deleted,omitempty"` // into the trash; false: out of it
}

// LearnEdited is what an edit did.
type LearnEdited struct {
	Matched int `json:"matched"`
	Changed int `json:"changed"`
	Skipped int `json:"skipped,omitempty"` // points that cannot be changed that way, and wrong ids
	// Errors says why, for 100 of them at most: by id, not_found or no_plan.
	Errors map[string]string `json:"errors,omitempty"`
}

// maxEditIDs limits the list of ids of an edit.
const maxEditIDs = 10_000

const msgManyIDs = i18n.Message("ids are %d at most; use a query for more.")

// Edit changes many points. It continues if the client disconnects.
func (p *Learning) Edit(ctx context.Context, c Caller, in LearnEdit) (out LearnEdited, err error) {
	l, err := p.learner(ctx, c, "edit_knowledge_points")
	if err != nil {
		return out, err
	}
	to, err := editTarget(in)
	if err != nil {
		return out, err
	}
	e := learn.BulkEdit{Deck: in.Deck, AddTags: in.AddTags, RemoveTags: in.RemoveTags, Suspended: in.Suspended,
		Flag: in.Flag, Bury: in.Bury, Deleted: in.Deleted}
	if in.Date != "" || in.InDays != nil {
		day, err := editDay(l, in.Date, in.InDays)
		if err != nil {
			return out, err
		}
		e.Due = &day
	}
	if in.DryRun {
		out.Matched, err = p.points.CountTarget(ctx, l, to, in.Deleted != nil && !*in.Deleted)
		return out, LearnError(err)
	}
	ctx, cancel := Detached(ctx)
	defer cancel()
	err = p.recordChange(c, "edit_knowledge_points", in, func() error {
		done, err := p.points.Bulk(ctx, l.Person, to, e, c.Program, nil)
		if err == nil {
			out = learnEdited(done)
		}
		return err
	})
	return out, err
}

func editTarget(in LearnEdit) (to learn.BulkTarget, err error) {
	if len(in.IDs) > maxEditIDs {
		return to, problem.New(problem.Invalid, msgManyIDs, maxEditIDs)
	}
	to.IDs = in.IDs
	x, err := learn.ParseExpression(in.Query)
	if err != nil {
		return to, err
	}
	if !x.IsEmpty() {
		to.Query = x
	} else if len(in.IDs) == 0 {
		return to, problem.New(problem.Invalid, msgNoTarget)
	}
	return to, nil
}

// editDay returns the date that one of date and days names.
func editDay(l *learn.Learner, date string, days *int) (store.Day, error) {
	switch {
	case date != "" && days == nil:
		day, err := store.ParseDay(date)
		if err != nil {
			return 0, problem.New(problem.Invalid, msgBadDate, date)
		}
		return day, nil
	case date == "" && days != nil:
		return l.Today + store.Day(*days), nil
	}
	return 0, problem.New(problem.Invalid, msgNoDate)
}

func learnEdited(done *learn.BulkResult) LearnEdited {
	out := LearnEdited{Matched: done.Matched, Changed: done.Changed, Skipped: done.Skipped}
	for id, why := range done.Refused {
		if out.Errors == nil {
			out.Errors = map[string]string{}
		}
		out.Errors[id] = "not_found"
		if why == learn.ErrNoPlan {
			out.Errors[id] = "no_plan"
		}
	}
	return out
}

// LearnEditUndo has no parameters.
type LearnEditUndo struct{}

// LearnEditUndone is what was taken back.
type LearnEditUndone struct {
	Undone string `json:"undone"` // in words
	Points int    `json:"points"`
	Kept   int    `json:"kept,omitempty"` // points that were changed in the same respect since
}

// UndoEdit takes the last edit of many points back.
func (p *Learning) UndoEdit(ctx context.Context, c Caller, in LearnEditUndo) (out LearnEditUndone, err error) {
	person, err := p.person(c, "undo_edit")
	if err != nil {
		return out, err
	}
	ctx, cancel := Detached(ctx)
	defer cancel()
	err = p.recordChange(c, "undo_edit", in, func() error {
		done, err := p.points.UndoBulk(ctx, person, c.Program, nil)
		if err == nil {
			out = LearnEditUndone{done.Edit.Describe(c.Lang), done.Points, done.Kept}
		}
		return err
	})
	return out, err
}
