package engine

import (
	"context"
	"sync"
)

// Warmer is a [Listener] or [Speaker] whose connections can be opened in advance.
type Warmer interface {
	// Warm opens a connection, unless one is ready for the next use, and returns when it stands.
	// What goes wrong is left to that use. It is called when somebody begins to speak.
	Warm(ctx context.Context)
}

// Warm opens connections to the engines that will be used first, and returns when they stand.
func (c *Chain) Warm(ctx context.Context) {
	var all sync.WaitGroup
	for _, part := range []func(*Link) any{
		func(l *Link) any { return l.Listener },
		func(l *Link) any { return l.Speaker },
	} {
		if w, ok := c.first(part).(Warmer); ok {
			all.Go(func() { w.Warm(ctx) })
		}
	}
	all.Wait()
}

// first returns a part of the first engine that has it and whose circuit is closed, or nil.
func (c *Chain) first(part func(*Link) any) any {
	for i := range c.Links {
		l := &c.Links[i]
		if p := part(l); p != nil && (l.Circuit == nil || l.Circuit.closed()) {
			return p
		}
	}
	return nil
}
