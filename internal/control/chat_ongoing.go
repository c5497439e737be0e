package control

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	msgStopGoing  = i18n.Message("The bot was told to stop, and has not stopped yet.")
	msgStopUnsure = i18n.Message("Another server did not respond; an answer there may go on. Try again.")
)

// talkOf identifies a caller's conversation with one of their bots for the hub.
func (s *Service) talkOf(ctx context.Context, c Caller, bot,
	conversation string) (store.Bot, hub.ConversationRef, error) {
	b, err := s.FindBot(ctx, c, bot)
	if err != nil {
		return b, hub.ConversationRef{}, err
	}
	person := c.Person
	if person == "" {
		person = b.Owner // the operator of this machine asks as the owner
	}
	return b, hub.ConversationRef{Bot: b.Number, Person: asker(c.channel(), person), Conversation: conversation}, nil
}

// FollowChat passes the events of an active turn of one of the caller's bots to see: those so far,
// and then the others as they arrive. It returns the stored answer, if content is kept, and the
// outcome, as [hub.Hub.Answer] does. If the turn has ended it returns only these. It returns early
// if ctx ends or see fails.
func (s *Service) FollowChat(ctx context.Context, c Caller, ref ChatRef, turn string,
	see func([]talk.Event) error) (said string, err error) {
	_, t, err := s.talkOf(ctx, c, ref.Bot, ref.Conversation)
	if err != nil {
		return "", err
	}
	if uuid.Validate(turn) != nil {
		return "", problem.New(problem.NotFound, msgNoTurn)
	}
	err = s.Hub.Observe(ctx, t, turn, see)
	_, failed := errors.AsType[*talk.Failure](err)
	if err != nil && !failed && !errors.Is(err, talk.ErrStopped) && !errors.Is(err, hub.ErrNotActive) {
		return "", err // mostly the caller has disconnected
	}
	e, missing := s.Hub.Store.Conversations.ByTurn(ctx, turn)
	switch {
	case missing == nil && e.Bot == t.Bot && e.Person == t.Person:
		if said = e.Answer; e.Undelivered { // it was shown, and need not be repeated with the next answer
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
		return said, talk.Fail(talk.Lost, "", errTurnGone) // there is no record of how it ended
	}
	if said == "" {
		said = tr.Answer
	}
	return said, turnEnding(tr, said)
}

var errTurnGone = errors.New("the server that asked the bot has gone")

// turnEnding returns the outcome of a recorded turn.
func turnEnding(tr store.Trace, said string) error {
	code, cause := talk.Code(tr.Code), strings.TrimPrefix(tr.Cause, tr.Code+": ")
	switch {
	case tr.Cause == talk.ErrStopped.Error():
		return talk.ErrStopped
	case code != "":
		return talk.Fail(code, "", errors.New(cause))
	case cause != "" || said == "" && tr.Outcome != "done": // nobody listened when it failed
		return talk.Fail(talk.BotFailed, "", errors.New(cause))
	}
	return nil
}

// ChatStop identifies the turns to stop.
type ChatStop struct {
	Bot string `path:"bot"` // number or name
	// Conversation is its id; empty: all of the caller's with the bot.
	Conversation string `json:"conversation,omitempty"`
}

// StopChat stops the caller's active turns with a bot, on whichever instance they run.
func (s *Service) StopChat(ctx context.Context, c Caller, in ChatStop) (hub.StopResult, error) {
	_, t, err := s.talkOf(ctx, c, in.Bot, in.Conversation)
	if err != nil {
		return hub.StopResult{}, err
	}
	out := s.Hub.StopTurns(ctx, t)
	switch {
	case out.Pending:
		return out, problem.New(problem.TimedOut, msgStopGoing)
	case out.Unconfirmed && out.Turns == 0:
		return out, problem.New(problem.Unavailable, msgStopUnsure)
	}
	return out, nil
}
