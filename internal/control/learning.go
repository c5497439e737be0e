package control

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/learn"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

var (
	sayNoPoint   = talk.Say{Zh: "没有这个知识点，或者它已在回收站里。", En: "There is no such point, or it is in the trash."}
	sayNoPlan    = talk.Say{Zh: "这个知识点不在复习计划里。", En: "This point is not among those that are reviewed."}
	sayNoDeck    = talk.Say{Zh: "没有这个牌组。", En: "There is no such deck."}
	sayDeckThere = talk.Say{Zh: "已经有牌组“%s”。", En: "There is a deck “%s” already."}
	sayNoTag     = talk.Say{Zh: "没有知识点带有这个标签。", En: "No point has this tag."}
	sayTagThere  = talk.Say{Zh: "已经有知识点带有标签“%s”（%d 个）。两个标签会合为一个，以后分不开；用 merge 表示就是要这样。",
		En: "There are points with the tag “%s” already (%d). The two tags would become one, and could not be told apart again; say merge if that is meant."}
	sayReviewed = talk.Say{Zh: "这次复习已经做过了，可能是在别的设备上。这个知识点下次是 %s。",
		En: "This review was done already, perhaps on another device. The point is due again on %s."}
	sayNotDue = talk.Say{Zh: "这个知识点还没有到期，下次是 %s。用 early 可以提前复习。",
		En: "This point is not due yet; it comes again on %s. With early it is reviewed now."}
	sayLearnWhose = talk.Say{Zh: "知识点属于某个人：请用那个人的密钥。",
		En: "Knowledge points belong to a person: they need a key of that person's."}
	sayLearnOnly = talk.Say{Zh: "这个密钥只用于一个机器人，不能用于知识点。",
		En: "This key is for one bot alone, and not for knowledge points."}
	sayLearnRule    = talk.Say{Zh: "规则不允许这个密钥做 %s 做的事。", En: "The rules do not allow this key what %s does."}
	sayLearnTooMany = talk.Say{Zh: "调用太频繁，请过一分钟再试。", En: "Too many calls; wait a minute and call again."}
)

// Learning is what people do with their knowledge points. Points belong to one person:
// nobody else sees them, whoever runs the installation neither.
type Learning struct {
	s      *Service
	points *learn.Service
}

// Learning is Learn; [Options].Points must be there.
func (s *Service) Learning() *Learning { return &Learning{s, s.Points} }

// by is a caller as the audit trail knows it.
func (c Caller) by() hub.Access {
	return hub.Access{Rules: c.Rules, Caller: tool.Caller{
		Person: c.Person, Address: c.Address, Key: c.Key, OnlyBot: c.Only, KeyRules: c.Bound, Channel: c.Program,
		Program: c.Agent, Lang: string(c.Lang),
	}}
}

// person is whose points a caller means, if its key may do with them what a tool of Learn
// does. People's pages are theirs, whatever they let programs do.
func (p *Learning) person(c Caller, name string) (string, error) {
	switch {
	case c.Person == "":
		return "", Fail(Invalid, sayLearnWhose)
	case c.Only != 0:
		return "", Fail(Refused, sayLearnOnly)
	case c.Key == "":
		return c.Person, nil
	}
	err := p.s.Hub.AuthorizeTool(c.by(), name)
	if err == nil {
		return c.Person, nil
	}
	switch tool.AsError(err).Code {
	case tool.RateLimited:
		return "", Fail(TooMany, sayLearnTooMany)
	case tool.Denied, tool.Unknown:
		return "", Fail(Refused, sayLearnRule, name)
	}
	return "", err
}

// learner looks up whose points a caller means.
func (p *Learning) learner(ctx context.Context, c Caller, name string) (*learn.Learner, error) {
	person, err := p.person(c, name)
	if err != nil {
		return nil, err
	}
	return p.points.Learner(ctx, person)
}

// RecordLearnChange does something with the caller's knowledge points that changes them, and writes
// it into the audit trail as a call of the tool of that name, with the arguments that the
// tool would have had. Its error is that of do.
func (s *Service) RecordLearnChange(c Caller, name string, args any, do func() error) error {
	began := time.Now()
	err := do()
	text, bad := json.Marshal(args)
	if bad != nil {
		text = nil // the row tells all but what it was called with
	}
	var res *tool.Result
	failed := err
	if e := AsError(LearnError(err)); e != nil {
		switch e.Reason {
		case Missing, Conflict: // as the tools answer it
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

// recordChange is [Service.Learnt], with its error in words.
func (p *Learning) recordChange(c Caller, name string, args any, do func() error) error {
	return LearnError(p.s.RecordLearnChange(c, name, args, do))
}

// LearnError puts an error of Learn into words for people, if it is theirs to mend.
func LearnError(err error) error {
	if bad, ok := errors.AsType[*learn.Invalid](err); ok {
		return &Error{Reason: Invalid, Say: bad.Say, Args: bad.Args}
	}
	if done, ok := errors.AsType[*learn.AlreadyReviewedError](err); ok {
		return Fail(Conflict, sayReviewed, learn.DueText(&done.Entry.Point))
	}
	if early, ok := errors.AsType[*learn.NotDueError](err); ok {
		return Fail(Conflict, sayNotDue, learn.DueText(&early.Entry.Point))
	}
	if there, ok := errors.AsType[*learn.TagExistsError](err); ok {
		return Fail(Conflict, sayTagThere, there.Tag, there.Points)
	}
	switch {
	case errors.Is(err, learn.ErrNotFound):
		return Fail(Missing, sayNoPoint)
	case errors.Is(err, learn.ErrNoPlan):
		return Fail(Conflict, sayNoPlan)
	case errors.Is(err, learn.ErrTagNotFound):
		return Fail(Missing, sayNoTag)
	}
	return err
}

// learnTime is how long changes may take that concern every point of a deck or a tag.
const learnTime = 10 * time.Minute

// detached lets what is begun be finished, whoever leaves meanwhile.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), learnTime)
}

// deckNamed finds the deck that a list is narrowed to; nil: all.
func deckNamed(l *learn.Learner, name string) (*string, error) {
	if name == "" {
		return nil, nil
	}
	id, ok := l.DeckID(name)
	if !ok {
		return nil, Fail(Missing, sayNoDeck)
	}
	return &id, nil
}
