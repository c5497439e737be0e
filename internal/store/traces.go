package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Trace is the record of a turn, written when it is over for its asker.
type Trace struct {
	Turn         string    `json:"turn"`
	Bot          int64     `json:"bot"`
	Owner        string    `json:"owner"`
	Kind         string    `json:"kind"`
	Channel      string    `json:"channel"`
	Person       string    `json:"person"`
	Conversation string    `json:"conversation"`
	Instance     string    `json:"instance"`
	At           time.Time `json:"at"`

	Queue time.Duration `json:"queue"`         // time in the bot's queue
	First time.Duration `json:"first"`         // time to the first piece; 0: none came
	Total time.Duration `json:"total"`         // time to the end, as seen by the asker
	Late  time.Duration `json:"late,omitzero"` // time to the real end, if the asker had disconnected

	Pieces int64 `json:"pieces"`
	Bytes  int64 `json:"bytes"`

	Outcome string `json:"outcome"` // done, failed, disconnected
	Code    string `json:"code"`    // error code
	Cause   string `json:"cause"`   // for the owner, without secrets
	// Asker is the account that asked, if Person does not identify it.
	Asker string `json:"asker,omitempty"`

	// Voice is set if the person spoke.
	Voice *VoiceTimes `json:"voice,omitempty"`
	// Models are the requests of the bot to its model, oldest first; nil: it does not tell.
	Models []ModelUse `json:"models,omitempty"`

	// The content, if the owner records it.
	Question string `json:"question,omitempty"`
	Answer   string `json:"answer,omitempty"`
}

// VoiceTimes tells when the stages of a spoken turn were reached: see talk.VoiceTimes.
type VoiceTimes struct {
	SpeechEnded   time.Time `json:"speech_ended_at"`
	Commit        int64     `json:"commit_ms,omitempty"`
	Transcript    int64     `json:"transcript_ms,omitempty"`
	FirstText     int64     `json:"first_text_ms,omitempty"`
	FirstSentence int64     `json:"first_sentence_ms,omitempty"`
	FirstSound    int64     `json:"first_sound_ms,omitempty"`
	Interrupted   int64     `json:"interrupted_ms,omitempty"`
}

// ModelUse is a request of a bot to its model. Times are in milliseconds.
type ModelUse struct {
	Model string `json:"model"`
	From  int64  `json:"from_ms"`            // since the turn began
	First int64  `json:"first_ms,omitempty"` // from there to the first piece of the response; 0: none came
	Took  int64  `json:"took_ms"`
	// Input and Output are tokens; 0: the server did not say.
	Input  int  `json:"input_tokens,omitempty"`
	Output int  `json:"output_tokens,omitempty"`
	Failed bool `json:"failed,omitempty"`
}

// Tokens returns the tokens of all requests of the bot to its model.
func (t *Trace) Tokens() (input, output int) {
	for _, m := range t.Models {
		input, output = input+m.Input, output+m.Output
	}
	return input, output
}

// Traces accesses the table of traces.
type Traces struct{ db *DB }

const traceColumns = `turn, bot, owner, kind, channel, person, conversation, instance, at, queue_us, first_us, total_us, late_us, pieces, bytes, outcome, code, cause, question, answer, asker, voice, models`

func readTrace(s scanner) (t Trace, err error) {
	var (
		at, queue, first, total int64
		late                    sql.NullInt64
		question, answer, voice sql.NullString
		models                  sql.NullString
	)
	err = s.Scan(&t.Turn, &t.Bot, &t.Owner, &t.Kind, &t.Channel, &t.Person, &t.Conversation, &t.Instance, &at, &queue,
		&first, &total, &late,
		&t.Pieces, &t.Bytes, &t.Outcome, &t.Code, &t.Cause, &question, &answer, &t.Asker, &voice,
		&models)
	t.At = fromMillis(at)
	t.Queue, t.First, t.Total, t.Late = micros(queue), micros(first), micros(total), micros(late.Int64)
	t.Question, t.Answer = question.String, answer.String
	if err == nil && voice.Valid {
		err = json.Unmarshal([]byte(voice.String), &t.Voice)
	}
	if err == nil && models.Valid {
		err = json.Unmarshal([]byte(models.String), &t.Models)
	}
	return t, err
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// Finish writes a trace and, if e is not nil, the exchange of the turn, in one transaction that is
// durable when it returns. If the owner has been removed meanwhile, nothing is written.
func (t Traces) Finish(ctx context.Context, tr Trace, e *Exchange) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if lives, err := t.db.personExists(ctx, tx, tr.Owner); err != nil || !lives {
			return err
		}
		voice := sql.NullString{}
		if tr.Voice != nil {
			text, _ := json.Marshal(tr.Voice) // numbers and a time
			voice = sql.NullString{String: string(text), Valid: true}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO traces (`+traceColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23) ON CONFLICT (turn) DO NOTHING`, sanitizeArgs([]any{
			tr.Turn, tr.Bot, tr.Owner, tr.Kind, tr.Channel, tr.Person, tr.Conversation, tr.Instance, millis(tr.At),
			tr.Queue.Microseconds(), tr.First.Microseconds(), tr.Total.Microseconds(),
			sql.NullInt64{Int64: tr.Late.Microseconds(), Valid: tr.Late > 0},
			tr.Pieces, tr.Bytes, tr.Outcome, tr.Code, tr.Cause, nullString(tr.Question), nullString(tr.Answer),
			tr.Asker, voice, modelsText(tr.Models),
		})...)
		if err != nil || e == nil {
			return err
		}
		return saveExchange(ctx, tx, *e)
	})
}

func modelsText(list []ModelUse) sql.NullString {
	if len(list) == 0 {
		return sql.NullString{}
	}
	text, _ := json.Marshal(list) // numbers and a text
	return sql.NullString{String: string(text), Valid: true}
}

// FinishLate records in a trace that the answer came, or failed, after the asker had disconnected,
// and stores the exchange if e is not nil.
func (t Traces) FinishLate(ctx context.Context, turn string, late time.Duration, cause, answer string,
	models []ModelUse, e *Exchange) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`UPDATE traces SET late_us = $1, cause = CASE WHEN cause = '' THEN $2 ELSE cause END, answer = COALESCE($3, answer), models = COALESCE($4, models) WHERE turn = $5`, sanitizeArgs([]any{
				late.Microseconds(), cause, nullString(answer), modelsText(models), turn,
			})...)
		if err != nil || e == nil {
			return err
		}
		return saveExchange(ctx, tx, *e)
	})
}

// ByTurn returns the trace of a turn.
func (t Traces) ByTurn(ctx context.Context, turn string) (Trace, error) {
	return one(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE turn = $1`, turn)
}

// ByTurns returns the traces of those turns that are of a bot, in no order. The index of bots,
// which has all their turns, is not used for an expression.
func (t Traces) ByTurns(ctx context.Context, bot int64, turns []string) ([]Trace, error) {
	var out []Trace
	for some := range slices.Chunk(turns, inListSize) {
		found, err := all(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE turn IN (`+
			inPlaceholders(1)+`) AND bot + 0 = $`+strconv.Itoa(inListSize+1), append(inArgs(some), bot)...)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// channelSearchLimit is the number of an owner's newest traces that are searched, because no index
// covers the channel.
const channelSearchLimit = 2000

// LastOnChannel returns the newest trace on a channel among an owner's last 2,000, or
// [ErrNotFound].
func (t Traces) LastOnChannel(ctx context.Context, owner, channel string) (Trace, error) {
	return one(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE turn = (SELECT turn FROM (
		SELECT turn, channel, at FROM traces WHERE owner = $1 ORDER BY at DESC, turn DESC LIMIT $2
	) newest WHERE channel = $3 ORDER BY at DESC, turn DESC LIMIT 1)`, owner, channelSearchLimit, channel)
}

// Newest lists an owner's traces, or all traces for an empty owner, that began before the given
// time, newest first.
func (t Traces) Newest(ctx context.Context, owner string, before time.Time, limit int) ([]Trace, error) {
	return all(ctx, t.db, readTrace, `SELECT `+traceColumns+
		` FROM traces WHERE ($1 = '' OR owner = $1) AND at < $2 ORDER BY at DESC, turn DESC LIMIT $3`,
		owner, millis(before), limit)
}

// spokenAmong is how many of the newest traces [Traces.Spoken] looks at, so that an installation in
// which nobody speaks is not read to its beginning.
const spokenAmong = 20_000

// Spoken returns the times of an owner's newest spoken turns, or of everybody's for an empty owner,
// newest first.
func (t Traces) Spoken(ctx context.Context, owner string, limit int) ([]VoiceTimes, error) {
	read := func(s scanner) (v VoiceTimes, err error) {
		var text string
		if err = s.Scan(&text); err == nil {
			err = json.Unmarshal([]byte(text), &v)
		}
		return v, err
	}
	return all(ctx, t.db, read, `SELECT n.voice FROM (SELECT at, voice FROM traces WHERE ($1 = '' OR owner = $1)
		ORDER BY at DESC LIMIT $2) n WHERE n.voice IS NOT NULL ORDER BY n.at DESC LIMIT $3`, owner, spokenAmong, limit)
}

// ByBot lists a bot's traces that began before the given time, newest first. Among those that began
// at that time, it lists those before the given turn.
func (t Traces) ByBot(ctx context.Context, bot int64, before time.Time, turn string, limit int) ([]Trace, error) {
	return all(ctx, t.db, readTrace, `SELECT `+traceColumns+
		` FROM traces WHERE bot = $1 AND at <= $2 AND (at < $3 OR turn < $4) ORDER BY at DESC, turn DESC LIMIT $5`,
		bot, millis(before), millis(before), turn, limit)
}

// failureSearchLimit is the number of an owner's newest turns without success that are searched for
// those of one person, because no index covers the person.
const failureSearchLimit = 2000

// FailedOf lists the turns of a person with a bot of an owner that did not succeed, newest first,
// among the owner's last 2,000 of these. An empty conversation stands for all.
func (t Traces) FailedOf(ctx context.Context, owner string, bot int64, person, conversation string,
	limit int) ([]Trace, error) {
	// What was said is read of those that are found only.
	return all(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE turn IN (SELECT turn FROM (
		SELECT turn, bot, person, conversation, at FROM traces WHERE owner = $1 AND outcome <> 'done'
		ORDER BY at DESC, turn DESC LIMIT $2
	) newest WHERE bot = $3 AND person = $4 AND ($5 = '' OR conversation = $5) ORDER BY at DESC, turn DESC LIMIT $6)
	ORDER BY at DESC, turn DESC`,
		owner, failureSearchLimit, bot, person, conversation, limit)
}
