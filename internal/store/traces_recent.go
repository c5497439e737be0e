package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

const (
	// recentBots is the number of bots whose newest traces are read with one query.
	recentBots = 50
	// recentAnswer limits an answer among the newest traces, in characters.
	recentAnswer = 300
)

// RecentByBot lists the newest traces of bots, newest first and at most so many of each bot. They
// have no question, and only the beginning of the answer.
func (t Traces) RecentByBot(ctx context.Context, bots []int64, each int) (map[int64][]Trace, error) {
	out := make(map[int64][]Trace, len(bots))
	for some := range slices.Chunk(bots, recentBots) {
		// Each part ends in its index. Neither database does that for one query over all bots.
		parts := make([]string, len(some))
		for i, bot := range some {
			parts[i] = fmt.Sprintf(`SELECT * FROM (SELECT turn, bot, owner, at, first_us, total_us, outcome, code, cause,
				substr(answer, 1, %d) FROM traces WHERE bot = %d ORDER BY at DESC, turn DESC LIMIT %d) AS newest`,
				recentAnswer, bot, each)
		}
		list, err := allOnce(ctx, t.db, readRecent, strings.Join(parts, ` UNION ALL `)+` ORDER BY at DESC, turn DESC`)
		if err != nil {
			return nil, err
		}
		for _, tr := range list {
			out[tr.Bot] = append(out[tr.Bot], tr)
		}
	}
	return out, nil
}

func readRecent(s scanner) (t Trace, err error) {
	var at, first, total int64
	var answer sql.NullString
	err = s.Scan(&t.Turn, &t.Bot, &t.Owner, &at, &first, &total, &t.Outcome, &t.Code, &t.Cause, &answer)
	t.At, t.First, t.Total, t.Answer = fromMillis(at), micros(first), micros(total), answer.String
	return t, err
}
