package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrEnded is the error of saying more after [Speech.End].
var ErrEnded = errors.New("the speech has ended")

// Speech is a [Source] that says sentence after sentence, while later ones are still
// being written. The writer is one goroutine, which calls Say and at last End; the
// player is another.
type Speech struct {
	queue chan sentence
	end   sync.Once
	ended chan struct{} // closed by End
	done  chan struct{} // closed by Close
	close sync.Once

	// Of the player:
	current sentence
	started bool // a packet of now was given
	atStart bool // by the call of Next before
}

type sentence struct {
	text   string
	source Source
}

// NewSpeech makes a Speech in which up to ahead sentences wait.
func NewSpeech(ahead int) *Speech {
	return &Speech{queue: make(chan sentence, max(ahead, 1)), ended: make(chan struct{}), done: make(chan struct{})}
}

// Say adds a sentence and its sound, which is closed in the end, whatever happens.
// While too many sentences wait, so does Say, until ctx ends. Words without any sound
// are not shown. After the speech was aborted the error is [ErrAborted].
func (s *Speech) Say(ctx context.Context, text string, sound Source) error {
	one := sentence{text, sound}
	select {
	case <-s.ended:
		one.stop()
		return ErrEnded
	default:
	}
	select {
	case s.queue <- one:
		select {
		case <-s.done: // and whoever closed it may not have seen this one
			s.drain()
			return ErrAborted
		default:
			return nil
		}
	case <-s.done:
		one.stop()
		return ErrAborted
	case <-ctx.Done():
		one.stop()
		return fmt.Errorf("wait to say more: %w", context.Cause(ctx))
	}
}

// End says that nothing will be added.
func (s *Speech) End() { s.end.Do(func() { close(s.ended) }) }

// Next is the next packet.
func (s *Speech) Next(ctx context.Context) ([]byte, error) {
	for {
		if s.current.source == nil {
			var err error
			if s.current, err = s.take(ctx); err != nil {
				return nil, err
			}
			s.started = false
		}
		packet, err := s.current.source.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			s.current.stop()
			s.current = sentence{}
			continue
		case err != nil:
			return nil, err
		}
		s.atStart, s.started = !s.started, true
		return packet, nil
	}
}

// take waits for a sentence.
func (s *Speech) take(ctx context.Context) (sentence, error) {
	select {
	case one := <-s.queue:
		return one, nil
	default:
	}
	select {
	case one := <-s.queue:
		return one, nil
	case <-s.ended:
		select { // what was added just before
		case one := <-s.queue:
			return one, nil
		default:
			return sentence{}, io.EOF
		}
	case <-ctx.Done():
		return sentence{}, context.Cause(ctx)
	}
}

// Text is the sentence that the last packet began.
func (s *Speech) Text() (string, bool) { return s.current.text, s.atStart && s.current.text != "" }

// Close stops everything that waits. The player calls it.
func (s *Speech) Close() error {
	s.close.Do(func() {
		close(s.done)
		s.current.stop()
		s.current = sentence{}
		s.drain()
	})
	return nil
}

func (s *Speech) drain() {
	for {
		select {
		case one := <-s.queue:
			one.stop()
		default:
			return
		}
	}
}

// stop closes the sound.
func (s sentence) stop() {
	if c, ok := s.source.(io.Closer); ok {
		_ = c.Close() // it was only read from
	}
}
