package control

import (
	"context"
	"encoding/json"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayNeedGrade = talk.Say{Zh: "请给出评分：again、hard、good、easy，或者 1 到 4。",
		En: "Give the grade: again, hard, good, easy, or 1 to 4."}
	sayNeedPoint = talk.Say{Zh: "请用 knowledge_point_id 说明是哪个知识点。", En: "Say which point with knowledge_point_id."}
	sayBadScore  = talk.Say{Zh: "score 是 0 到 100 的数。", En: "score is a number from 0 to 100."}
	sayBadTook   = talk.Say{Zh: "took_ms 是 0 到 3600000 的数。", En: "took_ms is a number from 0 to 3600000."}
)

// checkTook bounds how long one review took.
const checkTook = time.Hour

// LearnCard is a point as it is asked: without its answer.
type LearnCard struct {
	Point    string   `json:"knowledge_point_id"`
	Sitting  string   `json:"schedule_id,omitempty"` // the row of its plan that the review completes
	Question string   `json:"question"`
	Deck     string   `json:"deck"`
	Tags     []string `json:"tags"`
	State    string   `json:"state"`
	Number   int      `json:"review_number,omitempty"`
	Due      string   `json:"due,omitempty"`
	// Grades say what each grade would lead to, from again to easy.
	Grades []LearnGrade `json:"grades"`
}

// LearnGrade is a grade, and when the point would come again.
type LearnGrade struct {
	Grade   string `json:"grade"`
	Minutes int    `json:"minutes,omitempty"` // on its steps
	Days    int    `json:"days,omitempty"`    // else
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

// LearnNextQuery narrows what is asked next.
type LearnNextQuery struct {
	Deck string `query:"deck"` // name or id
	Tag  string `query:"tag"`
}

// LearnNext is the next question, or when there will be one.
type LearnNext struct {
	Card *LearnCard      `json:"card,omitempty"` // without it, nothing is left now
	Left learn.Remaining `json:"remaining"`
	// Later is when the next step of a point is due today; Day the next day on which
	// something is, and Due how much.
	Later time.Time `json:"later,omitzero"`
	Day   string    `json:"next_date,omitempty"`
	Due   int       `json:"next_due,omitempty"`
}

// Next gives the next question. It reserves nothing.
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
	q, err := p.points.Queue(ctx, l.Person, learn.QueueFilter{Deck: deck, Tag: in.Tag, Limit: 1, Ahead: true})
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

// LearnQueueQuery says what of today's queue is wanted.
type LearnQueueQuery struct {
	LearnNextQuery
	After string `query:"after"` // the next of the page before
	Limit int    `query:"limit"`
}

// LearnQueue is what is to be reviewed now, in its order.
type LearnQueue struct {
	Cards []LearnCard     `json:"cards"`
	Left  learn.Remaining `json:"remaining"` // of all in the deck; tags are not heeded
	Later time.Time       `json:"later,omitzero"`
	Next  string          `json:"next,omitempty"`
}

// Queue lists what is to be reviewed now.
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

// Reveal shows the answer of a point.
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

// LearnReview is a review that somebody did.
type LearnReview struct {
	Point   string    `json:"knowledge_point_id"`
	Grade   GradeText `json:"grade"`                 // again, hard, good, easy, or 1 to 4
	Sitting string    `json:"schedule_id,omitempty"` // that the question came with
	Review  string    `json:"review_id,omitempty"`   // a name of one's own: sent again, it counts once
	Recall  string    `json:"recall_text,omitempty"` // what was recalled
	Score   *int      `json:"score,omitempty"`       // 0 to 100, if somebody judged it
	TookMS  int64     `json:"took_ms,omitempty"`     // how long it took
	Early   bool      `json:"early,omitempty"`       // although it is not due yet
	Deck    string    `json:"deck,omitempty"`        // of the question that follows
	Tag     string    `json:"tag,omitempty"`         // the same
}

// LearnOutcome is what became of a review.
type LearnOutcome struct {
	Review  string `json:"review_id"`
	Point   string `json:"knowledge_point_id"`
	Sitting string `json:"schedule_id"`
	Grade   string `json:"grade"`
	State   string `json:"state"`
	Due     string `json:"due,omitempty"`
	Already bool   `json:"already,omitempty"` // it was sent before, and nothing has changed now
	Leech   bool   `json:"leech,omitempty"`   // the point is forgotten again and again
}

func learnOutcome(o *learn.Outcome) LearnOutcome {
	return LearnOutcome{
		Review: o.Review.ID, Point: o.Entry.ID, Sitting: o.Sitting, Grade: learn.GradeName(o.Review.Grade),
		State: learn.StateName(&o.Entry.Point), Due: learn.DueText(&o.Entry.Point),
		Already: o.Already, Leech: o.Leech,
	}
}

// LearnReviewed is what became of a review, and the next question.
type LearnReviewed struct {
	LearnOutcome
	Next LearnNext `json:"next"`
}

// Review takes a review, and gives the next question.
func (p *Learning) Review(ctx context.Context, c Caller, in LearnReview) (out LearnReviewed, err error) {
	l, err := p.learner(ctx, c, "submit_review")
	if err != nil {
		return out, err
	}
	grade, err := learn.ParseGrade(string(in.Grade))
	switch {
	case err != nil || grade == store.Ungraded:
		return out, Fail(Invalid, sayNeedGrade)
	case in.Point == "":
		return out, Fail(Invalid, sayNeedPoint)
	case in.Score != nil && (*in.Score < 0 || *in.Score > 100):
		return out, Fail(Invalid, sayBadScore)
	case in.TookMS < 0 || in.TookMS > checkTook.Milliseconds():
		return out, Fail(Invalid, sayBadTook)
	}
	follows := LearnNextQuery{in.Deck, in.Tag}
	if _, err := deckNamed(l, in.Deck); err != nil {
		return out, err
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
		// The review is on the disk; only the look ahead failed.
		p.s.Logger.WarnContext(ctx, "the next question could not be looked up", "error", err)
	}
	return out, nil
}

// LearnUndo says which review is taken back.
type LearnUndo struct {
	Review string `json:"review_id,omitempty"` // empty: the last one
}

// LearnUndone is what became of a review that was taken back, and its question.
type LearnUndone struct {
	LearnOutcome
	Card *LearnCard `json:"card"`
}

// Undo takes a review back.
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
