package store

import (
	"context"
	"slices"
	"time"
)

// DayRecalls counts the reviews of a day of points that were due on a day, and how many of them
// were forgotten. Points on steps, minutes after they were seen, say little about memory and are
// not counted.
type DayRecalls struct {
	Day            Day
	Reviews, Again int
}

// maxRecallEntries limits the log entries that are counted, because a page load waits for the
// result.
const maxRecallEntries = 10_000

// Recalls counts a person's recalls since a day, by day. With more than maxRecallEntries log
// entries, only the days fully covered by the newest ones are counted. Undone reviews do not count:
// an undo has the day, queue and grade of its review.
func (t Learn) Recalls(ctx context.Context, person string, from Day) ([]DayRecalls, error) {
	n := 0
	// The query restricts the time because the log is indexed by it. 48 hours exceed any difference
	// between a learner's day and UTC.
	list, err := all(ctx, t.db, func(s scanner) (r DayRecalls, err error) {
		var entries int
		err = s.Scan(&r.Day, &r.Reviews, &r.Again, &entries)
		n += entries
		return r, err
	}, `SELECT day, SUM(CASE WHEN queue <> 3 THEN 0 WHEN kind = 'review' THEN 1 WHEN kind = 'undo' THEN -1 ELSE 0 END),
		SUM(CASE WHEN queue <> 3 OR grade <> 1 THEN 0 WHEN kind = 'review' THEN 1 WHEN kind = 'undo' THEN -1 ELSE 0 END), COUNT(*)
		FROM (SELECT day, queue, kind, grade FROM learn_log WHERE person = $1 AND at >= $2 ORDER BY at DESC, id DESC LIMIT $3) AS recent
		WHERE day >= $4 GROUP BY day ORDER BY day`,
		person, millis(from.Time().Add(-48*time.Hour)), maxRecallEntries, int64(from))
	if n == maxRecallEntries && len(list) > 0 {
		list = list[1:] // the first day is incomplete
	}
	return slices.DeleteFunc(list, func(r DayRecalls) bool { return r.Reviews <= 0 }), err
}
