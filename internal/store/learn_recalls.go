package store

import (
	"context"
	"slices"
	"time"
)

// DayRecalls is how many reviews of one day were of points that had waited for their
// day, and how many of these points were forgotten. Those on steps, minutes after they
// were seen, say little about memory and are not counted.
type DayRecalls struct {
	Day            Day
	Reviews, Again int
}

// recallsMost bounds how many entries of the log are counted: somebody waits for a page.
const recallsMost = 10_000

// Recalls counts a person's recalls from a day on, by day. Of who has very many, only
// the days that the last entries of the log are of are counted. What was taken back
// counts for nothing: its entry is of the day, queue and grade of what it takes back.
func (t Learn) Recalls(ctx context.Context, person string, from Day) ([]DayRecalls, error) {
	n := 0
	// The moments are looked at because the log is kept in their order; no day is longer
	// than two of them.
	list, err := all(ctx, t.db, func(s scanner) (r DayRecalls, err error) {
		var entries int
		err = s.Scan(&r.Day, &r.Reviews, &r.Again, &entries)
		n += entries
		return r, err
	}, `SELECT day, SUM(CASE WHEN queue <> 3 THEN 0 WHEN kind = 'review' THEN 1 WHEN kind = 'undo' THEN -1 ELSE 0 END),
		SUM(CASE WHEN queue <> 3 OR grade <> 1 THEN 0 WHEN kind = 'review' THEN 1 WHEN kind = 'undo' THEN -1 ELSE 0 END), COUNT(*)
		FROM (SELECT day, queue, kind, grade FROM learn_log WHERE person = $1 AND at >= $2 ORDER BY at DESC, id DESC LIMIT $3) AS recent
		WHERE day >= $4 GROUP BY day ORDER BY day`,
		person, millis(from.Time().Add(-48*time.Hour)), recallsMost, int64(from))
	if n == recallsMost && len(list) > 0 {
		list = list[1:] // of the first day only a part was seen
	}
	return slices.DeleteFunc(list, func(r DayRecalls) bool { return r.Reviews <= 0 }), err
}
