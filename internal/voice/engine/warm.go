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
	for _, stage := range []string{StageListen, StageSpeak} {
		l := c.first(stage)
		if l == nil {
			continue
		}
		if w, ok := l.part(stage).(Warmer); ok {
			all.Go(func() { w.Warm(ctx) })
		}
	}
	all.Wait()
}
