package bots

import (
	"context"
	"net/http"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/netx"
)

// recentTurns is the number of turns on the page of a bot.
const recentTurns = 10

// overview is the data of a bot's page.
type overview struct {
	Bot     control.BotView
	Turns   []control.TurnRow
	Trial   *control.Trial // nil if no question was tried
	Refused string         // why the trial was refused
	Sharing *sharingForm   // nil: the visitor shares no bots
}

// view loads the data of a bot's page. If the visitor has no such bot, it has responded and returns
// false.
func view(v *page.Visit) (o overview, ok bool) {
	var err error
	if o.Bot, err = v.Instance.Control.Bot(v.Context(), v.Caller(), ref(v)); err != nil {
		v.Fail(err)
		return o, false
	}
	if o.Turns, err = turns(v.Context(), v); err != nil {
		v.Fail(err)
		return o, false
	}
	if v.IsAdmin() {
		if o.Sharing, err = newSharingForm(v, o.Bot); err != nil {
			v.Fail(err)
			return o, false
		}
	}
	return o, true
}

// turns returns the newest turns of a bot.
func turns(ctx context.Context, v *page.Visit) ([]control.TurnRow, error) {
	l, err := v.Instance.Control.BotTurns(ctx, v.Caller(), control.BotTurnsQuery{Bot: v.PathValue("bot"),
		Limit: recentTurns})
	return l.Turns, err
}

// livePath returns the path of the page's live updates.
func (o overview) livePath() string {
	path := botPath(o.Bot.BotStatus, "live")
	if len(o.Turns) > 0 {
		path += "?turn=" + o.Turns[0].Turn
	}
	return path
}

// show shows the page of a bot.
func show(v *page.Visit) {
	if b, err := v.Instance.Control.BotState(v.Context(), v.Caller(), ref(v)); err == nil && b.Shared {
		v.Render(http.StatusOK, sharedPage(v, b))
		return
	}
	if o, ok := view(v); ok {
		v.Render(http.StatusOK, botPage(v, o))
	}
}

// showLive keeps the page of a bot up to date.
func showLive(v *page.Visit) {
	if _, ok := find(v); !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		was, last := "", v.FormValue("turn")
		return each(ctx, v, func() error {
			b, err := v.Instance.Control.BotState(ctx, v.Caller(), ref(v))
			if err != nil {
				return err
			}
			light, text := page.BotState(v, b)
			if now := (row{BotStatus: b, Light: light, State: text,
				LastSeenText: v.FormatTime(b.Heard())}).fingerprint(); now != was {
				was = now
				if err := send(statePatch(v, b)); err != nil {
					return err
				}
			}
			list, err := turns(ctx, v)
			if err != nil || len(list) == 0 || list[0].Turn == last {
				return err
			}
			last = list[0].Turn
			return send(turnsPatch(v, b, list))
		})
	})
}

// trialPollInterval is how often the progress of a trial is sent to the browser.
const trialPollInterval = 150 * time.Millisecond

// try asks a bot a question. With JavaScript, the page shows the progress.
func try(v *page.Visit) {
	if !v.IsPartial() {
		o, ok := view(v)
		if !ok {
			return
		}
		var err error
		if o.Trial, err = v.Instance.Control.TryBot(v.Context(), v.Caller(), ref(v), nil); err != nil {
			o.Refused, _ = v.Wrong(err)
		}
		v.Render(http.StatusOK, botPage(v, o))
		return
	}
	b, ok := find(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		var err error
		steps := make(chan control.Trial, 1) // the newest state, until it is sent
		go func() {
			defer close(steps)
			_, err = v.Instance.Control.TryBot(ctx, v.Caller(), ref(v), func(t *control.Trial) error {
				select {
				case <-steps:
				default:
				}
				steps <- *t
				return nil
			})
		}()
		var gone error
		for t := range steps {
			if gone != nil {
				continue
			}
			gone = send(trialPatch(v, b, &t))
			if t.Ended {
				continue
			}
			_ = netx.Wait(ctx, trialPollInterval)
		}
		if err != nil && ctx.Err() == nil {
			text, _ := v.Wrong(err)
			return send(refusedPatch(text))
		}
		return gone
	})
}
