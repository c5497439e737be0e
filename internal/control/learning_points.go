package control

import (
	"context"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayNoDate    = talk.Say{Zh: "请给出 date（例如 2026-12-24）或 in_days。", En: "Give date, such as 2026-12-24, or in_days."}
	sayBadDate   = talk.Say{Zh: "%q 不是 2026-12-24 这样的日期。", En: "%q is not a date such as 2026-12-24."}
	sayBadCursor = talk.Say{Zh: "after 不是列表给出的 next。", En: "after is not what a list gave as next."}
)

const (
	// pointsShown is how many points are on a page if nothing else is asked for.
	pointsShown = 50
	// pointsMost bounds a page.
	pointsMost = 200
	// pointsBytes is how much text a page has, about: a page that is full ends early.
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
	Due       string    `json:"due,omitempty"` // a date, or a moment
	InPlan    bool      `json:"is_in_review_plan"`
	Suspended bool      `json:"suspended"`
	Draft     bool      `json:"draft"`
	Created   time.Time `json:"created_at"`
	Updated   time.Time `json:"updated_at"`
	Deleted   time.Time `json:"deleted_at,omitzero"` // when it went into the trash
}

func learnPoint(l *learn.Learner, p *store.Point) LearnPoint {
	out := LearnPoint{
		ID: p.ID, Question: p.Question, Answer: p.Answer, Deck: l.DeckName(p.Deck), Tags: p.Tags,
		State: learn.StateName(p), Due: learn.DueText(p),
		InPlan: p.InPlan, Suspended: p.Suspended, Draft: p.Draft, Created: p.Created, Updated: p.Updated,
		Deleted: p.Deleted,
	}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	return out
}

// LearnSitting is a review of a point's plan: one that is to come, or was done.
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
}

func pointDetail(l *learn.Learner, e *learn.Entry) LearnPointDetail {
	out := LearnPointDetail{LearnPoint: learnPoint(l, &e.Point), Plan: []LearnSitting{}}
	for _, v := range e.Sittings {
		out.Plan = append(out.Plan, LearnSitting{v.ID, v.Day, v.Number, v.Completed, v.Recall})
	}
	return out
}

// LearnPointsQuery says which points are wanted.
type LearnPointsQuery struct {
	Query string `query:"query"` // what they say; the best come first then, 40 at most
	Deck  string `query:"deck"`  // name or id; "default" is the one that everybody has
	Tag   string `query:"tag"`
	State string `query:"state"` // due, learning, new, draft, leech, trash; empty: all but the trash
	After string `query:"after"` // the next of the page before
	Limit int    `query:"limit"`
}

// LearnPoints is a page of points.
type LearnPoints struct {
	Points []LearnPoint `json:"points"`
	// Next, if it is not empty, is to be asked for with after= for those that follow.
	Next string `json:"next,omitempty"`
}

// pointsLimit is how many points a page has.
func pointsLimit(n int) (int, error) {
	switch {
	case n == 0:
		return pointsShown, nil
	case n < 0 || n > pointsMost:
		return 0, Fail(Invalid, sayBadLimit, pointsMost)
	}
	return n, nil
}

// Points lists points, newest first or as they wait, or searches them.
func (p *Learning) Points(ctx context.Context, c Caller, in LearnPointsQuery) (out LearnPoints, err error) {
	l, err := p.learner(ctx, c, "list_knowledge_points")
	if err != nil {
		return out, err
	}
	w := learn.PointQuery{Query: in.Query, Tag: in.Tag, State: in.State, After: in.After}
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

// pointsThatFit is how many points have little enough text for a page.
func pointsThatFit(list []store.Point) int {
	size := 0
	for i := range list {
		if size += len(list[i].Question) + len(list[i].Answer); size > pointsBytes && i > 0 {
			return i
		}
	}
	return len(list)
}

// LearnPointRef names a point.
type LearnPointRef struct {
	Point string `path:"point" json:"-"`
}

// Point shows a point.
func (p *Learning) Point(ctx context.Context, c Caller, in LearnPointRef) (out LearnPointDetail, err error) {
	l, err := p.learner(ctx, c, "get_knowledge_point")
	if err != nil {
		return out, err
	}
	e, err := p.points.Get(ctx, l.Person, in.Point)
	if err != nil {
		return out, LearnError(err)
	}
	return pointDetail(l, e), nil
}

// NewLearnPoint is a point that is added.
type NewLearnPoint struct {
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Deck     string   `json:"deck,omitempty"` // name; one that does not exist is made
	Tags     []string `json:"tags,omitempty"`
	InPlan   *bool    `json:"is_in_review_plan,omitempty"` // false: it is kept and not reviewed
	Draft    bool     `json:"draft,omitempty"`             // it waits for its person to confirm it
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

// pointForPage is a point that was just changed.
func (p *Learning) pointForPage(ctx context.Context, e *learn.Entry) (out LearnPointDetail, err error) {
	l, err := p.points.Learner(ctx, e.Person)
	if err != nil {
		return out, err
	}
	return pointDetail(l, e), nil
}

// LearnPointChange says what changes about a point; what is not given stays.
type LearnPointChange struct {
	LearnPointRef
	Question  *string   `json:"question,omitempty"`
	Answer    *string   `json:"answer,omitempty"`
	Deck      *string   `json:"deck,omitempty"` // name; one that does not exist is made
	Tags      *[]string `json:"tags,omitempty"`
	InPlan    *bool     `json:"is_in_review_plan,omitempty"`
	Suspended *bool     `json:"suspended,omitempty"` // let it rest without taking it out of the plan
	Draft     *bool     `json:"draft,omitempty"`     // false confirms a draft
}

// LearnArgs are the arguments of a tool of Learn that concerns one point.
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
		Suspended: in.Suspended, Draft: in.Draft}
	if _, err := p.points.Get(ctx, person, in.Point); err != nil { // before a deck is made for it
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

// DeletePoint puts a point into the trash.
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

// LearnDue says when a point comes again.
type LearnDue struct {
	LearnPointRef
	Date   string `json:"date,omitempty"`    // such as 2026-12-24
	InDays *int   `json:"in_days,omitempty"` // 0: today
}

// Reschedule gives a point another date.
func (p *Learning) Reschedule(ctx context.Context, c Caller, in LearnDue) (out LearnPointDetail, err error) {
	l, err := p.learner(ctx, c, "reschedule_knowledge_points")
	if err != nil {
		return out, err
	}
	if _, err := p.points.Get(ctx, l.Person, in.Point); err != nil {
		return out, LearnError(err)
	}
	var day store.Day
	switch {
	case in.Date != "" && in.InDays == nil:
		if day, err = store.ParseDay(in.Date); err != nil {
			return out, Fail(Invalid, sayBadDate, in.Date)
		}
	case in.Date == "" && in.InDays != nil:
		day = l.Today + store.Day(*in.InDays)
	default:
		return out, Fail(Invalid, sayNoDate)
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

// LearnHistoryQuery says which entries of a point's history are wanted.
type LearnHistoryQuery struct {
	LearnPointRef
	After string `query:"after"` // the next of the page before
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

// History lists what became of a point.
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
			return out, Fail(Invalid, sayBadCursor)
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
