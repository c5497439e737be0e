package learn

import (
	"context"
	"fmt"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// listSelected lists the points that an expression with conditions selects, newest first.
func (s *Service) listSelected(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	w := PointQuery{Query: a.Query, Tag: a.Tag, After: a.Cursor, Limit: pageLimit(a.Limit)}
	switch {
	case a.DueOnly:
		w.State = StateDue
	case a.Drafts:
		w.State = StateDraft
	}
	if w.Deck, err = deckFilter(l, a.Deck); err != nil {
		return nil, err
	}
	points, next, err := s.Find(ctx, l, w)
	if err != nil {
		return nil, err
	}
	entries, err := s.entries(ctx, points)
	if err != nil {
		return nil, err
	}
	if n := len(limitPage(entries)); n < len(entries) {
		entries, next = entries[:n], encodePageKey(store.PointFilter{}.Key(&entries[n-1].Point))
	}
	note := ""
	switch {
	case len(entries) == 0:
		note = "No point matches."
	case next != "":
		note = fmt.Sprintf("There are more points; call again with cursor %q.", next)
	}
	if x, err := ParseExpression(a.Query); err == nil && len(entries) > 0 && x.asksForLeeches() {
		note += " " + leechAdvice
	}
	return pointsResult(l, entries, next, note), nil
}

// leechAdvice tells a model what to do about leeches.
const leechAdvice = "Leeches are points that are forgotten again and again. Suggest to rewrite each (one fact, a clearer question), to split it, to add a mnemonic, or to suspend it; removing the tag leech ends its being one."

// asksForLeeches reports whether the expression selects leeches.
func (x *Expression) asksForLeeches() bool {
	for _, p := range x.parts {
		if p.field == store.FieldTag && p.text == LeechTag && !p.not {
			return true
		}
	}
	return false
}

// target returns which points a call is for.
func (a *arguments) target() (BulkTarget, error) {
	to := BulkTarget{IDs: a.IDs}
	if a.Query == "" && len(a.IDs) == 0 {
		return to, invalid(msgNoTarget)
	}
	if a.Query == "" {
		return to, nil
	}
	x, err := ParseExpression(a.Query)
	if err != nil {
		return to, err
	}
	if x.IsEmpty() {
		return to, invalid(msgNoTarget)
	}
	to.Query = x
	return to, nil
}

const msgNoTarget = i18n.Message("say which points: ids, or a query")

// dueDate returns the date of date or in_days; nil if both are missing.
func (a *arguments) dueDate(l *Learner) (*store.Day, error) {
	switch {
	case a.Date != "" && a.InDays != nil:
		return nil, invalid(i18n.Message("give date or in_days"))
	case a.InDays != nil:
		day := l.Today + store.Day(*a.InDays)
		return &day, nil
	case a.Date == "":
		return nil, nil
	}
	day, err := store.ParseDay(a.Date)
	if err != nil {
		return nil, invalid(msgPlain, err)
	}
	return &day, nil
}

// maxToldEdits is how many refused points the result of an edit names.
const maxToldEdits = 20

func (s *Service) callEdit(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	to, err := a.target()
	if err != nil {
		return nil, err
	}
	out := struct {
		Matched   int               `json:"matched"`
		Changed   int               `json:"changed"`
		Unchanged int               `json:"unchanged"`
		Skipped   int               `json:"skipped,omitempty"`
		Errors    map[string]string `json:"errors,omitempty"`
		Note      string            `json:"note"`
	}{Errors: map[string]string{}}
	if a.DryRun {
		if out.Matched, err = s.CountTarget(ctx, l, to, a.Deleted != nil && !*a.Deleted); err != nil {
			return nil, err
		}
		out.Unchanged, out.Note = out.Matched, "Nothing was changed."
		return result(out, out, ""), nil
	}
	e := BulkEdit{Deck: a.Deck, AddTags: a.AddTags, RemoveTags: a.RemoveTags, Suspended: a.Suspended, Flag: a.Flag,
		Bury: a.Bury, Deleted: a.Deleted}
	if e.Due, err = a.dueDate(l); err != nil {
		return nil, err
	}
	done, err := s.bulk(ctx, l, to, e, c.Caller.Channel, progressFunc(c))
	if err != nil {
		return nil, err
	}
	out.Matched, out.Changed, out.Skipped = done.Matched, done.Changed, done.Skipped
	out.Unchanged = max(done.Matched-done.Changed, 0)
	out.Note = "undo_edit takes this back for a day."
	for id, why := range done.Refused {
		if len(out.Errors) == maxToldEdits {
			break
		}
		out.Errors[id] = map[bool]string{true: "It is not in the review plan", false: "Knowledge point not found"}[why == ErrNoPlan]
	}
	res := result(out, out, "")
	res.IsError = done.Changed == 0 && done.Skipped > 0
	return res, nil
}

func (s *Service) callUndoEdit(ctx context.Context, c *tool.Call, _ *arguments) (*tool.Result, error) {
	done, err := s.UndoBulk(ctx, c.Caller.Person, c.Caller.Channel, progressFunc(c))
	if err != nil {
		return nil, err
	}
	out := struct {
		Undone string `json:"undone"`
		Points int    `json:"points"`
		Kept   int    `json:"kept,omitempty"`
	}{done.Edit.Describe(langOf(c)), done.Points, done.Kept}
	return result(out, out, ""), nil
}

// CountTarget counts the points that an edit is for: those in the trash if it restores them.
func (s *Service) CountTarget(ctx context.Context, l *Learner, to BulkTarget, trash bool) (int, error) {
	deleted := !trash
	b := &bulk{s: s, l: l, edit: BulkEdit{Deleted: &deleted}, out: &BulkResult{Refused: map[string]error{}}}
	if len(to.IDs) == 0 {
		f, err := to.Query.Selection(l)
		if err == nil {
			err = narrow(&f, to.Deck, to.Tag, to.State)
		}
		if err != nil {
			return 0, err
		}
		f.Trash = f.Trash || trash
		return s.Store.Learn.CountSelected(ctx, l.Person, f, 0)
	}
	numbers, err := b.find(ctx, to)
	return len(numbers), err
}

// nextCram returns the next question of a cram session. The cursor names the last one.
func (s *Service) nextCram(ctx context.Context, l *Learner, a *arguments) (*nextJSON, error) {
	x, err := ParseExpression(a.Query)
	if err != nil {
		return nil, err
	}
	deck := ""
	if a.Deck != nil {
		deck = *a.Deck
	}
	x = x.Within(deck, a.Tag)
	after, total, err := CramPosition(a.Cursor)
	if err != nil {
		return nil, err
	}
	page, err := s.cram(ctx, l, x, after, 1)
	if err != nil {
		return nil, err
	}
	out := &nextJSON{Done: len(page.Entries) == 0, Total: max(total, page.Total)}
	if out.Done {
		out.Note = "That was the last point of this query; begin again without cursor."
		return out, nil
	}
	e := &page.Entries[0]
	out.Card, out.Grades = questionOf(page.Learner, e), gradePreviews(page.Learner, &e.Point)
	out.Cursor = CramCursor(e.Number, out.Total)
	out.Note = "Ask this question and wait for the recall, then reveal_answer. This only practises: dates stay. For the next question call next_review with the same query, cram and this cursor; to let the review count, call submit_review with them and early=true."
	return out, nil
}
