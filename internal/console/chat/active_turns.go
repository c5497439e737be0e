package chat

import (
	"context"
	"net/url"
	"sync"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// maxObserved is the maximum number of answers in progress that a newly opened page follows. A
// conversation does not have more.
const maxObserved = 4

// newObservedAnswer returns an answer in progress that somebody else asked for, or the same person
// before opening the page, with the events so far.
func newObservedAnswer(v *page.Visit, b store.Bot, conversation, turn string, events []talk.Event) *answer {
	a := &answer{ID: turn, Bot: b.Name, Running: true, Note: v.Text(msgOngoing), lang: v.Lang, base: base(b),
		conversation: conversation}
	for _, e := range events {
		a.applyEvent(e)
	}
	return a
}

// activeTurnPath returns the path of the updates of answers in progress.
func activeTurnPath(chat control.Chat) string {
	q := url.Values{"c": {chat.Conversation}}
	for _, o := range chat.Ongoing {
		q.Add("turn", o.Turn)
	}
	return base(chat.Bot.Bot) + "/live?" + q.Encode()
}

// live streams answers that were in progress when the page was opened, until they end. A browser
// that reconnects gets all of them again.
func live(v *page.Visit) {
	b, ok := bot(v)
	if !ok {
		return
	}
	query := v.URL.Query()
	conversation, turns := query.Get("c"), query["turn"]
	if conversation == "" || len(conversation) > maxName || len(turns) > maxObserved {
		v.NotFound()
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var mu sync.Mutex // send is not safe for concurrent use
		one := func(part templ.Component) error {
			mu.Lock()
			defer mu.Unlock()
			return send(part)
		}
		var all sync.WaitGroup
		for _, turn := range turns {
			all.Go(func() {
				if err := observe(ctx, v, b, newObservedAnswer(v, b.Bot, conversation, turn, nil), one); err != nil {
					cancel(err)
				}
			})
		}
		all.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return send(observedPart())
	})
}

// observe streams the rest of an answer until it ends.
func observe(ctx context.Context, v *page.Visit, b control.BotStatus, a *answer, send page.Send) error {
	begun := false
	turn, err := v.Instance.Control.FollowChat(ctx, v.Caller(),
		control.ChatRef{Bot: v.PathValue("bot"), Conversation: a.conversation}, a.ID, func(events []talk.Event) error {
			for _, e := range events {
				a.applyEvent(e)
			}
			part := a.fresh(v)
			if !begun {
				begun, part = true, a.whole(v)
			}
			if err := send(part); err != nil {
				return err
			}
			return netx.Wait(ctx, a.interval()-pieceInterval) // the hub waits for one itself
		})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if control.AsError(err) != nil {
		return err // the bot was removed, or the turn does not exist
	}
	if a.end(ctx, v, b, err); turn.Answer != "" {
		a.Text = turn.Answer
	}
	a.setQuestion(turn.Question)
	b = refreshBot(ctx, v, b)
	return send(endedElsewhere(v, a, b))
}
