package xiaozhi

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"patchbay/internal/talk"
	"patchbay/internal/voice"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/spoken"
)

const (
	// bytesPerSecond is the sound of a bot.
	bytesPerSecond = 2 * talk.SpeakingRate
	// maxHeard limits the sentences that the bot has not been told of. The history lacks what
	// exceeds it.
	maxHeard = 512
	// A letter of a script without spaces takes as long to say as solidWeight others, of which each
	// takes weightTime. That places sentences in the sound until all of it is known.
	solidWeight = 3
	weightTime  = 70 * time.Millisecond
)

// duplexPlayback implements [talk.Playback].
type duplexPlayback struct {
	c     *Conversation
	added chan struct{} // has a token after a change
	heard chan string
	ended chan struct{} // closed when the board has played it

	mu       sync.Mutex
	sound    []byte // not read yet; the bot limits it
	total    int    // bytes of sound
	finished bool   // there is no more
	dropped  bool   // what was not read is not wanted
	stopped  bool   // by Stop
	failure  string // shown in place of the rest
	text     *spoken.Text
	mood     emotion
	rest     []sentence // not shown yet
	weight   int        // of all sentences
	said     string     // what was heard, without the notes about failures
	record   *soundFile // nil: it is not recorded
	began    time.Time  // when the first packet was sent
	played   time.Duration
	whole    bool // all of it
}

// sentence is a text with its place in the answer: the weight of all before it.
type sentence struct {
	text   string
	before int
}

func newDuplexPlayback(c *Conversation) *duplexPlayback {
	return &duplexPlayback{c: c, added: make(chan struct{}, 1), heard: make(chan string, maxHeard),
		ended: make(chan struct{}), text: spoken.New(c.Lang(), false)}
}

// Play implements [talk.Playback].
func (p *duplexPlayback) Play(sound []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return talk.ErrDisconnected
	}
	p.sound = append(p.sound, sound...)
	p.total += len(sound)
	p.changed()
	return nil
}

// Text implements [talk.Playback].
func (p *duplexPlayback) Text(piece string) {
	p.mu.Lock()
	face := p.mood.read(piece)
	p.addSentences(p.text.Write(piece)...)
	p.mu.Unlock()
	if face != "" {
		_ = p.c.ShowEmotion(face) // the reader notices a broken connection
	}
}

// addSentences adds sentences. Requires mu.
func (p *duplexPlayback) addSentences(texts ...string) {
	for _, text := range texts {
		if text == "" {
			continue
		}
		p.rest = append(p.rest, sentence{text, p.weight})
		for _, r := range text {
			if p.weight++; engine.IsSolid(r) {
				p.weight += solidWeight - 1
			}
		}
	}
}

// Finish implements [talk.Playback].
func (p *duplexPlayback) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.finished {
		p.finished = true
		p.addSentences(p.text.Flush()...)
		p.changed()
	}
}

// Stop implements [talk.Playback].
func (p *duplexPlayback) Stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	_ = p.Close()
}

// Fail implements [talk.Playback].
func (p *duplexPlayback) Fail(f *talk.Failure) {
	text := f.Sentence(p.c.Lang())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = text
}

// Heard implements [talk.Playback].
func (p *duplexPlayback) Heard() <-chan string { return p.heard }

// Played implements [talk.Playback].
func (p *duplexPlayback) Played(ctx context.Context) (time.Duration, bool) {
	select {
	case <-p.ended:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.played, p.whole
}

// end notes how much the board has played.
func (p *duplexPlayback) end(stats pace.Stats, interrupted bool) {
	p.mu.Lock()
	p.whole = !interrupted && !p.stopped
	p.mu.Unlock()
	_ = p.Close()
	p.mu.Lock()
	p.played = max(time.Duration(stats.Frames)*p.c.Frame()-stats.Waiting, 0)
	p.mu.Unlock()
	close(p.heard)
	close(p.ended)
}

// heardWhole returns what was heard, and whether that is all.
func (p *duplexPlayback) heardWhole() (said string, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said, p.whole && p.failure == ""
}

// playedFor returns for how long the board has played.
func (p *duplexPlayback) playedFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		return 0
	}
	return time.Since(p.began)
}

// changed wakes Read. Requires mu.
func (p *duplexPlayback) changed() {
	select {
	case p.added <- struct{}{}:
	default: // there is a token already
	}
}

// Read implements [io.Reader].
func (p *duplexPlayback) Read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		n := copy(b, p.sound)
		p.sound = p.sound[n:]
		over := p.dropped || p.finished && len(p.sound) == 0
		p.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case over:
			return 0, io.EOF
		}
		<-p.added
	}
}

// Close implements [io.Closer]. It ends Read.
func (p *duplexPlayback) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped, p.sound = true, nil
	p.changed()
	return nil
}

// source returns the sound in packets.
func (p *duplexPlayback) source() pace.Source {
	boards := p.c.board.boards
	return &duplexSource{Source: voice.PCM(p, talk.SpeakingRate,
		voice.Output{Encoding: boards.encoding(p.c.output), Encoders: boards.Encoders}), p: p}
}

// duplexSource is the sound of a playback with its sentences. It is used by one goroutine.
type duplexSource struct {
	pace.Source
	p      *duplexPlayback
	frames int
}

// Next implements [pace.Source].
func (s *duplexSource) Next(ctx context.Context) ([]byte, error) {
	packet, err := s.Source.Next(ctx)
	if err == nil {
		s.frames++
		return packet, nil
	}
	if ctx.Err() == nil {
		for _, text := range s.p.leftOver() {
			if err := s.p.c.ShowText(text); err != nil {
				return nil, err
			}
		}
	}
	return nil, err
}

// Text implements [pace.TextSource].
func (s *duplexSource) Text() (string, bool) {
	return s.p.textAt(time.Duration(s.frames-1) * s.p.c.Frame())
}

// textAt returns the sentence that begins at a time.
func (p *duplexPlayback) textAt(at time.Duration) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = time.Now()
	}
	if len(p.rest) == 0 {
		return "", false
	}
	next := p.rest[0]
	begins := time.Duration(next.before) * weightTime
	if p.finished {
		all := time.Duration(p.total) * time.Second / bytesPerSecond
		begins = all * time.Duration(next.before) / time.Duration(p.weight)
	}
	if begins > at {
		return "", false
	}
	p.rest = p.rest[1:]
	p.tell(next.text)
	return next.text, true
}

// tell tells the bot that a sentence is heard. Requires mu.
func (p *duplexPlayback) tell(text string) {
	joined := engine.JoinTexts(p.said, strings.TrimSpace(text))
	select {
	case p.heard <- joined[len(p.said):]:
	default: // see maxHeard
	}
	p.said = joined
}

// leftOver returns the texts without sound at the end of the answer.
func (p *duplexPlayback) leftOver() (texts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.rest {
		if p.dropped {
			break
		}
		p.tell(s.text)
		texts = append(texts, s.text)
	}
	if p.rest = nil; p.failure != "" {
		texts = append(texts, p.failure)
	}
	return texts
}

// recording implements [recordedSource].
func (s *duplexSource) recording() *soundFile { return s.p.record }

// Close implements [io.Closer].
func (s *duplexSource) Close() error {
	closeSource(s.Source)
	return nil
}
