package chat

import (
	"context"
	"net/url"
	"sync"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// followedMost bounds how many answers a page follows that were being given when it was
// opened. There are not more of them in a conversation.
const followedMost = 4

// going is an answer that somebody else has asked for, or the same person before the page
// was opened, as far as it has come.
func going(v *page.Visit, b store.Bot, conversation, turn string, events []talk.Event) *answer {
	a := &answer{ID: turn, Bot: b.Name, Running: true, Note: v.Say(sayOngoing), lang: v.Lang, base: base(b), conversation: conversation}
	for _, e := range events {
		a.take(e)
	}
	return a
}

// following is where the browser hears how answers go on.
func following(chat control.Chat) string {
	q := url.Values{"c": {chat.Conversation}}
	for _, o := range chat.Ongoing {
		q.Add("turn", o.Turn)
	}
	return base(chat.Bot.Bot) + "/live?" + q.Encode()
}

// live keeps answers up to date that were being given when the page was opened, until they
// have ended. A browser that comes back to it is sent all of them again.
func live(v *page.Visit) {
	b, ok := bot(v)
	if !ok {
		return
	}
	query := v.URL.Query()
	conversation, turns := query.Get("c"), query["turn"]
	if conversation == "" || len(conversation) > maxName || len(turns) > followedMost {
		v.Missing()
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var mu sync.Mutex // send is for one at a time
		one := func(part templ.Component) error {
			mu.Lock()
			defer mu.Unlock()
			return send(part)
		}
		var all sync.WaitGroup
		for _, turn := range turns {
			all.Go(func() {
				if err := follow(ctx, v, b, going(v, b.Bot, conversation, turn, nil), one); err != nil {
					cancel(err)
				}
			})
		}
		all.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return send(followed())
	})
}

// follow sends what comes of an answer until it has ended.
func follow(ctx context.Context, v *page.Visit, b control.BotStatus, a *answer, send page.Send) error {
	begun := false
	said, err := v.House.Control.FollowChat(ctx, v.Caller(), control.ChatRef{Bot: v.PathValue("bot"), Conversation: a.conversation}, a.ID, func(events []talk.Event) error {
		for _, e := range events {
			a.take(e)
		}
		part := a.fresh(v)
		if !begun {
			begun, part = true, a.whole(v)
		}
		return send(part)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if control.AsError(err) != nil {
		return err // the bot was removed, or there was no such turn
	}
	if a.end(err); said != "" {
		a.Text = said
	}
	b = after(ctx, v, b)
	return send(endedElsewhere(v, a, b))
}
