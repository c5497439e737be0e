package control

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayStopGoing  = talk.Say{Zh: "已经让机器人停止，但它还没有停下来。", En: "The bot was told to stop, and has not stopped yet."}
	sayStopUnsure = talk.Say{Zh: "另一台服务器没有回应，那里的回答可能还在继续。请再试一次。",
		En: "Another server did not respond; an answer there may go on. Try again."}
)

// talkOf is what a caller has with one of their bots, as the board names it.
func (s *Service) talkOf(ctx context.Context, c Caller, bot,
	conversation string) (store.Bot, hub.ConversationRef, error) {
	b, err := s.FindBot(ctx, c, bot)
	if err != nil {
		return b, hub.ConversationRef{}, err
	}
	person := c.Person
	if person == "" {
		person = b.Owner // the operator of this machine asks in the owner's place
	}
	return b, hub.ConversationRef{Bot: b.Number, Person: asker(c.channel(), person), Conversation: conversation}, nil
}

// FollowChat hands what one of the caller's bots says in a turn that is being answered to
// see, from its beginning: what there is, and then what comes. It returns all that was said
// in the end, if that is kept, and how it ended, as [hub.Hub.Answer] does; of a turn
// that has ended, just that. Early it returns if ctx ends, or see fails.
func (s *Service) FollowChat(ctx context.Context, c Caller, ref ChatRef, turn string,
	see func([]talk.Event) error) (said string, err error) {
	_, t, err := s.talkOf(ctx, c, ref.Bot, ref.Conversation)
	if err != nil {
		return "", err
	}
	if uuid.Validate(turn) != nil {
		return "", Fail(Missing, sayNoTurn)
	}
	err = s.Hub.Observe(ctx, t, turn, see)
	_, failed := errors.AsType[*talk.Failure](err)
	if err != nil && !failed && !errors.Is(err, hub.ErrStopped) && !errors.Is(err, hub.ErrNotActive) {
		return "", err // the caller has gone, mostly
	}
	e, missing := s.Hub.Store.Conversations.ByTurn(ctx, turn)
	switch {
	case missing == nil && e.Bot == t.Bot && e.Person == t.Person:
		if said = e.Answer; e.Undelivered { // it was shown, and need not be told with the next answer
			if err := s.Hub.Store.Conversations.MarkDelivered(ctx, turn); err != nil {
				return said, err
			}
		}
	case missing != nil && !errors.Is(missing, store.ErrNotFound):
		return "", missing
	}
	if !errors.Is(err, hub.ErrNotActive) {
		return said, err
	}
	tr, err := s.Hub.Store.Traces.ByTurn(ctx, turn)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return said, err
	}
	if err != nil || tr.Bot != t.Bot || tr.Person != t.Person {
		return said, talk.Fail(talk.Lost, "", errTurnGone) // nobody has written down how it ended
	}
	if said == "" {
		said = tr.Answer
	}
	return said, turnEnding(tr, said)
}

var errTurnGone = errors.New("the server that asked the bot has gone")

// turnEnding is how a turn ended, as its record has it.
func turnEnding(tr store.Trace, said string) error {
	code, cause := talk.Code(tr.Code), strings.TrimPrefix(tr.Cause, tr.Code+": ")
	switch {
	case tr.Cause == hub.ErrStopped.Error():
		return hub.ErrStopped
	case code != "":
		return talk.Fail(code, "", errors.New(cause))
	case cause != "" || said == "" && tr.Outcome != "done": // nobody listened when it failed
		return talk.Fail(talk.BotFailed, "", errors.New(cause))
	}
	return nil
}

// ChatStop names what is to be stopped.
type ChatStop struct {
	Bot string `path:"bot"` // number or name
	// Conversation is its name; empty: all that the caller has with the bot.
	Conversation string `json:"conversation,omitempty"`
}

// StopChat stops what one of the caller's bots is saying to them, wherever it is asked.
func (s *Service) StopChat(ctx context.Context, c Caller, in ChatStop) (hub.StopResult, error) {
	_, t, err := s.talkOf(ctx, c, in.Bot, in.Conversation)
	if err != nil {
		return hub.StopResult{}, err
	}
	out := s.Hub.StopTurns(ctx, t)
	switch {
	case out.Pending:
		return out, Fail(Late, sayStopGoing)
	case out.Unconfirmed && out.Turns == 0:
		return out, Fail(Away, sayStopUnsure)
	}
	return out, nil
}
