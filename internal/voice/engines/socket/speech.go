package socket

import (
	"context"
	"io"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
)

const (
	// flushTime is how long a text may wait for more of its sentence. Then its session ends, since
	// services keep the beginning of a sentence until they have the rest.
	flushTime = time.Second
	// pauseTime is how long a session may wait for more text: DashScope ends one after 23 s
	// (Model Studio, CosyVoice WebSocket API).
	pauseTime = 15 * time.Second
)

// Voice is what a speaker on a [Conn] says and understands during a session: some text and its
// sound.
type Voice interface {
	// Text returns the message with more text, Finish the one after the last.
	Text(text string) Message
	Finish() Message
	// Accept handles a message and gives its sound to n. It reports whether there is no more.
	Accept(m Message, n *engine.Narration) (done bool, err error)
}

// Sessions are how an engine speaks.
type Sessions struct {
	// Begin returns a connection on which a session has begun. The error is an [*engine.Error], or
	// that of ctx.
	Begin func(ctx context.Context, m engine.Manner) (*Conn, Voice, error)
	// End gets the connection of a session that has ended well, that failed, or that is broken off
	// because ctx has ended.
	End func(ctx context.Context, c *Conn, v Voice, err error)
	// Format and Rate are those of the sound.
	Format engine.Format
	Rate   int
}

// Speak is an [engine.SpeakLive]. Usually it takes one session; a new one begins after a pause of
// the text.
func (s *Sessions) Speak(ctx context.Context, m engine.Manner, n *engine.Narration) error {
	for {
		text, err := n.Text(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		n.End()
		n.Begin("", s.Format, s.Rate) // what follows, if the engine does not tell its sentences
		c, v, err := s.Begin(ctx, m)
		if err != nil {
			return err
		}
		r := &session{c: c, v: v, n: n, limit: time.NewTimer(flushTime)}
		err = r.run(ctx, text)
		r.limit.Stop()
		s.End(ctx, c, v, err)
		if err != nil || r.last {
			return err
		}
	}
}

// session is a session that runs.
type session struct {
	c        *Conn
	v        Voice
	n        *engine.Narration
	limit    *time.Timer // ends the text, or after that the session
	said     string
	finished bool // the end of the text was sent
	last     bool // there is no more text
}

func (r *session) run(ctx context.Context, text string) error {
	if err := r.say(ctx, text); err != nil {
		return err
	}
	for {
		var texts <-chan string
		if !r.finished {
			texts = r.n.Texts()
		}
		select {
		case text, ok := <-texts:
			var err error
			if r.last = !ok; ok {
				err = r.say(ctx, text)
			} else {
				err = r.finish(ctx)
			}
			if err != nil {
				return err
			}
		case m := <-r.c.Messages():
			if done, err := r.v.Accept(m, r.n); err != nil || done {
				return err
			}
			r.heard()
		case <-r.limit.C:
			if r.finished {
				return engine.Errorf(engine.Timeout, "the server sent no sound in time")
			}
			if err := r.finish(ctx); err != nil {
				return err
			}
		case <-r.n.Taken(): // Texts may have changed
		case <-r.c.Done():
			return r.c.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// say sends a text. Texts are parts of one, with spaces as its script wants them.
func (r *session) say(ctx context.Context, text string) error {
	text = strings.TrimSpace(text)
	r.limit.Reset(flushTime)
	message := engine.Gap(r.said, text) + text
	r.n.Saying(message)
	r.said = text
	return r.c.Write(ctx, r.v.Text(message))
}

func (r *session) finish(ctx context.Context) error {
	r.finished = true
	r.limit.Reset(resultTime)
	return r.c.Write(ctx, r.v.Finish())
}

// heard waits anew, longer if all that was said has sound.
func (r *session) heard() {
	switch {
	case r.finished:
		r.limit.Reset(resultTime)
	case r.n.Unsaid():
		r.limit.Reset(flushTime)
	default:
		r.limit.Reset(pauseTime)
	}
}
