package xiaozhi

import (
	"context"
	"errors"
	"sync"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/words"
)

const (
	// stableText is how long a text has to be unchanged to say something about the pause after it.
	stableText = 200 * time.Millisecond
	// The bot is asked after draftQuiet without voice, before the pause that ends the speech. That
	// costs something when the person goes on, so it happens maxDrafts times at most, and not in
	// speech of draftSpeech or longer, in which people pause more often.
	draftQuiet  = 200 * time.Millisecond
	draftSpeech = 10 * time.Second
	maxDrafts   = 3
	// interruptVoice is how much of what is said over an answer must certainly be voice, and
	// interruptWords how many words it must have that were not spoken: after an echo, which may be
	// misunderstood, interruptAfterEcho.
	interruptVoice     = 300 * time.Millisecond
	interruptWords     = 2
	interruptAfterEcho = 3
	// echoTail is for how long after its sound an echo is still heard: what the board has not
	// played yet, its microphone's queue, and the time after which a voice is detected.
	echoTail = 600 * time.Millisecond
)

// question is speech that is being recognised.
type question struct {
	ctx         context.Context
	cancel      context.CancelCauseFunc
	utterance   *engine.ChainUtterance
	silence     time.Duration // that ends it; 0: it depends on the text
	language    string
	exits       []string // phrases that end the conversation, besides the usual ones
	loudness    float64
	overAnswer  bool // it began while an answer was played
	mayEcho     bool // or while its echo was still heard
	began       time.Time
	interrupted *reply // that it has interrupted; nil: none
	stops       bool   // it has interrupted by a word for that
	voiced      time.Duration
	ended       time.Time // when the last voice was heard
	sound       *soundFile
	drafts      int // number of drafts so far
	early       *draft

	over  chan struct{} // closed when there is a result
	final heard         // the result; read after over

	mu    sync.Mutex
	text  string // so far
	since time.Time
}

// heard is the result of a recogniser.
type heard struct {
	engine.Transcript
	err error
}

// listen waits for the transcript.
func (q *question) listen() {
	defer close(q.over)
	defer q.utterance.Close()
	for {
		t, err := q.utterance.Next()
		if err != nil || t.Final {
			q.final = heard{t, err}
			return
		}
		q.mu.Lock()
		if t.Text != q.text {
			q.text, q.since = t.Text, time.Now()
		}
		q.mu.Unlock()
	}
}

// partial returns the text so far, and for how long it has not changed.
func (q *question) partial() (text string, age time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.text == "" {
		return "", 0
	}
	return q.text, time.Since(q.since)
}

// isComplete reports whether the recogniser has found the end of the speech by itself.
func (q *question) isComplete() bool {
	select {
	case <-q.over:
		return q.final.err == nil
	default:
		return false
	}
}

// interrupts reports whether what is said while an answer is played is meant to interrupt it: it is
// certainly voice, and more than an echo of the board or a sign of attention.
func (d *dialogue) interrupts(q *question) bool {
	text, _ := q.partial()
	if text == "" {
		return false
	}
	spoken := d.spokenBefore(q)
	if words.HasStop(text, spoken) {
		q.stops = true
		return true
	}
	if !d.isSureOfVoice() {
		return false
	}
	said, enough := words.AfterEcho(text, spoken), interruptWords
	if said != text {
		enough = interruptAfterEcho
	}
	return words.CountNew(said, spoken) >= enough && !words.IsBackchannel(said) && !words.IsEcho(said, spoken)
}

// playing is what a board plays, or is about to.
type playing interface {
	// justBegan reports whether its sound began a moment ago.
	justBegan(now time.Time) bool
}

// isOwnSound reports whether what a board hears may be what it plays: unless its mode is realtime,
// and at the beginning, when its echo canceller is not yet used to the voice. Asking is set while
// the person speaks.
func (d *dialogue) isOwnSound(p playing, asking bool, now time.Time) bool {
	return d.mode != wire.ModeRealtime || !asking && p.justBegan(now)
}

// isSureOfVoice reports whether enough of what is said over an answer is certainly voice.
func (d *dialogue) isSureOfVoice() bool { return d.ends.SureDuration() >= interruptVoice }

// spokenBefore returns what may be an echo in a question.
func (d *dialogue) spokenBefore(q *question) string { return d.spoken.since(q.began.Add(-echoTime)) }

// said returns what a person has said of what was recognised.
func (d *dialogue) said(q *question, recognised string) string {
	if !q.mayEcho {
		return recognised
	}
	spoken := d.spokenBefore(q)
	if q.interrupted == nil && words.IsEcho(recognised, spoken) {
		return ""
	}
	return words.AfterEcho(recognised, spoken)
}

// draft is an answer to what somebody seems to have said, while it is not certain.
type draft struct {
	text   string
	script *answerText
	ctx    context.Context
	cancel context.CancelCauseFunc
	sure   chan struct{} // closed when it is certain
	done   chan struct{} // closed when the bot has ended
}

// draft asks the bot the text so far, unless it was asked that already.
func (d *dialogue) draft(q *question, text string) {
	if q.early != nil {
		if words.Letters(q.early.text) == words.Letters(text) {
			return
		}
		d.revise(q)
	}
	if q.drafts == maxDrafts || q.overAnswer || q.interrupted != nil || d.answering() != nil ||
		d.last != nil && !d.last.isOver() || words.IsExit(text) || words.IsNoise(text) ||
		words.IsStop(text) || words.IsForeign(text, q.language) {
		return
	}
	chain, _ := d.current()
	f := &draft{text: text, script: newAnswerText(chain), sure: make(chan struct{}), done: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancelCause(q.ctx)
	commands := d.commands()
	if !d.c.board.boards.spawn(func() {
		defer close(f.done)
		d.c.answer(f.ctx, talk.Part{Text: text}, commands, f.commit, f.script)
	}) {
		f.cancel(nil)
		return
	}
	q.early, q.drafts = f, q.drafts+1
}

// revise ends a draft that answers another text than was said.
func (d *dialogue) revise(q *question) {
	q.early.cancel(talk.ErrRevised)
	q.early = nil
	d.c.board.boards.metrics.drafts.WithLabelValues("revised").Inc()
}

// commit is its [talk.Turn.Commit].
func (f *draft) commit(ctx context.Context) error {
	select {
	case <-f.sure:
		return nil
	default:
	}
	select {
	case <-f.sure:
		return nil
	case <-ctx.Done():
		return errors.Join(talk.ErrRevised, context.Cause(ctx))
	case <-f.ctx.Done():
		return errors.Join(talk.ErrRevised, context.Cause(f.ctx))
	}
}

// meaning is what a recognised text is to a dialogue.
type meaning int

const (
	aQuestion meaning = iota
	nothing           // nobody has said anything to the board
	unclear           // somebody has, but it was not understood
	aFarewell
	aStop // of the answer that it has interrupted, or of music
)

// meaning returns what a question means, whose text is what a person has said of it.
func (d *dialogue) meaning(q *question, text string) meaning {
	empty, foreign := words.Letters(text) == "", words.IsForeign(text, q.language)
	d.mu.Lock()
	bystander := q.loudness < bystanderShare*d.loudness
	d.mu.Unlock()
	awaited := d.isAwaited()
	spoken := d.spokenBefore(q)
	switch {
	case q.stops && words.HasStop(q.final.Text, spoken) && words.IsStopInEcho(text, spoken):
		return aStop
	case (empty || foreign) && bystander,
		foreign && q.voiced < foreignVoice,
		words.IsNoise(text) && q.voiced < noiseVoice && !awaited,
		empty && words.Letters(q.final.Text) != "", // an echo
		!empty && q.overAnswer && q.interrupted == nil && !words.IsExit(text) &&
			words.CountNew(text, spoken) < interruptWords:
		return nothing
	case empty:
		return unclear
	case words.Is(text, q.exits):
		return aFarewell
	case awaited:
		return aQuestion // the bot knows what ends what it has begun
	case words.IsExit(text):
		return aFarewell
	case words.IsStop(text) && q.interrupted != nil, words.EndsMusic(text) && d.c.hasMusic():
		return aStop
	}
	return aQuestion
}
