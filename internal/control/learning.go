package control

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/tool"
)

const (
	msgNoPoint      = i18n.Message("There is no such point, or it is in the trash.")
	msgNoPlan       = i18n.Message("This point is not among those that are reviewed.")
	msgNoDeck       = i18n.Message("There is no such deck.")
	msgDeckThere    = i18n.Message("There is a deck “%s” already.")
	msgNoTag        = i18n.Message("No point has this tag.")
	msgTagThere     = i18n.Message("There are points with the tag “%s” already (%d). The two tags would become one, and could not be told apart again; say merge if that is meant.")
	msgReviewed     = i18n.Message("This review was done already, perhaps on another device. The point is due again on %s.")
	msgNotDue       = i18n.Message("This point is not due yet; it comes again on %s. With early it is reviewed now.")
	msgLearnWhose   = i18n.Message("Knowledge points belong to a person: they need a key of that person's.")
	msgLearnOnly    = i18n.Message("This key is for one bot alone, and not for knowledge points.")
	msgLearnRule    = i18n.Message("The rules do not allow this key what %s does.")
	msgLearnTooMany = i18n.Message("Too many calls; wait a minute and call again.")
)

// Learning has the use cases of knowledge points. Points belong to one person: nobody else sees
// them, admins included.
type Learning struct {
	s       *Service
	points  *learn.Service
	counted bool // see Counted
}

// Learning returns the use cases of Learn; [Options].Points must be set.
func (s *Service) Learning() *Learning { return &Learning{s: s, points: s.Points} }

// Counted returns the use cases for what is part of an action that [Learning.Allow] has counted:
// rules are checked, and no more calls are counted.
func (p *Learning) Counted() *Learning { return &Learning{s: p.s, points: p.points, counted: true} }

// by returns a caller as the audit trail identifies it.
func (c Caller) by() hub.Access {
	return hub.Access{Rules: c.Rules, Caller: tool.Caller{
		Person: c.Person, Actor: c.actor, Address: c.Address, Key: c.Key, OnlyBot: c.Only, KeyRules: c.Bound,
		Channel: c.Program, Program: c.Agent, Lang: string(c.Lang),
	}}
}

// person returns the person whose points a caller uses, if the rules of its key allow the tool of
// Learn with that name. In the console people use their own points, whatever they allow programs.
func (p *Learning) person(c Caller, name string) (string, error) {
	switch {
	case c.Person == "":
		return "", problem.New(problem.Invalid, msgLearnWhose)
	case c.Only != 0:
		return "", problem.New(problem.Denied, msgLearnOnly)
	case c.Key == "":
		return c.Person, nil
	}
	authorize := p.s.Hub.AuthorizeTool
	if p.counted {
		authorize = p.s.Hub.PermitTool
	}
	err := authorize(c.by(), name)
	if err == nil {
		return c.Person, nil
	}
	switch tool.AsError(err).Code {
	case tool.RateLimited:
		return "", problem.New(problem.RateLimited, msgLearnTooMany)
	case tool.Denied, tool.Unknown:
		return "", problem.New(problem.Denied, msgLearnRule, name)
	}
	return "", err
}

// learner returns the learner whose points a caller uses.
func (p *Learning) learner(ctx context.Context, c Caller, name string) (*learn.Learner, error) {
	person, err := p.person(c, name)
	if err != nil {
		return nil, err
	}
	return p.points.Learner(ctx, person)
}

// LearnRules restricts the stored rules of a key to Learn's tools.
func LearnRules(rules string) string { return hub.NarrowRules(rules, learn.ToolNames()) }

// RecordLearnChange executes a change of the caller's knowledge points, and records it in the audit
// trail as a call of the tool with that name and those arguments. It returns the error of do.
func (s *Service) RecordLearnChange(c Caller, name string, args any, do func() error) error {
	began := time.Now()
	err := do()
	text, bad := json.Marshal(args)
	if bad != nil {
		text = nil // the record has no arguments
	}
	var res *tool.Result
	failed := err
	if e := AsError(LearnError(err)); e != nil {
		switch e.Code {
		case problem.NotFound, problem.Conflict: // the outcome that the tools have
			res, failed = tool.ErrorResult(e.Error()), nil
		default:
			failed = tool.Fail(tool.BadArgs, e.Error(), nil)
		}
	} else if errors.Is(err, context.Canceled) {
		failed = tool.Fail(tool.Cancelled, "The call was cancelled.", err)
	} else if err != nil {
		failed = tool.Fail(tool.Failed, "The knowledge points could not be changed.", err)
	}
	s.Hub.RecordCall(c.by(), learn.ProviderRef(), name, text, res, failed, began)
	return err
}

// recordChange is [Service.RecordLearnChange] with its error converted for people.
func (p *Learning) recordChange(c Caller, name string, args any, do func() error) error {
	return LearnError(p.s.RecordLearnChange(c, name, args, do))
}

// LearnError converts an error of Learn that a person can act on.
func LearnError(err error) error {
	if done, ok := errors.AsType[*learn.AlreadyReviewedError](err); ok {
		return problem.New(problem.Conflict, msgReviewed, learn.DueText(&done.Entry.Point))
	}
	if early, ok := errors.AsType[*learn.NotDueError](err); ok {
		return problem.New(problem.Conflict, msgNotDue, learn.DueText(&early.Entry.Point))
	}
	if there, ok := errors.AsType[*learn.TagExistsError](err); ok {
		return problem.New(problem.Conflict, msgTagThere, there.Tag, there.Points)
	}
	switch {
	case errors.Is(err, learn.ErrNotFound):
		return problem.New(problem.NotFound, msgNoPoint)
	case errors.Is(err, learn.ErrNoPlan):
		return problem.New(problem.Conflict, msgNoPlan)
	case errors.Is(err, learn.ErrTagNotFound):
		return problem.New(problem.NotFound, msgNoTag)
	}
	return err
}

// learnTime limits changes that concern every point of a deck or a tag.
const learnTime = 10 * time.Minute

// Detached returns a context that does not end with the request, so that a change is completed: it
// ends after learnTime.
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), learnTime)
}

// deckNamed returns the deck that a list is limited to; nil: all.
func deckNamed(l *learn.Learner, name string) (*string, error) {
	if name == "" {
		return nil, nil
	}
	id, ok := l.DeckID(name)
	if !ok {
		return nil, problem.New(problem.NotFound, msgNoDeck)
	}
	return &id, nil
}

// Allow returns the person whose points a caller uses, if it may do what the tools of Learn with
// those names do, of which there is at least one. It counts one call. It is for channels with
// operations of their own, which record their changes with [Service.RecordLearnChange].
func (p *Learning) Allow(c Caller, names ...string) (string, error) {
	person, err := p.person(c, names[0])
	for _, name := range names[1:] {
		if err == nil {
			_, err = p.Counted().person(c, name)
		}
	}
	return person, err
}

// LearnCaller returns the caller of a key whose channel reaches Learn alone. program is the
// channel.
func LearnCaller(who account.Principal, program string) Caller {
	return Caller{Person: who.Person.ID, Key: who.Key.ID, Only: who.Key.Bot, Ends: who.Key.Expires,
		Rules: LearnRules(who.Key.Rules), Bound: who.Key.Rules, Learn: true, Program: program}
}
