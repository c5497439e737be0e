package xiaozhi

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pace"
)

// speechSource is the sound of a [reply] from a line on: one clip after the other. It is used by
// one goroutine; another one gives the lines to the engine.
type speechSource struct {
	reply   *reply
	cancel  context.CancelFunc // ends the goroutine that feeds
	speech  *engine.ChainSpeech
	fed     chan struct{} // closed when that has returned
	lines   []int         // numbers of the lines that the engine has got; read after fed
	next    int           // number of the line after them
	clip    pace.Source   // nil between clips
	text    string        // of the clip, until its first packet was sent
	showing bool          // the text is new
	packets int           // that Next has returned
	starts  []int         // which of them begins a sentence
	release func() bool   // stops the watch over the context of the playback
}

// newSpeechSource returns the sound of the lines from number first on.
func newSpeechSource(r *reply, first int) *speechSource {
	ctx, cancel := context.WithCancel(r.ctx)
	s := &speechSource{reply: r, cancel: cancel, speech: r.chain.Speak(ctx, r.manner), fed: make(chan struct{}),
		next: first}
	go s.feed(ctx)
	return s
}

// feed gives the lines to the engine, as they are written.
func (s *speechSource) feed(ctx context.Context) {
	defer close(s.fed)
	select {
	case <-s.reply.prepared:
	case <-ctx.Done():
		return
	}
	for ; ; s.next++ {
		l, err := s.reply.script.line(ctx, s.next)
		if errors.Is(err, io.EOF) {
			_ = s.speech.Finish() // never fails
		}
		if err != nil {
			return
		}
		if l.face != "" {
			_ = s.reply.c.ShowEmotion(l.face) // the reader notices a broken connection
			continue
		}
		if len(s.lines) == 0 {
			s.reply.reached(stageFirstSentence)
		}
		s.lines = append(s.lines, s.next)
		if s.speech.Write(l.text) != nil {
			return
		}
	}
}

// Next implements [pace.Source].
func (s *speechSource) Next(ctx context.Context) ([]byte, error) {
	if s.release == nil {
		s.release = context.AfterFunc(ctx, s.cancel) // ends the wait for engines and the bot
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
			for len(s.starts) <= s.speech.Complete() {
				s.starts = append(s.starts, s.packets)
			}
			s.packets++
			if s.reply.firstAt.CompareAndSwap(0, time.Now().UnixNano()) {
				s.reply.reached(stageFirstSound)
			}
			return packet, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, io.EOF):
			s.speech.Reject(err)
		}
		s.close()
	}
}

// open waits for the next clip.
func (s *speechSource) open() error {
	clip, err := s.speech.Next()
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
		if show, err = s.speech.Unspoken(); err != nil {
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
	s.reply.dialogue.spoken.add(text, time.Now())
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
	s.cancel()
	s.close()
	<-s.fed
	s.speech.Close()
	return nil
}

// position returns the number of the first line that was not played to its end. It is for a closed
// source, as heard is.
func (s *speechSource) position() int { return s.line(s.speech.Complete()) }

// heard returns the number of the first line of which nothing was played, after some packets were.
func (s *speechSource) heard(packets int) int {
	if packets == s.packets { // the last sentences may have no sound
		return s.line(max(len(s.starts), s.speech.Complete()))
	}
	n, _ := slices.BinarySearch(s.starts, packets)
	return s.line(n)
}

// line returns the number of the line that is sentence n of the engine.
func (s *speechSource) line(n int) int {
	if n < len(s.lines) {
		return s.lines[n]
	}
	return s.next
}
