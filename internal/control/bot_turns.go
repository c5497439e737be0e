package control

import (
	"context"
	"time"
)

// BotTurnsQuery selects turns of a bot.
type BotTurnsQuery struct {
	Bot string `path:"bot"`
	// Before and Turn identify the last turn of the page before; empty: the newest.
	Before time.Time `query:"before"`
	Turn   string    `query:"turn"`
	Limit  int       `query:"limit"` // 0: 50, which is the maximum
}

// BotTurnList is a page of turns of a bot.
type BotTurnList struct {
	Turns []TurnRow `json:"turns"` // newest first
	// More reports whether there are older ones.
	More bool `json:"more,omitempty"`
}

// turnsPerPage is the maximum number of turns on a page.
const turnsPerPage = 50

// BotTurns lists the newest turns of a bot. Admins do not get the content of turns of other
// people's bots.
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
	out := BotTurnList{More: len(list) > in.Limit}
	if out.More {
		list = list[:in.Limit]
	}
	for i := range list {
		hideContent(c, &list[i])
	}
	out.Turns, err = s.turnRows(ctx, b.Owner, list)
	return out, err
}
