package engine

import (
	"context"
	"io"
	"sync"
	"unicode/utf8"
)

const (
	// maxWritten is how many sentences wait for a speaker before Write waits too.
	maxWritten = 4
	// soundPerLetter limits the sound of a speech, in bytes: two seconds of PCM at 24 kHz for each
	// letter, MaxClip besides. What has more does not end.
	soundPerLetter = 96_000
)

// SpeakLive is a [Speaker] for an engine that takes more text while it speaks. It is called in a
// goroutine of its own for each speech, takes the text from n and adds the sound there. It returns
// nil after the last sound. Its error is an [*Error], or that of the context.
type SpeakLive func(ctx context.Context, m Manner, n *Narration) error

// Speak implements [Speaker]. It does not wait for the engine.
func (f SpeakLive) Speak(ctx context.Context, m Manner) (Speech, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	n := &Narration{written: make(chan string, maxWritten), taken: make(chan struct{}, 1),
		news: make(chan struct{}, 1), done: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(ctx)
	go func() {
		defer n.cancel() // only to release the context
		n.end(f(n.ctx, m, n))
	}()
	return liveSpeech{n}, nil
}

// Streams implements [Streamer].
func (SpeakLive) Streams() {}

// Narration is a speech as a [SpeakLive] has it.
type Narration struct {
	ctx     context.Context
	cancel  context.CancelFunc
	written chan string
	taken   chan struct{} // has a token after Next took a clip
	news    chan struct{} // has a token after a clip was added
	done    chan struct{} // closed when the engine has returned
	err     error         // for Next; read after done

	mu     sync.Mutex
	clips  []Clip  // that Next has not returned
	heard  *buffer // of the clip that Next has returned last
	sound  *buffer // of the clip that gets sound; nil: there is none
	begun  *Clip   // has no sound yet
	last   Clip    // that got sound
	own    bool    // the engine does not tell what its clips say
	unsaid string  // what the engine got and no clip says
	spent  int     // bytes of sound
	budget int     // what spent may be
	got    int     // characters that the engine got
	billed int     // characters that it bills, according to itself; 0: it does not tell
}

// Texts returns the sentences to say. It is closed after the last. It is nil while Next is behind:
// what nobody will hear costs money too. Taken tells when that has changed.
func (n *Narration) Texts() <-chan string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.clips) > 0 {
		return nil
	}
	return n.written
}

// Taken has a token after Next has returned a clip.
func (n *Narration) Taken() <-chan struct{} { return n.taken }

// Text waits for the next sentence of Texts. Its error is io.EOF after the last, or that of ctx.
func (n *Narration) Text(ctx context.Context) (string, error) {
	for {
		select {
		case text, ok := <-n.Texts():
			if !ok {
				return "", io.EOF
			}
			return text, nil
		case <-n.taken:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Saying notes a text that the engine got.
func (n *Narration) Saying(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unsaid = JoinTexts(n.unsaid, text)
	n.budget += letters(text) * soundPerLetter
	n.got += utf8.RuneCountInString(text)
}

// Bill adds characters that the engine says it bills. They count in place of those that it got.
func (n *Narration) Bill(characters int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.billed += max(characters, 0)
}

// Unsaid reports whether the engine got a text that no clip says.
func (n *Narration) Unsaid() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return letters(n.unsaid) > 0
}

// Begin begins a clip, which ends the one before. Text is what it says, according to the engine;
// empty: the engine does not tell, so it is all that no clip has said.
func (n *Narration) Begin(text string, f Format, rate int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.own = text == ""
	if n.begun != nil {
		text = JoinTexts(n.begun.Text, text) // a clip without sound is a part of the next
	}
	n.begun = &Clip{Text: text, Format: f, Rate: rate}
}

// End ends the clip.
func (n *Narration) End() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endClip(io.EOF)
}

// Sound adds sound to the clip that began last. Sound before the first is an error.
func (n *Narration) Sound(data []byte) error {
	_, err := n.add(data)
	return err
}

// add adds sound and reports whether nobody wants more of the clip.
func (n *Narration) add(data []byte) (unwanted bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(data) == 0 {
		return false, nil
	}
	n.spent += len(data)
	switch {
	case n.spent > MaxClip+n.budget:
		err := Errorf(Broken, "the engine sends more sound than the text can have")
		n.discard(err)
		return false, err
	case n.begun != nil && (n.sound == nil || !continues(n.begun.Format, data)):
		n.open(*n.begun)
	case n.sound == nil && n.begun == nil && n.last.Format == 0:
		return false, Errorf(Broken, "the engine sends sound before the text")
	case n.sound == nil, n.own && n.last.Format == PCM && n.sound.total > MaxClip/4:
		n.open(Clip{Format: n.last.Format, Rate: n.last.Rate})
	}
	n.begun = nil
	return n.sound.add(data, nil)
}

// continues reports whether the data of a new clip belong to the Ogg stream of the clip before:
// only the first page of a stream has the flag 2 (RFC 3533, 6).
func continues(f Format, data []byte) bool {
	return f == OggOpus && !(len(data) > 5 && string(data[:4]) == "OggS" && data[5]&2 != 0)
}

// open makes a clip the one that gets sound. Requires mu.
func (n *Narration) open(c Clip) {
	n.endClip(io.EOF)
	if n.own {
		c.Text, n.unsaid = n.unsaid, ""
	} else {
		n.unsaid = withoutLetters(n.unsaid, letters(c.Text))
	}
	n.last, n.sound = c, newBuffer(n.ctx)
	c.Sound = n.sound
	n.clips = append(n.clips, c)
	signal(n.news)
}

// endClip ends the clip that gets sound. Requires mu.
func (n *Narration) endClip(err error) {
	if n.sound != nil {
		_, _ = n.sound.add(nil, err)
		n.sound = nil
	}
}

// discard drops the sound that nobody has read: it is not what the text says. Requires mu.
func (n *Narration) discard(err error) {
	for _, b := range []*buffer{n.heard, n.sound} {
		if b != nil {
			b.discard(err)
		}
	}
	n.clips, n.sound = nil, nil
}

// end ends the speech with the error of the engine.
func (n *Narration) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err != nil && n.ctx.Err() != nil:
		err = context.Cause(n.ctx)
	case err == nil && n.spent == 0 && n.budget > 0:
		err = Errorf(Broken, "the engine sends no sound")
	case err == nil:
		err = io.EOF
	}
	n.endClip(err)
	n.err = err
	close(n.done)
}

// liveSpeech is the [Speech] of a narration.
type liveSpeech struct{ n *Narration }

// Write implements [Speech].
func (s liveSpeech) Write(text string) error {
	select {
	case s.n.written <- text:
		return nil
	case <-s.n.done:
		if s.n.err == io.EOF {
			return context.Canceled // Close was called
		}
		return s.n.err
	}
}

// Finish implements [Speech].
func (s liveSpeech) Finish() error {
	close(s.n.written)
	return nil
}

// Next implements [Speech].
func (s liveSpeech) Next() (Clip, error) {
	for {
		if c, ok := s.n.take(); ok {
			return c, nil
		}
		select {
		case <-s.n.news:
		case <-s.n.done:
			if c, ok := s.n.take(); ok {
				return c, nil
			}
			return Clip{}, s.n.err
		}
	}
}

func (n *Narration) take() (c Clip, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.clips) == 0 {
		return Clip{}, false
	}
	c, n.clips = n.clips[0], n.clips[1:]
	n.heard = c.Sound.(*buffer)
	signal(n.taken)
	return c, true
}

// used implements [metered].
func (s liveSpeech) used() Use {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	return spokenOf(s.n.got, s.n.billed)
}

// Close implements [Speech]. It waits for the engine.
func (s liveSpeech) Close() {
	s.n.cancel()
	<-s.n.done
}
