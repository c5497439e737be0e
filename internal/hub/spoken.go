package hub

import (
	"cmp"
	"context"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// A conversation by sound is a connection of a bot, and its turns are turns like all others: they
// wait for a slot, call tools, and are recorded. What the person said becomes known in their
// course.

// msgSpeech stands for what a person said if it never became known.
const msgSpeech = i18n.Message("[speech]")

// Converse begins a conversation by sound with the bot of a turn that has no parts; see
// [talk.DuplexBot]. It fills in the history of the turn. It returns nil if the bot answers texts
// only. The error is a *[talk.Failure].
func (h *Hub) Converse(ctx context.Context, opening *talk.Turn, hear func(talk.Hearing)) (talk.Duplex, error) {
	h.mu.Lock()
	draining := h.draining
	h.mu.Unlock()
	if draining {
		return nil, talk.Fail(talk.Stopping, "", nil)
	}
	c, err := h.newTurnContext(ctx, opening)
	if err != nil {
		return nil, err
	}
	if k, err := h.Registry.Kind(c.bot.Kind); err != nil || k.Inbound {
		return nil, err
	}
	t, err := h.target(ctx, c.bot, c.common, func() {})
	if err != nil {
		return nil, err
	}
	if s, ok := t.(*slot); ok {
		if b, ok := s.bot.(talk.DuplexBot); ok {
			return b.Converse(opening, hear), nil
		}
	}
	return nil, nil
}

// NotHeard records a turn that was spoken, and that no bot was asked because nothing could
// recognise it: its owner finds it among the turns, with the cause. It has no parts.
func (h *Hub) NotHeard(ctx context.Context, turn *talk.Turn, cause error) error {
	b, err := h.Store.Bots.ByNumber(ctx, turn.Bot)
	if err != nil {
		return err
	}
	if f := h.admit(ctx, b, turn); f != nil {
		return f
	}
	f, now := talk.Fail(talk.NotHeard, "", cause), h.Now()
	return h.finish(store.Trace{
		Turn: turn.ID, Bot: turn.Bot, Owner: cmp.Or(turn.ActsFor, b.Owner), Kind: b.Kind, Channel: turn.Channel,
		Person: turn.Person, Conversation: turn.Conversation, Instance: h.Bus.Instance, At: now, Outcome: outcomeFailed,
		Code: string(f.Code), Cause: f.Error(),
	}, nil, nil)
}

// understood takes what the person said. Requires mu.
func (r *run) understood(e talk.Event) {
	if e.Text == "" || r.turn.Spoken == nil {
		return
	}
	r.said = e.Text
	r.active.ask(e.Text)
	r.deliver(e)
}

// question returns what the person asked, as history stores it. Requires mu, or that the run has
// ended.
func (r *run) question() string {
	switch {
	case r.said != "":
		return r.said
	case r.turn.Spoken != nil:
		return msgSpeech.In(r.turn.Lang)
	}
	return questionText(r.turn)
}

// ask sets the question.
func (c *activeTurn) ask(question string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Question = question
}

// snapshot returns the turn without its events.
func (c *activeTurn) snapshot() ActiveTurn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ActiveTurn
}
