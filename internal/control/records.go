package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayNoTurn = talk.Say{Zh: "没有这一轮的记录，或者已经过了保留期。",
		En: "There is no record of that turn, or it was kept for as long as it is to be."}
	sayBadPlace      = talk.Say{Zh: "after 不是列表给出的 next。", En: "after is not what a list gave as next."}
	sayBadLimit      = talk.Say{Zh: "limit 是 1 到 %d 的数。", En: "limit is a number from 1 to %d."}
	sayBadOutcome    = talk.Say{Zh: "没有结果叫 %q，只有 %s。", En: "No outcome is called %q; there are %s."}
	sayNothingChosen = talk.Say{Zh: "请说明要删除什么。", En: "Say what is to be deleted."}
	sayArgsOnly      = talk.Say{Zh: "这个密钥只用于一个机器人，不能删除其他记录。",
		En: "This key is for one bot alone and cannot delete other records."}
)

const (
	// recordsShown is how many records are on a page if nothing else is asked for.
	recordsShown = 50
	// recordsMost bounds a page.
	recordsMost = 200
)

// TurnOutcomes and CallOutcomes are how turns and calls end.
var (
	TurnOutcomes = []string{"done", "failed", "disconnected"}
	CallOutcomes = []string{"done", "tool_error", "failed", "refused", "asked"}
)

// Wrong as an outcome that is looked for means all that did not bring what was wanted.
const Wrong = store.Wrong

// TurnQuery says which turns are wanted. What is not said excludes nothing.
type TurnQuery struct {
	Bot     int64     `query:"bot"`
	Channel string    `query:"channel"`
	Outcome string    `query:"outcome"` // done, failed, disconnected, or wrong: the last two
	From    time.Time `query:"from"`
	Until   time.Time `query:"until"` // itself is too late
	After   string    `query:"after"` // the next of the page before
	Limit   int       `query:"limit"`
	User    string    `query:"user"` // a name; whoever runs the installation may ask for another's
}

// TurnRow is the record of a turn.
type TurnRow struct {
	store.Trace
	BotName   string `json:"bot_name,omitempty"`
	OwnerName string `json:"owner_name,omitempty"`
	// AskerName is who asked, if that is somebody with an account.
	AskerName string `json:"asker_name,omitempty"`
}

// TurnPage is turns, newest first.
type TurnPage struct {
	Turns []TurnRow `json:"turns"`
	// Next, if it is not empty, is to be asked for with after= for those that follow.
	Next string `json:"next,omitempty"`
}

// Turns lists records of the turns of the caller's bots, without what was said.
func (s *Service) Turns(ctx context.Context, c Caller, q TurnQuery) (p TurnPage, err error) {
	f := store.TraceFilter{Bot: q.Bot, Channel: q.Channel, Outcome: q.Outcome, From: q.From, Until: q.Until}
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
		list[i].Question, list[i].Answer = "", ""
	}
	p.Turns, err = s.turnRows(ctx, f.Owner, list)
	return p, err
}

// turnRows adds names to traces.
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
	for i, t := range list {
		_, asker, _ := strings.Cut(t.Person, ":")
		if t.Person == "" {
			asker = t.Asker
		}
		rows[i] = TurnRow{t, bots[t.Bot], people[t.Owner], people[asker]}
	}
	return rows, nil
}

// BotChoices are the caller's bots, to choose one by.
func (s *Service) BotChoices(ctx context.Context, c Caller) ([]store.Bot, error) {
	return s.Hub.Store.Bots.ByOwner(ctx, c.Owner())
}

// TurnRef names a turn.
type TurnRef struct {
	Turn string `path:"turn"`
}

// TurnDetail is all that is recorded of a turn.
type TurnDetail struct {
	TurnRow
	Calls []Call `json:"calls"` // that the bot made in it, oldest first
}

// TurnRecord shows the record of a turn of one of the caller's bots. What was said in
// those of other people's bots is not shown to those who run the installation either.
func (s *Service) TurnRecord(ctx context.Context, c Caller, in TurnRef) (d TurnDetail, err error) {
	t, err := s.Hub.Store.Traces.ByTurn(ctx, in.Turn)
	if errors.Is(err, store.ErrNotFound) || err == nil && (c.Owner() != "" && t.Owner != c.Owner() ||
		c.Only != 0 && t.Bot != c.Only) {
		return d, Fail(Missing, sayNoTurn)
	}
	if err != nil {
		return d, err
	}
	if c.Person != "" && t.Owner != c.Person {
		t.Question, t.Answer = "", ""
	}
	rows, err := s.turnRows(ctx, t.Owner, []store.Trace{t})
	if err != nil {
		return d, err
	}
	s.Hub.WaitForCallRecords(ctx)
	calls, err := s.Hub.Store.Calls.ByTurn(ctx, t.Turn)
	if err != nil {
		return d, err
	}
	d = TurnDetail{TurnRow: rows[0], Calls: []Call{}}
	for _, call := range calls {
		if call.Person == t.Owner { // the bot acts for its owner; others may have named the turn
			d.Calls = append(d.Calls, Call{Call: call})
		}
	}
	return d, fillCallNames(ctx, s.Hub.Store, t.Owner, d.Calls)
}

// Forgetting says which of the caller's records are to be deleted.
type Forgetting struct {
	Bot int64 `query:"bot"` // with this bot alone; 0: with all of them
	// Said is what was asked and answered, as bots are told it again, and as records of
	// turns have it.
	Said bool `query:"said"`
	// Turns is the records of turns.
	Turns bool `query:"turns"`
	// Arguments is those of calls; that the calls were made stays.
	Arguments bool `query:"arguments"`
}

// Forgotten is how many records were deleted.
type Forgotten struct {
	Said      int64 `json:"said"`
	Turns     int64 `json:"turns"`
	Arguments int64 `json:"arguments"`
}

// Forget deletes records of the caller's, for good.
func (s *Service) Forget(ctx context.Context, c Caller, in Forgetting) (f Forgotten, err error) {
	switch {
	case !in.Said && !in.Turns && !in.Arguments:
		return f, Fail(Invalid, sayNothingChosen)
	case c.Only != 0 && in.Bot != c.Only:
		return f, Fail(Refused, sayArgsOnly)
	}
	owner, err := s.singlePerson(ctx, Caller{Person: c.Person}, "")
	if err != nil {
		return f, err
	}
	if in.Bot != 0 {
		b, err := s.Hub.Store.Bots.ByNumber(ctx, in.Bot)
		if errors.Is(err, store.ErrNotFound) || err == nil && b.Owner != owner.ID {
			return f, Fail(Missing, sayKeyBot)
		} else if err != nil {
			return f, err
		}
	}
	db := s.Hub.Store
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
		s.Hub.WaitForCallRecords(ctx) // those of calls that were made a moment ago, too
		if f.Arguments, err = db.Calls.ForgetArgs(ctx, owner.ID, in.Bot); err != nil {
			return f, err
		}
	}
	about := fmt.Sprintf("said %d, turns %d, arguments %d", f.Said, f.Turns, f.Arguments)
	if in.Bot != 0 {
		about = fmt.Sprintf("bot %d: %s", in.Bot, about)
	}
	s.RecordAdminEvent(ctx, c, EventRecordsDeleted, about)
	return f, nil
}

// RetentionPolicy is what is recorded, and for how long, as the settings of the installation say.
type RetentionPolicy struct {
	Traces       time.Duration // trace.keep
	Content      bool          // trace.content
	Calls        time.Duration // audit.keep
	Args         bool          // audit.args
	Exchanges    time.Duration // history.keep
	HistoryTurns int           // history.turns
	Pictures     time.Duration // media.keep
}

// recordsOwner is whose records are meant: those of whom an admin names, or of who asks; empty:
// everybody's.
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
	return Fail(Invalid, sayBadOutcome, outcome, strings.Join(append(slices.Clone(known), Wrong), ", "))
}

func pageBounds(limit int) (int, error) {
	switch {
	case limit == 0:
		return recordsShown, nil
	case limit < 0 || limit > recordsMost:
		return 0, Fail(Invalid, sayBadLimit, recordsMost)
	}
	return limit, nil
}

// encodeCursor and decodeCursor are how a place on a list is named in an address.
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
		return p, Fail(Invalid, sayBadPlace)
	}
	return store.RecordCursor{At: time.UnixMilli(n).UTC(), ID: id}, nil
}
