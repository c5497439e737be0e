package page

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/netx"
)

// minRefreshPause is the shortest time between two refreshes: changes come in bursts.
const minRefreshPause = 500 * time.Millisecond

// SendPart sends a part of a page to the element with the CSS selector target, if the part differs
// from the one sent before.
type SendPart func(target string, part templ.Component) error

// LiveRefresh is [Visit.Live] for data that is read again on changes: it calls look at once,
// whenever the tools of the hub change, and every interval, since not every change is announced. If
// look finds nothing that the visitor may see, the browser gets the same "not found" response as
// from the page. Focus and typed text are kept.
func (v *Visit) LiveRefresh(every time.Duration, look func(context.Context, SendPart) error) {
	var send Send // nil until the response has begun
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
		whole := templ.ComponentFunc(func(_ context.Context,
			w io.Writer) error {
			return Patch(target, "outerMorph").Render(inside, w)
		})
		if send == nil {
			first = append(first, whole)
			return nil
		}
		return send(whole)
	}
	changes, forget := v.Instance.Control.ToolChanges()
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
			if netx.Wait(ctx, minRefreshPause) != nil {
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
