package xiaozhi

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/spoken"
	"patchbay/internal/voice/words"
)

const (
	// bargeInVoice is how much voice interrupts an answer, if the board listens meanwhile, and
	// bargeInAfter how long an answer is not interrupted: echo cancellation adapts.
	bargeInVoice, bargeInAfter = 300 * time.Millisecond, 300 * time.Millisecond
)

// Duplex is the [Voice] of boards whose bot converses by sound ([talk.DuplexBot]). Boards with
// another bot have another voice.
type Duplex struct {
	Otherwise Voice // nil: nobody answers
}

// Converse implements [Voice].
func (v Duplex) Converse(ctx context.Context, c *Conversation) {
	d := &duplex{c: c, ctx: ctx, ends: endpoint.New(endpoint.Options{})}
	defer d.close()
	d.open()
	for d.talk != nil {
		e, err := c.Next()
		if err != nil {
			return
		}
		d.onEvent(e)
	}
	if v.Otherwise == nil {
		v.Otherwise = silentVoice{}
	}
	v.Otherwise.Converse(ctx, c)
}

// duplex is the state of one conversation of a [Duplex].
type duplex struct {
	c      *Conversation
	ctx    context.Context
	ends   *endpoint.Detector
	bot    int64
	talk   talk.Duplex // nil: the bot does not converse by sound
	mode   string
	recent []int16 // the last sound before speech, at most preroll
	sound  questionSound
	asking bool // the person speaks
	answer atomic.Pointer[duplexAnswer]
}

// open begins the bot's conversation, so that its connection stands when the person has spoken.
func (d *duplex) open() {
	device := d.c.board.current()
	if d.bot = device.Bot; device.Bot == 0 {
		return
	}
	t, err := d.c.board.boards.Hub.Converse(d.ctx, newTurn(device, d.c.Lang()), func(h talk.Hearing) {
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
		d.talk = nil
	}
}

func (d *duplex) onEvent(e Event) {
	switch e.Kind {
	case EventListenStart:
		d.mode = e.Text
		d.drop()
		d.c.tellRecorded(d.settings())
		if d.c.board.current().Bot != d.bot { // its owner chose another one
			d.close()
			d.open()
		}
	case EventAudio:
		d.onAudio(e)
	case EventListenStop:
		if d.mode == wire.ModeManual {
			d.commit()
		}
	case EventText:
		d.drop()
		d.c.board.boards.spawn(func() { _ = d.c.Ask(d.ctx, e.Text) }) // Next returns the end of the conversation
	case EventAbort:
		d.drop()
	case EventSpeechBegan:
		d.c.HeardSpeech()
		d.begin()
		if d.answer.Load() != nil && d.mode == wire.ModeRealtime {
			d.c.StopPlayback()
		}
	case EventSpeechEnded:
		d.commit()
	}
}

// settings returns how the board hears and speaks.
func (d *duplex) settings() VoiceSettings {
	return d.c.board.boards.VoiceSettings(d.ctx, d.c.board.current())
}

// begin notes that the person speaks.
func (d *duplex) begin() {
	if s := d.settings(); !d.asking && s.Record != 0 {
		d.c.tellRecorded(s)
		d.sound.record(d.c.hello.Audio.SampleRate)
	}
	d.asking = true
}

// drop forgets what the person says.
func (d *duplex) drop() {
	if d.asking {
		d.asking = false
		d.talk.Clear()
	}
	d.recent = d.recent[:0]
	d.sound.end()
	d.ends.Reset()
}

func (d *duplex) onAudio(e Event) {
	a := d.answer.Load()
	if a != nil && !d.asking && d.mode != wire.ModeRealtime {
		return // it may be the board's own sound
	}
	d.sound.hear(e.Opus)
	event := d.ends.Packet(e.Opus)
	samples := d.ends.Samples()
	if d.ends.IsSpeaking() && a == nil {
		d.c.HeardSpeech()
	}
	switch {
	case d.asking, d.talk.FindsTurns():
		d.talk.Write(samples)
	case a == nil && event == endpoint.Began, a != nil && d.ends.IsSpeaking() && d.interrupts(a):
		d.keep(samples)
		d.begin()
		d.talk.Write(d.recent)
		d.recent = d.recent[:0]
	default:
		d.keep(samples)
	}
	if event == endpoint.Ended && d.mode != wire.ModeManual && !d.talk.FindsTurns() {
		d.commit()
	}
}

// interrupts stops an answer if the person has spoken long enough.
func (d *duplex) interrupts(a *duplexAnswer) bool {
	if d.ends.VoicedDuration() < bargeInVoice || a.playback.playedFor() < bargeInAfter {
		return false
	}
	d.c.StopPlayback()
	return true
}

// keep remembers the last sound.
func (d *duplex) keep(samples []int16) {
	const most = int(preroll * engine.Rate / time.Second)
	d.recent = append(d.recent, samples...)
	if over := len(d.recent) - most; over > 0 {
		d.recent = append(d.recent[:0], d.recent[over:]...)
	}
}

// commit has the bot answer what was said.
func (d *duplex) commit() {
	asked, voiced, sound := d.asking, d.ends.VoicedDuration(), d.sound.end()
	d.recent = d.recent[:0]
	d.ends.Reset()
	switch {
	case !asked:
	case voiced < endpoint.MinVoice && d.mode != wire.ModeManual && !d.talk.FindsTurns():
		d.asking = false
		d.talk.Clear()
	default:
		d.asking = false
		d.reply(sound)
	}
}

// duplexAnswer is an answer that the board plays.
type duplexAnswer struct {
	d        *duplex
	ctx      context.Context
	cancel   context.CancelCauseFunc
	playback *duplexPlayback
	last     atomic.Bool    // the conversation ends after it
	record   *turnRecording // nil: it is not recorded
	asked    string         // what the person said; only for ask
}

// reply plays the bot's answer to a question in the background. The board is told to expect sound
// at once.
func (d *duplex) reply(question *soundFile) {
	a := &duplexAnswer{d: d, playback: newDuplexPlayback(d.c), record: d.c.recording(d.settings())}
	if a.record != nil {
		a.record.question, a.playback.record = question, a.record.answer
	}
	a.ctx, a.cancel = context.WithCancelCause(d.ctx)
	generation, boards := d.c.Generation(), d.c.board.boards
	turn := newTurn(d.c.board.current(), d.c.Lang())
	turn.Spoken = &talk.Spoken{Conversation: d.talk, Playback: a.playback}
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
	answered := make(chan struct{})
	if !c.board.boards.spawn(func() {
		defer close(answered)
		a.ask(turn)
	}) {
		a.d.answer.CompareAndSwap(a, nil)
		return
	}
	stats, err := c.Speak(a.ctx, generation, a.playback.source())
	interrupted := errors.Is(err, pace.ErrAborted)
	a.playback.end(stats, interrupted)
	if interrupted {
		a.cancel(hub.ErrStopped)
	} else if err != nil {
		a.cancel(nil)
	}
	a.d.answer.CompareAndSwap(a, nil)
	<-answered
	if a.last.Load() && err == nil {
		c.End(errLeft)
	}
	a.record.keep(c, turn.ID, a.asked, a.playback.said)
}

// ask has the bot answer, and shows what the person said and what went wrong.
func (a *duplexAnswer) ask(turn *talk.Turn) {
	c := a.d.c
	err := c.board.boards.Hub.Answer(a.ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindTranscript:
			a.asked = e.Text
			a.last.Store(words.IsExit(e.Text))
			return c.ShowTranscript(e.Text)
		case talk.KindNote:
			return c.ShowText(strings.Join(spoken.Pieces(e.Text, c.Lang()), "\n"))
		}
		return nil
	})
	if f := talk.AsFailure(err); f != nil && !errors.Is(err, talk.ErrDisconnected) {
		a.playback.fail(f.Sentence(c.Lang()))
	}
	a.playback.Finish()
}
