package hub

import (
	"cmp"
	"context"
	"errors"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// MsgPaused tells people that their account is paused.
const MsgPaused = i18n.Message("This account is paused. Whoever runs Patchbay can resume it.")

// What else people are told whose questions are refused because of who they are.
const (
	msgOwnerPaused = i18n.Message("The account of this bot's owner is paused.")
	msgNotShared   = i18n.Message("This bot is not shared with you any more.")
	msgAskedEnough = i18n.Message("That is all for today: you may ask %d questions a day. You can go on tomorrow, or whoever runs Patchbay can allow more.")
)

// restricted are the people with limits and those who are paused, by id.
type restricted map[string]store.Person

// restriction returns the person if they have limits or are paused; otherwise the zero Person.
func (h *Hub) restriction(person string) store.Person {
	if m := h.restricted.Load(); m != nil {
		return (*m)[person]
	}
	return store.Person{}
}

// admit refuses a turn of somebody who is paused, or who may not ask the bot. Of a turn of somebody
// with whom the bot is shared it sets ActsFor. It is called again on no other instance.
func (h *Hub) admit(ctx context.Context, bot store.Bot, turn *talk.Turn) *talk.Failure {
	asker := cmp.Or(turn.Asker, bot.Owner)
	if turn.ActsFor = ""; asker != bot.Owner {
		shared, err := h.Store.Bots.MayAsk(ctx, bot.Number, asker)
		if err == nil && !shared {
			var p store.Person
			p, err = h.Store.People.ByID(ctx, asker)
			missing := errors.Is(err, store.ErrNotFound)
			if missing || err == nil && (p.Role != account.RoleAdmin || !isOperators(turn.Channel)) {
				return refuse(msgNotShared.In(turn.Lang), "the bot is not shared with "+asker)
			}
		}
		switch {
		case err != nil:
			return talk.Fail(talk.Internal, "", err)
		case shared:
			turn.ActsFor = asker
		}
	}
	if h.IsPaused(asker) {
		return refuse(MsgPaused.In(turn.Lang), "the account is paused: "+asker)
	}
	if h.IsPaused(bot.Owner) {
		return refuse(msgOwnerPaused.In(turn.Lang), "the owner of the bot is paused: "+bot.Owner)
	}
	return nil
}

// isOperators reports whether administrators may ask everybody's bots through a channel: the
// console and the command line.
func isOperators(channel string) bool { return channel == "console" || channel == "cli" }

func refuse(told, cause string) *talk.Failure {
	return &talk.Failure{Code: talk.NotAllowed, Told: told, Cause: cause}
}

// takeQuestion counts the turn as a question of the person who asks, if their questions are
// limited. The failure says that none are left today. A question that is not certain yet is only
// counted by the returned function, which is called when the bot has ended.
func (r *run) takeQuestion() (count func(), err error) {
	h, account := r.hub, cmp.Or(r.turn.ActsFor, r.bot.Owner)
	p := h.restriction(account)
	most := p.Limits.Questions
	if most == 0 || r.turn.Depth > 0 {
		return func() {}, nil
	}
	day := Today(p, h.Now())
	left := false
	if r.turn.Commit == nil {
		left, err = h.Store.People.TakeQuestion(r.ctx, account, day, most)
	} else {
		var asked int
		asked, err = h.Store.People.QuestionsAsked(r.ctx, account, day)
		left = asked < most
	}
	switch {
	case err != nil:
		return nil, talk.Fail(talk.Internal, "", err)
	case !left:
		return nil, refuse(msgAskedEnough.In(r.turn.Lang, most), "no questions are left today: "+account)
	}
	return func() {
		if r.turn.Commit == nil || r.certain() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(h.ctx, saveTimeout)
		defer cancel()
		if _, err := h.Store.People.TakeQuestion(ctx, account, day, most); err != nil {
			h.Logger.ErrorContext(ctx, "a question was not counted", "person", account, "error", err)
		}
	}, nil
}

// Today returns the day of a person's time zone, such as 2026-11-28.
func Today(p store.Person, now time.Time) string {
	if zone, err := time.LoadLocation(p.Zone); err == nil && p.Zone != "" {
		now = now.In(zone)
	} else {
		now = now.Local()
	}
	return now.Format(time.DateOnly)
}

// LimitRules returns the rules that limit a bot's tools to those that a person may call, for
// [JoinRules]; empty: the person may call all.
func LimitRules(l store.PersonLimits) string {
	if len(l.AllowTools) == 0 && len(l.DenyTools) == 0 {
		return ""
	}
	// Which dangerous tools the bot calls is decided by its owner.
	return Rules{Allow: l.AllowTools, Deny: l.DenyTools, Dangerous: []string{"*"}, People: true}.String()
}

// LimitsOf returns what a person may do, as this instance knows it.
func (h *Hub) LimitsOf(person string) store.PersonLimits { return h.restriction(person).Limits }

// IsPaused reports whether an account is paused, as this instance knows it.
func (h *Hub) IsPaused(person string) bool { return !h.restriction(person).Paused.IsZero() }

// checkPaused refuses the calls of, and for, people who are paused.
func (h *Hub) checkPaused(who *Access) error {
	if !h.IsPaused(who.Person) && !h.IsPaused(who.Actor) {
		return nil
	}
	return tool.Fail(tool.Denied, "The account is paused.", nil)
}
