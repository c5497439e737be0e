package xiaozhi

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/words"
)

const (
	// preroll is how much sound before the detected beginning of speech the listener gets:
	// detection takes 220 ms, and the first sound of a word may be quiet.
	preroll = 720 * time.Millisecond
	// defaultPause ends speech of which no text is known: recognisers that take whole utterances
	// tell nothing earlier.
	defaultPause = 800 * time.Millisecond
	// noiseVoice is the duration of voice below which a text that recognisers write for noise is
	// dropped, and foreignVoice that for a text in the script of another language.
	noiseVoice, foreignVoice = 600 * time.Millisecond, time.Second
	// bystanderShare is the share of the loudness of the last person who was answered below which
	// speech without a text is somebody in the background.
	bystanderShare = 0.5
	// maxUnheard is how often in a row nothing is understood until the person is told.
	maxUnheard = 3
)

const (
	msgCannotHear  = i18n.Message("I could not understand you: %s.")
	msgCannotSpeak = i18n.Message("I cannot speak at the moment: %s.")
	msgSpent       = i18n.Message("That is all for today. We can talk again tomorrow.")
	msgDidNotHear  = i18n.Message("I did not hear you.")
	msgGoodbye     = i18n.Message("Goodbye!")
)

var errLeft = errors.New("the person said goodbye")

// Dialogue is the [Voice] of boards whose bot answers aloud.
type Dialogue struct {
	// Engines returns the speech engines for a board. It is called for each question.
	Engines func(store.Device) *engine.Chain
	// Settings returns how a board hears and speaks. It is called for each question, so that a
	// change holds from the next one. Nil: [Boards.VoiceSettings].
	Settings func(context.Context, store.Device) VoiceSettings
}

// Converse implements [Voice].
func (v Dialogue) Converse(ctx context.Context, c *Conversation) {
	d := newDialogue(ctx, c, v)
	for {
		e, err := c.Next()
		if err != nil {
			d.drop()
			return
		}
		d.onEvent(e)
	}
}

// dialogue is the state of one conversation of a [Dialogue]. One goroutine handles the events; each
// [reply] has its own.
type dialogue struct {
	voice   Dialogue
	c       *Conversation
	ctx     context.Context
	ends    *endpoint.Detector
	mode    string
	recent  []int16   // the last sound before speech, at most preroll
	echoes  time.Time // until then, an answer may be heard that is over
	sound   questionSound
	asking  *question
	last    *reply      // the newest; nil before the first
	greet   int         // samples until the board may greet; 0: not any more
	met     bool        // the board has greeted, or answered
	volume  int         // that was set; 0: none yet
	shows   bool        // what no engine can speak is shown without an apology
	warming atomic.Bool // connections to the engines are being opened
	spoken  spokenTexts

	mu       sync.Mutex
	loudness float64     // of the last person who was answered
	unheard  int         // how often in a row nothing was understood
	answer   *answerText // of the bot, the newest; nil: it was not asked yet
}

func newDialogue(ctx context.Context, c *Conversation, v Dialogue) *dialogue {
	return &dialogue{voice: v, c: c, ctx: ctx, ends: endpoint.New(endpoint.Options{})}
}

func (d *dialogue) onEvent(e Event) {
	switch e.Kind {
	case EventListenStart:
		d.mode = e.Text
		d.drop()
		d.warm()
		d.listens()
	case EventAudio:
		d.onAudio(e)
	case EventListenStop:
		if d.mode == wire.ModeManual {
			d.commit()
		}
	case EventText:
		d.drop()
		d.typed(e.Text)
	case EventPhoto:
		d.look()
	case EventAbort:
		d.drop()
	}
}

// answering returns the reply that may be playing, or nil.
func (d *dialogue) answering() *reply {
	if d.last == nil || d.last.isSpeaking() {
		return d.last
	}
	if p := d.last.previous.Load(); p != nil && p.isSpeaking() { // it goes on after an interruption
		return p
	}
	return nil
}

// drop forgets the question so far, and the answer that it has interrupted.
func (d *dialogue) drop() {
	if d.asking != nil && d.asking.interrupted != nil {
		d.asking.interrupted.giveUp()
	}
	d.forget()
}

// forget forgets the question so far.
func (d *dialogue) forget() {
	if d.asking != nil {
		d.asking.cancel(nil)
		d.asking = nil
	}
	d.recent = d.recent[:0]
	d.sound.end()
	d.ends.Reset()
}

func (d *dialogue) onAudio(e Event) {
	answering := d.answering()
	if answering != nil && d.isOwnSound(answering, d.asking != nil, e.At) {
		return
	}
	if answering != nil {
		d.echoes = e.At.Add(echoTail)
	}
	d.sound.hear(e.Opus)
	event := d.ends.Packet(e.Opus)
	samples := d.ends.Samples()
	if d.ends.IsSpeaking() && answering == nil {
		d.c.HeardSpeech()
	}
	switch {
	case d.asking != nil:
		// Its error is that of the context, or speech without a pause in manual mode, whose end is
		// left out.
		_ = d.asking.utterance.Write(samples)
	default:
		d.keep(samples)
		if event == endpoint.Began {
			d.begin(answering != nil, e.At.Before(d.echoes))
		}
	}
	d.greetWhenQuiet(len(samples))
	if d.asking != nil && d.mode != wire.ModeManual {
		d.follow(d.asking, event == endpoint.Ended, answering)
	}
}

// follow decides what a question so far means: whether it interrupts the answer, and whether it is
// complete.
func (d *dialogue) follow(q *question, ended bool, answering *reply) {
	if answering != nil && d.interrupts(q) {
		answering.pause()
		d.c.HeardSpeech()
		d.c.StopPlayback()
		q.interrupted, answering = answering, nil
	}
	if plays, _ := d.c.musicStatus(); plays && answering == nil && d.interrupts(q) {
		d.c.StopPlayback()
	}
	switch {
	case ended && answering != nil:
		d.forget() // an echo, or somebody who shows attention
	case ended || answering == nil && q.isComplete():
		d.commit()
	case answering == nil:
		text, age := q.partial()
		if age < stableText {
			return
		}
		text = d.said(q, text)
		d.ends.SetSilence(cmp.Or(q.silence, words.Pause(text)))
		if d.ends.Quiet() >= draftQuiet && d.ends.Lasted() < draftSpeech {
			d.draft(q, text)
		}
	}
}

// keep remembers the last sound.
func (d *dialogue) keep(samples []int16) {
	d.recent = append(d.recent, samples...)
	d.keepLast(preroll)
}

// keepLast forgets all but the last sound.
func (d *dialogue) keepLast(length time.Duration) {
	most := max(int(length*engine.Rate/time.Second), 0)
	if over := len(d.recent) - most; over > 0 {
		d.recent = append(d.recent[:0], d.recent[over:]...)
	}
}

// current returns the engines and settings of the board as they are now.
func (d *dialogue) current() (*engine.Chain, VoiceSettings) {
	device := d.c.board.current()
	settings := d.voice.Settings
	if settings == nil {
		settings = d.c.board.boards.VoiceSettings
	}
	s := settings(d.ctx, device)
	return s.chain(d.voice.Engines(device)), s
}

// begin begins a question.
func (d *dialogue) begin(overAnswer, mayEcho bool) {
	chain, s := d.current()
	d.setSilence(s)
	ctx, cancel := context.WithCancelCause(d.ctx)
	q := &question{ctx: ctx, cancel: cancel, over: make(chan struct{}), overAnswer: overAnswer,
		mayEcho: mayEcho, began: time.Now(), silence: time.Duration(s.Silence), language: d.chosenLanguage(s),
		exits: s.ExitPhrases, loudness: d.ends.Loudness()}
	q.utterance = chain.Listen(ctx, engine.Hints{Language: s.Language})
	_ = q.utterance.Write(d.recent) // fails only if the conversation is over
	d.recent = d.recent[:0]
	d.warm()
	if !d.c.board.boards.spawn(q.listen) {
		cancel(nil)
		q.utterance.Close()
		return
	}
	d.asking = q
	d.recordQuestion(s)
}

// commit ends the question and answers it.
func (d *dialogue) commit() {
	q := d.asking
	d.asking = nil
	voiced, ended := d.ends.VoicedDuration(), time.Now().Add(-d.ends.Quiet())
	sound := d.sound.end()
	d.forget()
	if q == nil {
		return
	}
	if voiced < endpoint.MinVoice && d.mode != wire.ModeManual {
		q.cancel(nil)
		if q.interrupted != nil {
			q.interrupted.resume()
		}
		return
	}
	q.voiced, q.ended, q.sound = voiced, ended, sound
	_ = q.utterance.Finish() // never fails
	d.reply(q.ctx, q.cancel, func(r *reply) { r.answerSpeech(q) })
}

// typed answers a typed question aloud.
func (d *dialogue) typed(text string) {
	if r := []rune(text); len(r) > maxTyped {
		text = string(r[:maxTyped])
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.reply(ctx, cancel, func(r *reply) {
		if refusal := r.chain.Refusal(ctx); refusal != nil {
			r.fail(refusal, nil)
			return
		}
		r.answer(text)
	})
}
