package board

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// A run is one turn being answered: one bot at work, and the askers who listen.
// Mostly that is one; a repeated request makes it two; none are left when the
// asker went away or lost patience. The bot goes on then, and what it still says
// is kept as a late answer.
type run struct {
	board    *Board
	turn     *talk.Turn
	delivery talk.Delivery // of the turn
	started  time.Time
	ctx      context.Context
	cancel   context.CancelCauseFunc
	hungUp   chan struct{} // closed when nobody listens any more
	ended    chan struct{} // closed when everything is written down

	circumstances

	mu        sync.Mutex
	state     state
	instead   string // the kind of who answers in the bot's place; empty: the bot does
	listeners []*listener
	log       *course
	waited    time.Duration // for the bot's turn
	first     time.Duration // to the first piece
	heard     time.Time     // when the bot was last heard
	noted     time.Time     // when it last said how the work goes; zero: never
	pieces    int64
	bytes     int64
	told      int // how many of late have been told
	failure   *talk.Failure
	stopped   bool          // by ErrStopped; what it said is what it said
	parted    chan struct{} // closed when the trace of an abandoned run is written
	brokenAt  time.Time     // when the last listener was cut off; zero: that was not so
	endedAt   time.Time     // when the bot ended
	notAsked  bool          // the bot never was: the asker left the queue
	unheard   bool          // the answer is kept, to be told later
}

type state int

const (
	running   state = iota
	abandoned       // nobody listens; the trace says how that came
	over            // the bot has ended
)

// The outcomes that traces know.
const (
	outcomeDone   = "done"
	outcomeFailed = "failed"
	outcomeHungUp = "hung_up"
)

type listener struct {
	emit talk.Emit
	gone chan struct{} // closed when emit failed
}

func newListener(emit talk.Emit) *listener {
	return &listener{emit: emit, gone: make(chan struct{})}
}

// errTooLate ends a bot that nobody has been waiting for for too long.
var errTooLate = fmt.Errorf("%w, and the answer did not come in time to be told later", talk.ErrHungUp)

// maxAnswer bounds an answer, in bytes: a bot that never ends must not fill the
// memory, whether somebody still listens or not.
const maxAnswer = 8 << 20

var errEndless = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)

// errNobody ends a bot that still emits after its run is over.
var errNobody = errors.New("the turn is over")

func newRun(b *Board, turn *talk.Turn, c circumstances, l *listener) *run {
	now := time.Now()
	ctx, cancel := context.WithCancelCause(b.ctx)
	r := &run{
		ctx: ctx, cancel: cancel, board: b, turn: turn, circumstances: c, started: now, heard: now,
		hungUp: make(chan struct{}), ended: make(chan struct{}), parted: make(chan struct{}),
		listeners: []*listener{l},
	}
	r.log = b.courses.begin(r)
	return r
}

// work lets the bot answer and writes down how that ended.
func (r *run) work() {
	r.end(r.ask())
	r.cancel(nil)
}

// ask finds the bot and lets it answer. The bot may go on after the asker has
// gone, for as long as late answers are waited for.
func (r *run) ask() error {
	b := r.board
	ctx := r.ctx
	if kind, who := b.interposed(ctx, r.bot, r.turn); who != nil {
		r.mu.Lock()
		r.instead = kind
		r.mu.Unlock()
		return r.causeOf(who.Answer(ctx, r.turn, r.emit))
	}
	waits := sync.OnceFunc(func() {
		r.emit(talk.Note(talk.SayReconnecting.In(r.turn.Lang))) //nolint:errcheck // nobody listens any more
	})
	began := time.Now()
	for {
		t, err := b.target(ctx, r.bot, r.common, waits)
		if err != nil {
			return err
		}
		k, _ := b.Registry.kind(r.bot.Kind)
		if _, here := t.(*seat); !here || k.Connects {
			if err := b.keepPictures(ctx, r.turn); err != nil {
				return talk.Fail(talk.Internal, "", err)
			}
		}
		waited, err := t.answer(ctx, r.hungUp, r.turn, r.emit)
		between, moved := errors.Is(err, errBetween), errors.Is(err, talk.ErrMoved)
		if (between && time.Since(began) < moveWait || moved && time.Since(began) < b.Grace) && b.presence.moved(ctx) {
			continue // nobody has heard of the turn yet
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

// moveWait is how long a bot is looked for that moves from one instance to another: the
// one has let go of it, and the other has not heard of that yet.
const moveWait = 2 * time.Second

// causeOf says in an error how it came that the answer was stopped, if it was.
func (r *run) causeOf(err error) error {
	if cause := context.Cause(r.ctx); err != nil && cause != nil {
		switch {
		case errors.Is(cause, ErrStopping):
			return talk.Fail(talk.Lost, "", cause)
		case r.removed():
			return talk.Fail(talk.Offline, "", cause)
		}
		return talk.Fail(talk.TimedOut, "", cause)
	}
	return err
}

// emit takes a piece from the bot. It is called by one goroutine at a time.
func (r *run) emit(e talk.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == over {
		return errNobody
	}
	now := time.Now()
	r.heard = now
	if !r.wanted(&e) {
		return nil
	}
	if r.bytes+int64(len(e.Text)) > maxAnswer {
		return errEndless
	}
	r.log.add(e)
	if e.Kind == talk.KindNote {
		r.noted = now
	} else {
		if r.first == 0 {
			r.first = now.Sub(r.started)
		}
		r.pieces++
		r.bytes += int64(len(e.Text))
	}
	if e.Kind == talk.KindText {
		r.tellLate() // before the first words; a command must stay the first thing a device gets
	}
	r.deliver(e)
	return nil
}

// wanted drops what says nothing or what the device cannot do.
func (r *run) wanted(e *talk.Event) bool {
	switch e.Kind {
	case talk.KindText, talk.KindNote:
		return e.Text != ""
	case talk.KindCommand:
		if e.Command == nil || !r.turn.Can(e.Command.Name) {
			r.board.Logger.Warn("a bot sent a command that the device does not know", "bot", r.turn.Bot, "turn", r.turn.ID)
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

// deliver hands an event to everybody who listens. With mu held.
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

// tellLate tells the answers of earlier turns that were not heard, unless it is
// not the bot that speaks: they belong to the conversation with the bot, and go on
// waiting for it. With mu held.
func (r *run) tellLate() {
	if r.instead != "" {
		return
	}
	for r.told < len(r.late) && len(r.listeners) > 0 {
		e := r.late[r.told]
		r.deliver(talk.Note(talk.SayLate.In(r.turn.Lang) + e.Answer + "\n\n"))
		if len(r.listeners) == 0 {
			return // nobody heard it
		}
		r.told++
	}
}

// listen waits until the run is over or the asker's patience is. The events come
// to the listener meanwhile.
func (r *run) listen(ctx context.Context, l *listener) error {
	first := orDefault(time.Duration(r.common.FirstPiece), r.board.FirstPiece)
	idle := orDefault(time.Duration(r.common.Idle), r.board.Idle)
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
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
			r.leave(ctx, nil)
			return talk.ErrHungUp
		case <-ctx.Done():
			r.leave(ctx, l)
			return talk.ErrHungUp
		case <-timer.C:
			if left := r.patience(first, idle); left > 0 {
				timer.Reset(left)
				continue
			}
			r.part(l, outcomeFailed, talk.TimedOut, "")
			return talk.Fail(talk.TimedOut, "", nil)
		}
	}
}

// patience is how much longer an asker waits for the next piece.
func (r *run) patience(first, idle time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == over {
		return time.Second // the last words are being written down
	}
	if r.first == 0 {
		until := r.started.Add(first)
		if later := r.noted.Add(idle); later.After(until) {
			until = later // it is at work, and says so
		}
		return time.Until(until)
	}
	return time.Until(r.heard.Add(idle))
}

// end writes down how the bot ended and lets the askers go.
func (r *run) end(err error) {
	defer close(r.ended)
	defer r.board.courses.end(r.log)
	r.mu.Lock()
	if err == nil && r.log.empty() {
		err = talk.Fail(talk.NoAnswer, "", nil)
	}
	r.failure = talk.AsFailure(err)
	r.stopped = err != nil && errors.Is(context.Cause(r.ctx), ErrStopped)
	defer func() { r.log.end(r.failure, r.stopped) }()
	was := r.state
	r.state, r.endedAt = over, r.board.Now()
	r.notAsked = r.first == 0 && errors.Is(err, talk.ErrHungUp)
	answer := r.log.text()
	switch {
	case was == abandoned:
		if len(r.listeners) > 0 {
			r.tellLate()
		}
		heard, resumed := r.late[:r.told], len(r.listeners) > 0
		r.listeners = nil
		r.unheard = !resumed
		r.mu.Unlock()
		<-r.parted
		r.endLate(answer, heard, resumed)
	case len(r.listeners) == 0 || r.stopped: // they went away just now
		r.listeners = nil
		if !r.stopped {
			r.brokenAt, r.unheard = r.endedAt, true
		}
		tr, e := r.trace(outcomeHungUp, "", r.cause()), r.lateExchange(answer)
		heard := r.late[:r.told]
		r.mu.Unlock()
		r.board.finish(tr, e, heard) //nolint:errcheck // nobody is there to be told
		r.push(e)
	default:
		r.tellLate() // if a command came first, or nothing did
		r.listeners = nil
		outcome, code := outcomeDone, talk.Code("")
		if r.failure != nil {
			outcome, code = outcomeFailed, r.failure.Code
		}
		tr, e := r.trace(outcome, code, r.cause()), r.exchange(answer, false)
		heard := r.late[:r.told]
		r.mu.Unlock()
		if err := r.board.finish(tr, e, heard); err != nil && r.failure == nil {
			r.mu.Lock()
			r.failure = talk.Fail(talk.NotKept, "", err)
			r.mu.Unlock()
		}
	}
}

// causeResumed is in the trace of a turn whose connection broke and came back.
const causeResumed = "the connection broke; the same request came again and got the answer"

// endLate adds to the trace of an abandoned turn how the bot ended, and keeps
// its answer. Resumed says that somebody came back to hear it.
func (r *run) endLate(answer string, heard []store.Exchange, resumed bool) {
	b := r.board
	e, cause := r.lateExchange(answer), r.cause()
	if resumed {
		e = r.exchange(answer, false)
		if cause == "" {
			cause = causeResumed
		}
	}
	kept := ""
	if r.keepsContent() {
		kept = answer
	}
	end := &turnEnd{Late: &lateEnd{r.turn.ID, time.Since(r.started), cause, kept}, Exchange: e}
	if resumed {
		end.Heard = turnsOf(heard)
	}
	if b.ends.keep(end) != nil {
		return // it has been logged, and what is not kept cannot be told later
	}
	b.records.added()
	r.push(e)
}

// push delivers a late answer, if there is one.
func (r *run) push(e *store.Exchange) {
	if e != nil && e.Unheard {
		r.board.pushLate(r.bot, Late{r.turn, e.Answer})
	}
}

// cause is why the bot failed, for the owner.
func (r *run) cause() string {
	switch {
	case r.stopped:
		return ErrStopped.Error()
	case r.failure == nil:
		return ""
	}
	return r.failure.Error()
}

// lateExchange is the exchange of an answer that nobody heard. Half an answer is
// not worth telling later, unless it was stopped: then it is all there is, and known.
func (r *run) lateExchange(answer string) *store.Exchange {
	if r.stopped {
		return r.exchange(answer, false)
	}
	if r.failure != nil {
		return nil
	}
	return r.exchange(answer, true)
}

// exchange is how history keeps the turn; nil if there is nothing to keep, nobody
// to keep it for, or if it was not the bot that spoke. With mu held, or after the
// end.
func (r *run) exchange(answer string, unheard bool) *store.Exchange {
	if r.turn.Person == "" || answer == "" || r.instead != "" || r.removed() {
		return nil
	}
	return &store.Exchange{
		Turn: r.turn.ID, Bot: r.turn.Bot, Person: r.turn.Person, Conversation: r.turn.Conversation,
		At: r.started, Question: question(r.turn), Answer: answer, Unheard: unheard,
	}
}

var sayImage = talk.Say{Zh: "[图片]", En: "[picture]"}

// Pictured is a question of history without the words that stand for pictures, and how
// many of those there were. Who types just these words at the end is taken at them.
func Pictured(question string) (text string, pictures int) {
	for {
		rest, last := "", question
		if i := strings.LastIndexByte(question, '\n'); i >= 0 {
			rest, last = question[:i], question[i+1:]
		}
		if last != sayImage.Zh && last != sayImage.En {
			return question, pictures
		}
		question, pictures = rest, pictures+1
	}
}

// question is what was asked, as history keeps it.
func question(t *talk.Turn) string {
	text := t.Text()
	for range t.Images() {
		if text != "" {
			text += "\n"
		}
		text += sayImage.In(t.Lang)
	}
	return text
}

// trace is the record of the turn so far. With mu held.
func (r *run) trace(outcome string, code talk.Code, cause string) store.Trace {
	kind := r.bot.Kind
	if r.instead != "" {
		kind = r.instead
	}
	tr := store.Trace{
		Turn: r.turn.ID, Bot: r.turn.Bot, Owner: r.bot.Owner, Kind: kind, Door: r.turn.Door,
		Person: r.turn.Person, Asker: r.turn.Asker, Conversation: r.turn.Conversation, Instance: r.board.Bus.Instance,
		At: r.started, Queue: r.waited, First: r.first, Total: time.Since(r.started),
		Pieces: r.pieces, Bytes: r.bytes, Outcome: outcome, Code: string(code), Cause: cause,
	}
	if r.keepsContent() {
		tr.Question, tr.Answer = question(r.turn), r.log.text()
	}
	return tr
}

func (r *run) keepsContent() bool {
	if keep := r.common.KeepContent; keep != nil {
		return *keep
	}
	return r.board.KeepContent
}
