package control

import (
	"context"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// pastChats is how many earlier conversations a list has.
const pastChats = 30

// PastChats lists the caller's conversations with a bot that is theirs, as FindBot or Chat returned
// it, the last one first.
func (s *Service) PastChats(ctx context.Context, c Caller, b store.Bot) ([]store.PastConversation, error) {
	return s.pastConversations(ctx, c, b, conversationOf(c, b, "").Person, pastChats)
}

// PastTurn is what was recorded of a turn.
type PastTurn struct {
	Calls []Call // of tools by the bot, oldest first
	Took  time.Duration
	// Input and Output are the tokens of the bot's model; 0: not known.
	Input, Output int
	// End is how the answer ended if it is incomplete, as [hub.Hub.Answer] returns it.
	End error
}

// PastTurns returns what was recorded of some turns of the caller's with a bot, as FindBot or Chat
// returned it, by turn.
func (s *Service) PastTurns(ctx context.Context, c Caller, b store.Bot, turns []string) (map[string]PastTurn, error) {
	if len(turns) == 0 {
		return nil, nil
	}
	out := make(map[string]PastTurn, len(turns))
	traces, err := s.Hub.Store.Traces.ByTurns(ctx, b.Number, turns)
	if err != nil {
		return nil, err
	}
	for _, t := range traces {
		past := PastTurn{Took: max(t.Total, t.Late)}
		past.Input, past.Output = t.Tokens()
		if t.Outcome == "failed" || t.Cause == talk.ErrStopped.Error() {
			past.End = turnEnding(t, t.Answer)
		}
		out[t.Turn] = past
	}
	s.Hub.WaitForCallRecords(ctx)
	found, err := s.Hub.Store.Calls.ByTurns(ctx, b, c.Person, turns)
	if err != nil || len(found) == 0 {
		return out, err
	}
	for turn, calls := range found {
		past := out[turn]
		for _, call := range calls {
			past.Calls = append(past.Calls, Call{Call: call})
		}
		s.fillTitles(past.Calls)
		out[turn] = past
	}
	return out, nil
}

// ToolTitle returns the title of the tool that a caller's bot calls by some name, and the kind of
// its provider; empty: it has none.
func (s *Service) ToolTitle(owner, name string) (title, kind string) {
	v, err := s.Hub.View(owner, "")
	if err != nil {
		return "", ""
	}
	if t := v.Tool(name); t != nil {
		return t.Tool.Title, t.Provider().Kind
	}
	return "", ""
}
