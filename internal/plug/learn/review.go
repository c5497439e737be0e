package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// leechTag marks points that are forgotten again and again.
const leechTag = "leech"

// Submission is a review that somebody did.
type Submission struct {
	// Point or Sitting says which: the point's id, or that of a row of its plan.
	// With both, the row must be the point's.
	Point   string
	Sitting string
	// ID is the client's own name for the review: sent again, it changes nothing.
	// Empty: one is made.
	ID     string
	Grade  store.Grade
	Recall string
	Score  int // 0–100 by a model; −1: not judged
	Took   time.Duration
	Door   string
	// Early allows a review before it is due.
	Early bool
}

// Outcome is what became of a submission.
type Outcome struct {
	Entry    Entry
	Review   store.LogEntry
	Sitting  string // the row of the plan that it completed
	Already  bool   // it was submitted before, and nothing has changed now
	Leech    bool   // the point has become a leech
	Settings schedule.Settings
}

// Reviewed is the error about a review that somebody did already, on another
// device or in another window.
type Reviewed struct {
	Entry Entry
	At    time.Time
}

func (e *Reviewed) Error() string { return "this review is done already" }

// NotDue is the error about a review that is not due yet.
type NotDue struct{ Entry Entry }

func (e *NotDue) Error() string { return "this point is not due yet" }

// Submit takes a review: the card moves, the row of the plan is completed, and the
// log grows, all at once. What is returned without an error is on the disk. The
// errors are [ErrNotFound], [ErrNoPlan], *[Reviewed], *[NotDue] and *[Invalid].
func (s *Service) Submit(ctx context.Context, person string, in Submission) (*Outcome, error) {
	if len(in.Recall) > MaxText {
		return nil, invalid(talk.Say{Zh: "回忆的内容超过 %d KiB", En: "recall_text is longer than %d KiB"}, MaxText>>10)
	}
	if in.Grade < store.Ungraded || in.Grade > store.Easy {
		return nil, invalid(talk.Say{Zh: "评分是 again、hard、good 或 easy", En: "the grade is again, hard, good or easy"})
	}
	if len(in.ID) > 100 {
		return nil, invalid(talk.Say{Zh: "review_id 最多 100 字节", En: "review_id has 100 bytes at most"})
	}
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	if in.Point == "" {
		p, err := s.Store.Learn.PointOf(ctx, person, in.Sitting)
		if errors.Is(err, store.ErrNotFound) {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		in.Point = p.ID
	}
	out := &Outcome{}
	entry, err := s.change(ctx, person, in.Point, func(ctx context.Context, c *store.PointChange) error {
		*out = Outcome{Settings: l.Settings(c.Point.Deck)}
		return s.review(ctx, c, l, in, out)
	})
	switch {
	case errors.Is(err, errAlready):
		// Nothing was written; what the change read is in out.
		return out, nil
	case err != nil:
		return nil, err
	}
	out.Entry = *entry
	grade := GradeName(in.Grade)
	if grade == "" {
		grade = "none"
	}
	s.reviews.WithLabelValues(in.Door, grade).Inc()
	return out, nil
}

// errAlready ends a change that was made before.
var errAlready = errors.New("submitted already")

func (s *Service) review(ctx context.Context, c *store.PointChange, l *Learner, in Submission, out *Outcome) error {
	if in.ID != "" {
		was, err := c.Entry(ctx, in.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case was.Point != c.Point.Number || was.Kind != store.LogReview:
			return invalid(talk.Say{Zh: "review_id %s 已经用过了，请换一个", En: "review_id %s was used for something else; take a new one"}, clip(in.ID, 50))
		default:
			out.Entry, out.Review, out.Sitting, out.Already = Entry{c.Point, c.Sittings}, was, was.Sitting, true
			return errAlready
		}
	}
	i, err := s.sitting(ctx, c, l, in, out)
	if err != nil {
		return err
	}
	if last := c.Point.Card.LastAt; !l.Now.Truncate(time.Millisecond).After(last) {
		// Another review came in later and was written first. The log must have them
		// in the order in which they moved the card, or they cannot be taken back.
		then := *l
		then.Now = last.Add(time.Millisecond)
		l = &then
	}
	settings := out.Settings
	before := c.Point.Card
	waited := c.Point.Queue()
	after, err := schedule.Next(before, settings, l.Calendar, schedule.Review{Grade: in.Grade, At: l.Now}, c.Point.Number, func(d store.Day) int { return c.Load(ctx, d) })
	if err != nil {
		return fmt.Errorf("schedule the next review: %w", err)
	}
	after.Buried = 0
	done := &c.Sittings[i]
	done.Completed, done.Recall = l.Now, in.Recall
	out.Sitting = done.ID
	c.Point.Card = after
	s.planNext(c, l, settings)
	if schedule.Leech(before, c.Point.Card, settings) {
		out.Leech = true
		if !slices.Contains(c.Point.Tags, leechTag) {
			c.Point.Tags = append(slices.Clone(c.Point.Tags), leechTag)
			slices.Sort(c.Point.Tags)
		}
		c.Point.Suspended = c.Point.Suspended || settings.LeechSuspend
	}
	if settings.Bury {
		c.BuryKin = l.Today + 1
	}
	elapsed := -1
	if before.Reps > 0 {
		elapsed = schedule.Elapsed(before, l.Today)
	}
	id := in.ID
	if id == "" {
		id = newID()
	}
	out.Review = store.LogEntry{
		ID: id, Person: l.Person, Point: c.Point.Number, Kind: store.LogReview, At: l.Now, Day: l.Today, Zone: l.Calendar.Zone.String(), Grade: in.Grade, Queue: waited,
		Sitting: done.ID, Recall: in.Recall, Score: in.Score, Took: in.Took, Door: in.Door, Elapsed: elapsed, Before: card(before), After: card(c.Point.Card),
	}
	c.Log = append(c.Log, out.Review)
	return nil
}

func card(c store.Card) json.RawMessage {
	text, err := json.Marshal(c)
	if err != nil {
		return nil // only numbers that are none
	}
	return text
}

// sitting finds the row of the plan that a review completes.
func (s *Service) sitting(ctx context.Context, c *store.PointChange, l *Learner, in Submission, out *Outcome) (int, error) {
	now := Entry{c.Point, c.Sittings}
	if in.Sitting != "" {
		i := slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.ID == in.Sitting })
		if i < 0 {
			return 0, ErrNotFound
		}
		if done := c.Sittings[i]; !done.Completed.IsZero() {
			if done.Recall == in.Recall && in.ID == "" {
				out.Entry, out.Sitting, out.Already = now, done.ID, true
				return 0, errAlready
			}
			return 0, &Reviewed{now, done.Completed}
		}
		if !c.Point.InPlan || c.Point.Draft {
			return 0, ErrNoPlan
		}
		return i, nil
	}
	open := now.Open()
	if open == nil || !c.Point.InPlan || c.Point.Draft {
		return 0, ErrNoPlan
	}
	if !s.due(&c.Point, l) {
		last, err := c.LastReview(ctx)
		switch {
		case errors.Is(err, store.ErrNotFound): // never reviewed: whoever wants to begin may
		case err != nil:
			return 0, err
		case last.Day == l.Today && last.Recall == in.Recall && in.ID == "":
			out.Entry, out.Review, out.Sitting, out.Already = now, last, last.Sitting, true
			return 0, errAlready
		case !in.Early:
			return 0, &NotDue{now}
		}
	}
	return slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.ID == open.ID }), nil
}

// due says whether a point is to be reviewed now.
func (s *Service) due(p *store.Point, l *Learner) bool {
	switch p.Queue() {
	case store.QueueNew:
		return true
	case store.QueueSteps:
		return !p.Card.DueAt.After(l.Now)
	case store.QueueDay:
		return p.Card.Due <= l.Today
	}
	return false
}

// planNext makes the plan go on after a review.
func (s *Service) planNext(c *store.PointChange, l *Learner, settings schedule.Settings) {
	p := &c.Point
	open := (&Entry{*p, c.Sittings}).Open()
	if settings.Schedule != schedule.Classic {
		// One row is open at a time; what is left of a classic course goes.
		c.Sittings = slices.DeleteFunc(c.Sittings, func(v store.Sitting) bool { return v.Completed.IsZero() })
		number := 0
		for _, v := range c.Sittings {
			number = max(number, v.Number)
		}
		c.Sittings = append(c.Sittings, store.Sitting{ID: newID(), Day: p.Card.Due, Number: number + 1, Created: l.Now})
		return
	}
	if open == nil {
		p.Card.Phase = store.Done
		if len(c.Sittings) < len(schedule.ClassicDays) {
			// It has a plan of the other schedule still, since it was changed while
			// its deck was.
			resume(c, l)
			p.Card.Due = max(p.Card.Due, l.Today+1)
		}
		return
	}
	// A row that is overdue too waits for tomorrow: nobody should see the same
	// question twice in a row.
	p.Card.Phase, p.Card.Due = store.Review, max(open.Day, l.Today+1)
}

// Undo takes a review back: the last one that was done, or the one of that id if
// no later review of its point stands in the way. The text of the point stays as
// it is now. Undoing what is undone already changes nothing.
func (s *Service) Undo(ctx context.Context, person, id, door string) (*Outcome, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	var last store.LogEntry
	if id == "" {
		last, err = s.Store.Learn.LastReview(ctx, person)
	} else {
		last, err = s.Store.Learn.Entry(ctx, person, id)
	}
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && last.Kind != store.LogReview:
		return nil, invalid(talk.Say{Zh: "没有可以撤销的复习", En: "there is no review to undo"})
	case err != nil:
		return nil, err
	}
	points, err := s.Store.Learn.Numbered(ctx, person, []int64{last.Point})
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, ErrNotFound
	}
	out := &Outcome{}
	entry, err := s.change(ctx, person, points[0].ID, func(ctx context.Context, c *store.PointChange) error {
		*out = Outcome{Review: last, Sitting: last.Sitting, Settings: l.Settings(c.Point.Deck)}
		if undone, err := c.Undone(ctx, last.ID); err != nil {
			return err
		} else if undone {
			out.Entry, out.Already = Entry{c.Point, c.Sittings}, true
			return errAlready
		}
		top, err := c.LastReview(ctx)
		if err != nil {
			return err
		}
		if top.ID != last.ID {
			return invalid(talk.Say{Zh: "这个知识点后来又复习过，请先撤销那一次", En: "a later review of this point stands in the way; undo that first"})
		}
		return takeBack(c, l, last, door, out.Settings)
	})
	switch {
	case errors.Is(err, errAlready):
		return out, nil
	case err != nil:
		return nil, err
	}
	out.Entry = *entry
	return out, nil
}

// takeBack puts a point's card and plan back to what they were before a review.
func takeBack(c *store.PointChange, l *Learner, last store.LogEntry, door string, settings schedule.Settings) error {
	var before store.Card
	if len(last.Before) == 0 {
		return invalid(talk.Say{Zh: "这次复习是导入的，不能在这里撤销", En: "this review was imported and cannot be undone here"})
	}
	if err := json.Unmarshal(last.Before, &before); err != nil {
		return fmt.Errorf("read what was before the review: %w", err)
	}
	was, open := c.Point.Card, openRows(c.Sittings)
	c.Point.Card = before
	c.Sittings = slices.DeleteFunc(c.Sittings, func(v store.Sitting) bool {
		return v.Completed.IsZero() && !v.Created.Before(last.At) && v.ID != last.Sitting
	})
	for i := range c.Sittings {
		if v := &c.Sittings[i]; v.ID == last.Sitting {
			v.Completed, v.Recall = time.Time{}, ""
		}
	}
	slices.SortStableFunc(c.Sittings, func(a, b store.Sitting) int { return a.Number - b.Number })
	if settings.Schedule == schedule.Classic && openRows(c.Sittings) != open+1 {
		// The point came into the course after the review, and its rows with it.
		replan(c, l, settings)
	}
	if schedule.Leech(before, was, settings) {
		c.Point.Tags = slices.DeleteFunc(slices.Clone(c.Point.Tags), func(tag string) bool { return tag == leechTag })
		c.Point.Suspended = c.Point.Suspended && !settings.LeechSuspend
	}
	c.Log = append(c.Log, store.LogEntry{
		ID: newID(), Person: l.Person, Point: c.Point.Number, Kind: store.LogUndo, At: l.Now, Day: last.Day, Zone: l.Calendar.Zone.String(), Grade: last.Grade, Queue: last.Queue,
		Deck: last.Deck, Sitting: last.Sitting, Score: -1, Door: door, Elapsed: last.Elapsed, Before: card(was), After: card(c.Point.Card), Undoes: last.ID,
	})
	return nil
}

// openRows counts the reviews of a plan that are still to come.
func openRows(list []store.Sitting) (n int) {
	for i := range list {
		if list[i].Completed.IsZero() {
			n++
		}
	}
	return n
}

// Reschedule gives a point another date. A point that was never reviewed stays
// away until then.
func (s *Service) Reschedule(ctx context.Context, person, id string, due store.Day, door string) (*Entry, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	if due < l.Today || due > l.Today+36500 {
		return nil, invalid(talk.Say{Zh: "日期必须在今天（%s）和一百年之内", En: "the date must lie between today (%s) and a hundred years from now"}, l.Today)
	}
	return s.change(ctx, person, id, func(_ context.Context, c *store.PointChange) error {
		p := &c.Point
		before := p.Card
		open := (&Entry{*p, c.Sittings}).Open()
		switch {
		case !p.InPlan || p.Draft:
			return ErrNoPlan
		case open == nil: // the classic course is over
			c.Sittings = append(c.Sittings, store.Sitting{ID: newID(), Day: due, Number: len(c.Sittings) + 1, Created: l.Now})
			p.Card.Phase = store.Review
		default:
			open.Day = due
			if i := slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.ID == open.ID }); i >= 0 {
				c.Sittings[i].Day = due
			}
		}
		p.Card.Buried = 0
		if p.Card.Phase == store.New {
			p.Card.Buried = due
		} else {
			p.Card.Phase, p.Card.Step, p.Card.DueAt = store.Review, 0, time.Time{}
		}
		p.Card.Due = due
		c.Log = append(c.Log, store.LogEntry{
			ID: newID(), Person: l.Person, Point: p.Number, Kind: store.LogReschedule, At: l.Now, Day: l.Today, Zone: l.Calendar.Zone.String(),
			Score: -1, Door: door, Before: card(before), After: card(p.Card),
		})
		return nil
	})
}

// ParseGrade reads a grade: "again", "hard", "good", "easy", 1 to 4, or what people
// call them. Empty is [store.Ungraded].
func ParseGrade(s string) (store.Grade, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "":
		return store.Ungraded, nil
	case "again", "1", "forgot", "忘了", "重来":
		return store.Again, nil
	case "hard", "2", "困难", "难":
		return store.Hard, nil
	case "good", "3", "良好", "记得":
		return store.Good, nil
	case "easy", "4", "简单":
		return store.Easy, nil
	}
	return 0, invalid(talk.Say{Zh: "评分是 again、hard、good 或 easy，不是 %q", En: "the grade is again, hard, good or easy, not %q"}, clip(s, 30))
}

// GradeName is a grade's name; that of an ungraded review is empty.
func GradeName(g store.Grade) string {
	return [...]string{"", "again", "hard", "good", "easy"}[g]
}
