package realtime

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

// maxSound limits the sound of an answer, in bytes: four minutes.
const maxSound = 4 * 60 * 2 * talk.SpeakingRate

// maxEvents is how many events wait for an exchange. The session waits when there are more.
const maxEvents = 64

// exchange is a turn: a question and its answer. Fields after mu are guarded by that of the
// conversation, the others belong to the goroutine of run.
type exchange struct {
	c        *conversation
	bot      *Bot
	turn     *talk.Turn
	emit     talk.Emit
	playback talk.Playback // nil: the answer is written
	ctx      context.Context
	events   chan realtime.Event
	early    []realtime.Event // that came before the turn
	lost     chan error       // gets one value: no session has the exchange
	done     chan struct{}    // closed when run has returned

	samples    int  // of the conversation, that ask
	begun      bool // an event of the answer came
	retried    bool
	unasked    bool // the service answers by itself
	item       string
	transcript string // what the person said; empty: not known

	response string // the id of the running response; empty: none
	waits    bool   // a response is expected
	finished bool   // the answer is complete, and may still play
	cut      bool   // the person has interrupted it
	heard    strings.Builder
	spoken   []spokenItem
	sound    int // bytes so far
	calls    calls
	quiet    *time.Timer
	reported *engine.Error // an error of the service while a response was expected
}

// spokenItem is a message of the answer, with its part of the sound in bytes.
type spokenItem struct {
	id          string
	begin, size int
}

func newExchange(ctx context.Context, c *conversation, b *Bot, turn *talk.Turn, emit talk.Emit) *exchange {
	x := &exchange{c: c, bot: b, turn: turn, emit: emit, ctx: ctx, events: make(chan realtime.Event, maxEvents),
		lost: make(chan error, 1), done: make(chan struct{}), waits: true, quiet: time.NewTimer(b.limits.first)}
	if turn.Spoken != nil {
		x.playback = turn.Spoken.Playback
	}
	return x
}

// question returns what the person asked, as far as it is known. Requires mu.
func (x *exchange) question() string {
	if x.playback == nil {
		return x.turn.Text()
	}
	return x.transcript
}

// queue queues the question. Requires mu.
func (x *exchange) queue() {
	c := x.c
	spelling, config := x.bot.options.Spelling, x.bot.settings.session(x.bot.options.Spelling)
	switch {
	case x.playback == nil:
		var pictures []string
		for _, im := range x.turn.Images() {
			pictures = append(pictures, "data:"+im.MIME+";base64,"+base64.StdEncoding.EncodeToString(im.Data))
		}
		c.outbox = append(c.outbox, realtime.PersonSaid(x.turn.Text(), pictures...))
	case config.Detection == "":
		x.samples = len(c.said)
		c.outbox = append(c.outbox, realtime.CommitAudio())
	case config.AnswersUnasked(spelling):
		x.unasked = true
		return
	}
	c.outbox = append(c.outbox, realtime.Respond())
}

// retry queues the question again for another session, and reports whether that makes sense.
// Requires mu.
func (x *exchange) retry() bool {
	again := !x.begun && !x.retried
	x.retried = true
	return again
}

// fail ends the exchange. It is called by the goroutine of the conversation.
func (x *exchange) fail(err error) {
	select {
	case x.lost <- err:
	default: // it has failed already
	}
}

// take gets an event. It is called by the goroutine of the conversation.
func (x *exchange) take(s *session, e *realtime.Event) {
	switch e.Type {
	case realtime.ResponseCreated, realtime.Audio, realtime.OutputText, realtime.ArgumentsDone:
		x.c.mu.Lock()
		if !x.begun {
			x.begun = true
			x.c.consumed(x.samples)
			x.samples = 0
		}
		x.c.mu.Unlock()
	}
	select {
	case x.events <- *e:
	case <-x.done:
	case <-s.c.ctx.Done():
	}
}

// run returns when the answer was heard, with the error of the context, of emit, or an
// [*engine.Error].
func (x *exchange) run(ctx context.Context) error {
	defer x.calls.stop()
	defer x.quiet.Stop()
	if x.playback != nil {
		defer x.playback.Finish()
	}
	err := x.converse(ctx)
	failed, ok := errors.AsType[*engine.Error](err)
	if ok = ok && x.playback != nil; ok {
		x.playback.Fail(failure(failed, x.turn.Lang))
	}
	switch {
	case err != nil && (ctx.Err() != nil || x.cut || x.response != ""):
		x.takeBack()
	case ok: // the person hears what is there
		x.playback.Finish()
		for text := range x.playback.Heard() {
			x.heard.WriteString(text)
			if x.emit(talk.Text(text)) != nil {
				break
			}
		}
	}
	return err
}

func (x *exchange) converse(ctx context.Context) error {
	var heard <-chan string
	if x.playback != nil {
		heard = x.playback.Heard()
	}
	for i := range x.early {
		if err := x.onEvent(&x.early[i]); err != nil {
			return err
		}
	}
	for {
		select {
		case e := <-x.events:
			if err := x.onEvent(&e); err != nil {
				return err
			}
		case text, ok := <-heard:
			if !ok {
				if heard = nil; !x.wasWhole(ctx) {
					return cmp.Or(context.Cause(ctx), talk.ErrDisconnected)
				}
				break
			}
			x.heard.WriteString(text)
			if err := x.emit(talk.Text(text)); err != nil {
				return err
			}
		case r := <-x.calls.results:
			x.onResult(r)
		case <-x.calls.slow:
			x.calls.slow = nil
			if err := x.emit(talk.Note(msgUsing.In(x.turn.Lang, x.calls.titles()))); err != nil {
				return err
			}
		case err := <-x.lost:
			return err
		case <-x.c.done:
			return engine.Errorf(engine.Closed, "the conversation is over")
		case <-x.quiet.C:
			switch {
			case x.finished:
				x.c.mu.Lock()
				x.item = "" // its transcript will not come
				x.c.mu.Unlock()
			case x.reported != nil:
				return x.reported
			case x.waits || x.response != "":
				return errSilent
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if x.finished && heard == nil && (x.item == "" || x.transcript != "") {
			return nil
		}
	}
}

var (
	errSilent    = engine.Errorf(engine.Timeout, "the model did not answer in time")
	errTooLong   = engine.Errorf(engine.Broken, "the answer is longer than four minutes")
	errManyCalls = engine.Errorf(engine.Broken, "the model calls tools again and again")
)

// wasWhole reports whether the person has heard the whole answer. If not, it waits a moment for the
// hub to stop the turn, which tells why.
func (x *exchange) wasWhole(ctx context.Context) bool {
	if _, whole := x.playback.Played(ctx); whole {
		return true
	}
	x.cut = true
	_ = netx.Wait(ctx, x.bot.limits.grace)
	return false
}

// onEvent handles an event of the service.
func (x *exchange) onEvent(e *realtime.Event) error {
	switch e.Type {
	case realtime.Committed:
		x.item = e.ItemID
	case realtime.InputDone:
		if x.playback != nil && (e.ItemID == x.item || x.item == "") {
			x.c.mu.Lock()
			x.transcript = strings.TrimSpace(e.Text)
			x.c.mu.Unlock()
			x.item = ""
			return x.emit(talk.Transcript(x.transcript))
		}
	case realtime.InputFailed:
		x.item = "" // what was said stays unknown
	case realtime.ResponseCreated:
		if x.waits {
			x.response, x.waits, x.reported = e.ResponseID, false, nil
			x.quiet.Reset(x.bot.limits.next)
		}
	case realtime.Failed:
		if x.waits { // it may be about something else
			x.reported = e.Err.In()
			x.quiet.Reset(x.bot.limits.grace)
		}
	}
	if x.response == "" || e.ResponseID != x.response {
		return nil
	}
	x.quiet.Reset(x.bot.limits.next)
	return x.onAnswer(e)
}

// onAnswer handles an event of the running response.
func (x *exchange) onAnswer(e *realtime.Event) error {
	switch e.Type {
	case realtime.Audio:
		if n := len(x.spoken); n == 0 || x.spoken[n-1].id != e.ItemID {
			x.spoken = append(x.spoken, spokenItem{e.ItemID, x.sound, 0})
		}
		x.spoken[len(x.spoken)-1].size += len(e.Sound)
		if x.sound += len(e.Sound); x.sound > x.bot.limits.sound {
			return errTooLong
		}
		if x.playback != nil {
			return x.playback.Play(e.Sound)
		}
	case realtime.AudioText, realtime.OutputText:
		if x.playback != nil {
			x.playback.Text(e.Text)
			return nil
		}
		x.heard.WriteString(e.Text)
		return x.emit(talk.Text(e.Text))
	case realtime.ArgumentsDone:
		x.calls.add(call{id: e.CallID, name: e.Name, arguments: e.Text})
	case realtime.ResponseDone:
		x.response = ""
		return x.responded(e)
	}
	return nil
}

// responded handles the end of a response.
func (x *exchange) responded(e *realtime.Event) error {
	switch {
	case e.Err != nil:
		return e.Err.In()
	case e.Status == realtime.Cancelled:
		return engine.Errorf(engine.Broken, "the service canceled the answer")
	case x.calls.begin(x):
		return nil
	}
	x.finished = true
	x.quiet.Reset(x.bot.limits.grace)
	if x.playback != nil {
		x.playback.Finish()
	}
	return nil
}

// takeBack stops the answer, and takes back what the person did not hear. It waits a moment for the
// end of the response, because the service refuses to begin another one before.
func (x *exchange) takeBack() {
	x.calls.stop()
	limited, cancel := context.WithTimeout(x.c.ctx, x.bot.limits.grace)
	defer cancel()
	if x.response != "" || x.waits && x.hasBegun() {
		x.c.send(realtime.Cancel())
	}
	for _, id := range x.calls.unanswered() {
		x.c.send(realtime.CallResult(id, resultInterrupted))
	}
	if x.playback != nil {
		x.playback.Stop()
		played, _ := x.playback.Played(limited)
		x.truncate(played)
		for text := range x.playback.Heard() {
			x.heard.WriteString(text)
		}
	}
	for x.response != "" || x.waits && x.hasBegun() {
		select {
		case e := <-x.events:
			if x.waits && e.Type == realtime.ResponseCreated {
				x.response, x.waits = e.ResponseID, false
				x.c.send(realtime.Cancel())
			}
			if e.Type == realtime.ResponseDone && e.ResponseID == x.response {
				x.response = ""
			}
		case <-x.lost:
			return
		case <-limited.Done():
			return
		}
	}
}

func (x *exchange) hasBegun() bool {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	return x.begun
}

// truncate takes back the sound after a time.
func (x *exchange) truncate(played time.Duration) {
	if !x.bot.options.Spelling.CanTruncate() {
		return
	}
	at := int(played * talk.SpeakingRate / time.Second * 2)
	for _, item := range x.spoken {
		if at < item.begin+item.size {
			heard := max(at-item.begin, 0) / 2 * 1000 / talk.SpeakingRate
			x.c.send(realtime.Truncate(item.id, int64(heard)))
		}
	}
}
