package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/approve"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/learn/remind"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// registerQuiz lets people review by talking to their bots.
func registerQuiz(h *hub.Hub, s *learn.Service, b *Base, log *slog.Logger) {
	q := quiz.New(quiz.Options{
		Service: s, Store: b.Store, Logger: log,
		Shared: func(bot store.Bot) bool {
			var o account.Audience
			err := h.Registry.Settings(bot, &o)
			return err != nil || o.Shared
		},
		Allowed: func(ctx context.Context, bot store.Bot, turn *talk.Turn) bool {
			return keyAllowsLearn(h, bot, turn) && canLearn(ctx, b, bot, turn)
		},
	})
	h.Intercept("learn", q.Intercept)
}

// keyAllowsLearn reports whether the key of a turn allows the tools that correspond to the quiz: to
// get questions and answers, to submit reviews, and to create points.
func keyAllowsLearn(h *hub.Hub, bot store.Bot, turn *talk.Turn) bool {
	if turn.BotOnly || turn.KeyRules == "" {
		return !turn.BotOnly
	}
	v, err := h.View(bot.Owner, hub.JoinRules("", turn.KeyRules))
	if err != nil {
		return false
	}
	for _, name := range []string{"next_review", "reveal_answer", "submit_review", "create_knowledge_point"} {
		if !v.HasOriginal(name) {
			return false
		}
	}
	return true
}

// canLearn reports whether the person who asks may see the points of a bot's owner. Glasses may if
// they are bound to the bot, which required the owner's consent. Glasses that have only a key may
// belong to anybody who uses the same agent, so the owner has to allow them.
func canLearn(ctx context.Context, b *Base, bot store.Bot, turn *talk.Turn) bool {
	var s quiz.Settings
	if err := b.Registry.Settings(bot, &s); err == nil && s.Learn {
		return true
	}
	return isOwnersWearer(ctx, b, bot, turn)
}

// remindersOf returns the channels of reminders. Webhooks use the guarded dialer, because people
// choose their addresses.
func remindersOf(b *Base, s *learn.Service, glasses *rokid.Handler,
	dial func(context.Context, string, string) (net.Conn, error), log *slog.Logger) remind.Options {
	return remind.Options{Store: b.Store, Service: s, Logger: log, Senders: remind.Senders{
		"webhook": remind.Webhook(&http.Client{Transport: &http.Transport{DialContext: dial}}),
		"glasses": func(ctx context.Context, person string, m remind.Message) error {
			return pushReminder(ctx, b, glasses, person, m)
		},
	}}
}

var errNoGlasses = errors.New("no glasses can be reached: they must be bound to a bot that has a push_key and is not shared")

// pushReminder shows a reminder on a person's glasses.
func pushReminder(ctx context.Context, b *Base, glasses *rokid.Handler, person string, m remind.Message) error {
	err := showOnGlasses(ctx, b, glasses, person, m.ID, m.Text, m.Lang)
	if errors.Is(err, approve.ErrNoGlasses) {
		return errNoGlasses
	}
	return err
}
