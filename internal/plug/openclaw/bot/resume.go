package bot

import (
	"context"
	"fmt"
	"time"
	"unicode"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// resumeTimeout limits how long the rest of an answer is waited for that was cut off.
const resumeTimeout = 10 * time.Minute

var _ talk.Resumer = (*Bot)(nil)

// Resume fetches from the gateway's history how an answer went on that was cut off because the
// server ended.
func (b *Bot) Resume(ctx context.Context, c *talk.Cut) {
	if b.gateway.acquire() != nil {
		return // the server stops
	}
	defer b.gateway.release()
	limited, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	r := newRun(c.Turn.ID, b.session(c.Turn))
	b.gateway.add(r)
	defer b.gateway.remove(r)
	err := b.awaitEnd(limited, r)
	if ctx.Err() != nil {
		return
	}
	text, end := r.snapshot()
	if err == nil && end.State != wire.ChatFinal {
		err = fmt.Errorf("it ended with %s (%s)", end.State, clip(end.StopReason+end.ErrorMessage))
	}
	if err == nil {
		c.Keep(afterMark(text, c.Mark), markOf(text))
	}
	c.End(err)
}

// awaitEnd asks the gateway until a run has ended.
func (b *Bot) awaitEnd(ctx context.Context, r *run) error {
	for rechecks := 0; rechecks <= maxRechecks; rechecks++ {
		conn, err := b.gateway.conn(ctx)
		if err != nil {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, historyTimeout)
		what, err := b.gateway.fetchState(asking, conn, r)
		cancel()
		switch {
		case what == runEnded:
			return nil
		case what == runActive, err != nil:
			rechecks = 0
		}
		if err := netx.Wait(ctx, b.bots.opt.recheckDelay); err != nil {
			return err
		}
	}
	return errRunUnknown
}

// markOf returns how far an answer is: how many characters it has. Spaces do not count, because
// gateways trim texts and join their parts in several ways.
func markOf(text string) (n int64) {
	for _, r := range text {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// afterMark returns what a text has after a mark.
func afterMark(text string, mark int64) string {
	for i, r := range text {
		if mark == 0 {
			return text[i:]
		}
		if !unicode.IsSpace(r) {
			mark--
		}
	}
	return ""
}
