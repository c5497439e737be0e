package control

import (
	"context"
	"encoding/json"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNeedGrade      = i18n.Message("Give the grade: again, hard, good, easy, or 1 to 4.")
	msgNeedPoint      = i18n.Message("Say which point with knowledge_point_id.")
	msgBadScore       = i18n.Message("score is a number from 0 to 100.")
	msgCramRecordsNot = i18n.Message("Cramming records nothing: ask for the next question with its cursor, or send early with the review to let it count.")
	msgBadTook        = i18n.Message("took_ms is a number from 0 to 3600000.")
)

// checkTook validates the duration of a review.
const checkTook = time.Hour

// LearnCard is a point to review, without its answer.
type LearnCard struct {
	Point    string   `json:"knowledge_point_id"`
	Sitting  string   `json:"schedule_id,omitempty"` // the row of its plan that the review completes
	Question string   `json:"question"`
	Deck     string   `json:"deck"`
	Tags     []string `json:"tags"`
	State    string   `json:"state"`
	Number   int      `json:"review_number,omitempty"`
	Due      string   `json:"due,omitempty"`
	// Grades are the results of each grade, from again to easy.
	Grades []LearnGrade `json:"grades"`
}

// LearnGrade is a grade with the point's next due date.
type LearnGrade struct {
	Grade   string `json:"grade"`
	Minutes int    `json:"minutes,omitempty"` // for learning steps
	Days    int    `json:"days,omitempty"`    // otherwise
}

func learnCard(l *learn.Learner, e *learn.Entry) *LearnCard {
	c := &LearnCard{Point: e.ID, Question: e.Question, Deck: l.DeckName(e.Deck), Tags: e.Tags,
		State: learn.StateName(&e.Point), Due: learn.DueText(&e.Point)}
	if c.Tags == nil {
		c.Tags = []string{}
	}
	if open := e.OpenSitting(); open != nil {
		c.Sitting, c.Number = open.ID, open.Number
	}
	for _, way := range l.Preview(&e.Point) {
		c.Grades = append(c.Grades, LearnGrade{learn.GradeName(way.Grade), int(way.Wait.Round(time.Minute).Minutes()),
			way.Days})
	}
	return c
}

// LearnNextQuery limits the next question.
type LearnNextQuery struct {
	Deck  string `query:"deck"` // name or id
	Tag   string `query:"tag"`
	Query string `query:"query"` // conditions such as tag:x forgotten:7d
	// Cram goes through all that match, due or not, oldest first, after the Cursor of the question
	// before; dates stay as they are.
	Cram   bool   `query:"cram"`
	Cursor string `query:"cursor"`
}

// LearnNext is the next question, or the time of it.
type LearnNext struct {
	Card *LearnCard      `json:"card,omitempty"` // nil if nothing is due now
	Left learn.Remaining `json:"remaining"`
	// Later is the time of the next step that is due today; Day is the next day with due points,
	// and Due their number.
	Later time.Time `json:"later,omitzero"`
	Day   string    `json:"next_date,omitempty"`
	Due   int       `json:"next_due,omitempty"`
	// Cursor and Total are of a cram session: its position, and its number of points, of which at
	// most 500 are counted.
	Cursor string `json:"cursor,omitempty"`
	Total  int    `json:"total,omitempty"`
}

// Next returns the next question. It reserves nothing.
func (p *Learning) Next(ctx context.Context, c Caller, in LearnNextQuery) (out LearnNext, err error) {
	l, err := p.learner(ctx, c, "next_review")
	if err != nil {
		return out, err
	}
	return p.next(ctx, l, in)
}

func (p *Learning) next(ctx context.Context, l *learn.Learner, in LearnNextQuery) (out LearnNext, err error) {
	deck, err := deckNamed(l, in.Deck)
	if err != nil {
		return out, err
	}
	x, err := learn.ParseExpression(in.Query)
	if err != nil {
		return out, err
	}
	if in.Cram {
		return p.nextCram(ctx, l, x.Within(in.Deck, in.Tag), in.Cursor)
	}
	q, err := p.points.Queue(ctx, l.Person, learn.QueueFilter{Deck: deck, Tag: in.Tag, Query: x, Limit: 1, Ahead: true})
	if err != nil {
		return out, LearnError(err)
	}
	out.Left = q.Left
	if len(q.Entries) > 0 {
		out.Card = learnCard(q.Learner, &q.Entries[0])
		return out, nil
	}
	if out.Later = q.NextStepDue; !out.Later.IsZero() {
		return out, nil
	}
	day, n, err := p.points.NextDay(ctx, q.Learner)
	if n > 0 {
		out.Day, out.Due = day.String(), n
	}
	return out, err
}

// nextCram returns the next question of a cram session.
func (p *Learning) nextCram(ctx context.Context, l *learn.Learner, x *learn.Expression, cursor string) (out LearnNext,
	err error) {
	after, total, err := learn.CramPosition(cursor)
	if err != nil {
		return out, LearnError(err)
	}
	page, err := p.points.Cram(ctx, l.Person, x, after, 1)
	if err != nil {
		return out, LearnError(err)
	}
	out.Total = max(total, page.Total)
	if len(page.Entries) > 0 {
		out.Card = learnCard(page.Learner, &page.Entries[0])
		out.Cursor = learn.CramCursor(page.Entries[0].Number, out.Total)
	}
	return out, nil
}

// LearnQueueQuery selects a part of today's queue.
type LearnQueueQuery struct {
	Deck  string `query:"deck"` // name or id
	Tag   string `query:"tag"`
	Query string `query:"query"` // conditions such as tag:x forgotten:7d
	After string `query:"after"` // next of the page before
	Limit int    `query:"limit"`
}

// LearnQueue are the points to review now, in order.
type LearnQueue struct {
	Cards []LearnCard     `json:"cards"`
	Left  learn.Remaining `json:"remaining"` // of the whole deck; the tag is ignored
	Later time.Time       `json:"later,omitzero"`
	Next  string          `json:"next,omitempty"`
}

// Queue lists the points to review now.
func (p *Learning) Queue(ctx context.Context, c Caller, in LearnQueueQuery) (out LearnQueue, err error) {
	l, err := p.learner(ctx, c, "list_reviews")
	if err != nil {
		return out, err
	}
	f := learn.QueueFilter{Tag: in.Tag, Cursor: in.After}
	if f.Limit, err = pointsLimit(in.Limit); err != nil {
		return out, err
	}
	if f.Deck, err = deckNamed(l, in.Deck); err != nil {
		return out, err
	}
	if f.Query, err = learn.ParseExpression(in.Query); err != nil {
		return out, err
	}
	q, err := p.points.Queue(ctx, l.Person, f)
	if err != nil {
		return out, LearnError(err)
	}
	out = LearnQueue{Cards: make([]LearnCard, len(q.Entries)), Left: q.Left, Later: q.NextStepDue, Next: q.Cursor}
	for i := range q.Entries {
		out.Cards[i] = *learnCard(q.Learner, &q.Entries[i])
	}
	return out, nil
}

// LearnAnswer is a question with its answer.
type LearnAnswer struct {
	LearnCard
	Answer string `json:"answer"`
	Recall string `json:"last_recall,omitempty"`
}

// Reveal returns the answer of a point.
func (p *Learning) Reveal(ctx context.Context, c Caller, in LearnPointRef) (out LearnAnswer, err error) {
	l, err := p.learner(ctx, c, "reveal_answer")
	if err != nil {
		return out, err
	}
	e, err := p.points.Get(ctx, l.Person, in.Point)
	if err != nil {
		return out, LearnError(err)
	}
	out = LearnAnswer{LearnCard: *learnCard(l, e), Answer: e.Answer}
	for i := range e.Sittings {
		if v := &e.Sittings[i]; !v.Completed.IsZero() && v.Recall != "" {
			out.Recall = v.Recall
		}
	}
	return out, nil
}

// LearnRecall is what somebody recalled of a point.
type LearnRecall struct {
	LearnPointRef
	Recall string `json:"recall_text"`
}

// Judge compares a recall with the answer of its point. It changes nothing.
func (p *Learning) Judge(ctx context.Context, c Caller, in LearnRecall) (*learn.Judgement, error) {
	person, err := p.person(c, "analyze_recall")
	if err != nil {
		return nil, err
	}
	e, err := p.points.Get(ctx, person, in.Point)
	if err != nil {
		return nil, LearnError(err)
	}
	j, err := p.points.Judge(ctx, person, learn.Recall{Question: e.Question, Answer: e.Answer, Recall: in.Recall,
		Lang: c.Lang})
	return j, LearnError(err)
}

// GradeText is a grade: its name, or 1 to 4, also as a number.
type GradeText string

// UnmarshalJSON implements [json.Unmarshaler].
func (g *GradeText) UnmarshalJSON(text []byte) error {
	var n json.Number
	if json.Unmarshal(text, &n) == nil && len(text) > 0 && text[0] != '"' {
		*g = GradeText(n)
		return nil
	}
	return json.Unmarshal(text, (*string)(g))
}

// LearnReview is a completed review.
type LearnReview struct {
	Point   string    `json:"knowledge_point_id"`
	Grade   GradeText `json:"grade"`                 // again, hard, good, easy, or 1 to 4
	Sitting string    `json:"schedule_id,omitempty"` // schedule_id of the question
	Review  string    `json:"review_id,omitempty"`   // id of the client, which makes retries idempotent
	Recall  string    `json:"recall_text,omitempty"` // what was recalled
	Score   *int      `json:"score,omitempty"`       // 0 to 100, if somebody judged it
	TookMS  int64     `json:"took_ms,omitempty"`     // how long it took
	Early   bool      `json:"early,omitempty"`       // allows a review before the due date
	Deck    string    `json:"deck,omitempty"`        // for the next question
	Tag     string    `json:"tag,omitempty"`         // the same
	Query   string    `json:"query,omitempty"`       // the same
	// Cram and Cursor are those of the question, if it was one of a cram session. Such a review
	// counts only as an early one.
	Cram   bool   `json:"cram,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// LearnOutcome is the result of a review.
type LearnOutcome struct {
	Review  string `json:"review_id"`
	Point   string `json:"knowledge_point_id"`
	Sitting string `json:"schedule_id"`
	Grade   string `json:"grade"`
	State   string `json:"state"`
	Due     string `json:"due,omitempty"`
	Already bool   `json:"already,omitempty"` // a repeated request; nothing has changed
	Leech   bool   `json:"leech,omitempty"`   // the point is forgotten repeatedly
	// Corrected is true if the review was recorded before, with the grade Previous.
	Corrected bool   `json:"corrected,omitempty"`
	Previous  string `json:"previous_grade,omitempty"`
}

func learnOutcome(o *learn.Outcome) LearnOutcome {
	return LearnOutcome{
		Review: o.Review.ID, Point: o.Entry.ID, Sitting: o.Sitting, Grade: learn.GradeName(o.Review.Grade),
		State: learn.StateName(&o.Entry.Point), Due: learn.DueText(&o.Entry.Point),
		Already: o.Already, Leech: o.Leech,
		Corrected: o.Corrected, Previous: learn.GradeName(o.Previous),
	}
}

// LearnReviewed is the result of a review with the next question.
type LearnReviewed struct {
	LearnOutcome
	Next LearnNext `json:"next"`
}

// Review records a review, and returns the next question.
func (p *Learning) Review(ctx context.Context, c Caller, in LearnReview) (out LearnReviewed, err error) {
	l, err := p.learner(ctx, c, "submit_review")
	if err != nil {
		return out, err
	}
	grade, err := learn.ParseGrade(string(in.Grade))
	switch {
	case err != nil || grade == store.Ungraded:
		return out, problem.New(problem.Invalid, msgNeedGrade)
	case in.Point == "":
		return out, problem.New(problem.Invalid, msgNeedPoint)
	case in.Score != nil && (*in.Score < 0 || *in.Score > 100):
		return out, problem.New(problem.Invalid, msgBadScore)
	case in.TookMS < 0 || in.TookMS > checkTook.Milliseconds():
		return out, problem.New(problem.Invalid, msgBadTook)
	case in.Cram && !in.Early:
		return out, problem.New(problem.Invalid, msgCramRecordsNot)
	}
	follows := LearnNextQuery{in.Deck, in.Tag, in.Query, in.Cram, in.Cursor}
	if _, err := deckNamed(l, in.Deck); err != nil {
		return out, err
	}
	if _, err := learn.ParseExpression(in.Query); err != nil {
		return out, err
	}
	if _, _, err := learn.CramPosition(in.Cursor); in.Cram && err != nil {
		return out, LearnError(err)
	}
	do := learn.Submission{
		Point: in.Point, Sitting: in.Sitting, ID: in.Review, Grade: grade, Recall: in.Recall, Score: -1,
		Took: time.Duration(in.TookMS) * time.Millisecond, Channel: c.Program, Early: in.Early,
	}
	if in.Score != nil {
		do.Score = *in.Score
	}
	var done *learn.Outcome
	err = p.recordChange(c, "submit_review", in, func() (err error) {
		done, err = p.points.Submit(ctx, l.Person, do)
		return err
	})
	if err != nil {
		return out, err
	}
	out.LearnOutcome = learnOutcome(done)
	if out.Next, err = p.next(ctx, l, follows); err != nil {
		// the review is stored; only finding the next question failed
		p.s.Logger.WarnContext(ctx, "the next question could not be looked up", "error", err)
	}
	return out, nil
}

// LearnUndo identifies the review to undo.
type LearnUndo struct {
	Review string `json:"review_id,omitempty"` // empty: the last one
}

// LearnUndone is the result of an undo, with the question.
type LearnUndone struct {
	LearnOutcome
	Card *LearnCard `json:"card"`
}

// Undo undoes a review.
func (p *Learning) Undo(ctx context.Context, c Caller, in LearnUndo) (out LearnUndone, err error) {
	l, err := p.learner(ctx, c, "undo_review")
	if err != nil {
		return out, err
	}
	var done *learn.Outcome
	err = p.recordChange(c, "undo_review", in, func() (err error) {
		done, err = p.points.Undo(ctx, l.Person, in.Review, c.Program)
		return err
	})
	if err != nil {
		return out, err
	}
	return LearnUndone{learnOutcome(done), learnCard(l, &done.Entry)}, nil
}
