package learn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// A review is submitted a second time with another grade when its first grade was a mistake: a
// finger slipped, or a model judged again. Which submissions mean a review that is recorded already
// is the same question as for repeated calls, see [Service.review] and [Service.sitting]:
//   - the same ID, on any day, or
//   - no ID, and the same recall of the same point, on the same day, before the point is due again.
//
// The log is append-only, so a correction appends an undo of the review and a review with the new
// grade. Both have the time of the review, so that the state of the point, the counters of the day
// and the order of reviews become those that the grade would have led to in the first place.

// isCorrection reports whether a submission of a recorded review gives it another grade. One
// without a grade is a repeated call.
func isCorrection(in Submission, was store.LogEntry) bool {
	return was.ID != "" && in.Grade != store.Ungraded && in.Grade != was.Grade
}

// correctionSpace is the name space of the IDs of corrected reviews.
var correctionSpace = uuid.MustParse("6f1b1d0e-6a0c-4b5e-9f38-5b1c9a1c2f60")

// correctionID returns the ID of the review that replaces another one. It follows from the other
// ID, so that whoever knows a review by the ID of its first version finds the latest.
func correctionID(id string) string { return uuid.NewSHA1(correctionSpace, []byte(id)).String() }

// latestVersion returns the log entry with an ID, or the review that replaced it last. entry reads
// an entry, or returns [store.ErrNotFound].
func latestVersion(ctx context.Context, entry func(context.Context, string) (store.LogEntry, error),
	id string) (store.LogEntry, error) {
	was, err := entry(ctx, id)
	for err == nil {
		next, missing := entry(ctx, correctionID(was.ID))
		switch {
		case errors.Is(missing, store.ErrNotFound):
			return was, nil
		case missing == nil && next.Point != was.Point:
			return was, nil
		}
		was, err = next, missing
	}
	return was, err
}

// correct replaces a recorded review by the same one with another grade. What the submission does
// not say (recall, score, duration) stays as recorded. Only the last review of a point can be
// corrected.
func (s *Service) correct(ctx context.Context, c *store.PointChange, l *Learner, in Submission,
	was store.LogEntry, out *Outcome) error {
	if undone, err := c.Undone(ctx, was.ID); err != nil {
		return err
	} else if undone {
		return invalid(i18n.Message("this review was undone; review the point again with a new review_id"))
	}
	switch top, err := c.LastReview(ctx); {
	case err != nil:
		return err
	case top.ID != was.ID:
		return invalid(msgLaterReview)
	}
	if later, err := rescheduledSince(ctx, c, was); err != nil {
		return err
	} else if later {
		return invalid(msgLaterDate)
	}
	then := *l
	then.Now, then.Today = was.At, was.Day
	if zone, err := time.LoadLocation(was.Zone); err == nil && was.Zone != "" {
		then.Calendar.Zone = zone
	}
	if err := undoReview(c, &then, was, in.Channel, out.Settings); err != nil {
		return err
	}
	undo := &c.Log[len(c.Log)-1]
	undo.Took = was.Took
	then.Now = undo.At.Add(time.Millisecond)
	i := slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.ID == was.Sitting })
	if i < 0 {
		i = slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.Completed.IsZero() })
	}
	if i < 0 {
		return ErrNoPlan
	}
	in.ID = correctionID(was.ID)
	if in.Recall == "" {
		in.Recall = was.Recall
	}
	if in.Score < 0 {
		in.Score = was.Score
	}
	if in.Took == 0 {
		in.Took = was.Took
	}
	out.Already, out.Corrected, out.Previous = false, true, was.Grade
	return s.record(ctx, c, &then, in, i, out)
}
