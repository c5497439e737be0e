package control

import (
	"context"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Call is a record of the audit trail with the names for its ids, as far as they still exist.
type Call struct {
	store.Call
	PersonName string `json:"person_name,omitempty"`
	// ActorName is the name of the caller if it is not the owner of the tool; empty also for the
	// operator of the machine.
	ActorName string `json:"actor_name,omitempty"`
	// KeyName is the name of the key, or of the upstream that called.
	KeyName string `json:"key_name,omitempty"`
	BotName string `json:"bot_name,omitempty"`
	// Title is that of the tool, and Kind that of its provider, if it is still there.
	Title string `json:"title,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

// IsActorOther reports whether somebody other than the tool's owner called.
func (c *Call) IsActorOther() bool { return c.Actor != "" }

// IsActorMachine reports whether the operator of the machine called.
func (c *Call) IsActorMachine() bool { return c.Actor == actorMachine }

// Failed reports whether the call brought no good result.
func (c *Call) Failed() bool { return c.Outcome != "done" && c.Outcome != "asked" }

const (
	// CallsMost is the maximum number of calls on a page.
	CallsMost = 1000
	// maxCallsPage limits the arguments on a page, in bytes: a page ends early when they are
	// reached.
	maxCallsPage = 8 << 20
)

// CallQuery selects calls. Empty fields select all.
type CallQuery struct {
	User    string    `query:"user"` // a name; admins may name others
	Tool    string    `query:"tool"` // * stands for any text
	Key     string    `query:"key"`  // id
	Bot     int64     `query:"bot"`
	Outcome string    `query:"outcome"` // one of CallOutcomes, or Wrong
	Failed  bool      `query:"failed"`  // the same as Wrong
	From    time.Time `query:"from"`
	Before  time.Time `query:"before"` // exclusive
	After   string    `query:"after"`  // Next of the page before
	Limit   int       `query:"limit"`  // 0: defaultCalls
}

// defaultCalls is the default length of a page of calls.
const defaultCalls = 50

// CallPage is a page of calls, newest first.
type CallPage struct {
	Calls []Call `json:"calls"`
	// Next is the value of after= for the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// Calls returns the caller's calls from the audit trail, or those of the person an admin names. It
// waits until the records of finished calls are stored.
func (s *Service) Calls(ctx context.Context, c Caller, q CallQuery) (p CallPage, err error) {
	if err := checkOutcome(q.Outcome, CallOutcomes); err != nil {
		return p, err
	}
	if q.Limit == 0 {
		q.Limit = defaultCalls
	}
	if q.Limit < 1 || q.Limit > CallsMost {
		return p, problem.New(problem.Invalid, msgBadLimit, CallsMost)
	}
	f := store.CallFilter{Tool: strings.TrimSpace(q.Tool), Key: q.Key, Bot: q.Bot, Outcome: q.Outcome, From: q.From,
		Until: q.Before}
	if q.Failed {
		f.Outcome = Wrong
	}
	if f.Person, err = s.recordsOwner(ctx, c, q.User); err != nil {
		return p, err
	}
	if f.Tool != "" { // records have the original names
		f.Tool = s.Hub.OriginalName(f.Person, f.Tool)
	}
	if f.After, err = decodeCursor(q.After); err != nil {
		return p, err
	}
	s.Hub.WaitForCallRecords(ctx)
	rows, err := s.Hub.Store.Calls.Find(ctx, f, q.Limit+1)
	if err != nil {
		return p, err
	}
	p.Calls = []Call{}
	size := 0
	for _, row := range rows {
		if size += len(row.Args); len(p.Calls) == q.Limit || size > maxCallsPage && len(p.Calls) > 0 {
			last := p.Calls[len(p.Calls)-1]
			p.Next = encodeCursor(last.At, last.ID)
			break
		}
		p.Calls = append(p.Calls, Call{Call: row})
	}
	return p, s.fillCallNames(ctx, f.Person, p.Calls)
}

// fillCallNames adds the names to calls, and the titles of the tools.
func (s *Service) fillCallNames(ctx context.Context, person string, calls []Call) error {
	if len(calls) == 0 {
		return nil
	}
	db := s.Hub.Store
	people, err := db.People.All(ctx)
	if err != nil {
		return err
	}
	keys, err := db.Keys.ByPerson(ctx, person)
	if err != nil {
		return err
	}
	upstreams, err := db.Upstreams.ByOwner(ctx, person)
	if err != nil {
		return err
	}
	bots, err := botNames(ctx, db, person)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, p := range people {
		names[p.ID] = p.Name
	}
	for _, k := range keys {
		names[k.ID] = k.Name
	}
	for _, u := range upstreams {
		names["upstream:"+strconv.FormatInt(u.Number, 10)] = u.Slug
	}
	for i := range calls {
		c := &calls[i]
		c.PersonName, c.ActorName, c.KeyName, c.BotName = names[c.Person], names[c.Actor], names[c.Key], bots[c.Bot]
	}
	s.fillTitles(calls)
	return nil
}

// fillTitles adds the titles of the tools to calls.
func (s *Service) fillTitles(calls []Call) {
	names := map[string][]string{} // by the person whose tools they are
	for _, c := range calls {
		names[c.Person] = append(names[c.Person], c.Tool)
	}
	for person, list := range names {
		tools := s.Hub.Registered(person, list)
		for i := range calls {
			if t := tools[calls[i].Tool]; t != nil && calls[i].Person == person {
				calls[i].Title, calls[i].Kind = t.Tool.Title, t.Provider().Kind
			}
		}
	}
	for i := range calls {
		if p := learn.ProviderRef(); calls[i].Provider == p.ID && calls[i].Title == "" {
			calls[i].Title, calls[i].Kind = learnTitles[calls[i].Tool], p.Kind
		}
	}
}
