package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoTurn        = i18n.Message("There is no record of that turn, or it was kept for as long as it is to be.")
	msgBadPlace      = i18n.Message("after is not what a list gave as next.")
	msgBadLimit      = i18n.Message("limit is a number from 1 to %d.")
	msgBadOutcome    = i18n.Message("No outcome is called %q; there are %s.")
	msgNothingChosen = i18n.Message("Say what is to be deleted.")
	msgArgsOnly      = i18n.Message("This key is for one bot alone and cannot delete other records.")
)

const (
	// recordsShown is the default number of records on a page.
	recordsShown = 50
	// recordsMost limits a page.
	recordsMost = 200
)

// TurnOutcomes and CallOutcomes are the outcomes of turns and calls.
var (
	TurnOutcomes = []string{"done", "failed", "disconnected"}
	CallOutcomes = []string{"done", "tool_error", "failed", "refused", "asked"}
)

// Wrong as an outcome in a query selects all outcomes without a good result.
const Wrong = store.Wrong

// TurnQuery selects turns. Empty fields select all.
type TurnQuery struct {
	Bot     int64     `query:"bot"`
	Channel string    `query:"channel"`
	Outcome string    `query:"outcome"` // done, failed, disconnected, or wrong: the last two
	From    time.Time `query:"from"`
	Until   time.Time `query:"until"` // exclusive
	// Recorded selects only turns with a recording.
	Recorded bool   `query:"recorded"`
	After    string `query:"after"` // next of the page before
	Limit    int    `query:"limit"`
	User     string `query:"user"` // a name; admins may name others
}

// TurnRow is the record of a turn.
type TurnRow struct {
	store.Trace
	BotName   string `json:"bot_name,omitempty"`
	OwnerName string `json:"owner_name,omitempty"`
	// AskerName is the name of the asker, if they have an account.
	AskerName string `json:"asker_name,omitempty"`
	// Recorded reports whether the turn has a recording.
	Recorded bool `json:"recorded,omitempty"`
}

// TurnPage is a page of turns, newest first.
type TurnPage struct {
	Turns []TurnRow `json:"turns"`
	// Next is the value of after= for the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// Turns lists the records of turns of the caller's bots, without their content.
func (s *Service) Turns(ctx context.Context, c Caller, q TurnQuery) (p TurnPage, err error) {
	if p, err = s.TurnsAsked(ctx, c, q); err == nil {
		for i := range p.Turns {
			p.Turns[i].Question = ""
		}
	}
	return p, err
}

// TurnsAsked is [Service.Turns] with the questions, as far as they are kept and the caller may see
// them.
func (s *Service) TurnsAsked(ctx context.Context, c Caller, q TurnQuery) (p TurnPage, err error) {
	f := store.TraceFilter{Bot: q.Bot, Channel: q.Channel, Outcome: q.Outcome, From: q.From, Until: q.Until,
		Recorded: q.Recorded}
	if c.Only != 0 {
		f.Bot = c.Only
	}
	if err := checkOutcome(q.Outcome, TurnOutcomes); err != nil {
		return p, err
	}
	if f.Owner, err = s.recordsOwner(ctx, c, q.User); err != nil {
		return p, err
	}
	if f.After, err = decodeCursor(q.After); err != nil {
		return p, err
	}
	limit, err := pageBounds(q.Limit)
	if err != nil {
		return p, err
	}
	list, err := s.Hub.Store.Traces.Find(ctx, f, limit+1)
	if err != nil {
		return p, err
	}
	if len(list) > limit {
		list = list[:limit]
		p.Next = encodeCursor(list[limit-1].At, list[limit-1].Turn)
	}
	for i := range list {
		hideContent(c, &list[i])
		list[i].Answer = ""
	}
	p.Turns, err = s.turnRows(ctx, f.Owner, list)
	return p, err
}

// turnRows adds the names to traces.
func (s *Service) turnRows(ctx context.Context, owner string, list []store.Trace) ([]TurnRow, error) {
	rows := make([]TurnRow, len(list))
	if len(list) == 0 {
		return rows, nil
	}
	bots, err := botNames(ctx, s.Hub.Store, owner)
	if err != nil {
		return nil, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	turns := make([]string, len(list))
	for i, t := range list {
		turns[i] = t.Turn
	}
	recorded, err := s.Hub.Store.Recordings.Recorded(ctx, turns)
	if err != nil {
		return nil, err
	}
	for i, t := range list {
		_, asker, _ := strings.Cut(t.Person, ":")
		if t.Person == "" {
			asker = t.Asker
		}
		rows[i] = TurnRow{t, bots[t.Bot], people[t.Owner], people[asker], recorded[t.Turn]}
	}
	return rows, nil
}

// BotChoices returns the bots that the caller may ask, for a selection.
func (s *Service) BotChoices(ctx context.Context, c Caller) ([]store.Bot, error) {
	return s.Hub.Store.Bots.Usable(ctx, c.Owner())
}

// TurnRef identifies a turn.
type TurnRef struct {
	Turn string `path:"turn"`
}

// TurnDetail is the whole record of a turn.
type TurnDetail struct {
	TurnRow
	Calls []Call `json:"calls"` // by the bot during the turn, oldest first
	// Recording is set if the turn was recorded and the caller may hear that.
	Recording *store.Recording `json:"recording,omitempty"`
}

// findTurn returns the trace of a turn of the caller, or of somebody with whom the caller shares
// the bot, and the owner of the bot, or of the turn if the bot is gone.
func (s *Service) findTurn(ctx context.Context, c Caller, turn string) (t store.Trace, owner string, err error) {
	missing := problem.New(problem.NotFound, msgNoTurn)
	switch t, err = s.Hub.Store.Traces.ByTurn(ctx, turn); {
	case errors.Is(err, store.ErrNotFound):
		return t, "", missing
	case err != nil:
		return t, "", err
	}
	owner = t.Owner
	switch b, err := s.Hub.Store.Bots.ByNumber(ctx, t.Bot); {
	case err == nil:
		owner = b.Owner
	case !errors.Is(err, store.ErrNotFound):
		return t, "", err
	}
	if c.Owner() != "" && c.Owner() != t.Owner && c.Owner() != owner || c.Only != 0 && t.Bot != c.Only {
		return t, "", missing
	}
	return t, owner, nil
}

// TurnRecord returns the record of a turn of one of the caller's bots. Admins do not get the
// content of turns of other people's bots.
func (s *Service) TurnRecord(ctx context.Context, c Caller, in TurnRef) (d TurnDetail, err error) {
	t, owner, err := s.findTurn(ctx, c, in.Turn)
	if err != nil {
		return d, err
	}
	hideContent(c, &t)
	rows, err := s.turnRows(ctx, t.Owner, []store.Trace{t})
	if err != nil {
		return d, err
	}
	s.Hub.WaitForCallRecords(ctx)
	calls, err := s.Hub.Store.Calls.ByTurn(ctx, t.Turn)
	if err != nil {
		return d, err
	}
	d = TurnDetail{TurnRow: rows[0]}
	people := []string{t.Owner, owner}
	if c.Owner() != "" && c.Owner() != t.Owner {
		people = []string{owner} // calls of others' tools are not the caller's
	}
	if d.Calls, err = s.callsOf(ctx, calls, people...); err != nil {
		return d, err
	}
	return d, s.addRecording(ctx, c, &d)
}

// callsOf returns the calls during a turn that a bot made for who asked, and for its owner, with
// names.
func (s *Service) callsOf(ctx context.Context, during []store.Call, people ...string) ([]Call, error) {
	calls := []Call{}
	for _, call := range during {
		if slices.Contains(people, call.Person) { // others may have used the turn's id
			calls = append(calls, Call{Call: call})
		}
	}
	return calls, s.fillCallNames(ctx, people[0], calls)
}

// hideContent removes the content of a turn, unless the caller is the bot's owner or the operator
// of this machine.
func hideContent(c Caller, t *store.Trace) {
	if !c.mayHear(t.Owner) {
		t.Question, t.Answer = "", ""
	}
}

// Forgetting selects which of the caller's records are deleted.
type Forgetting struct {
	Bot int64 `query:"bot"` // with this bot; 0: with all
	// Said selects questions and answers: the history for bots, the content of traces, and
	// recordings.
	Said bool `query:"said"`
	// Turns selects the traces.
	Turns bool `query:"turns"`
	// Arguments selects the arguments of calls; the records of the calls stay.
	Arguments bool `query:"arguments"`
}

// Forgotten is the number of deleted records.
type Forgotten struct {
	Said      int64 `json:"said"`
	Turns     int64 `json:"turns"`
	Arguments int64 `json:"arguments"`
	// Recordings are deleted with what was said, and with the turns.
	Recordings int64 `json:"recordings"`
}

// Forget deletes records of the caller, which cannot be undone.
func (s *Service) Forget(ctx context.Context, c Caller, in Forgetting) (f Forgotten, err error) {
	switch {
	case !in.Said && !in.Turns && !in.Arguments:
		return f, problem.New(problem.Invalid, msgNothingChosen)
	case c.Only != 0 && in.Bot != c.Only:
		return f, problem.New(problem.Denied, msgArgsOnly)
	}
	owner, err := s.singlePerson(ctx, Caller{Person: c.Person}, "")
	if err != nil {
		return f, err
	}
	if in.Bot != 0 {
		_, err := s.Hub.Registry.FindUsable(ctx, owner.ID, strconv.FormatInt(in.Bot, 10))
		if errors.Is(err, store.ErrNotFound) {
			return f, problem.New(problem.NotFound, msgKeyBot)
		} else if err != nil {
			return f, err
		}
	}
	db := s.Hub.Store
	if in.Said || in.Turns {
		if f.Recordings, err = db.Recordings.Forget(ctx, owner.ID, in.Bot); err != nil {
			return f, err
		}
	}
	if in.Said {
		if f.Said, err = db.Conversations.Forget(ctx, owner.ID, in.Bot); err != nil {
			return f, err
		}
		if err = db.Traces.ForgetSaid(ctx, owner.ID, in.Bot); err != nil {
			return f, err
		}
	}
	if in.Turns {
		if f.Turns, err = db.Traces.Forget(ctx, owner.ID, in.Bot); err != nil {
			return f, err
		}
		s.days.forget(owner.ID)
	}
	if in.Arguments {
		s.Hub.WaitForCallRecords(ctx) // includes calls of a moment ago
		if f.Arguments, err = db.Calls.ForgetArgs(ctx, owner.ID, in.Bot); err != nil {
			return f, err
		}
	}
	about := fmt.Sprintf("said %d, turns %d, arguments %d, recordings %d", f.Said, f.Turns, f.Arguments, f.Recordings)
	if in.Bot != 0 {
		about = fmt.Sprintf("bot %d: %s", in.Bot, about)
	}
	s.RecordAdminEvent(ctx, c, EventRecordsDeleted, about)
	return f, nil
}

// RetentionPolicy is what is recorded and for how long, by the settings of the installation.
type RetentionPolicy struct {
	Traces       time.Duration // trace.keep
	Content      bool          // trace.content
	Calls        time.Duration // audit.keep
	Args         bool          // audit.args
	Exchanges    time.Duration // history.keep
	HistoryTurns int           // history.turns
	Pictures     time.Duration // media.keep
}

// recordsOwner returns the owner of the requested records: the person an admin names, or the
// caller; empty: everybody.
func (s *Service) recordsOwner(ctx context.Context, c Caller, user string) (string, error) {
	if user == "" {
		return c.Owner(), nil
	}
	p, err := s.singlePerson(ctx, c, user)
	return p.ID, err
}

func checkOutcome(outcome string, known []string) error {
	if outcome == "" || outcome == Wrong || slices.Contains(known, outcome) {
		return nil
	}
	return problem.New(problem.Invalid, msgBadOutcome, outcome, strings.Join(append(slices.Clone(known), Wrong), ", "))
}

func pageBounds(limit int) (int, error) {
	switch {
	case limit == 0:
		return recordsShown, nil
	case limit < 0 || limit > recordsMost:
		return 0, problem.New(problem.Invalid, msgBadLimit, recordsMost)
	}
	return limit, nil
}

// encodeCursor and decodeCursor convert a position in a list into a part of a URL.
func encodeCursor(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMilli(), 10) + "." + id
}

func decodeCursor(text string) (p store.RecordCursor, err error) {
	if text == "" {
		return p, nil
	}
	ms, id, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil {
		return p, problem.New(problem.Invalid, msgBadPlace)
	}
	return store.RecordCursor{At: time.UnixMilli(n).UTC(), ID: id}, nil
}
