package page

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/a-h/templ"
)

// keepPause is the shortest time between two looks: what changes comes in showers.
const keepPause = 500 * time.Millisecond

// Parts sends a part of a page to an element by its selector, if it is another one than
// before.
type Parts func(target string, part templ.Component) error

// Keep is [Visit.Live] for what can be looked at again: look is called now, whenever
// something that is plugged in changes, and every so often, since not everything tells.
// If there is nothing to be looked at, as what is another's, the browser is told so as
// it is by the page. Focus and what is typed stay where they are.
func (v *Visit) Keep(every time.Duration, look func(context.Context, Parts) error) {
	var send Send // nil: the answer has not begun
	var first []templ.Component
	sent := map[string]string{}
	parts := func(target string, part templ.Component) error {
		var b bytes.Buffer
		if err := part.Render(context.Background(), &b); err != nil {
			return err
		}
		text := b.String()
		if last, known := sent[target]; known && last == text {
			return nil
		}
		sent[target] = text
		inside := templ.WithChildren(context.Background(), templ.Raw(text))
		whole := templ.ComponentFunc(func(_ context.Context, w io.Writer) error { return Patch(target, "outerMorph").Render(inside, w) })
		if send == nil {
			first = append(first, whole)
			return nil
		}
		return send(whole)
	}
	changes, forget := v.House.Control.Board.Watch()
	defer forget()
	if err := look(v.Context(), parts); err != nil {
		v.Fail(err)
		return
	}
	v.Live(func(ctx context.Context, to Send) error {
		send = to
		for _, part := range first {
			if err := send(part); err != nil {
				return err
			}
		}
		first = nil
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			pause := time.NewTimer(keepPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return nil
			}
			select {
			case <-changes:
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			if err := look(ctx, parts); err != nil {
				return err
			}
		}
	})
}
