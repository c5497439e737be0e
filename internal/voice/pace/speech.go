package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrEnded is the error of [Speech.Say] after [Speech.End].
var ErrEnded = errors.New("the speech has ended")

// Speech is a [Source] that plays sentence after sentence while later ones are still being
// generated. One goroutine writes: it calls Say and at last End. Another one plays.
type Speech struct {
	queue chan sentence
	end   sync.Once
	ended chan struct{} // closed by End
	done  chan struct{} // closed by Close
	close sync.Once

	// These fields belong to the player.
	current sentence
	started bool // a packet of current was returned
	atStart bool // the last packet is the first of current
}

type sentence struct {
	text   string
	source Source
}

// NewSpeech returns a Speech that buffers up to ahead sentences.
func NewSpeech(ahead int) *Speech {
	return &Speech{queue: make(chan sentence, max(ahead, 1)), ended: make(chan struct{}), done: make(chan struct{})}
}

// Say adds a sentence and its sound, which is closed in any case. While the buffer is full, Say
// waits until ctx ends. The text of a sound without packets is not shown. After the speech was
// aborted, the error is [ErrAborted].
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
		case <-s.done: // Close may have missed this sentence
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

// End marks the end: no sentence will be added.
func (s *Speech) End() { s.end.Do(func() { close(s.ended) }) }

// Next returns the next packet.
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
		select { // a sentence that was added just before
		case one := <-s.queue:
			return one, nil
		default:
			return sentence{}, io.EOF
		}
	case <-ctx.Done():
		return sentence{}, context.Cause(ctx)
	}
}

// Text returns the sentence that begins with the last packet.
func (s *Speech) Text() (string, bool) { return s.current.text, s.atStart && s.current.text != "" }

// Close closes all sounds. The player calls it.
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

// stop closes the sound of the sentence.
func (s sentence) stop() {
	if c, ok := s.source.(io.Closer); ok {
		_ = c.Close() // read-only: the error does not matter
	}
}
