package control

import (
	"context"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoDate    = i18n.Message("Give date, such as 2026-12-24, or in_days.")
	msgBadDate   = i18n.Message("%q is not a date such as 2026-12-24.")
	msgBadCursor = i18n.Message("after is not what a list gave as next.")
)

const (
	// pointsShown is the default number of points on a page.
	pointsShown = 50
	// pointsMost limits a page.
	pointsMost = 200
	// pointsBytes limits the text on a page, roughly: a page ends early when it is reached.
	pointsBytes = 1 << 20
)

// LearnPoint is a knowledge point.
type LearnPoint struct {
	ID        string    `json:"id"`
	Question  string    `json:"question"`
	Answer    string    `json:"answer"`
	Deck      string    `json:"deck"` // name
	Tags      []string  `json:"tags"`
	State     string    `json:"state"`         // new, learning, review, relearning, done, draft, suspended, not in plan
	Due       string    `json:"due,omitempty"` // a date, or a time
	InPlan    bool      `json:"is_in_review_plan"`
	Suspended bool      `json:"suspended"`
	Draft     bool      `json:"draft"`
	Flag      int       `json:"flag"` // 1 to 7; 0: none
	Created   time.Time `json:"created_at"`
	Updated   time.Time `json:"updated_at"`
	Deleted   time.Time `json:"deleted_at,omitzero"` // when it was moved to the trash
}

func learnPoint(l *learn.Learner, p *store.Point) LearnPoint {
	out := LearnPoint{
		ID: p.ID, Question: p.Question, Answer: p.Answer, Deck: l.DeckName(p.Deck), Tags: p.Tags,
		State: learn.StateName(p), Due: learn.DueText(p),
		InPlan: p.InPlan, Suspended: p.Suspended, Draft: p.Draft, Flag: p.Flag, Created: p.Created, Updated: p.Updated,
		Deleted: p.Deleted,
	}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	return out
}

// LearnSitting is a review in a point's plan, planned or done.
type LearnSitting struct {
	ID        string    `json:"schedule_id"`
	Day       store.Day `json:"date"`
	Number    int       `json:"review_number"`
	Completed time.Time `json:"completed_at,omitzero"`
	Recall    string    `json:"recall_text,omitempty"`
}

// LearnPointDetail is a point with its plan.
type LearnPointDetail struct {
	LearnPoint
	Plan []LearnSitting `json:"plan"`
	// HTML and Note are given when one point is asked for, and not after a change.
	HTML *LearnHTML `json:"html,omitempty"`
	Note *LearnNote `json:"note,omitempty"` // if it is a card of a note
}

func pointDetail(l *learn.Learner, e *learn.Entry) LearnPointDetail {
	out := LearnPointDetail{LearnPoint: learnPoint(l, &e.Point), Plan: []LearnSitting{}}
	for _, v := range e.Sittings {
		out.Plan = append(out.Plan, LearnSitting{v.ID, v.Day, v.Number, v.Completed, v.Recall})
	}
	return out
}

// LearnPointsQuery selects points.
type LearnPointsQuery struct {
	Query string `query:"query"` // words, at most 40 results, best first; or conditions such as tag:x
	Deck  string `query:"deck"`  // name or id; "default" is the default deck
	Tag   string `query:"tag"`
	State string `query:"state"` // due, learning, new, draft, leech, trash; empty: all but the trash
	After string `query:"after"` // next of the page before
	Limit int    `query:"limit"`
	// ByWords searches by words alone, without a service for vectors.
	ByWords bool `json:"-"`
}

// LearnPoints is a page of points.
type LearnPoints struct {
	Points []LearnPoint `json:"points"`
	// Next is the value of after= for the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// pointsLimit returns the size of a page.
func pointsLimit(n int) (int, error) {
	switch {
	case n == 0:
		return pointsShown, nil
	case n < 0 || n > pointsMost:
		return 0, problem.New(problem.Invalid, msgBadLimit, pointsMost)
	}
	return n, nil
}

// Points lists points, newest first or in the order of their due dates, or searches them.
func (p *Learning) Points(ctx context.Context, c Caller, in LearnPointsQuery) (out LearnPoints, err error) {
	l, err := p.learner(ctx, c, "list_knowledge_points")
	if err != nil {
		return out, err
	}
	w := learn.PointQuery{Query: in.Query, Tag: in.Tag, State: in.State, After: in.After, ByWords: in.ByWords}
	if w.Limit, err = pointsLimit(in.Limit); err != nil {
		return out, err
	}
	if w.Deck, err = deckNamed(l, in.Deck); err != nil {
		return out, err
	}
	list, next, err := p.points.Find(ctx, l, w)
	if err == nil {
		if n := pointsThatFit(list); n < len(list) && in.Query == "" {
			w.Limit = n
			list, next, err = p.points.Find(ctx, l, w)
		}
	}
	if err != nil {
		return out, LearnError(err)
	}
	out = LearnPoints{Points: make([]LearnPoint, len(list)), Next: next}
	for i := range list {
		out.Points[i] = learnPoint(l, &list[i])
	}
	return out, nil
}

// pointsThatFit returns how many points fit into the text limit of a page.
func pointsThatFit(list []store.Point) int {
	size := 0
	for i := range list {
		if size += len(list[i].Question) + len(list[i].Answer); size > pointsBytes && i > 0 {
			return i
		}
	}
	return len(list)
}

// LearnPointRef identifies a point.
type LearnPointRef struct {
	Point string `path:"point" json:"-"`
}

// Point returns a point.
func (p *Learning) Point(ctx context.Context, c Caller, in LearnPointRef) (out LearnPointDetail, err error) {
	l, err := p.learner(ctx, c, "get_knowledge_point")
	if err != nil {
		return out, err
	}
	e, err := p.points.Get(ctx, l.Person, in.Point)
	if err != nil {
		return out, LearnError(err)
	}
	out = pointDetail(l, e)
	return out, p.showPoint(ctx, e, &out)
}

// NewLearnPoint describes a point to add.
type NewLearnPoint struct {
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Deck     string   `json:"deck,omitempty"` // name; created if it does not exist
	Tags     []string `json:"tags,omitempty"`
	InPlan   *bool    `json:"is_in_review_plan,omitempty"` // false: stored without reviews
	Draft    bool     `json:"draft,omitempty"`             // has to be confirmed before it is reviewed
}

// AddPoint adds a point.
func (p *Learning) AddPoint(ctx context.Context, c Caller, in NewLearnPoint) (out LearnPointDetail, err error) {
	person, err := p.person(c, "create_knowledge_point")
	if err != nil {
		return out, err
	}
	d := learn.Draft{Question: in.Question, Answer: in.Answer, Deck: in.Deck, Tags: in.Tags,
		Unplanned: in.InPlan != nil && !*in.InPlan, Unconfirmed: in.Draft}
	var e learn.Entry
	err = p.recordChange(c, "create_knowledge_point", in, func() error {
		made, err := p.points.Create(ctx, person, []learn.Draft{d})
		if err != nil {
			return err
		}
		e = made[0].Entry
		return made[0].Err
	})
	if err != nil {
		return out, err
	}
	return p.pointForPage(ctx, &e)
}

// pointForPage returns a point that was just changed.
func (p *Learning) pointForPage(ctx context.Context, e *learn.Entry) (out LearnPointDetail, err error) {
	l, err := p.points.Learner(ctx, e.Person)
	if err != nil {
		return out, err
	}
	return pointDetail(l, e), nil
}

// LearnPointChange changes a point; nil fields stay.
type LearnPointChange struct {
	LearnPointRef
	Question  *string   `json:"question,omitempty"`
	Answer    *string   `json:"answer,omitempty"`
	Deck      *string   `json:"deck,omitempty"` // name; created if it does not exist
	Tags      *[]string `json:"tags,omitempty"`
	InPlan    *bool     `json:"is_in_review_plan,omitempty"`
	Suspended *bool     `json:"suspended,omitempty"` // pause it without removing its plan
	Draft     *bool     `json:"draft,omitempty"`     // false confirms a draft
	Flag      *int      `json:"flag,omitempty"`      // 1 to 7; 0: none
	Bury      *bool     `json:"bury,omitempty"`      // hides it until tomorrow; false shows it again
	// Fields changes fields of the note that the point is a card of, by name; HTML. All its cards
	// change with it.
	Fields *map[string]string `json:"fields,omitempty"`
}

// LearnArgs are the arguments of a tool of Learn for one point.
type LearnArgs struct {
	ID string `json:"id"`
	*learn.Edit
}

// ChangePoint changes a point. Its plan and history stay.
func (p *Learning) ChangePoint(ctx context.Context, c Caller, in LearnPointChange) (out LearnPointDetail, err error) {
	person, err := p.person(c, "update_knowledge_point")
	if err != nil {
		return out, err
	}
	edit := learn.Edit{Question: in.Question, Answer: in.Answer, Deck: in.Deck, Tags: in.Tags, InPlan: in.InPlan,
		Suspended: in.Suspended, Draft: in.Draft, Flag: in.Flag, Bury: in.Bury, Fields: in.Fields}
	if _, err := p.points.Get(ctx, person, in.Point); err != nil { // before a deck is created for it
		return out, LearnError(err)
	}
	var e *learn.Entry
	err = p.recordChange(c, "update_knowledge_point", LearnArgs{in.Point, &edit}, func() (err error) {
		e, err = p.points.Update(ctx, person, in.Point, edit)
		return err
	})
	if err != nil {
		return out, err
	}
	return p.pointForPage(ctx, e)
}

// DeletePoint moves a point to the trash.
func (p *Learning) DeletePoint(ctx context.Context, c Caller, in LearnPointRef) (Done, error) {
	person, err := p.person(c, "delete_knowledge_point")
	if err != nil {
		return Done{}, err
	}
	err = p.recordChange(c, "delete_knowledge_point", LearnArgs{ID: in.Point},
		func() error { return p.points.Delete(ctx, person, in.Point) })
	return Done{err == nil}, err
}

// RestorePoint takes a point out of the trash.
func (p *Learning) RestorePoint(ctx context.Context, c Caller, in LearnPointRef) (out LearnPointDetail, err error) {
	person, err := p.person(c, "restore_knowledge_point")
	if err != nil {
		return out, err
	}
	var e *learn.Entry
	err = p.recordChange(c, "restore_knowledge_point", LearnArgs{ID: in.Point}, func() (err error) {
		e, err = p.points.Restore(ctx, person, in.Point)
		return err
	})
	if err != nil {
		return out, err
	}
	return p.pointForPage(ctx, e)
}

// LearnDue is a new due date of a point.
type LearnDue struct {
	LearnPointRef
	Date   string `json:"date,omitempty"`    // such as 2026-12-24
	InDays *int   `json:"in_days,omitempty"` // 0: today
}

// Reschedule sets the due date of a point.
func (p *Learning) Reschedule(ctx context.Context, c Caller, in LearnDue) (out LearnPointDetail, err error) {
	l, err := p.learner(ctx, c, "reschedule_knowledge_points")
	if err != nil {
		return out, err
	}
	if _, err := p.points.Get(ctx, l.Person, in.Point); err != nil {
		return out, LearnError(err)
	}
	day, err := editDay(l, in.Date, in.InDays)
	if err != nil {
		return out, err
	}
	var e *learn.Entry
	err = p.recordChange(c, "reschedule_knowledge_points", LearnMoved{[]string{in.Point}, day}, func() (err error) {
		e, err = p.points.Reschedule(ctx, l.Person, in.Point, day, c.Program)
		return err
	})
	if err != nil {
		return out, err
	}
	return pointDetail(l, e), nil
}

// LearnMoved are the arguments of reschedule_knowledge_points.
type LearnMoved struct {
	IDs  []string  `json:"ids"`
	Date store.Day `json:"date"`
}

// LearnHistoryQuery selects entries of a point's history.
type LearnHistoryQuery struct {
	LearnPointRef
	After string `query:"after"` // next of the page before
	Limit int    `query:"limit"`
}

// LearnEvent is an entry of a point's history.
type LearnEvent struct {
	ID      string    `json:"review_id"`
	Kind    string    `json:"kind"` // review, undo, reschedule
	At      time.Time `json:"at"`
	Day     store.Day `json:"date"`
	Grade   string    `json:"grade,omitempty"`
	Recall  string    `json:"recall_text,omitempty"`
	Score   *int      `json:"score,omitempty"`
	TookMS  int64     `json:"took_ms,omitempty"`
	Elapsed int       `json:"elapsed_days"`
	Channel string    `json:"channel,omitempty"`
	Undoes  string    `json:"undoes,omitempty"`
}

// LearnHistory is a page of a point's history, oldest first.
type LearnHistory struct {
	Events []LearnEvent `json:"history"`
	Next   string       `json:"next,omitempty"`
}

// History returns the history of a point.
func (p *Learning) History(ctx context.Context, c Caller, in LearnHistoryQuery) (out LearnHistory, err error) {
	person, err := p.person(c, "review_history")
	if err != nil {
		return out, err
	}
	limit, err := pointsLimit(in.Limit)
	if err != nil {
		return out, err
	}
	e, err := p.points.Get(ctx, person, in.Point)
	if err != nil {
		return out, LearnError(err)
	}
	var after store.LogEntry
	if in.After != "" {
		if after, err = p.points.Store.Learn.Entry(ctx, person, in.After); err != nil {
			return out, problem.New(problem.Invalid, msgBadCursor)
		}
	}
	list, err := p.points.Store.Learn.Log(ctx, person, e.Number, after.At, after.ID, limit+1)
	if err != nil {
		return out, err
	}
	if len(list) > limit {
		list = list[:limit]
		out.Next = list[limit-1].ID
	}
	out.Events = make([]LearnEvent, len(list))
	for i, v := range list {
		out.Events[i] = LearnEvent{
			ID: v.ID, Kind: v.Kind, At: v.At, Day: v.Day, Grade: learn.GradeName(v.Grade), Recall: v.Recall,
			TookMS: v.Took.Milliseconds(), Elapsed: max(v.Elapsed, 0), Channel: v.Channel, Undoes: v.Undoes,
		}
		if v.Score >= 0 {
			out.Events[i].Score = &list[i].Score
		}
	}
	return out, nil
}
