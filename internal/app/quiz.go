package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/approve"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/push"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/learn/remind"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// registerQuiz lets people review by talking to their bots. The quiz is to be run.
func registerQuiz(h *hub.Hub, s *learn.Service, b *Base, glasses *rokid.Handler, log *slog.Logger) *quiz.Quiz {
	q := quiz.New(quiz.Options{
		Service: s, Store: b.Store, Logger: log, Now: s.Now,
		Tell: func(ctx context.Context, n quiz.Notice) error { return tellStep(ctx, h, glasses, n) },
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
	return q
}

// tellStep tells a person that a step is due: by the boards that speak with the bot, or on the
// glasses with which they reviewed.
func tellStep(ctx context.Context, h *hub.Hub, glasses *rokid.Handler, n quiz.Notice) error {
	w, isGlasses := quiz.Wearer(&talk.Turn{Person: n.Asker})
	switch {
	case n.Channel == xiaozhi.Channel:
		return sayOnBoards(ctx, h, n.Owner, []int64{n.Bot}, n.Text, n.Until)
	case !isGlasses:
		return nil // who types sees the time in the last answer
	}
	bot, err := h.Store.Bots.ByNumber(ctx, n.Bot)
	if err != nil {
		return err
	}
	err = glasses.Push(ctx, bot, rokid.Notice{ID: n.ID, UserID: w.UserID, AgentID: n.AgentID, Text: n.Text,
		Lang: n.Lang})
	if errors.Is(err, rokid.ErrNoPushKey) {
		return nil // nothing can be shown unasked
	}
	return err
}

// keyAllowsLearn reports whether the key of a turn allows the tools that correspond to the quiz: to
// get questions and answers, to submit reviews, and to create points.
func keyAllowsLearn(h *hub.Hub, bot store.Bot, turn *talk.Turn) bool {
	person := cmp.Or(turn.ActsFor, bot.Owner)
	if l := h.LimitsOf(person); turn.BotOnly || turn.KeyRules == "" && len(l.AllowTools)+len(l.DenyTools) == 0 {
		return !turn.BotOnly
	}
	v, err := h.View(person, hub.JoinRules("", turn.KeyRules))
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
func remindersOf(b *Base, s *learn.Service, glasses *rokid.Handler, browsers *push.Service,
	dial func(context.Context, string, string) (net.Conn, error), log *slog.Logger) remind.Options {
	return remind.Options{Store: b.Store, Service: s, Logger: log, Senders: remind.Senders{
		"webhook": remind.Webhook(&http.Client{Transport: &http.Transport{DialContext: dial}}),
		"push":    browsers.Remind,
		"glasses": func(ctx context.Context, person string, m remind.Message) error {
			return pushReminder(ctx, b, glasses, person, m)
		},
	}}
}

// browsersOf returns the service that reminds people in their browsers. The browsers choose the
// addresses, so it uses the guarded dialer.
func browsersOf(b *Base, dial func(context.Context, string, string) (net.Conn, error), registry prometheus.Registerer,
	log *slog.Logger) *push.Service {
	subject := b.Config.PublicURL
	if !strings.HasPrefix(subject, "https://") {
		subject = "mailto:nobody@localhost" // push services want one, and some check it
	}
	return push.New(push.Options{Store: b.Store, Box: b.Box, Logger: log, Registerer: registry, Subject: subject,
		Client: &http.Client{Transport: &http.Transport{DialContext: dial, ForceAttemptHTTP2: true}}})
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
