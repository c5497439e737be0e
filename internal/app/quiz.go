package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/learn/remind"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// quizOn lets people review by talking to their bots.
func quizOn(hub *board.Board, s *learn.Service, b *Base, log *slog.Logger) {
	q := quiz.New(quiz.Options{
		Service: s, Store: b.Store, Logger: log,
		Shared: func(bot store.Bot) bool {
			var o account.Openness
			err := hub.Registry.Settings(bot, &o)
			return err != nil || o.Shared
		},
		Allowed: func(ctx context.Context, bot store.Bot, turn *talk.Turn) bool {
			return keyLearns(hub, bot, turn) && mayLearn(ctx, b, bot, turn)
		},
	})
	hub.Interpose("learn", q.Interpose)
}

// keyLearns reports whether the key by which is asked may do by tools what Learn does when
// it listens: give questions with their answers, take reviews, and keep new points.
func keyLearns(hub *board.Board, bot store.Bot, turn *talk.Turn) bool {
	if turn.Alone || turn.Bound == "" {
		return !turn.Alone
	}
	v, err := hub.View(bot.Owner, board.Join("", turn.Bound))
	if err != nil {
		return false
	}
	for _, name := range []string{"next_review", "reveal_answer", "submit_review", "create_knowledge_point"} {
		if v.Tool(name) == nil {
			return false
		}
	}
	return true
}

// mayLearn says whether whoever asks may see the points of a bot's owner. Glasses
// may if they are bound to the bot: the owner has seen to that. Those that come in
// with nothing but a key may be anybody's who uses the same agent, so that the
// owner has to say so.
func mayLearn(ctx context.Context, b *Base, bot store.Bot, turn *talk.Turn) bool {
	w, glasses := quiz.Wearer(turn)
	if !glasses {
		return true
	}
	var s quiz.Settings
	if err := b.Registry.Settings(bot, &s); err == nil && s.Learn {
		return true
	}
	bound, err := b.Store.Bindings.Of(ctx, w)
	return err == nil && bound.Bot == bot.Number
}

// remindersOf are the ways to people who want to be reminded. Addresses of webhooks
// are anybody's, so that they go by the guarded way.
func remindersOf(b *Base, s *learn.Service, glasses *rokid.Door, dial func(context.Context, string, string) (net.Conn, error), log *slog.Logger) remind.Options {
	return remind.Options{Store: b.Store, Service: s, Logger: log, Ways: remind.Ways{
		"webhook": remind.Webhook(&http.Client{Transport: &http.Transport{DialContext: dial}}),
		"glasses": func(ctx context.Context, person string, m remind.Message) error {
			return pushReminder(ctx, b, glasses, person, m)
		},
	}}
}

var errNoGlasses = errors.New("no glasses can be reached: they must be bound to a bot that has a push_key and is not shared")

// pushReminder shows a reminder on all glasses that are bound to a person's bots.
func pushReminder(ctx context.Context, b *Base, glasses *rokid.Door, person string, m remind.Message) error {
	bots, err := b.Store.Bots.ByOwner(ctx, person)
	if err != nil {
		return err
	}
	var errs []error
	reached := false
	for _, bot := range bots {
		var o account.Openness
		if err := b.Registry.Settings(bot, &o); err != nil || o.Shared {
			continue
		}
		bound, err := b.Store.Bindings.ByBot(ctx, bot.Number)
		if err != nil {
			return err
		}
		for _, w := range bound {
			err := glasses.Push(ctx, bot, rokid.Notice{ID: m.ID + "-" + w.UserID, UserID: w.UserID, AgentID: w.AgentID, Text: m.Text, Lang: m.Lang})
			reached = reached || err == nil
			if err != nil && !errors.Is(err, rokid.ErrNoPushKey) {
				errs = append(errs, err)
			}
		}
	}
	if !reached && len(errs) == 0 {
		return errNoGlasses
	}
	return errors.Join(errs...)
}

// calendar is GET /api/v1/learn/calendar.ics: what is due on the coming days, for
// calendar programs to subscribe to. They know names and passwords better than
// bearer tokens, so the key may come as a password too.
func (f *learnFiles) calendar(w http.ResponseWriter, r *http.Request) {
	if _, password, ok := r.BasicAuth(); ok {
		r.Header.Set("Authorization", "Bearer "+password)
	}
	key, ok := f.person(w, r, toolOfFeed)
	if !ok {
		return
	}
	person := key.Person.ID
	lang := talk.Chinese
	if p, err := f.service.Store.People.ByID(r.Context(), person); err == nil {
		lang = talk.ParseLang(p.Lang, talk.Chinese)
	}
	feed, err := remind.FeedOf(r.Context(), f.service, person, lang)
	if err != nil {
		f.failed(w, r, fmt.Errorf("look ahead: %w", err))
		return
	}
	w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
	w.Header().Set("Cache-Control", "private, max-age=300")
	http.ServeContent(w, r, "", feed.Now, strings.NewReader(string(remind.ICS(feed))))
}
