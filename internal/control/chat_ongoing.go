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
	b, err := s.botToAsk(ctx, c, bot)
	if err != nil {
		return b, hub.ConversationRef{}, err
	}
	return b, conversationOf(c, b, conversation), nil
}

// conversationOf returns a conversation of the caller with a bot of theirs.
func conversationOf(c Caller, b store.Bot, conversation string) hub.ConversationRef {
	person := c.Person
	if person == "" {
		person = b.Owner // the operator of this machine asks as the owner
	}
	return hub.ConversationRef{Bot: b.Number, Person: asker(c.channel(), person), Conversation: conversation}
}

// FollowedTurn is what a followed turn was in the end, as far as content is kept.
type FollowedTurn struct{ Question, Answer string }

// FollowChat passes the events of an active turn of one of the caller's bots to see: those so far,
// and then the others as they arrive. It returns what is stored of the turn, and the outcome, as
// [hub.Hub.Answer] does. If the turn has ended it returns only these. It returns early if ctx ends
// or see fails.
func (s *Service) FollowChat(ctx context.Context, c Caller, ref ChatRef, turn string,
	see func([]talk.Event) error) (out FollowedTurn, err error) {
	_, t, err := s.talkOf(ctx, c, ref.Bot, ref.Conversation)
	if err != nil {
		return out, err
	}
	if uuid.Validate(turn) != nil {
		return out, problem.New(problem.NotFound, msgNoTurn)
	}
	err = s.Hub.Observe(ctx, t, turn, see)
	_, failed := errors.AsType[*talk.Failure](err)
	if err != nil && !failed && !errors.Is(err, talk.ErrStopped) && !errors.Is(err, hub.ErrNotActive) {
		return out, err // mostly the caller has disconnected
	}
	e, missing := s.Hub.Store.Conversations.ByTurn(ctx, turn)
	switch {
	case missing == nil && e.Bot == t.Bot && e.Person == t.Person:
		if out = (FollowedTurn{e.Question, e.Answer}); e.Undelivered {
			// It was shown, and need not be repeated with the next answer.
			if err := s.Hub.Store.Conversations.MarkDelivered(ctx, turn); err != nil {
				return out, err
			}
		}
	case missing != nil && !errors.Is(missing, store.ErrNotFound):
		return out, missing
	}
	if !errors.Is(err, hub.ErrNotActive) {
		return out, err
	}
	tr, err := s.Hub.Store.Traces.ByTurn(ctx, turn)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return out, err
	}
	if err != nil || tr.Bot != t.Bot || tr.Person != t.Person {
		return out, talk.Fail(talk.Lost, "", errTurnGone) // there is no record of how it ended
	}
	if out.Answer == "" {
		out.Answer = tr.Answer
	}
	return out, turnEnding(tr, out.Answer)
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
