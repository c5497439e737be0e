package xiaozhi

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/engine"
)

// preroll is how much sound before the detected beginning of speech the listener gets: detection
// takes 220 ms, and the first sound of a word may be quiet.
const preroll = 720 * time.Millisecond

// endWords are the texts that end a conversation, compared as by lettersOf.
var endWords = []string{"退出", "再见", "拜拜", "goodbye", "bye", "byebye", "thatsall"}

// hallucinations are what Whisper models write for noise, compared as by lettersOf. They are
// dropped after less than hallucinationVoice of voice.
var hallucinations = []string{"thankyou", "thanksforwatching", "you", "谢谢观看", "谢谢大家",
	"字幕由amaraorg社区提供"}

const hallucinationVoice = 600 * time.Millisecond

const (
	msgCannotHear  = i18n.Message("I could not understand you: %s.")
	msgCannotSpeak = i18n.Message("I cannot speak at the moment: %s.")
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
	d := &dialogue{voice: v, c: c, ctx: ctx, ends: endpoint.New(endpoint.Options{})}
	for {
		e, err := c.Next()
		if err != nil {
			d.drop()
			return
		}
		d.onEvent(e)
	}
}

// dialogue is the state of one conversation of a [Dialogue].
type dialogue struct {
	voice  Dialogue
	c      *Conversation
	ctx    context.Context
	ends   *endpoint.Detector
	manual bool
	recent []int16 // the last sound before speech, at most preroll
	asking *question
	// speaking is set while an answer is prepared or plays. Audio that arrives meanwhile is
	// dropped: it may be the board's own sound.
	speaking atomic.Bool
}

// question is speech that is being recognised.
type question struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	utterance engine.Utterance
	voiced    time.Duration
	heard     chan heard // gets one value
}

// heard is the result of a recogniser.
type heard struct {
	engine.Transcript
	err error
}

func (d *dialogue) onEvent(e Event) {
	switch e.Kind {
	case EventListenStart:
		d.manual = e.Text == wire.ModeManual
		d.drop()
	case EventAudio:
		d.onAudio(e)
	case EventListenStop:
		if d.manual {
			d.commit()
		}
	case EventText:
		d.drop()
		d.typed(e.Text)
	case EventAbort:
		d.drop()
	}
}

// drop forgets the question so far.
func (d *dialogue) drop() {
	if d.asking != nil {
		d.asking.cancel(nil)
		d.asking = nil
	}
	d.recent = d.recent[:0]
	d.ends.Reset()
}

func (d *dialogue) onAudio(e Event) {
	if d.speaking.Load() {
		return
	}
	event := d.ends.Packet(e.Opus)
	samples := d.ends.Samples()
	if d.ends.IsSpeaking() {
		d.c.HeardSpeech()
	}
	if d.asking != nil {
		// Its error is that of the context, or speech without a pause in manual mode, whose end is
		// left out.
		_ = d.asking.utterance.Write(samples)
	} else {
		d.keep(samples)
		if event == endpoint.Began {
			d.begin()
		}
	}
	if event == endpoint.Ended && !d.manual {
		d.commit()
	}
}

// keep remembers the last sound.
func (d *dialogue) keep(samples []int16) {
	const most = int(preroll * engine.Rate / time.Second)
	d.recent = append(d.recent, samples...)
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
func (d *dialogue) begin() {
	chain, s := d.current()
	ctx, cancel := context.WithCancelCause(d.ctx)
	q := &question{ctx: ctx, cancel: cancel, heard: make(chan heard, 1),
		utterance: chain.Listen(ctx, engine.Hints{Language: s.Language})}
	_ = q.utterance.Write(d.recent) // fails only if the conversation is over
	d.recent = d.recent[:0]
	if !d.c.board.boards.spawn(q.listen) {
		cancel(nil)
		q.utterance.Close()
		return
	}
	d.asking = q
}

// listen waits for the transcript.
func (q *question) listen() {
	defer q.utterance.Close()
	for {
		t, err := q.utterance.Next()
		if err != nil || t.Final {
			q.heard <- heard{t, err}
			return
		}
	}
}

// commit ends the question and answers it.
func (d *dialogue) commit() {
	q := d.asking
	d.asking = nil
	voiced := d.ends.VoicedDuration()
	d.drop()
	if q == nil {
		return
	}
	if voiced < endpoint.MinVoice && !d.manual {
		q.cancel(nil)
		return
	}
	q.voiced = voiced
	_ = q.utterance.Finish() // never fails
	d.reply(q.ctx, q.cancel, func(r *reply) { r.answerSpeech(q) })
}

// typed answers a typed question aloud.
func (d *dialogue) typed(text string) {
	if r := []rune(text); len(r) > maxTyped {
		text = string(r[:maxTyped])
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.reply(ctx, cancel, func(r *reply) { r.answer(text) })
}

// reply plays an answer in the background, while prepare makes it. The board is told to expect
// sound at once.
func (d *dialogue) reply(ctx context.Context, cancel context.CancelCauseFunc, prepare func(*reply)) {
	chain, s := d.current()
	r := &reply{c: d.c, ctx: ctx, cancel: cancel, began: time.Now(),
		speech: chain.Speak(ctx, s.manner())}
	generation := d.c.Generation()
	prepared := make(chan struct{})
	boards := d.c.board.boards
	d.speaking.Store(true)
	if !boards.spawn(func() {
		defer d.speaking.Store(false)
		defer r.speech.Close()
		if boards.spawn(func() {
			defer close(prepared)
			prepare(r)
			_ = r.speech.Finish() // never fails
		}) {
			_, _ = d.c.Speak(ctx, generation, &speechSource{reply: r}) // Next returns the end of the conversation
			cancel(nil)
			<-prepared
		}
		if r.last {
			d.c.End(errLeft)
		}
	}) {
		cancel(nil)
		r.speech.Close()
		d.speaking.Store(false)
	}
}

// reply is an answer that is being prepared and spoken.
type reply struct {
	c      *Conversation
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time // when the question was complete
	speech *engine.ChainSpeech
	said   bool // the first sentence is complete
	last   bool // the conversation ends after it
}

// answerSpeech answers what was understood.
func (r *reply) answerSpeech(q *question) {
	var h heard
	select {
	case h = <-q.heard:
	case <-r.ctx.Done():
		return
	}
	r.reached("transcript")
	text := strings.TrimSpace(h.Text)
	switch {
	case r.ctx.Err() != nil:
	case h.err != nil:
		r.say(msgCannotHear.In(r.c.lang, engine.AsError(h.err).In(r.c.lang)))
	case lettersOf(text) == "":
	case q.voiced < hallucinationVoice && contains(hallucinations, text):
	case contains(endWords, text):
		r.last = true
		_ = r.c.ShowTranscript(text) // the reader notices a broken connection
		r.say(msgGoodbye.In(r.c.lang))
	default:
		r.answer(text)
	}
}

// contains reports whether a text is one of a list, apart from punctuation and case.
func contains(list []string, text string) bool {
	text = lettersOf(text)
	for _, s := range list {
		if s == text {
			return true
		}
	}
	return false
}

// answer has the bot answer.
func (r *reply) answer(text string) {
	if err := r.c.ShowTranscript(text); err != nil {
		return
	}
	r.c.answer(r.ctx, text, func(s string) error {
		if !r.said {
			r.said = true
			r.reached("first_sentence")
		}
		return r.speech.Write(s)
	})
}

func (r *reply) say(text string) { _ = r.speech.Write(text) } // fails only if nobody waits

// reached measures a stage.
func (r *reply) reached(stage string) {
	r.c.board.boards.metrics.stages.WithLabelValues(stage).Observe(time.Since(r.began).Seconds())
}
