package xiaozhi

import (
	"context"
	"errors"
	"io"

	"patchbay/internal/hub"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pace"
)

// speechSource is the sound of a [reply]: one clip after the other. It is used by one goroutine.
type speechSource struct {
	reply   *reply
	clip    pace.Source // nil between clips
	text    string      // of the clip, until its first packet was sent
	showing bool        // the text is new
	started bool
	release func() bool // stops the watch over the context of the playback
}

// Next implements [pace.Source].
func (s *speechSource) Next(ctx context.Context) ([]byte, error) {
	if s.release == nil {
		s.release = context.AfterFunc(ctx, func() { // ends the wait for engines and the bot
			if errors.Is(context.Cause(ctx), pace.ErrAborted) {
				s.reply.cancel(hub.ErrStopped)
			} else {
				s.reply.cancel(nil)
			}
		})
	}
	for {
		if s.clip == nil {
			if err := s.open(); err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				return nil, s.fail(err)
			}
		}
		packet, err := s.clip.Next(ctx)
		switch {
		case err == nil:
			s.showing = s.text != ""
			if !s.started {
				s.started = true
				s.reply.reached("first_sound")
			}
			return packet, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, io.EOF):
			s.reply.speech.Reject(err)
		}
		s.close()
	}
}

// open waits for the next clip.
func (s *speechSource) open() error {
	clip, err := s.reply.speech.Next()
	if err != nil {
		return err
	}
	s.clip = s.reply.c.board.boards.clipSource(clip, s.reply.c.output)
	s.text = clip.Text
	return nil
}

// fail shows the rest of the answer if no engine can speak it. The error is io.EOF then.
func (s *speechSource) fail(err error) error {
	r := s.reply
	if errors.Is(err, io.EOF) || r.ctx.Err() != nil {
		return err
	}
	show := msgCannotSpeak.In(r.c.lang, engine.AsError(err).In(r.c.lang))
	for {
		if err := r.c.ShowText(show); err != nil {
			return err
		}
		if show, err = r.speech.Unspoken(); err != nil {
			return err
		}
	}
}

// Text implements [pace.TextSource].
func (s *speechSource) Text() (string, bool) {
	if !s.showing {
		return "", false
	}
	text := s.text
	s.text, s.showing = "", false
	return text, true
}

func (s *speechSource) close() {
	if s.clip != nil {
		closeSource(s.clip)
		s.clip = nil
	}
}

// Close implements io.Closer.
func (s *speechSource) Close() error {
	if s.release != nil {
		s.release()
	}
	s.close()
	return nil
}
