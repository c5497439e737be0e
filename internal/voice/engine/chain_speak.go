package engine

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

// maxUnspoken is how many sentences wait in a [ChainSpeech] before its Write waits.
const maxUnspoken = 32

const (
	// soundTimeout limits the wait for more of a sound that has begun if no other engine is left;
	// otherwise it is [Chain.Patience].
	soundTimeout = 5 * time.Second
	// soundProgress is how many bytes have to come within either time: less than half of what the
	// lowest usual bit rate has in 3 seconds (Opus, 6 kbit/s).
	soundProgress = 1 << 10
	// hurryWait is how long a sentence that is in a hurry waits for its sound, and hurryLate how
	// long if all engines have been late before.
	hurryWait, hurryLate = 2 * time.Second, time.Second
)

// Speak begins to speak. The caller closes the result.
func (c *Chain) Speak(ctx context.Context, m Manner) *ChainSpeech {
	s := &ChainSpeech{chain: c, manner: m, limits: c.limits(), changed: make(chan struct{}, 1),
		space: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.links, s.err = c.usable(StageSpeak)
	return s
}

// ChainSpeech is a [Speech] that goes on with the next engine when one fails, at the beginning of
// the sentence.
type ChainSpeech struct {
	chain  *Chain
	manner Manner
	ctx    context.Context
	cancel context.CancelFunc
	links  []*Link // the first one is used; only for Next and Reject
	err    *Error  // of the last failure; only for Next and Reject
	limits limits  // only for Next and Reject
	voice  *voiceAttempt
	clip   *Clip       // that Next returned last, until it is complete
	sound  *timedSound // of clip

	mu       sync.Mutex
	unspoken []string // sentences whose sound is not complete
	spoken   int      // letters of unspoken[0] whose sound is complete
	dropped  int      // sentences removed from unspoken so far
	finished bool
	waiting  bool          // Next waits for the engine
	late     func(ID) bool // of Hurry; nil: it was not called, or Next has seen it
	changed  chan struct{} // has a token after Write or Finish
	space    chan struct{} // has a token after sentences were removed
}

// voiceAttempt is the use of one engine for a speech.
type voiceAttempt struct {
	Speech
	chain *Chain
	link  *Link
	ctx   context.Context
	limit *timeLimit
	fed   chan struct{} // closed when the engine gets no more sentences
	took  time.Duration // until the last clip
}

func (a *voiceAttempt) close() {
	a.limit.stop()
	a.limit.cancel(nil)
	a.Speech.Close()
	<-a.fed
	a.link.Slots.release()
	a.chain.settle(a.link, a.Speech)
}

// Write adds a sentence. Texts without letters and digits are left out. It waits while many
// sentences have not been spoken. The error is that of the context.
func (s *ChainSpeech) Write(text string) error {
	if letters(text) == 0 {
		return nil
	}
	for {
		s.mu.Lock()
		if len(s.unspoken) < maxUnspoken {
			s.unspoken = append(s.unspoken, text)
			s.mu.Unlock()
			signal(s.changed)
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.space:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// Hurry is called before the first sentence, if that is of use only soon: what says why there is no
// answer, after a person has waited for one. Engines that were late before are not used as long as
// another one is left.
func (s *ChainSpeech) Hurry(late func(ID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = late
}

// hurry does what Hurry asks for.
func (s *ChainSpeech) hurry() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	if late == nil {
		return
	}
	s.limits.wait = hurryLate
	if inTime := slices.DeleteFunc(slices.Clone(s.links), func(l *Link) bool { return late(l.id()) }); len(inTime) > 0 {
		s.links, s.limits.wait = inTime, hurryWait
	}
	s.limits.patience = s.limits.wait / time.Duration(max(len(s.links), 1))
}

// Finish implements [Speech].
func (s *ChainSpeech) Finish() error {
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
	signal(s.changed)
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a token already
	}
}

// Unspoken waits for the next sentence whose sound is not complete, and removes it. It is for
// showing the rest of a text after Next has failed. The error is io.EOF if there is none.
func (s *ChainSpeech) Unspoken() (string, error) {
	if err := s.awaitText(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.unspoken[0]
	s.remove(1)
	return text, nil
}

// Complete returns the number of sentences whose sound was read to its end, or that were removed.
func (s *ChainSpeech) Complete() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Next implements [Speech].
func (s *ChainSpeech) Next() (Clip, error) {
	s.complete()
	for {
		a, err := s.open()
		if err != nil {
			return Clip{}, err
		}
		clip, err := a.Next()
		s.mu.Lock()
		s.waiting = false
		a.took = a.limit.stop()
		s.mu.Unlock()
		switch {
		case s.ctx.Err() != nil:
			if err == nil {
				clip.Sound.Close()
			}
			return Clip{}, context.Cause(s.ctx)
		case err == nil:
			s.sound = &timedSound{ReadCloser: clip.Sound, limit: a.limit, timeout: soundTimeout}
			if len(s.links) > 1 {
				s.sound.timeout = min(s.limits.next(len(s.links)), soundTimeout)
			}
			clip.Sound = s.sound
			s.clip = &clip
			return clip, nil
		case err == io.EOF:
			s.mu.Lock()
			s.remove(len(s.unspoken)) // the rest, if the engine cut the text in its own way
			s.mu.Unlock()
			return Clip{}, io.EOF
		}
		if a.ctx.Err() != nil {
			err = context.Cause(a.ctx) // of the time limit
		}
		s.limits.waited += a.took
		s.drop(err)
	}
}

// Reject reports that the last clip could not be read or played. The next one begins with its
// sentence again, spoken by the next engine.
func (s *ChainSpeech) Reject(err error) {
	if s.clip != nil {
		s.limits.waited += s.sound.waited
	}
	s.clip = nil
	if s.voice == nil || s.ctx.Err() != nil {
		return
	}
	if s.voice.ctx.Err() != nil {
		err = context.Cause(s.voice.ctx) // of the time limit
	}
	s.drop(err)
}

// open returns the current attempt, or begins one with the next engine as soon as there is text.
func (s *ChainSpeech) open() (*voiceAttempt, error) {
	for s.voice == nil && len(s.links) > 0 {
		if err := s.awaitText(); err != nil {
			return nil, err
		}
		s.hurry()
		ctx, limit := newTimeLimit(s.ctx, s.limits.next(len(s.links)))
		limit.start()
		of, err := s.links[0].speak(ctx, s.manner)
		s.limits.waited += limit.stop()
		if err != nil {
			limit.cancel(nil)
			if s.ctx.Err() != nil {
				return nil, context.Cause(s.ctx)
			}
			s.fail(err)
			continue
		}
		s.voice = &voiceAttempt{Speech: of, chain: s.chain, link: s.links[0], ctx: ctx, limit: limit,
			fed: make(chan struct{})}
		s.mu.Lock()
		s.spoken = 0
		first := s.dropped
		s.mu.Unlock()
		go s.feed(s.voice, first)
	}
	if s.voice == nil {
		return nil, s.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = true
	if len(s.unspoken) > 0 {
		s.voice.limit.start()
	}
	return s.voice, nil
}

// awaitText waits for a sentence. The error is io.EOF if there is none.
func (s *ChainSpeech) awaitText() error {
	for {
		s.mu.Lock()
		ready, finished := len(s.unspoken) > 0, s.finished
		s.mu.Unlock()
		switch {
		case ready:
			return nil
		case finished:
			return io.EOF
		}
		select {
		case <-s.changed:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// feed gives sentences to an engine, beginning with number next, until the engine fails or there is
// no more.
func (s *ChainSpeech) feed(a *voiceAttempt, next int) {
	defer close(a.fed)
	for {
		s.mu.Lock()
		text, has := "", next < s.dropped+len(s.unspoken)
		if has {
			text = s.unspoken[max(next-s.dropped, 0)]
		}
		finished := s.finished
		if has && s.waiting {
			a.limit.start()
		}
		s.mu.Unlock()
		switch {
		case has:
			if a.Write(text) != nil {
				return // Next gets the error
			}
			next++
			continue
		case finished:
			_ = a.Finish() // Next gets the error
			return
		}
		select {
		case <-s.changed:
		case <-a.ctx.Done():
			return
		}
	}
}

// complete counts the sentences of which the last clip was the end.
func (s *ChainSpeech) complete() {
	if s.clip == nil {
		return
	}
	s.links[0].succeeded(StageSpeak, s.voice.took)
	s.limits.waited = 0
	s.voice.limit.set(s.limits.next(len(s.links)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoken += letters(s.clip.Text)
	s.clip = nil
	n := 0
	for n < len(s.unspoken) && s.spoken >= letters(s.unspoken[n]) {
		s.spoken -= letters(s.unspoken[n])
		n++
	}
	s.remove(n)
}

// remove removes spoken sentences. Requires mu.
func (s *ChainSpeech) remove(n int) {
	s.unspoken = slices.Delete(s.unspoken, 0, n)
	s.dropped += n
	signal(s.space)
}

// drop ends an attempt that failed.
func (s *ChainSpeech) drop(err error) {
	s.voice.close()
	s.voice = nil
	s.fail(err)
}

// fail records the failure of the first engine and goes on to the next.
func (s *ChainSpeech) fail(err error) {
	if s.err = AsError(err); s.err == nil {
		s.err = Errorf(Closed, "the engine stopped by itself")
	}
	s.links[0].failed(StageSpeak, s.err)
	s.links = s.links[1:]
}

// Engine returns the engine of the last clip. It is called by who calls Next.
func (s *ChainSpeech) Engine() (id ID) {
	if len(s.links) > 0 {
		id = s.links[0].id()
	}
	return id
}

// Close implements [Speech].
func (s *ChainSpeech) Close() {
	s.cancel()
	if s.voice != nil {
		s.voice.close()
		s.voice = nil
	}
}

// timedSound limits the wait for sound.
type timedSound struct {
	io.ReadCloser
	limit   *timeLimit
	timeout time.Duration
	waited  time.Duration // for the last sound
	fresh   int           // bytes that came meanwhile
}

func (t *timedSound) Read(p []byte) (int, error) {
	t.limit.set(t.timeout - t.waited)
	t.limit.start()
	n, err := t.ReadCloser.Read(p)
	t.waited += t.limit.stop()
	if t.fresh += n; t.fresh >= soundProgress {
		t.fresh, t.waited = 0, 0
	}
	return n, err
}
