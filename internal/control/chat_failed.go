package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// FailedTurn is a question of a conversation that got no complete answer.
type FailedTurn struct {
	Turn string    `json:"turn"`
	At   time.Time `json:"at"`
	// Question and Answer are empty unless the owner of the bot records contents.
	Question string        `json:"question,omitempty"`
	Answer   string        `json:"answer,omitempty"` // what was said of it
	Code     string        `json:"code,omitempty"`   // as in the record of the turn
	Cause    string        `json:"cause,omitempty"`  // as in the record of the turn
	Stopped  bool          `json:"stopped,omitempty"`
	Took     time.Duration `json:"-"`
	// End is the outcome, as [hub.Hub.Answer] returns it.
	End error `json:"-"`
}

// failedTurns returns the questions of a conversation that have no exchange, because no answer
// came, oldest first. Turns before the oldest of a full list of exchanges are left out, as older
// exchanges are.
func (s *Service) failedTurns(ctx context.Context, c Caller, b store.Bot, t hub.ConversationRef,
	exchanges []store.Exchange, ongoing []hub.ActiveTurn) ([]FailedTurn, error) {
	list, err := s.Hub.Store.Traces.FailedOf(ctx, turnsOwner(c, b), b.Number, t.Person, t.Conversation, maxChatTurns)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, e := range exchanges {
		known[e.Turn] = true
	}
	for _, o := range ongoing { // its asker has disconnected, but the bot goes on
		known[o.Turn] = true
	}
	var out []FailedTurn
	for _, tr := range list {
		if known[tr.Turn] || len(exchanges) == maxChatTurns && tr.At.Before(exchanges[0].At) {
			continue
		}
		end := failedEnding(tr)
		if end == nil {
			continue
		}
		out = append(out, FailedTurn{Turn: tr.Turn, At: tr.At, Question: tr.Question, Answer: tr.Answer, Code: tr.Code,
			Cause: tr.Cause, Stopped: errors.Is(end, talk.ErrStopped), Took: max(tr.Total, tr.Late), End: end})
	}
	slices.Reverse(out)
	return out, nil
}

// turnsOwner returns to whom the turns of a caller with a bot belong.
func turnsOwner(c Caller, b store.Bot) string {
	if isShared(c, b) {
		return c.Person
	}
	return b.Owner
}

// failedEnding returns how a turn without an exchange ended; nil: it was answered after its asker
// had disconnected, and the answer is deleted.
func failedEnding(tr store.Trace) error {
	if tr.Cause == "" && tr.Late > 0 {
		return nil
	}
	return turnEnding(tr, tr.Answer)
}

// latestConversation returns the person's most recent conversation with a bot, be it that nothing
// in it was answered, or [store.ErrNotFound].
func (s *Service) latestConversation(ctx context.Context, c Caller, b store.Bot, person string) (string, error) {
	past, err := s.pastConversations(ctx, c, b, person, 1)
	if err == nil && len(past) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	return past[0].Conversation, nil
}

// pastConversations lists a person's conversations with a bot, the last one first: also those in
// which nothing was answered.
func (s *Service) pastConversations(ctx context.Context, c Caller, b store.Bot, person string,
	limit int) ([]store.PastConversation, error) {
	past, err := s.Hub.Store.Conversations.Past(ctx, b.Number, person, limit)
	if err != nil {
		return nil, err
	}
	failed, err := s.Hub.Store.Traces.FailedOf(ctx, turnsOwner(c, b), b.Number, person, "", maxChatTurns)
	if err != nil {
		return nil, err
	}
	answered := len(past)
	for _, tr := range failed { // the newest first
		i := slices.IndexFunc(past, func(c store.PastConversation) bool { return c.Conversation == tr.Conversation })
		switch {
		case tr.Conversation == "" || failedEnding(tr) == nil:
		case i < 0 && answered == limit && tr.At.Before(past[answered-1].Last): // it may have older answers
		case i < 0:
			past = append(past, store.PastConversation{Conversation: tr.Conversation, Question: tr.Question,
				Last: tr.At})
		case past[i].Last.Before(tr.At):
			past[i].Last = tr.At
		case i >= answered && tr.Question != "":
			past[i].Question = tr.Question // the first one
		}
	}
	slices.SortStableFunc(past, func(a, b store.PastConversation) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(b.Conversation, a.Conversation))
	})
	return past[:min(len(past), limit)], nil
}
