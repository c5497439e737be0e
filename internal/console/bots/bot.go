package bots

import (
	"context"
	"net/http"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// recent is how many turns are on the page of a bot.
const recent = 10

// overview is the page of a bot.
type overview struct {
	Bot     control.BotView
	Turns   []store.Trace
	Trial   *control.Trial // nil: none was made
	Refused string         // why none was made
}

// view finds what is on the page of a bot. If there is none of the visitor's, that was
// answered.
func view(v *page.Visit) (o overview, ok bool) {
	var err error
	if o.Bot, err = v.House.Control.Bot(v.Context(), v.Caller(), ref(v)); err != nil {
		v.Fail(err)
		return o, false
	}
	if o.Turns, err = turns(v.Context(), v); err != nil {
		v.Fail(err)
		return o, false
	}
	return o, true
}

// turns are the newest ones of a bot.
func turns(ctx context.Context, v *page.Visit) ([]store.Trace, error) {
	l, err := v.House.Control.BotTurns(ctx, v.Caller(), control.BotTurnsQuery{Bot: v.PathValue("bot"), Limit: recent})
	return l.Turns, err
}

// follows is where the page is kept up to date from.
func (o overview) follows() string {
	path := at(o.Bot.BotStatus, "live")
	if len(o.Turns) > 0 {
		path += "?turn=" + o.Turns[0].Turn
	}
	return path
}

// show shows a bot.
func show(v *page.Visit) {
	if o, ok := view(v); ok {
		v.Show(http.StatusOK, botPage(v, o))
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
			b, err := v.House.Control.BotState(ctx, v.Caller(), ref(v))
			if err != nil {
				return err
			}
			light, text := page.BotState(v, b)
			if now := (row{BotStatus: b, Light: light, State: text, Heard: v.When(b.Heard())}).print(); now != was {
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

// trialEvery is how often a browser is told how an answer grows.
const trialEvery = 150 * time.Millisecond

// try puts a question to a bot. With the script, the page is told how it goes.
func try(v *page.Visit) {
	if !v.Partial() {
		o, ok := view(v)
		if !ok {
			return
		}
		var err error
		if o.Trial, err = v.House.Control.TryBot(v.Context(), v.Caller(), ref(v), nil); err != nil {
			o.Refused, _ = v.Wrong(err)
		}
		v.Show(http.StatusOK, botPage(v, o))
		return
	}
	b, ok := find(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		var err error
		steps := make(chan control.Trial, 1) // the newest, until it is shown
		go func() {
			defer close(steps)
			_, err = v.House.Control.TryBot(ctx, v.Caller(), ref(v), func(t *control.Trial) error {
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
			select {
			case <-ctx.Done():
			case <-time.After(trialEvery):
			}
		}
		if err != nil && ctx.Err() == nil {
			text, _ := v.Wrong(err)
			return send(refusedPatch(text))
		}
		return gone
	})
}
