package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// unjudgedScore is the score of a recall that was not judged.
const unjudgedScore = -1

// doneJSON is what the original service returns after a review.
type doneJSON struct {
	Success bool   `json:"success"`
	Sitting string `json:"schedule_id"`
}

// reviewJSON is the full result of a review.
type reviewJSON struct {
	doneJSON
	Review  string `json:"review_id,omitempty"`
	Point   string `json:"knowledge_point_id"`
	Grade   string `json:"grade,omitempty"`
	State   string `json:"state"`
	Due     string `json:"due,omitempty"`
	Already bool   `json:"already,omitempty"`
	Leech   bool   `json:"leech,omitempty"`
	// Corrected reports whether the call changed the grade of a review that was recorded before.
	Corrected bool   `json:"corrected,omitempty"`
	Previous  string `json:"previous_grade,omitempty"`
}

func newReviewJSON(o *Outcome) reviewJSON {
	return reviewJSON{
		doneJSON: doneJSON{true, o.Sitting}, Review: o.Review.ID, Point: o.Entry.ID, Grade: GradeName(o.Review.Grade),
		State: StateName(&o.Entry.Point), Due: DueText(&o.Entry.Point), Already: o.Already, Leech: o.Leech,
		Corrected: o.Corrected, Previous: GradeName(o.Previous),
	}
}

func (s *Service) submission(c *tool.Call, a *arguments) (Submission, error) {
	grade, err := ParseGrade(a.Grade)
	in := Submission{Point: a.Point, Sitting: a.Sitting, ID: a.Review, Grade: grade, Recall: a.Recall,
		Score: unjudgedScore, Took: time.Duration(a.TookMS) * time.Millisecond, Channel: c.Caller.Channel,
		Early: a.Early}
	if a.Score != nil {
		in.Score = *a.Score
	}
	return in, err
}

// callRecall completes a row of a plan. It fails if the row does not exist.
func (s *Service) callRecall(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	return s.complete(ctx, c, a)
}

// callMark completes the earliest open row of a point.
func (s *Service) callMark(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	return s.complete(ctx, c, a)
}

func (s *Service) complete(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	in, err := s.submission(c, a)
	if err != nil {
		return nil, err
	}
	out, err := s.Submit(ctx, c.Caller.Person, in)
	if err != nil {
		return nil, err
	}
	shape := newReviewJSON(out)
	return result(shape.doneJSON, shape, ""), nil
}

// nextJSON is the next question, or the reason why there is none.
type nextJSON struct {
	Done   bool              `json:"done"`
	Card   *question         `json:"card,omitempty"`
	Left   Remaining         `json:"remaining"`
	Grades map[string]string `json:"grades,omitempty"`
	// Cursor and Total are of a cram session: its position, and its number of points, at most
	// [MaxCramCount].
	Cursor string `json:"cursor,omitempty"`
	Total  int    `json:"total,omitempty"`
	Note   string `json:"note"`

	entry *Entry // nil if there is none
}

func (s *Service) next(ctx context.Context, person string, a *arguments) (*nextJSON, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.nextFor(ctx, l, a)
}

func (s *Service) nextFor(ctx context.Context, l *Learner, a *arguments) (*nextJSON, error) {
	if a.Cram {
		return s.nextCram(ctx, l, a)
	}
	x, err := ParseExpression(a.Query)
	if err != nil {
		return nil, err
	}
	deck, err := deckFilter(l, a.Deck)
	if err != nil {
		return nil, err
	}
	q, err := s.QueueOf(ctx, l, QueueFilter{Deck: deck, Tag: a.Tag, Query: x, Limit: 1, Ahead: true})
	if err != nil {
		return nil, err
	}
	out := &nextJSON{Done: len(q.Entries) == 0, Left: q.Left}
	if out.Done {
		out.Note, err = s.explainEmptyQueue(ctx, q)
		return out, err
	}
	out.entry = &q.Entries[0]
	out.Card, out.Grades = questionOf(q.Learner, &q.Entries[0]), gradePreviews(q.Learner, &q.Entries[0].Point)
	out.Note = "Ask this question and wait for the recall. Then reveal_answer, judge the meaning, and submit_review with knowledge_point_id, schedule_id and grade."
	if out.Left.HeldBack > 0 {
		out.Note += fmt.Sprintf(" %d more are held back by today's limits.", out.Left.HeldBack)
	}
	return out, nil
}

// explainEmptyQueue returns a sentence that says why there is no question and when the next one is
// due.
func (s *Service) explainEmptyQueue(ctx context.Context, q *Queue) (string, error) {
	l := q.Learner
	note := "Nothing is left to review now."
	switch {
	case !q.NextStepDue.IsZero():
		note += " The next question comes at " + q.NextStepDue.In(l.Calendar.Zone).Format("15:04") + "."
	default:
		day, n, err := s.NextDay(ctx, l)
		if err != nil {
			return "", err
		}
		if n > 0 {
			note += fmt.Sprintf(" The next are due on %s (%d).", day, n)
		}
	}
	if q.Left.HeldBack > 0 {
		note += fmt.Sprintf(" %d more are held back by today's limits; update_learning_settings with a larger new_per_day or reviews_per_day lets them come.", q.Left.HeldBack)
	}
	return note, nil
}

func (s *Service) callNext(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	next, err := s.next(ctx, c.Caller.Person, a)
	if err != nil {
		return nil, err
	}
	res := result(next, next, "")
	if next.entry != nil {
		s.addMedia(ctx, res, &next.entry.Point, false)
	}
	return res, nil
}

func (s *Service) callReveal(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	e, err := s.Get(ctx, c.Caller.Person, a.Point)
	if err != nil {
		return nil, err
	}
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	out := struct {
		question
		Answer string            `json:"answer"`
		Recall string            `json:"last_recall,omitempty"`
		Grades map[string]string `json:"grades"`
	}{question: *questionOf(l, e), Answer: e.Answer, Grades: gradePreviews(l, &e.Point)}
	for i := range e.Sittings {
		if v := &e.Sittings[i]; !v.Completed.IsZero() && v.Recall != "" {
			out.Recall = v.Recall
		}
	}
	return s.addMedia(ctx, result(out, out, ""), &e.Point, true), nil
}

func (s *Service) callSubmit(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	if a.Cram && !a.Early {
		return s.submitPractice(ctx, c, a)
	}
	in, err := s.submission(c, a)
	if err != nil {
		return nil, err
	}
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	out, err := s.submit(ctx, l, in)
	if err != nil {
		return nil, err
	}
	next, err := s.nextFor(ctx, l, a)
	if err != nil {
		// The review is stored; only the lookup of the next question failed.
		s.Logger.WarnContext(ctx, "the next question could not be looked up", "error", err)
		next = &nextJSON{Note: "The review is recorded. Call next_review for the next question."}
	}
	shape := struct {
		reviewJSON
		Next *question         `json:"next_card"`
		Left Remaining         `json:"remaining"`
		Each map[string]string `json:"next_grades,omitempty"`
		At   string            `json:"cursor,omitempty"`
		Note string            `json:"note"`
	}{newReviewJSON(out), next.Card, next.Left, next.Grades, next.Cursor, next.Note}
	if out.Corrected {
		shape.Note = fmt.Sprintf("This corrected the review that was recorded as %s before. ",
			cmp.Or(GradeName(out.Previous), "done without a grade")) + shape.Note
	}
	if out.Leech {
		shape.Note = "This point is forgotten again and again (leech): suggest to rewrite it, to split it, or to suspend it. " + shape.Note
	}
	res := result(shape, shape, "")
	if next.entry != nil {
		s.addMedia(ctx, res, &next.entry.Point, false)
	}
	return res, nil
}

// submitPractice answers a review of a cram session that does not count.
func (s *Service) submitPractice(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	if _, err := ParseGrade(a.Grade); err != nil {
		return nil, err
	}
	next, err := s.next(ctx, c.Caller.Person, a)
	if err != nil {
		return nil, err
	}
	shape := struct {
		Recorded bool              `json:"recorded"`
		Point    string            `json:"knowledge_point_id"`
		Next     *question         `json:"next_card"`
		Each     map[string]string `json:"next_grades,omitempty"`
		At       string            `json:"cursor,omitempty"`
		Note     string            `json:"note"`
	}{false, a.Point, next.Card, next.Grades, next.Cursor, "Practice only: nothing was recorded. " + next.Note}
	return result(shape, shape, ""), nil
}

func (s *Service) callUndo(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	out, err := s.Undo(ctx, c.Caller.Person, a.Review, c.Caller.Channel)
	if err != nil {
		return nil, err
	}
	shape := struct {
		reviewJSON
		Card *question `json:"card"`
	}{newReviewJSON(out), questionOf(out.learner, &out.Entry)}
	return result(shape, shape, ""), nil
}

func (s *Service) callReschedule(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	var due store.Day
	switch {
	case a.Date != "" && a.InDays == nil:
		if due, err = store.ParseDay(a.Date); err != nil {
			return nil, invalid(msgPlain, err)
		}
	case a.InDays != nil && a.Date == "":
		due = l.Today + store.Day(*a.InDays)
	default:
		return nil, invalid(i18n.Message("give date or in_days"))
	}
	out := struct {
		Due   string            `json:"due"`
		Done  []string          `json:"rescheduled"`
		Wrong map[string]string `json:"errors,omitempty"`
	}{Due: due.String(), Done: []string{}, Wrong: map[string]string{}}
	for i, id := range a.IDs {
		_, err := s.rescheduleOf(ctx, l, id, due, c.Caller.Channel)
		switch {
		case err == nil:
			out.Done = append(out.Done, id)
		case problem.Is(err, problem.Invalid):
			return nil, err
		case errors.Is(err, ErrNotFound):
			out.Wrong[truncateBytes(id, 100)] = "Knowledge point not found"
		case errors.Is(err, ErrNoPlan):
			out.Wrong[truncateBytes(id, 100)] = "It is not in the review plan"
		case len(out.Done) > 0 && ctx.Err() == nil: // what is done is not taken back, so it is told
			s.Logger.ErrorContext(ctx, "a point could not be rescheduled", "error", err)
			out.Wrong[truncateBytes(id, 100)] = "It could not be changed; try again in a moment"
		default:
			return nil, err
		}
		if c.Progress != nil {
			c.Progress(tool.Progress{Done: float64(i + 1), Total: float64(len(a.IDs))})
		}
	}
	res := result(out, out, "")
	res.IsError = len(out.Done) == 0
	return res, nil
}

// callHistory lists the log entries of a point.
func (s *Service) callHistory(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	e, err := s.Get(ctx, c.Caller.Person, a.Point)
	if err != nil {
		return nil, err
	}
	type row struct {
		ID      string `json:"review_id"`
		Kind    string `json:"kind"`
		At      moment `json:"at"`
		Day     string `json:"date"`
		Zone    string `json:"time_zone"`
		Grade   string `json:"grade,omitempty"`
		Recall  string `json:"recall_text,omitempty"`
		Score   *int   `json:"score,omitempty"`
		TookMS  int64  `json:"took_ms,omitempty"`
		Elapsed int    `json:"elapsed_days"`
		Channel string `json:"channel,omitempty"`
		Undoes  string `json:"undoes,omitempty"`
	}
	var after store.LogEntry
	if a.Cursor != "" {
		if after, err = s.Store.Learn.Entry(ctx, c.Caller.Person, a.Cursor); err != nil {
			return nil, invalid(msgNoCursor)
		}
	}
	list, err := s.Store.Learn.Log(ctx, c.Caller.Person, e.Number, after.At, after.ID, pageLimit(a.Limit)+1)
	if err != nil {
		return nil, fmt.Errorf("read the review log: %w", err)
	}
	next := ""
	if len(list) > pageLimit(a.Limit) {
		list = list[:pageLimit(a.Limit)]
		next = list[len(list)-1].ID
	}
	rows := make([]row, len(list))
	for i, v := range list {
		rows[i] = row{ID: v.ID, Kind: v.Kind, At: moment(v.At), Day: v.Day.String(), Zone: v.Zone,
			Grade: GradeName(v.Grade), Recall: v.Recall, TookMS: v.Took.Milliseconds(), Elapsed: max(v.Elapsed, 0),
			Channel: v.Channel, Undoes: v.Undoes}
		if v.Score >= 0 {
			rows[i].Score = &list[i].Score
		}
	}
	return result(rows, map[string]any{"reviews": rows, "next_cursor": nilIfEmpty(next)}, ""), nil
}
