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
// Focus and what is typed stay where they are.
func (v *Visit) Keep(every time.Duration, look func(context.Context, Parts) error) {
	v.Live(func(ctx context.Context, send Send) error {
		sent := map[string]string{}
		parts := func(target string, part templ.Component) error {
			var b bytes.Buffer
			if err := part.Render(ctx, &b); err != nil {
				return err
			}
			text := b.String()
			if last, known := sent[target]; known && last == text {
				return nil
			}
			sent[target] = text
			inside := templ.WithChildren(context.Background(), templ.Raw(text))
			return send(templ.ComponentFunc(func(_ context.Context, w io.Writer) error { return Patch(target, "outerMorph").Render(inside, w) }))
		}
		changes, forget := v.House.Control.Board.Watch()
		defer forget()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if err := look(ctx, parts); err != nil {
				return err
			}
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
		}
	})
}
