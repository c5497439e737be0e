package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// LeechTag marks points that are forgotten repeatedly.
const LeechTag = "leech"

// Submission is a completed review to be recorded.
type Submission struct {
	// Point or Sitting identifies the point: its ID, or the ID of a row of its plan. If both are
	// given, the row must belong to the point.
	Point   string
	Sitting string
	// ID is the client's ID for the review and makes retries idempotent. If empty, one is
	// generated.
	ID      string
	Grade   store.Grade
	Recall  string
	Score   int // 0–100 by a model; −1: not judged
	Took    time.Duration
	Channel string
	// Early allows a review before the point is due.
	Early bool
}

// Outcome is the result of a submission.
type Outcome struct {
	Entry   Entry
	Review  store.LogEntry
	Sitting string // row of the plan that the review completed
	Already bool   // submitted before; nothing changed this time
	// Corrected is set if the submission gave a review that was recorded before another grade, and
	// Previous is the grade that it had.
	Corrected bool
	Previous  store.Grade
	Leech     bool // this review made the point a leech
	Settings  schedule.Settings

	learner *Learner // of an undo
}

// AlreadyReviewedError is returned when the point has been reviewed already, on another device or
// in another window.
type AlreadyReviewedError struct {
	Entry Entry
	At    time.Time
}

func (e *AlreadyReviewedError) Error() string { return "this review is done already" }

// NotDueError is returned for a review that is not due yet.
type NotDueError struct{ Entry Entry }

func (e *NotDueError) Error() string { return "this point is not due yet" }

// Submit records a review: it updates the card, completes the row of the plan and appends to the
// log, in one transaction. When it returns without an error, the review is stored. A submission of
// a review that was recorded before counts once; with another grade it corrects the review (see
// [Service.correct]). The errors are [ErrNotFound], [ErrNoPlan], *[AlreadyReviewedError],
// *[NotDueError] and *[Invalid].
func (s *Service) Submit(ctx context.Context, person string, in Submission) (*Outcome, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.submit(ctx, l, in)
}

// submit is [Service.Submit] for a person who is loaded already.
func (s *Service) submit(ctx context.Context, l *Learner, in Submission) (*Outcome, error) {
	if len(in.Recall) > MaxText {
		return nil, invalid(i18n.Message("recall_text is longer than %d KiB"), MaxText>>10)
	}
	if in.Grade < store.Ungraded || in.Grade > store.Easy {
		return nil, invalid(i18n.Message("the grade is again, hard, good or easy"))
	}
	if len(in.ID) > 100 {
		return nil, invalid(i18n.Message("review_id has 100 bytes at most"))
	}
	if in.Point == "" {
		p, err := s.Store.Learn.PointBySitting(ctx, l.Person, in.Sitting)
		if errors.Is(err, store.ErrNotFound) {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		in.Point = p.ID
	}
	out := &Outcome{}
	entry, err := s.change(ctx, l.Person, in.Point, func(ctx context.Context, c *store.PointChange) error {
		*out = Outcome{Settings: l.Settings(c.Point.Deck)}
		return s.review(ctx, c, l, in, out)
	})
	switch {
	case errors.Is(err, errAlreadySubmitted):
		// Nothing was written; out holds what the change read.
		return out, nil
	case err != nil:
		return nil, err
	}
	out.Entry = *entry
	if out.Corrected {
		return out, nil // the review was counted before
	}
	grade := GradeName(in.Grade)
	if grade == "" {
		grade = "none"
	}
	s.reviews.WithLabelValues(in.Channel, grade).Inc()
	return out, nil
}

// errAlreadySubmitted aborts a change that was made before.
var errAlreadySubmitted = errors.New("submitted already")

func (s *Service) review(ctx context.Context, c *store.PointChange, l *Learner, in Submission, out *Outcome) error {
	if in.ID != "" {
		was, err := latestVersion(ctx, c.Entry, in.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case was.Point != c.Point.Number || was.Kind != store.LogReview:
			return invalid(i18n.Message("review_id %s was used for something else; take a new one"),
				truncateBytes(in.ID, 50))
		case isCorrection(in, was):
			return s.correct(ctx, c, l, in, was, out)
		default:
			out.Entry, out.Review, out.Sitting, out.Already = Entry{c.Point, c.Sittings}, was, was.Sitting, true
			return errAlreadySubmitted
		}
	}
	i, err := s.sitting(ctx, c, l, in, out)
	switch {
	case errors.Is(err, errAlreadySubmitted) && isCorrection(in, out.Review):
		return s.correct(ctx, c, l, in, out.Review, out)
	case err != nil:
		return err
	}
	return s.record(ctx, c, l, in, i, out)
}

// record applies a review that completes the row i of the plan.
func (s *Service) record(ctx context.Context, c *store.PointChange, l *Learner, in Submission, i int,
	out *Outcome) error {
	if last := c.Point.Card.LastAt; !l.Now.Truncate(time.Millisecond).After(last) {
		// Another review was submitted later but written first. The log must list reviews in the
		// order in which they changed the card, or they could not be undone.
		then := *l
		then.Now = last.Add(time.Millisecond)
		l = &then
	}
	settings := out.Settings
	before := c.Point.Card
	waited := c.Point.Queue()
	after, err := schedule.Next(before, settings, l.Calendar, schedule.Review{Grade: in.Grade, At: l.Now},
		c.Point.Number, func(d store.Day) int { return c.Load(ctx, d) })
	if err != nil {
		return fmt.Errorf("schedule the next review: %w", err)
	}
	after.Buried = 0
	done := &c.Sittings[i]
	done.Completed, done.Recall = l.Now, in.Recall
	out.Sitting = done.ID
	c.Point.Card = after
	s.planNext(c, l, settings)
	if schedule.BecameLeech(before, c.Point.Card, settings) {
		out.Leech = true
		if !slices.Contains(c.Point.Tags, LeechTag) {
			c.Point.Tags = append(slices.Clone(c.Point.Tags), LeechTag)
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
		ID: id, Person: l.Person, Point: c.Point.Number, Kind: store.LogReview, At: l.Now, Day: l.Today,
		Zone: l.Calendar.Zone.String(), Grade: in.Grade, Queue: waited,
		Sitting: done.ID, Recall: in.Recall, Score: in.Score, Took: in.Took, Channel: in.Channel, Elapsed: elapsed,
		Before: encodeCard(before), After: encodeCard(c.Point.Card),
	}
	c.Log = append(c.Log, out.Review)
	return nil
}

func encodeCard(c store.Card) json.RawMessage {
	text, err := json.Marshal(c)
	if err != nil {
		return nil // only values that are not numbers fail
	}
	return text
}

// sitting finds the row of the plan that a review completes.
func (s *Service) sitting(ctx context.Context, c *store.PointChange, l *Learner, in Submission,
	out *Outcome) (int, error) {
	now := Entry{c.Point, c.Sittings}
	if in.Sitting != "" {
		i := slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.ID == in.Sitting })
		if i < 0 {
			return 0, ErrNotFound
		}
		if done := c.Sittings[i]; !done.Completed.IsZero() {
			if done.Recall != in.Recall || in.ID != "" {
				return 0, &AlreadyReviewedError{now, done.Completed}
			}
			last, err := c.LastReview(ctx)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return 0, err
			}
			if last.Sitting == done.ID {
				if isCorrection(in, last) && last.Day != l.Today {
					return 0, &AlreadyReviewedError{now, done.Completed}
				}
				out.Review = last
			}
			out.Entry, out.Sitting, out.Already = now, done.ID, true
			return 0, errAlreadySubmitted
		}
		if !c.Point.InPlan || c.Point.Draft {
			return 0, ErrNoPlan
		}
		return i, nil
	}
	open := now.OpenSitting()
	if open == nil || !c.Point.InPlan || c.Point.Draft {
		return 0, ErrNoPlan
	}
	if !s.isDue(&c.Point, l) {
		last, err := c.LastReview(ctx)
		switch {
		case errors.Is(err, store.ErrNotFound): // never reviewed: may begin at any time
		case err != nil:
			return 0, err
		case last.Day == l.Today && last.Recall == in.Recall && in.ID == "":
			out.Entry, out.Review, out.Sitting, out.Already = now, last, last.Sitting, true
			return 0, errAlreadySubmitted
		case !in.Early:
			return 0, &NotDueError{now}
		}
	}
	return slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.ID == open.ID }), nil
}

// isDue reports whether a point is to be reviewed now.
func (s *Service) isDue(p *store.Point, l *Learner) bool {
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

// planNext continues the plan after a review.
func (s *Service) planNext(c *store.PointChange, l *Learner, settings schedule.Settings) {
	p := &c.Point
	open := (&Entry{*p, c.Sittings}).OpenSitting()
	if settings.Schedule != schedule.Classic {
		// FSRS keeps one open row; the rest of a classic course is removed.
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
			// The plan still has rows of the other schedule: the deck's schedule changed
			// concurrently.
			resumeCourse(c, l)
			p.Card.Due = max(p.Card.Due, l.Today+1)
		}
		return
	}
	// If the next row is overdue as well, it moves to tomorrow, so that the same question does not
	// come twice in a row.
	p.Card.Phase, p.Card.Due = store.Review, max(open.Day, l.Today+1)
}

// Undo takes back a review: the latest one, or the one with the given ID if its point has no later
// review. The text of the point stays as it is. Undoing a review twice changes nothing.
func (s *Service) Undo(ctx context.Context, person, id, channel string) (*Outcome, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	var last store.LogEntry
	if id == "" {
		last, err = s.Store.Learn.LastReview(ctx, person)
	} else {
		last, err = latestVersion(ctx, func(ctx context.Context, id string) (store.LogEntry, error) {
			return s.Store.Learn.Entry(ctx, person, id)
		}, id)
	}
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && last.Kind != store.LogReview:
		return nil, invalid(i18n.Message("there is no review to undo"))
	case err != nil:
		return nil, err
	}
	points, err := s.Store.Learn.PointsByNumber(ctx, person, []int64{last.Point})
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, ErrNotFound
	}
	out := &Outcome{}
	entry, err := s.change(ctx, person, points[0].ID, func(ctx context.Context, c *store.PointChange) error {
		*out = Outcome{Review: last, Sitting: last.Sitting, Settings: l.Settings(c.Point.Deck), learner: l}
		if undone, err := c.Undone(ctx, last.ID); err != nil {
			return err
		} else if undone {
			out.Entry, out.Already = Entry{c.Point, c.Sittings}, true
			return errAlreadySubmitted
		}
		top, err := c.LastReview(ctx)
		if err != nil {
			return err
		}
		if top.ID != last.ID {
			return invalid(msgLaterReview)
		}
		if later, err := rescheduledSince(ctx, c, last); err != nil {
			return err
		} else if later { // the date that was set by hand stays
			return s.replay(ctx, c, l, nil, []store.LogEntry{last}, channel)
		}
		return undoReview(c, l, last, channel, out.Settings)
	})
	switch {
	case errors.Is(err, errAlreadySubmitted):
		return out, nil
	case err != nil:
		return nil, err
	}
	out.Entry = *entry
	return out, nil
}

// rescheduledSince reports whether a point got a date by hand after a review.
func rescheduledSince(ctx context.Context, c *store.PointChange, review store.LogEntry) (bool, error) {
	history, err := c.History(ctx, review.At)
	return slices.ContainsFunc(history, func(e store.LogEntry) bool { return e.Kind == store.LogReschedule }), err
}

// undoReview restores a point's card and plan to their state before a review.
func undoReview(c *store.PointChange, l *Learner, last store.LogEntry, channel string,
	settings schedule.Settings) error {
	var before store.Card
	if len(last.Before) == 0 {
		return invalid(i18n.Message("this review was imported and cannot be undone here"))
	}
	if err := json.Unmarshal(last.Before, &before); err != nil {
		return fmt.Errorf("read what was before the review: %w", err)
	}
	was, open := c.Point.Card, countOpen(c.Sittings)
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
	if settings.Schedule == schedule.Classic && countOpen(c.Sittings) != open+1 {
		// The point joined the course, and got its rows, after the review.
		replan(c, l, settings)
	}
	if schedule.BecameLeech(before, was, settings) {
		c.Point.Tags = slices.DeleteFunc(slices.Clone(c.Point.Tags), func(tag string) bool { return tag == LeechTag })
		c.Point.Suspended = c.Point.Suspended && !settings.LeechSuspend
	}
	// An undo in the millisecond of its review, or by a clock that is behind, would be sorted
	// before it, and the review would look as if it had come after.
	at := l.Now
	if at.UnixMilli() <= last.At.UnixMilli() {
		at = last.At.Add(time.Millisecond)
	}
	c.Log = append(c.Log, store.LogEntry{
		ID: newID(), Person: l.Person, Point: c.Point.Number, Kind: store.LogUndo, At: at, Day: last.Day,
		Zone: l.Calendar.Zone.String(), Grade: last.Grade, Queue: last.Queue,
		Deck: last.Deck, Sitting: last.Sitting, Score: -1, Channel: channel, Elapsed: last.Elapsed,
		Before: encodeCard(was), After: encodeCard(c.Point.Card), Undoes: last.ID,
	})
	return nil
}

// countOpen counts the reviews of a plan that are not completed.
func countOpen(list []store.Sitting) (n int) {
	for i := range list {
		if list[i].Completed.IsZero() {
			n++
		}
	}
	return n
}

// ParseGrade parses a grade: "again", "hard", "good", "easy", 1 to 4, or a common synonym. An empty
// string is [store.Ungraded].
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
	return 0, invalid(i18n.Message("the grade is again, hard, good or easy, not %q"), truncateBytes(s, 30))
}

// GradeName returns the name of a grade; empty for an ungraded review.
func GradeName(g store.Grade) string {
	return [...]string{"", "again", "hard", "good", "easy"}[g]
}
