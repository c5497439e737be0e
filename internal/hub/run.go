package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tracing"
)

// run is a turn that is being answered, and the askers that listen to it. Usually that is one; a
// repeated request adds a second. None are left once the asker has disconnected or its timeout
// has passed; the bot then continues, and its answer is stored as a late answer.
type run struct {
	hub          *Hub
	turn         *talk.Turn
	delivery     talk.Delivery // of the turn
	started      time.Time
	ctx          context.Context
	cancel       context.CancelCauseFunc
	span         tracing.Span
	disconnected chan struct{} // closed when no asker listens any more
	ended        chan struct{} // closed when everything is recorded
	decided      chan struct{} // closed when it is known whether the question is certain
	revised      error         // why it is not; read after decided

	turnContext

	mu             sync.Mutex
	state          state
	said           string // what the person said in a turn by sound, once it is known
	interceptedBy  string // kind of the interceptor that answers instead of the bot; empty: none
	listeners      []*listener
	active         *activeTurn
	waited         time.Duration // in the bot's queue
	first          time.Duration // to the first piece
	lastEventAt    time.Time     // when the bot last sent an event
	lastNoteAt     time.Time     // when it last sent a progress note; zero: never
	reminder       *time.Timer   // tells again that the asker waits; nil: they do not
	pieces         int64
	bytes          int64
	models         []store.ModelUse // requests of the bot to its model, at most maxModelUses
	lateSent       int              // how many of late have been delivered
	failure        *talk.Failure
	stopped        bool          // by talk.ErrStopped; the answer so far is the answer
	detached       chan struct{} // closed when the trace of an abandoned run is written
	disconnectedAt time.Time     // when the last listener disconnected; zero: none did
	endedAt        time.Time     // when the bot ended
	notAsked       bool          // the asker left the queue before the bot was asked
	undelivered    bool          // the answer is stored for later delivery
}

type state int

const (
	running   state = iota
	abandoned       // no listeners; the trace has the reason
	over            // the bot has ended
)

// Outcomes of turns in traces.
const (
	outcomeDone         = "done"
	outcomeFailed       = "failed"
	outcomeDisconnected = "disconnected"
)

type listener struct {
	emit talk.Emit
	gone chan struct{} // closed when emit failed
}

func newListener(emit talk.Emit) *listener {
	return &listener{emit: emit, gone: make(chan struct{})}
}

// errTooLate stops a bot whose answer is no longer waited for.
var errTooLate = fmt.Errorf("%w, and the answer did not come in time to be told later", talk.ErrDisconnected)

// maxAnswer is the size limit of an answer in bytes, so that a bot that never ends does not fill
// the memory.
const maxAnswer = 8 << 20

var errAnswerTooLong = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)

// errTurnOver stops a bot that emits after its run has ended.
var errTurnOver = errors.New("the turn is over")

// newRun returns the run of a turn. It outlives the context of its asker, but is part of its trace.
func newRun(asker context.Context, h *Hub, turn *talk.Turn, c turnContext, l *listener) *run {
	now := time.Now()
	ctx, cancel := context.WithCancelCause(h.ctx)
	ctx, span := h.traceTurn(ctx, asker, turn, c.bot)
	r := &run{
		ctx: ctx, cancel: cancel, span: span, hub: h, turn: turn, turnContext: c, started: now, lastEventAt: now,
		disconnected: make(chan struct{}), ended: make(chan struct{}), detached: make(chan struct{}),
		decided: make(chan struct{}), listeners: []*listener{l},
	}
	r.active = newActiveTurn(r)
	turn.UsesModel = r.recordModel
	if turn.Commit == nil {
		r.decide()
	} else {
		h.work.Go(r.decide)
	}
	return r
}

// work runs the bot and records the outcome.
func (r *run) work() {
	if r.turn.Commit == nil {
		r.beginRunning()
	}
	r.end(r.askBot())
	r.cancel(nil)
}

// askBot finds the bot and asks it. After the asker has disconnected the bot may continue until
// LateTimeout.
func (r *run) askBot() error {
	h := r.hub
	ctx := r.ctx
	if kind, who := h.findInterceptor(ctx, r.bot, r.turn); who != nil {
		r.mu.Lock()
		r.interceptedBy = kind
		r.mu.Unlock()
		if err := r.certain(); err != nil {
			return err
		}
		return r.causeOf(who.Answer(ctx, r.turn, r.emit))
	}
	count, err := r.takeQuestion()
	if err != nil {
		return err
	}
	defer count()
	onWait := sync.OnceFunc(func() {
		r.emit(talk.Waiting(talk.MsgReconnecting.In(r.turn.Lang))) //nolint:errcheck // no asker listens any more
	})
	began := time.Now()
	for {
		t, err := h.target(ctx, r.bot, r.common, onWait)
		if err != nil {
			return err
		}
		k, _ := h.Registry.Kind(r.bot.Kind)
		if !k.Speculative {
			if err := r.certain(); err != nil {
				return err
			}
		}
		if _, here := t.(*slot); !here || k.Inbound {
			if err := h.storeImages(ctx, r.turn); err != nil {
				return talk.Fail(talk.Internal, "", err)
			}
		}
		waited, err := t.answer(ctx, r.disconnected, r.turn, r.emit)
		between, moved := errors.Is(err, errMoving), errors.Is(err, talk.ErrMoved)
		if (between && time.Since(began) < moveTimeout || moved && time.Since(began) < h.ReconnectGrace) &&
			h.presence.waitMoved(ctx) {
			continue // no bot has received the turn yet
		}
		if moved {
			err = talk.Fail(talk.Offline, "", err)
		}
		r.mu.Lock()
		r.waited = waited
		r.mu.Unlock()
		return r.causeOf(err)
	}
}

// moveTimeout is how long to look for a bot that moves between instances: the old instance has
// released it, and the new one has not announced it yet.
const moveTimeout = 2 * time.Second

// causeOf adds to err why the answer was stopped, if it was.
func (r *run) causeOf(err error) error {
	if cause := context.Cause(r.ctx); err != nil && cause != nil {
		switch {
		case errors.Is(cause, ErrStopping):
			return talk.Fail(talk.Lost, "", cause)
		case r.isBotRemoved():
			return talk.Fail(talk.Offline, "", cause)
		}
		return talk.Fail(talk.TimedOut, "", cause)
	}
	return err
}

// emit takes an event of the bot. It is called by one goroutine at a time.
func (r *run) emit(e talk.Event) error {
	if e.Kind == talk.KindCommand {
		if err := r.certain(); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == over {
		return errTurnOver
	}
	now := time.Now()
	r.lastEventAt = now
	switch e.Kind {
	case talk.KindTranscript:
		r.understood(e)
		return nil
	case talk.KindComplete:
		r.keep(runningChange{runningState: runningState{Complete: true}})
		return nil
	}
	if !r.accept(&e) {
		return nil
	}
	if r.bytes+int64(len(e.Text)) > maxAnswer {
		return errAnswerTooLong
	}
	r.active.add(e)
	if e.Kind == talk.KindNote {
		r.lastNoteAt = now
	} else {
		if r.first == 0 {
			r.first = now.Sub(r.started)
		}
		r.pieces++
		r.bytes += int64(len(e.Text))
	}
	if e.Kind == talk.KindText {
		r.sendLate() // before the first words; a command must stay the first thing a device gets
	}
	r.deliver(e)
	if e.Mark > 0 {
		change := runningChange{runningState: runningState{Mark: e.Mark}}
		if len(r.listeners) == 0 {
			change.Untold = e.Text
		}
		r.keep(change)
	}
	r.remind(e.Waiting)
	return nil
}

// accept reports whether an event is delivered: empty ones, and commands that the device does not
// support, are dropped.
func (r *run) accept(e *talk.Event) bool {
	switch e.Kind {
	case talk.KindText, talk.KindNote:
		return e.Text != ""
	case talk.KindCommand:
		if e.Command == nil || !r.turn.Can(e.Command.Name) {
			r.hub.Logger.Warn("a bot sent a command that the device does not know", "bot", r.turn.Bot,
				"turn", r.turn.ID)
			return false
		}
		return true
	case talk.KindSuggest:
		const most = 3
		if len(e.Suggest) > most {
			e.Suggest = e.Suggest[:most]
		}
		return len(e.Suggest) > 0
	}
	return false
}

// deliver sends an event to all listeners. Requires mu.
func (r *run) deliver(e talk.Event) {
	for i := 0; i < len(r.listeners); {
		l := r.listeners[i]
		if l.emit(e) != nil {
			close(l.gone)
			r.listeners = append(r.listeners[:i], r.listeners[i+1:]...)
			continue
		}
		i++
	}
}

// sendLate delivers the late answers of earlier turns, unless an interceptor answers: they belong
// to the conversation with the bot. Requires mu.
func (r *run) sendLate() {
	if r.interceptedBy != "" {
		return
	}
	for r.lateSent < len(r.late) && len(r.listeners) > 0 {
		e := r.late[r.lateSent]
		r.deliver(talk.Note(talk.MsgLate.In(r.turn.Lang) + e.Answer + "\n\n"))
		if len(r.listeners) == 0 {
			return // no listener received it
		}
		r.lateSent++
		r.keep(runningChange{runningState: runningState{Delivered: []string{e.Turn}}})
	}
}

// listen waits until the run ends or the asker's timeout passes. The listener gets the events
// meanwhile.
func (r *run) listen(ctx context.Context, l *listener) error {
	first := orDefault(time.Duration(r.common.FirstPiece), r.hub.FirstPieceTimeout)
	idle := orDefault(time.Duration(r.common.Idle), r.hub.IdleTimeout)
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
			if r.revised != nil {
				return talk.ErrRevised
			}
			if r.notAsked {
				return errNotAsked
			}
			if r.stopped {
				return errStoppedByAnother
			}
			if r.failure != nil {
				return r.failure
			}
			return nil
		case <-l.gone:
			return r.detachAsker(ctx, nil)
		case <-ctx.Done():
			return r.detachAsker(ctx, l)
		case <-timer.C:
			if left := r.timeLeft(first, idle); left > 0 {
				timer.Reset(left)
				continue
			}
			r.detach(l, outcomeFailed, talk.TimedOut, "")
			return talk.Fail(talk.TimedOut, "", nil)
		}
	}
}

// timeLeft returns how much longer an asker waits for the next event.
func (r *run) timeLeft(first, idle time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == over {
		return time.Second // the outcome is being recorded
	}
	if r.first == 0 {
		until := r.started.Add(first)
		if later := r.lastNoteAt.Add(idle); later.After(until) {
			until = later // its progress notes extend the wait
		}
		return time.Until(until)
	}
	return time.Until(r.lastEventAt.Add(idle))
}

// end records how the bot ended and releases the askers.
func (r *run) end(err error) {
	defer close(r.ended)
	defer r.endRunning()
	defer r.endSpan()
	defer r.hub.activeTurns.removeLater(r.active)
	r.mu.Lock()
	if err == nil && r.active.empty() {
		err = talk.Fail(talk.NoAnswer, "", nil)
	}
	r.failure = talk.AsFailure(err)
	r.stopped = err != nil && errors.Is(context.Cause(r.ctx), talk.ErrStopped)
	defer func() { r.active.end(r.failure, r.stopped) }()
	was := r.state
	r.state, r.endedAt = over, r.hub.Now()
	r.remind(false)
	r.notAsked = r.first == 0 && errors.Is(err, talk.ErrDisconnected)
	left := len(r.listeners) == 0 // before it was played
	r.mu.Unlock()
	certain := r.certain()
	answer := r.heard(err == nil || r.stopped)
	r.mu.Lock()
	switch {
	case certain != nil: // nobody has asked that
		r.failure, r.stopped, r.notAsked = nil, true, true
		r.listeners = nil
		r.mu.Unlock()
	case was == abandoned:
		if len(r.listeners) > 0 {
			r.sendLate()
		}
		heard, resumed := r.late[:r.lateSent], len(r.listeners) > 0
		r.listeners = nil
		r.undelivered = !resumed
		r.mu.Unlock()
		<-r.detached
		r.endLate(answer, heard, resumed)
	case left || r.stopped: // they have just disconnected
		r.listeners = nil
		if !r.stopped {
			r.disconnectedAt, r.undelivered = r.endedAt, true
		}
		tr, e := r.trace(outcomeDisconnected, "", r.cause()), r.lateExchange(answer)
		heard := r.late[:r.lateSent]
		r.mu.Unlock()
		if r.hub.finish(tr, e, heard) == nil {
			r.endRunning() // what is stored is not cut off by the end of a push
		}
		r.push(e)
	default:
		r.sendLate() // if there was no text before
		r.listeners = nil
		outcome, code := outcomeDone, talk.Code("")
		if r.failure != nil {
			outcome, code = outcomeFailed, r.failure.Code
		}
		tr, e := r.trace(outcome, code, r.cause()), r.exchange(answer, false)
		heard := r.late[:r.lateSent]
		r.mu.Unlock()
		if err := r.hub.finish(tr, e, heard); err != nil && r.failure == nil {
			r.mu.Lock()
			r.failure = talk.Fail(talk.NotSaved, "", err)
			r.mu.Unlock()
		}
	}
}

// causeResumed is the cause in the trace of a turn whose asker reconnected and got the answer.
const causeResumed = "the connection broke; the same request came again and got the answer"

// endLate completes the trace of an abandoned turn and stores its answer. Resumed means that an
// asker reconnected and got the answer.
func (r *run) endLate(answer string, heard []store.Exchange, resumed bool) {
	h := r.hub
	e, cause := r.lateExchange(answer), r.cause()
	if resumed {
		e = r.exchange(answer, false)
		if cause == "" {
			cause = causeResumed
		}
	}
	kept := ""
	if r.keepContent() {
		kept = answer
	}
	r.mu.Lock()
	models := r.models
	r.mu.Unlock()
	end := &turnEnd{Exchange: e,
		Late: &lateEnd{Turn: r.turn.ID, After: time.Since(r.started), Cause: cause, Answer: kept,
			Models: models}}
	if resumed {
		end.Delivered = turnIDs(heard)
	}
	if h.turnJournal.save(end) != nil {
		return // it has been logged, and an answer that is not stored cannot be delivered later
	}
	r.endRunning() // what is stored is not cut off by the end of a push
	h.records.notify()
	r.push(e)
}

// push sends a late answer to the asker, if there is one.
func (r *run) push(e *store.Exchange) {
	if e != nil && e.Undelivered {
		r.hub.pushLate(r.bot, Late{r.turn, e.Answer})
	}
}
