package xiaozhi

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/spoken"
	"patchbay/internal/voice/words"
)

const (
	// passedTime is how long after a bot has got sound it may find speech in it. What it finds
	// later cannot be a person.
	passedTime = 2 * time.Second
	// afterEcho is the end of an echo, in which somebody may have begun to speak.
	afterEcho = 200 * time.Millisecond
)

// Duplex is the [Voice] of boards whose bot converses by sound ([talk.DuplexBot]). Boards with
// another bot have another voice. If that has speech engines, they say what the bot does not, and
// have the account of what the bot uses.
type Duplex struct {
	Otherwise Voice // nil: nobody answers
}

// Converse implements [Voice].
func (v Duplex) Converse(ctx context.Context, c *Conversation) {
	d := &duplex{dialogue: newDialogue(ctx, c, Dialogue{Engines: v.engines})}
	d.shows = true
	defer d.close()
	d.open()
	for d.talk != nil {
		e, err := c.Next()
		if err != nil {
			return
		}
		d.onEvent(e)
	}
	c.own.Store(nil)
	if v.Otherwise == nil {
		v.Otherwise = silentVoice{}
	}
	v.Otherwise.Converse(ctx, c)
}

// duplex is the state of one conversation of a [Duplex]. Its dialogue, which asks no questions,
// says what the bot does not.
type duplex struct {
	*dialogue
	bot     int64
	name    string        // under which is summed up what the bot uses
	talk    talk.Duplex   // nil: the bot does not converse by sound
	hears   bool          // the person speaks
	refused *engine.Error // why the bot gets nothing of that; nil: it does
	answer  atomic.Pointer[duplexAnswer]
	own     *ownSound  // nil: the board has not listened while it plays
	heard   heardSound // what the last packet was
	passed  time.Time  // when the bot last got what the board heard
}

// open begins the bot's conversation, so that its connection stands when the person has spoken.
func (d *duplex) open() {
	device := d.c.board.current()
	if d.bot = device.Bot; device.Bot == 0 {
		return
	}
	d.name = "bot " + d.c.board.boards.bot(d.ctx, d.bot).name // no engine: its limits are its own
	opening := newTurn(device, d.c.Lang())
	_, s := d.current()
	opening.Spoken = &talk.Spoken{Manner: d.manner(s)}
	t, err := d.c.board.boards.Hub.Converse(d.ctx, opening, func(h talk.Hearing) {
		kind := EventSpeechBegan
		if h == talk.SpeechEnded {
			kind = EventSpeechEnded
		}
		d.c.events.pushControl(Event{Kind: kind, At: time.Now()})
	})
	if err != nil {
		d.c.board.boards.Logger.Warn("a conversation by sound was not begun", "device", device.Number, "error", err)
		return
	}
	d.talk = t
}

func (d *duplex) close() {
	if d.talk != nil {
		d.talk.Close()
		d.account(d.talk, d.name)
		d.talk = nil
	}
}

func (d *duplex) onEvent(e Event) {
	switch e.Kind {
	case EventListenStart:
		d.mode = e.Text
		if d.mode == wire.ModeRealtime && d.own == nil {
			d.own = newOwnSound()
			d.c.own.Store(d.own)
		}
		d.dropTurn()
		d.listens()
		if d.c.board.current().Bot != d.bot { // its owner chose another one
			d.close()
			d.open()
		}
		if d.talk != nil && d.talk.FindsTurns() {
			d.refuse() // the bot would hear all from now on
		}
	case EventAudio:
		d.onAudio(e)
	case EventListenStop:
		if d.mode == wire.ModeManual {
			d.commitTurn()
		}
	case EventText:
		d.dropTurn()
		d.met, d.greet = true, 0
		d.c.board.boards.spawn(func() { _ = d.c.Ask(d.ctx, e.Text) }) // Next returns the end of the conversation
	case EventAbort:
		d.dropTurn()
	case EventSpeechBegan:
		if time.Since(d.passed) > passedTime {
			return
		}
		d.c.HeardSpeech()
		d.beginTurn()
		if d.answer.Load() != nil && d.mode == wire.ModeRealtime {
			d.c.StopPlayback()
		}
	case EventSpeechEnded:
		d.commitTurn()
	}
}

// manner returns how the bot speaks.
func (d *duplex) manner(s VoiceSettings) talk.Manner {
	return talk.Manner{Voice: s.Voice, Language: d.chosenLanguage(s), Speed: s.Speed}
}

// account notes what a bot has used.
func (d *duplex) account(of talk.Duplex, bot string) {
	if u := of.Use(); u != (talk.Use{}) {
		chain, _ := d.current()
		chain.Used(engine.Use{Engine: bot, Heard: u.Heard, Characters: u.Characters, Cost: u.Cost})
	}
}

// refuse finds out whether a limit of the day is reached.
func (d *duplex) refuse() {
	d.account(d.talk, d.name)
	chain, _ := d.current()
	d.refused = chain.Refusal(d.ctx)
}

// findsTurns reports whether the bot hears all, and finds out when the person has finished.
func (d *duplex) findsTurns() bool { return d.refused == nil && d.talk.FindsTurns() }

// beginTurn notes that the person speaks.
func (d *duplex) beginTurn() {
	if !d.hears {
		d.refuse()
		_, s := d.current()
		d.setSilence(s)
		d.recordQuestion(s)
	}
	d.hears, d.greet = true, 0
}

// dropTurn forgets what the person says.
func (d *duplex) dropTurn() {
	if d.hears {
		d.hears = false
		d.talk.Clear()
	}
	d.forgetTurn()
}

// forgetTurn forgets what was heard so far.
func (d *duplex) forgetTurn() {
	d.forget()
	if d.own != nil {
		d.own.ignore()
	}
}

// write has the bot hear.
func (d *duplex) write(samples []int16) {
	if d.refused == nil {
		d.talk.Write(samples)
	}
}

// pass has the bot hear a packet, and what was kept before it.
func (d *duplex) pass(samples []int16) {
	d.write(d.recent)
	d.write(samples)
	d.recent, d.passed = d.recent[:0], time.Now()
}

func (d *duplex) onAudio(e Event) {
	playing := d.playing()
	if playing != nil && d.isOwnSound(playing, d.hears, e.At) {
		if d.own != nil {
			d.own.skip(opus.Duration(e.Opus), e.At)
		}
		return
	}
	d.sound.hear(e.Opus)
	event := d.ends.Packet(e.Opus)
	samples := d.ends.Samples()
	d.listen(samples, e.At, playing != nil)
	own := d.heard == soundOwn || d.heard == soundUnclear
	if d.ends.IsSpeaking() && playing == nil && !own {
		d.c.HeardSpeech()
	}
	switch {
	case d.hears, d.findsTurns() && !own:
		d.pass(samples)
	case d.begins(playing != nil):
		if playing != nil {
			d.c.StopPlayback()
		}
		if d.heard == soundBoth { // the detector has heard the echo too
			d.ends.BeganAgo(max(d.own.spokeFor(), endpoint.MinVoice))
			event = endpoint.Began
		}
		d.beginTurn()
		d.pass(samples)
	default:
		d.keep(samples)
		if d.findsTurns() {
			d.write(make([]int16, len(samples)))
		}
	}
	d.greetWhenQuiet(len(samples))
	if event == endpoint.Ended && d.mode != wire.ModeManual && !d.findsTurns() {
		d.commitTurn()
	}
}

// listen finds out whether a board that listens while it plays hears itself, and forgets what was
// only that.
func (d *duplex) listen(samples []int16, now time.Time, playing bool) {
	before := d.heard
	d.heard = soundOfOthers
	if d.mode != wire.ModeRealtime || d.own == nil {
		return
	}
	d.heard = d.own.hear(samples, now, d.ends.IsSpeaking() && d.isSureOfVoice())
	switch {
	case d.heard == soundUnclear && !playing: // no echo was found in all that was played
		d.heard = soundOfOthers
		if before == soundUnclear && !d.hears { // what was heard so far may be one
			d.ends.Reset()
			d.keepLast(afterEcho)
		}
	case d.hears || d.heard == before:
	case d.heard == soundBoth:
		d.keepLast(d.own.spokeFor() - time.Duration(len(samples))*time.Second/engine.Rate)
	case d.heard == soundOfOthers && before == soundOwn: // the echo has faded away
		d.ends.Reset()
		d.keepLast(afterEcho)
	}
}

// begins reports whether somebody begins to speak, and interrupts what is played.
func (d *duplex) begins(playing bool) bool {
	switch {
	case d.heard != soundOfOthers:
		return d.heard == soundBoth
	case playing:
		return d.ends.IsSpeaking() && d.isSureOfVoice()
	}
	return d.ends.IsSpeaking() && d.ends.Quiet() == 0 // maybe since before the end of the answer
}

// playing returns what the board plays, or is about to; nil: nothing.
func (d *duplex) playing() playing {
	if a := d.answer.Load(); a != nil {
		return a
	}
	if r := d.answering(); r != nil {
		return r
	}
	return nil
}

// commitTurn has the bot answer what was said.
func (d *duplex) commitTurn() {
	heard, voiced, sound := d.hears, d.ends.VoicedDuration(), d.sound.end()
	if heard && voiced < endpoint.MinVoice && d.mode != wire.ModeManual && !d.findsTurns() {
		d.dropTurn()
		return
	}
	if !heard {
		d.forget()
		return
	}
	d.hears = false
	d.forgetTurn()
	switch {
	case d.refused != nil:
		d.talk.Clear()
		ctx, cancel := context.WithCancelCause(d.ctx)
		refusal := d.refused
		d.reply(ctx, cancel, func(r *reply) { r.fail(refusal, nil) })
	default:
		d.answerTurn(sound)
	}
}

// duplexAnswer is an answer that the board plays.
type duplexAnswer struct {
	d        *duplex
	bot      string // under which is summed up what it uses
	settings VoiceSettings
	ctx      context.Context
	cancel   context.CancelCauseFunc
	playback *duplexPlayback
	last     atomic.Bool    // the conversation ends after it
	record   *turnRecording // nil: it is not recorded
	asked    string         // what the person said; only for ask
}

// answerTurn plays the bot's answer to a question in the background. The board is told to expect
// sound at once.
func (d *duplex) answerTurn(question *soundFile) {
	_, s := d.current()
	d.answers(s)
	a := &duplexAnswer{d: d, bot: d.name, settings: s, playback: newDuplexPlayback(d.c), record: d.c.recording(s)}
	if a.record != nil {
		a.record.question, a.playback.record = question, a.record.answer
	}
	a.ctx, a.cancel = context.WithCancelCause(d.ctx)
	generation, boards := d.c.Generation(), d.c.board.boards
	turn := newTurn(d.c.board.current(), d.c.Lang())
	turn.Spoken = &talk.Spoken{Conversation: d.talk, Playback: a.playback, Manner: d.manner(s)}
	d.answer.Store(a)
	if !boards.spawn(func() { a.play(generation, turn) }) {
		d.answer.Store(nil)
		a.cancel(nil)
	}
}

// play plays the answer while the bot makes it, and returns when both have ended.
func (a *duplexAnswer) play(generation uint64, turn *talk.Turn) {
	c := a.d.c
	defer a.cancel(nil)
	answered, ended := make(chan struct{}), c.list.expectAnswer()
	defer ended()
	if !c.board.boards.spawn(func() {
		defer close(answered)
		a.ask(turn)
	}) {
		a.d.answer.CompareAndSwap(a, nil)
		return
	}
	stats, err := c.Speak(a.ctx, generation, a.playback.source())
	ended()
	interrupted := errors.Is(err, pace.ErrAborted)
	a.playback.end(stats, interrupted)
	if interrupted {
		a.cancel(talk.ErrStopped)
	} else if err != nil {
		a.cancel(nil)
	}
	a.d.answer.CompareAndSwap(a, nil)
	<-answered
	a.d.account(turn.Spoken.Conversation, a.bot)
	switch said, whole := a.playback.heardWhole(); {
	case err != nil:
	case a.last.Load():
		c.End(errLeft)
	case whole && said != "":
		a.settings.endWhenQuiet(c, said)
	}
	a.record.keep(c, turn.ID, a.asked, a.playback.said)
}

// justBegan implements [playing].
func (a *duplexAnswer) justBegan(time.Time) bool {
	played := a.playback.playedFor()
	return played > 0 && played < deafTime
}

// ask has the bot answer, and shows what the person said and what went wrong.
func (a *duplexAnswer) ask(turn *talk.Turn) {
	c := a.d.c
	err := c.board.boards.Hub.Answer(a.ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindTranscript:
			a.asked = e.Text
			a.last.Store(words.IsExit(e.Text) || words.Is(e.Text, a.settings.ExitPhrases))
			return c.ShowTranscript(e.Text)
		case talk.KindNote:
			return c.ShowText(strings.Join(spoken.Pieces(e.Text, c.Lang()), "\n"))
		}
		return nil
	})
	if f := talk.AsFailure(err); f != nil && !errors.Is(err, talk.ErrDisconnected) {
		a.playback.Fail(f) // the bot itself may have been left out
	}
	a.playback.Finish()
}
