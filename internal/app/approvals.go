package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/approve"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// showOnGlasses shows a text on all glasses that are bound to a person's bots. The id is unique to
// the text. The error is [approve.ErrNoGlasses] if there are none that can be reached.
func showOnGlasses(ctx context.Context, b *Base, glasses *rokid.Handler, person, id, text string,
	lang i18n.Lang) error {
	bots, err := b.Store.Bots.ByOwner(ctx, person)
	if err != nil {
		return err
	}
	var errs []error
	reached := false
	for _, bot := range bots {
		var o account.Audience
		if err := b.Registry.Settings(bot, &o); err != nil || o.Shared {
			continue
		}
		bound, err := b.Store.Bindings.ByBot(ctx, bot.Number)
		if err != nil {
			return err
		}
		for _, w := range bound {
			err := glasses.Push(ctx, bot, rokid.Notice{ID: id + "-" + w.UserID, UserID: w.UserID, AgentID: w.AgentID,
				Text: text, Lang: lang})
			reached = reached || err == nil
			if err != nil && !errors.Is(err, rokid.ErrNoPushKey) {
				errs = append(errs, err)
			}
		}
	}
	if !reached && len(errs) == 0 {
		return approve.ErrNoGlasses
	}
	return errors.Join(errs...)
}

// maxBoards limits the boards of a person that are looked at, and maxSayingBoards those that say a
// text.
const maxBoards, maxSayingBoards = 1000, 8

// sayOnBoards has the boards of a person that speak with one of the bots say a text, by their own
// tool, unless somebody talks with them. Those that cannot speak by themselves say it when somebody
// wakes them, until a time.
func sayOnBoards(ctx context.Context, h *hub.Hub, person string, bots []int64, text string, until time.Time) error {
	devices, err := h.Store.Devices.Search(ctx, store.DeviceSearch{Owner: person, Limit: maxBoards})
	if err != nil {
		return err
	}
	v, err := h.View(person, "")
	if err != nil {
		return err
	}
	args, err := json.Marshal(map[string]any{"text": text, "priority": "idle", "until": until})
	if err != nil {
		return err
	}
	who := hub.Access{Caller: tool.Caller{Person: person, Channel: "approval"}}
	var jobs sync.WaitGroup
	said := 0
	errs := make([]error, maxSayingBoards)
	for _, d := range devices {
		if !slices.Contains(bots, d.Bot) || said == maxSayingBoards {
			continue
		}
		id := hub.DeviceProviderID(d.Number)
		at := slices.IndexFunc(v.Tools, func(t *hub.RegisteredTool) bool {
			return t.Provider().ID == id && t.Tool.Name == xiaozhi.ToolSay
		})
		if at < 0 {
			continue
		}
		i := said
		said++
		jobs.Go(func() { _, errs[i] = h.Call(ctx, who, v.Tools[at].Name, &tool.Call{Args: args}) })
	}
	jobs.Wait()
	return errors.Join(errs...)
}

// registerApprovals tells people of calls that wait for them, and lets them decide by voice.
func registerApprovals(h *hub.Hub, b *Base, glasses *rokid.Handler, log *slog.Logger) {
	s := approve.New(approve.Options{Hub: h, Logger: log, PublicURL: b.Config.PublicURL,
		Show: func(ctx context.Context, person, id, text string, lang i18n.Lang) error {
			return showOnGlasses(ctx, b, glasses, person, id, text, lang)
		},
		Say: func(ctx context.Context, person string, bots []int64, text string, until time.Time) error {
			return sayOnBoards(ctx, h, person, bots, text, until)
		},
		MayDecide: func(ctx context.Context, bot store.Bot, turn *talk.Turn) bool {
			if turn.BotOnly || turn.KeyRules != "" {
				return false
			}
			var o account.Audience
			err := h.Registry.Settings(bot, &o)
			person, ok := quiz.Person(bot, err != nil || o.Shared, turn)
			return ok && person == bot.Owner && isOwnersWearer(ctx, b, bot, turn)
		},
	})
	h.OnApproval(s.Notify)
	h.Intercept("approval", s.Intercept)
}

// isOwnersWearer reports whether a turn does not come from glasses, or from glasses that are bound
// to the bot, which required the owner's consent.
func isOwnersWearer(ctx context.Context, b *Base, bot store.Bot, turn *talk.Turn) bool {
	w, glasses := quiz.Wearer(turn)
	if !glasses {
		return true
	}
	bound, err := b.Store.Bindings.Of(ctx, w)
	return err == nil && bound.Bot == bot.Number
}
