package talk

import "context"

// Cut is a turn that was cut off because the server ended in mid-answer, while its bot went on.
// What the bot goes on to say is told at the asker's next turn.
type Cut struct {
	// Turn is the turn, without what only its bot needed once: images, commands, history.
	Turn *Turn
	// Mark is that of the last text that the server took, or zero: what came until then is not
	// needed again.
	Mark int64
	// Keep keeps more of the answer, safe from the death of the process. It is not called after
	// End.
	Keep func(text string, mark int64)
	// End is called when the answer has ended: with nil if it is complete, so that it is told, and
	// else with an error. A bot that stops because the server stops does not call it; the next
	// server then has the turn again.
	End func(err error)
}

// Resumer is a [Bot] that finds out by itself how an answer went on that was cut off.
type Resumer interface {
	// Resume takes what an answer has more than until the mark. It returns when it has called
	// c.End, or when ctx ends.
	Resume(ctx context.Context, c *Cut)
}
