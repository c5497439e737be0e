package xiaozhi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/words"
)

const (
	// deafTime is how long a board that listens while it speaks does not interrupt an answer that
	// has just begun: its echo canceller is not yet used to the voice.
	deafTime = 300 * time.Millisecond
	// resumeTime is how long an interrupted answer waits for a text of whoever interrupted it.
	resumeTime = 2 * time.Second
)

// reply is an answer that is being prepared and spoken. One goroutine prepares the text, one plays
// it.
type reply struct {
	dialogue   *dialogue
	c          *Conversation
	ctx        context.Context
	cancel     context.CancelCauseFunc
	chain      *engine.Chain
	manner     engine.Manner
	previous   atomic.Pointer[reply] // whose answer this one follows; nil: none, or it is over
	generation uint64
	began      time.Time      // when the question was complete
	times      timeline       // until there is a script
	last       bool           // the conversation ends after it
	filler     string         // for when it takes long; empty: none
	record     *turnRecording // nil: it is not recorded
	interrupts bool           // the person has interrupted the answer before; only for prepare
	asks       bool           // the bot is asked, and the person has not interrupted; read after prepared
	filled     bool           // the filler was said, or must not be; only for play

	script   *answerText
	prepared chan struct{} // closed when script is what is spoken
	over     chan struct{} // closed when it is played and recorded
	speaking atomic.Bool
	firstAt  atomic.Int64 // when its sound began, in Unix nanoseconds; 0: not yet

	mu      sync.Mutex
	settled bool          // play has returned
	paused  chan struct{} // closed when it is decided whether to go on; nil: nobody has interrupted it
	goesOn  bool
}

// reply plays an answer in the background, while prepare makes it. The board is told to expect
// sound at once.
func (d *dialogue) reply(ctx context.Context, cancel context.CancelCauseFunc, prepare func(*reply)) {
	chain, s := d.current()
	r := &reply{dialogue: d, c: d.c, ctx: ctx, cancel: cancel, chain: chain, began: time.Now(),
		manner: s.manner(), filler: d.c.filler(s), generation: d.c.Generation(),
		prepared: make(chan struct{}), over: make(chan struct{})}
	boards := d.c.board.boards
	previous := d.answering()
	if previous == nil {
		previous = d.last
	}
	r.previous.Store(previous)
	r.speaking.Store(true)
	d.last = r
	r.record = d.c.recording(s)
	d.answers(s)
	if !boards.spawn(func() {
		defer r.keep() // for which no other answer waits
		defer close(r.over)
		defer cancel(nil)
		done := make(chan struct{})
		if boards.spawn(func() {
			defer close(done)
			prepare(r)
			r.use(newAnswerText(r.chain)) // unless there is one
			r.script.finish()
		}) {
			r.play()
			<-done
		}
		if p := r.previous.Load(); p != nil && p.isOver() {
			r.previous.Store(nil)
		}
		r.finish(s)
	}) {
		cancel(nil)
		r.speaking.Store(false)
		close(r.over)
	}
}

// finish does what the bot wants done after its answer, unless somebody interrupted it.
func (r *reply) finish(s VoiceSettings) {
	if r.script == nil { // the server stops
		return
	}
	text, whole := r.script.Heard()
	switch {
	case r.last || whole && r.script.wants(talk.CommandLeave):
		r.c.End(errLeft)
	case whole && r.script.wants(talk.CommandTakePhoto):
		r.c.events.pushControl(Event{Kind: EventPhoto, At: time.Now()})
	case whole && r.script.awaitsAnswer():
		r.c.endWhenQuiet(0) // people think
	case whole && text != "":
		s.endWhenQuiet(r.c, text)
	}
}

// keep stores what was said, if it is recorded.
func (r *reply) keep() {
	if r.record == nil || r.script == nil { // or the server stops
		return
	}
	answer, _ := r.script.Heard()
	r.record.keep(r.c, r.script.turn, r.script.asked, answer)
}

// use sets the script, unless there is one.
func (r *reply) use(s *answerText) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.script != nil {
		return
	}
	r.script = s
	s.times.add(&r.times)
	close(r.prepared)
	if r.settled {
		s.settle(0)
	}
}

// play speaks the script, again and again from where somebody interrupted it for nothing.
func (r *reply) play() {
	defer r.speaking.Store(false)
	if r.dialogue.shows && !r.chain.CanSpeak() {
		r.show()
		return
	}
	next, generation := 0, r.generation
	for {
		source := newSpeechSource(r, next)
		stats, err := r.c.Speak(r.ctx, generation, source)
		next = source.position()
		if !errors.Is(err, pace.ErrAborted) || !r.resumes() {
			r.settle(source.heard(stats.Frames), err)
			return
		}
		r.filled = true
		generation = r.c.Generation()
		r.speaking.Store(true)
	}
}

// show shows the script.
func (r *reply) show() {
	select {
	case <-r.prepared:
	case <-r.ctx.Done():
		r.settle(0, context.Cause(r.ctx))
		return
	}
	source := &textSource{script: r.script, c: r.c}
	stats, err := r.c.Speak(r.ctx, r.generation, source)
	r.settle(source.shown(stats.Frames), err)
}

// settle records how much was heard, and stops the bot if somebody interrupted it.
func (r *reply) settle(heard int, err error) {
	r.mu.Lock()
	r.settled = true
	if r.script != nil {
		r.script.settle(heard)
	}
	r.mu.Unlock()
	switch {
	case err == nil: // the answer is still to be recorded
	case errors.Is(err, pace.ErrAborted):
		r.mark(stageInterrupted, time.Now())
		r.cancel(talk.ErrStopped)
	default:
		r.cancel(nil)
	}
}

// isSpeaking reports whether the board may be playing it.
func (r *reply) isSpeaking() bool { return r.speaking.Load() }

// justBegan implements [playing].
func (r *reply) justBegan(now time.Time) bool {
	first := r.firstAt.Load()
	return first != 0 && now.Sub(time.Unix(0, first)) < deafTime
}

// isOver reports whether it was played and recorded.
func (r *reply) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// pause makes the reply wait for resume or giveUp when its playback is aborted.
func (r *reply) pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused == nil {
		r.paused = make(chan struct{})
	}
	r.speaking.Store(false)
}

// resume makes a paused reply go on.
func (r *reply) resume() { r.decide(true) }

// giveUp ends a paused reply.
func (r *reply) giveUp() { r.decide(false) }

func (r *reply) decide(goesOn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused == nil {
		return
	}
	select {
	case <-r.paused: // it is decided
	default:
		r.goesOn = goesOn
		close(r.paused)
	}
}

// resumes waits, if the reply is paused, and reports whether it goes on.
func (r *reply) resumes() bool {
	r.mu.Lock()
	paused := r.paused
	r.mu.Unlock()
	if paused == nil {
		return false
	}
	select {
	case <-paused:
	case <-r.ctx.Done():
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = nil
	return r.goesOn
}

// answerSpeech answers what was understood.
func (r *reply) answerSpeech(q *question) {
	if !r.await(q) {
		if q.interrupted != nil {
			q.interrupted.giveUp() // unless it goes on
		}
		return
	}
	d := r.dialogue
	text := strings.TrimSpace(d.said(q, q.final.Text))
	if r.record != nil {
		r.record.question = q.sound
	}
	r.mark(stageSpeechEnd, q.ended)
	r.mark(stageCommit, r.began)
	r.reached(stageTranscript)
	meaning := nothing
	if q.final.err == nil {
		meaning = d.meaning(q, text)
	}
	if r.interrupts = q.interrupted != nil; r.interrupts {
		if q.final.err == nil && (meaning == nothing || meaning == unclear) {
			q.interrupted.resume()
			r.drop(q)
			return
		}
		q.interrupted.giveUp()
	}
	if q.final.err != nil {
		r.drop(q)
		r.fail(engine.AsError(q.final.err), q.utterance.TimedOut)
		return
	}
	switch meaning {
	case unclear:
		r.drop(q)
		if d.countUnheard() == maxUnheard {
			r.say(msgDidNotHear.In(r.c.Lang()))
		}
	case nothing:
		r.drop(q)
	case aStop:
		r.drop(q)
		r.c.StopEverything()
	case aFarewell:
		r.drop(q)
		r.last = true
		_ = r.c.ShowTranscript(text) // the reader notices a broken connection
		r.say(msgGoodbye.In(r.c.Lang()))
	default:
		d.heardFrom(q.loudness)
		r.answerDrafted(q, text)
	}
}

// await waits for the result of the recogniser. If it takes too long, an interrupted answer goes on
// instead.
func (r *reply) await(q *question) bool {
	var late <-chan time.Time
	if q.interrupted != nil {
		timer := time.NewTimer(resumeTime)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-q.over:
	case <-late:
		q.interrupted.resume()
		r.cancel(nil)
	case <-r.ctx.Done():
	}
	return r.ctx.Err() == nil
}

// countUnheard counts speech that was not understood.
func (d *dialogue) countUnheard() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unheard++
	return d.unheard
}

// heardFrom remembers a person who is answered.
func (d *dialogue) heardFrom(loudness float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loudness, d.unheard = loudness, 0
}

// ask notes that the bot is asked.
func (d *dialogue) ask(answer *answerText) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

// isAwaited reports whether the bot expects that the person replies.
func (d *dialogue) isAwaited() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answer != nil && d.answer.awaitsAnswer()
}

// drop ends the draft of a question that is not answered.
func (r *reply) drop(q *question) {
	if q.early != nil {
		done := q.early.done
		r.dialogue.revise(q)
		<-done
	}
}

// answerDrafted has the bot answer, which may have begun already.
func (r *reply) answerDrafted(q *question, text string) {
	f := q.early
	if f == nil || words.Letters(f.text) != words.Letters(text) {
		r.drop(q)
		r.answer(text)
		return
	}
	if r.c.ShowTranscript(text) != nil {
		return
	}
	r.c.board.boards.metrics.drafts.WithLabelValues("used").Inc()
	r.asks = !r.interrupts
	r.dialogue.ask(f.script)
	r.use(f.script)
	close(f.sure)
	<-f.done
}

// answer has the bot answer, when the answer before is recorded.
func (r *reply) answer(text string) {
	if r.c.ShowTranscript(text) == nil {
		r.ask(talk.Part{Text: text}, r.dialogue.commands())
	}
}

// ask has the bot answer, when the answer before is recorded.
func (r *reply) ask(part talk.Part, commands []string) {
	if p := r.previous.Load(); p != nil {
		select {
		case <-p.over:
		case <-r.ctx.Done():
			return
		}
	}
	r.asks = !r.interrupts
	r.use(newAnswerText(r.chain))
	r.dialogue.ask(r.script)
	r.c.answer(r.ctx, part, commands, nil, r.script)
}

// fail tells the person why there is no answer. The conversation ends after it if that will be the
// same for the rest of the day. Late reports which engines were late.
func (r *reply) fail(err *engine.Error, late func(engine.ID) bool) {
	defer r.c.notHeard(err) // after what the person is told
	if err.Class != engine.Spent {
		text := msgCannotHear.In(r.c.Lang(), err.In(r.c.Lang()))
		r.write(line{text: text, note: true, fixed: true, late: late})
		return
	}
	if r.last = r.chain.CanSpeak(); !r.last {
		r.c.endWhenQuiet(quietAfterShort) // boards clear the display at the end
	}
	r.say(msgSpent.In(r.c.Lang()))
}

// say speaks a sentence instead of an answer.
func (r *reply) say(text string) { r.write(line{text: text, note: true, fixed: true}) }

func (r *reply) write(l line) {
	r.use(newAnswerText(r.chain))
	_ = r.script.write(r.ctx, l) // fails only if nobody waits
}

// mark notes when a stage was reached.
func (r *reply) mark(stage string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := &r.times
	if r.script != nil {
		times = &r.script.times
	}
	times.mark(stage, at)
}

// reached measures a stage.
func (r *reply) reached(stage string) {
	r.mark(stage, time.Now())
	r.c.board.boards.metrics.stages.WithLabelValues(stage).Observe(time.Since(r.began).Seconds())
}
