package control

import (
	"context"

	"patchbay/internal/store"
)

// pastChats is how many earlier conversations a list has.
const pastChats = 30

// PastChats lists the caller's conversations with a bot that is theirs, as FindBot or Chat returned
// it, the last one first.
func (s *Service) PastChats(ctx context.Context, c Caller, b store.Bot) ([]store.PastConversation, error) {
	return s.Hub.Store.Conversations.Past(ctx, b.Number, conversationOf(c, b, "").Person, pastChats)
}

// TurnCall is a call of a tool by a bot in a turn.
type TurnCall struct {
	store.Call
	Title string // of the tool, if it is still there and has one
}

// TurnCalls returns what a bot of the caller's, as FindBot or Chat returned it, called in some
// turns, by turn.
func (s *Service) TurnCalls(ctx context.Context, b store.Bot, turns []string) (map[string][]TurnCall, error) {
	if len(turns) == 0 {
		return nil, nil
	}
	s.Hub.WaitForCallRecords(ctx)
	found, err := s.Hub.Store.Calls.ByTurns(ctx, b.Owner, b.Number, turns)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	titles, err := s.toolTitles(b.Owner)
	if err != nil {
		return nil, err
	}
	out := map[string][]TurnCall{}
	for turn, calls := range found {
		for _, call := range calls {
			out[turn] = append(out[turn], TurnCall{call, titles[call.Tool]})
		}
	}
	return out, nil
}

// ToolTitle returns the title of the tool that a caller's bot calls by some name; empty: it has
// none.
func (s *Service) ToolTitle(owner, name string) string {
	v, err := s.Hub.View(owner, "")
	if err != nil {
		return ""
	}
	if t := v.Tool(name); t != nil {
		return t.Title
	}
	return ""
}

// toolTitles returns the titles of a person's tools by their original names, as in records.
func (s *Service) toolTitles(owner string) (map[string]string, error) {
	v, err := s.Hub.View(owner, "")
	if err != nil {
		return nil, err
	}
	titles := map[string]string{}
	for _, t := range v.Tools {
		titles[t.OriginalName()] = t.Title
	}
	return titles, nil
}
