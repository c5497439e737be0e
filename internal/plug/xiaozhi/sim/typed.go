package sim

import (
	"context"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Type sends a typed question in a listen/detect message, as web pages that stand in for boards do;
// boards cannot. A server takes it for the wake word if the conversation was opened by one. Type
// opens a conversation unless there is one.
func (b *Board) Type(ctx context.Context, text string) error {
	return b.onLoop(ctx, func(ctx context.Context) error {
		b.mu.Lock()
		state := b.state
		b.mu.Unlock()
		if state == Idle {
			if err := b.ensureOpen(ctx); err != nil {
				return err
			}
			if err := b.listen(b.opt.Mode); err != nil {
				return err
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.spoken = true
		return b.send(wire.Message{Type: wire.TypeListen, State: wire.ListenDetect, Text: text})
	})
}
