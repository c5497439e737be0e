package store

import (
	"context"
	"database/sql"
	"strconv"
	"time"
)

// SpeechUseKey is whose use of which speech engine is summed up.
type SpeechUseKey struct {
	Day    string // such as 2026-11-25
	Owner  string // of the device
	Device int64
	Engine string
}

// SpeechUse is a sum of what was used of speech engines.
type SpeechUse struct {
	Uses       int64         // utterances and speeches
	Heard      time.Duration // sound that was listened to
	Characters int64         // that were spoken
	Cost       int64         // in millionths of the currency of the prices
}

// Plus returns a sum.
func (u SpeechUse) Plus(o SpeechUse) SpeechUse {
	return SpeechUse{u.Uses + o.Uses, u.Heard + o.Heard, u.Characters + o.Characters, u.Cost + o.Cost}
}

// SpeechSum is what was used by somebody or on a day.
type SpeechSum struct {
	ID   string // of the person, or the number of the device; empty: it has none
	Name string // empty: it was removed
	SpeechUse
}

// SpeechUsage accesses the table of what was used of speech engines. Removing a person deletes
// their rows.
type SpeechUsage struct{ db *DB }

// DayFormat is how days are written.
const DayFormat = time.DateOnly

// Add adds to the sums. What people used who were removed is left out. The order is the caller's;
// it is the same on all instances, so that they do not wait for each other in a circle.
func (t SpeechUsage) Add(ctx context.Context, keys []SpeechUseKey, uses []SpeechUse) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		for i, k := range keys {
			u := uses[i]
			if _, err := tx.ExecContext(ctx, `INSERT INTO speech_usage AS s
				(day, owner, device, engine, uses, heard_ms, characters, cost)
				SELECT CAST($1 AS TEXT), id, CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS BIGINT), CAST($6 AS BIGINT),
					CAST($7 AS BIGINT), CAST($8 AS BIGINT) FROM people WHERE id = $2
				ON CONFLICT (day, owner, device, engine) DO UPDATE SET uses = s.uses + excluded.uses,
					heard_ms = s.heard_ms + excluded.heard_ms, characters = s.characters + excluded.characters,
					cost = s.cost + excluded.cost`, sanitizeArgs([]any{k.Day, k.Owner, k.Device, k.Engine, u.Uses,
				u.Heard.Milliseconds(), u.Characters, u.Cost})...); err != nil {
				return err
			}
		}
		return nil
	})
}

// OfDay returns what the devices of a person have used on a day, by their numbers.
func (t SpeechUsage) OfDay(ctx context.Context, day, owner string) (map[int64]SpeechUse, error) {
	sums, err := all(ctx, t.db, readSpeechSum, `SELECT CAST(device AS TEXT), '', `+speechSums+`
		FROM speech_usage u WHERE day = $1 AND owner = $2 GROUP BY device`, day, owner)
	out := map[int64]SpeechUse{}
	for _, s := range sums {
		device, _ := strconv.ParseInt(s.ID, 10, 64) // it is a number
		out[device] = s.SpeechUse
	}
	return out, err
}

// EnginesOfDay returns what was used of each engine on a day, by their names.
func (t SpeechUsage) EnginesOfDay(ctx context.Context, day string) (map[string]SpeechUse, error) {
	sums, err := all(ctx, t.db, readSpeechSum, `SELECT '', engine, `+speechSums+`
		FROM speech_usage u WHERE day = $1 GROUP BY engine`, day)
	out := map[string]SpeechUse{}
	for _, s := range sums {
		out[s.Name] = s.SpeechUse
	}
	return out, err
}

const speechSums = `CAST(SUM(u.uses) AS BIGINT), CAST(SUM(u.heard_ms) AS BIGINT),
	CAST(SUM(u.characters) AS BIGINT), CAST(SUM(u.cost) AS BIGINT)`

func readSpeechSum(s scanner) (u SpeechSum, err error) {
	var heard int64
	err = s.Scan(&u.ID, &u.Name, &u.Uses, &heard, &u.Characters, &u.Cost)
	u.Heard = time.Duration(heard) * time.Millisecond
	return u, err
}

// SpeechSums are the sums since a day, by what they are of. Those of people, devices and engines
// begin with the most uses, and there are 1,000 at most.
type SpeechSums struct{ Days, People, Devices, Engines []SpeechSum }

// Since returns the sums since a day.
func (t SpeechUsage) Since(ctx context.Context, day string) (out SpeechSums, err error) {
	for _, q := range []struct {
		into  *[]SpeechSum
		query string
	}{
		{&out.Days, `SELECT '', u.day, ` + speechSums + ` FROM speech_usage u WHERE u.day >= $1
			GROUP BY u.day ORDER BY u.day DESC`},
		{&out.People, `SELECT u.owner, p.name, ` + speechSums + ` FROM speech_usage u
			JOIN people p ON p.id = u.owner WHERE u.day >= $1
			GROUP BY u.owner, p.name ORDER BY SUM(u.uses) DESC, p.name LIMIT 1000`},
		{&out.Devices, `SELECT CAST(u.device AS TEXT), COALESCE(d.name, ''), ` + speechSums + ` FROM speech_usage u
			LEFT JOIN devices d ON d.number = u.device WHERE u.day >= $1
			GROUP BY u.device, d.name ORDER BY SUM(u.uses) DESC, u.device LIMIT 1000`},
		{&out.Engines, `SELECT '', u.engine, ` + speechSums + ` FROM speech_usage u WHERE u.day >= $1
			GROUP BY u.engine ORDER BY SUM(u.uses) DESC, u.engine LIMIT 1000`},
	} {
		if *q.into, err = all(ctx, t.db, readSpeechSum, q.query, day); err != nil {
			return out, err
		}
	}
	return out, nil
}

// purge deletes the sums of days before a day.
func (t SpeechUsage) purge(ctx context.Context, before time.Time) (int64, error) {
	return t.db.execInBatches(ctx, `DELETE FROM speech_usage WHERE (day, owner, device, engine) IN (
		SELECT day, owner, device, engine FROM speech_usage WHERE day < $1 ORDER BY day LIMIT $2)`,
		before.UTC().Format(DayFormat))
}
