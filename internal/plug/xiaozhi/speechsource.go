package xiaozhi

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
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
	written atomic.Int32  // their number
	next    int           // number of the line after them
	fixed   chan aside    // phrases before them whose sound is known
	urgent  chan string   // a text that is shown before it is spoken
	told    string        // that text, once it is shown
	learns  *learner      // of the first line, if it is a phrase; read after a clip
	coming  chan nextClip // gets the next clip; nil: nobody waits for it
	clip    pace.Source   // nil between clips
	aside   *aside        // that clip is; nil: it is the engine's
	text    string        // of the clip, until its first packet was sent
	showing bool          // the text is new
	packets int           // that Next has returned
	starts  []int         // which of them begins a sentence
	release func() bool   // stops the watch over the context of the playback
}

// nextClip is what [engine.ChainSpeech.Next] has returned.
type nextClip struct {
	engine.Clip
	by  engine.ID
	err error
}

// newSpeechSource returns the sound of the lines from number first on.
func newSpeechSource(r *reply, first int) *speechSource {
	ctx, cancel := context.WithCancel(r.ctx)
	s := &speechSource{reply: r, cancel: cancel, speech: r.chain.Speak(ctx, r.manner), fed: make(chan struct{}),
		fixed: make(chan aside, 1), urgent: make(chan string, 1), next: first}
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
	known := false // the first line is a phrase whose sound is known
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
		if len(s.lines) == 0 && !known {
			s.reply.reached(stageFirstSentence)
			if known = l.fixed && s.know(l.text); known {
				continue
			}
		}
		if l.late != nil {
			s.speech.Hurry(l.late)
			s.urgent <- l.text // there is one such line
		}
		s.lines = append(s.lines, s.next)
		s.written.Add(1)
		if s.speech.Write(l.text) != nil {
			return
		}
	}
}

// know has a phrase played if its sound is known. Otherwise the sound is learned.
func (s *speechSource) know(text string) bool {
	c := s.reply.c
	key, ok := c.phraseKey(s.reply.chain, s.reply.manner, text)
	if !ok {
		return false
	}
	if packets := c.phrase(key); packets != nil {
		s.fixed <- aside{text: text, packets: packets}
		return true
	}
	s.learns = &learner{cache: &c.board.boards.phrases, key: key}
	return false
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
			s.played(packet)
			return packet, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, io.EOF):
			s.learns.fail()
			s.speech.Reject(err)
		}
		s.close()
	}
}

// played notes a packet that Next returns.
func (s *speechSource) played(packet []byte) {
	s.showing = s.text != ""
	if s.aside == nil {
		for len(s.starts) <= s.speech.Complete() {
			s.starts = append(s.starts, s.packets)
		}
		s.learns.add(packet)
	}
	s.packets++
	filler := s.aside != nil && s.aside.filler
	if !filler && s.reply.firstAt.CompareAndSwap(0, time.Now().UnixNano()) {
		s.reply.reached(stageFirstSound)
	}
}

// open waits for the next clip, or for a phrase to play before it.
func (s *speechSource) open() error {
	if s.coming == nil {
		coming := make(chan nextClip, 1)
		s.coming = coming
		go func() { // Close waits for it
			clip, err := s.speech.Next()
			coming <- nextClip{clip, s.speech.Engine(), err}
		}()
	}
	prepared := s.reply.prepared
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case a := <-s.fixed:
			s.play(a)
			return nil
		case text := <-s.urgent:
			s.tell(text)
		case n := <-s.coming:
			return s.take(n)
		case <-prepared:
			prepared = nil
			timer.Reset(s.patience())
		case <-timer.C:
			if a, ok := s.filler(); ok {
				s.play(a)
				return nil
			}
		}
	}
}

// tell shows a text that is still to be spoken.
func (s *speechSource) tell(text string) {
	s.told = text
	_ = s.reply.c.ShowText(text) // the reader notices a broken connection
}

// patience returns how long the person waits for a sound.
func (s *speechSource) patience() time.Duration {
	if s.packets == 0 {
		return time.Until(s.reply.began.Add(fillerAfter))
	}
	return fillerWithin
}

// filler returns the phrase for an answer that takes long, unless it is on its way to the engine.
func (s *speechSource) filler() (a aside, ok bool) {
	r := s.reply
	if !r.asks || r.filled || r.filler == "" || int(s.written.Load()) > s.speech.Complete() || !r.script.waits() {
		return a, false
	}
	r.filled = true
	key, ok := r.c.phraseKey(r.chain, r.manner, r.filler)
	a = aside{text: r.filler, filler: true}
	if ok {
		a.packets = r.c.phrase(key)
	}
	return a, a.packets != nil
}

// play makes a phrase the clip.
func (s *speechSource) play(a aside) { s.clip, s.aside, s.text = a.source(), &a, a.text }

// take makes the next clip of the engine the clip.
func (s *speechSource) take(n nextClip) error {
	select {
	case a := <-s.fixed: // it is before the clip
		s.coming <- n
		s.play(a)
		return nil
	default:
		s.coming = nil
	}
	select {
	case text := <-s.urgent:
		s.tell(text)
	default:
	}
	switch {
	case errors.Is(n.err, io.EOF):
		s.learns.finish()
		return n.err
	case n.err != nil:
		return n.err
	}
	s.learns.begin(n.Text, n.by)
	s.clip, s.text = s.reply.c.board.boards.clipSource(n.Clip, s.reply.c.output), n.Text
	return nil
}

// fail shows the rest of the answer if no engine can speak it. The error is io.EOF then.
func (s *speechSource) fail(err error) error {
	r := s.reply
	switch {
	case errors.Is(err, io.EOF), r.ctx.Err() != nil:
		return err
	case s.told != "":
		return io.EOF // that there is no answer is all there is to tell
	}
	show := msgCannotSpeak.In(r.c.Lang(), engine.AsError(err).In(r.c.Lang()))
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
	return text, text != s.told
}

func (s *speechSource) close() {
	if s.clip != nil {
		closeSource(s.clip)
		s.clip, s.aside = nil, nil
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
	if s.coming != nil {
		if n := <-s.coming; n.err == nil {
			_ = n.Sound.Close()
		}
	}
	s.speech.Close()
	return nil
}

// position returns the number of the first line that was not played to its end. It is for a closed
// source, as heard is.
func (s *speechSource) position() int { return s.line(s.speech.Complete()) }

// recording implements [recordedSource].
func (s *speechSource) recording() *soundFile {
	if s.reply.record == nil {
		return nil
	}
	return s.reply.record.answer
}

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
