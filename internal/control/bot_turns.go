package control

import (
	"context"
	"time"

	"patchbay/internal/store"
)

// BotTurnsQuery asks for the turns of a bot.
type BotTurnsQuery struct {
	Bot string `path:"bot"`
	// Before and Turn are of the last one of the page before; none: the newest.
	Before time.Time `query:"before"`
	Turn   string    `query:"turn"`
	Limit  int       `query:"limit"` // 50 if it is not said, and at most
}

// BotTurnList is turns of a bot.
type BotTurnList struct {
	Turns []store.Trace `json:"turns"` // newest first
	// More says that there are older ones.
	More bool `json:"more,omitempty"`
}

// turnsPerPage is how many turns are listed at a time.
const turnsPerPage = 50

// BotTurns lists the newest turns of a bot.
func (s *Service) BotTurns(ctx context.Context, c Caller, in BotTurnsQuery) (BotTurnList, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotTurnList{}, err
	}
	if in.Before.IsZero() {
		in.Before, in.Turn = time.Now().Add(time.Minute), ""
	}
	if in.Limit <= 0 || in.Limit > turnsPerPage {
		in.Limit = turnsPerPage
	}
	list, err := s.Hub.Store.Traces.ByBot(ctx, b.Number, in.Before, in.Turn, in.Limit+1)
	if err != nil {
		return BotTurnList{}, err
	}
	out := BotTurnList{Turns: list, More: len(list) > in.Limit}
	if out.More {
		out.Turns = list[:in.Limit]
	}
	if out.Turns == nil {
		out.Turns = []store.Trace{}
	}
	return out, nil
}
