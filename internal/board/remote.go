package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/talk"
)

// A turn crosses the bus like this. The asker's instance publishes an order to
// the bot's subject, with an inbox to reply to. Whoever holds the bot publishes
// parcels to the inbox, numbered from 1: its name first, then an event each, or nothing if there
// was none for a while, the last one with End set. A gap in the numbers, or the holder's death or
// silence, breaks the answer off. The asker's hanging up, and giving up, go to a subject of the
// holder's own.

type order struct {
	Asker string     `json:"asker"`
	Turn  *talk.Turn `json:"turn"`
}

type parcel struct {
	N       int           `json:"n"`
	Holder  string        `json:"holder,omitempty"`
	Event   *talk.Event   `json:"e,omitempty"`
	End     bool          `json:"end,omitempty"`
	Waited  time.Duration `json:"waited,omitempty"`
	Failure *talk.Failure `json:"failure,omitempty"`
	HungUp  bool          `json:"hung_up,omitempty"` // ended because the asker had gone
	Moved   bool          `json:"moved,omitempty"`   // ended because the bot is somewhere else now
}

type farewell struct {
	Turn string `json:"turn"`
	Give bool   `json:"give_up,omitempty"` // not only gone, but wants the bot stopped
}

func turnSubject(bot int64) string         { return fmt.Sprintf("turn.%d", bot) }
func hangupSubject(instance string) string { return "hangup." + instance }

var (
	errAskerLost = errors.New("the asker's instance is gone")
	errLostPiece = errors.New("a piece of the answer was lost on the bus")
	// errBetween is told who asks while a bot moves from one instance to another.
	errBetween = talk.Fail(talk.Offline, "", errors.New("no instance takes turns for the bot at the moment"))
)

// parcelBuffer is how many parcels of one answer may wait for a slow asker
// before the bus drops some, which the numbers show.
const parcelBuffer = 8192

// remote is a bot that another instance holds.
type remote struct {
	board *Board
	bot   int64
}

func (t *remote) answer(ctx context.Context, hungUp <-chan struct{}, turn *talk.Turn, emit talk.Emit) (time.Duration, error) {
	b := t.board
	text, err := json.Marshal(order{b.Bus.Instance, turn})
	if err != nil {
		return 0, talk.Fail(talk.Internal, "", err)
	}
	parcels := make(chan *nats.Msg, parcelBuffer)
	inbox, sub, err := b.Bus.Inbox(parcels)
	if err != nil {
		return 0, talk.Fail(talk.Internal, "", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	if err := b.Bus.PublishRequest(turnSubject(t.bot), inbox, text); err != nil {
		return 0, talk.Fail(talk.Internal, "", err)
	}
	return t.receive(ctx, hungUp, turn.ID, parcels, emit)
}

// receive takes the parcels of one answer until the last.
func (t *remote) receive(ctx context.Context, hungUp <-chan struct{}, turn string, parcels <-chan *nats.Msg, emit talk.Emit) (time.Duration, error) {
	holder, silent := "", 0
	alive := time.NewTicker(acceptWait)
	defer alive.Stop()
	lost, forget := t.board.presence.watch()
	defer forget()
	for next := 1; ; {
		gone := hungUp
		if holder == "" {
			gone = nil // there is nobody to be told yet
		}
		select {
		case m := <-parcels:
			if bus.Nobody(m) {
				return 0, errBetween
			}
			var p parcel
			if err := json.Unmarshal(m.Data, &p); err != nil {
				return 0, talk.Fail(talk.Internal, "", err)
			}
			if p.N != next {
				t.tell(holder, farewell{turn, true})
				return 0, talk.Fail(talk.Lost, "", errLostPiece)
			}
			next++
			silent = 0
			switch {
			case p.Holder != "":
				holder = p.Holder
			case p.HungUp:
				return p.Waited, talk.ErrHungUp
			case p.Moved:
				return p.Waited, talk.ErrMoved
			case p.End && p.Failure != nil:
				return p.Waited, p.Failure
			case p.End:
				return p.Waited, nil
			case p.Event != nil:
				if err := emit(*p.Event); err != nil {
					t.tell(holder, farewell{turn, true})
					return 0, err
				}
			}
		case instance := <-lost:
			if instance == holder {
				return 0, talk.Fail(talk.Lost, "", errors.New("the instance that held the bot is gone"))
			}
		case <-alive.C:
			if holder == "" {
				return 0, talk.Fail(talk.Offline, "", errors.New("the instance that held the bot did not take the turn"))
			}
			if silent++; silent >= silentLooks || !t.board.Bus.Lives(holder) {
				t.tell(holder, farewell{turn, true})
				return 0, talk.Fail(talk.Lost, "", errors.New("the instance that held the bot is silent"))
			}
		case <-gone:
			t.tell(holder, farewell{turn, false})
			hungUp = nil
		case <-ctx.Done():
			if holder == "" {
				holder = awaitHolder(parcels)
			}
			t.tell(holder, farewell{turn, true})
			return 0, context.Cause(ctx)
		}
	}
}

// awaitHolder waits for the first parcel, so that an order that is given up
// before anybody was seen to take it does not run on unwanted.
func awaitHolder(parcels <-chan *nats.Msg) string {
	timer := time.NewTimer(acceptWait)
	defer timer.Stop()
	select {
	case m := <-parcels:
		var p parcel
		if json.Unmarshal(m.Data, &p) == nil {
			return p.Holder
		}
	case <-timer.C:
	}
	return ""
}

func (t *remote) tell(holder string, f farewell) {
	if holder == "" {
		return
	}
	text, err := json.Marshal(f)
	if err == nil {
		err = t.board.Bus.Publish(hangupSubject(holder), text)
	}
	if err != nil {
		t.board.Logger.Warn("another instance was not told that an asker has gone", "turn", f.Turn, "error", err)
	}
}

// served is a turn that is answered here for an asker on another instance.
type served struct {
	asker  string
	hungUp chan struct{}
	cancel context.CancelCauseFunc
	gone   bool
}

// serve takes an order from the bus.
func (p *presence) serve(m *nats.Msg) {
	var o order
	if err := json.Unmarshal(m.Data, &o); err != nil || o.Turn == nil || m.Reply == "" {
		p.board.Logger.Warn("an order from the bus cannot be read", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.here[o.Turn.Bot]
	if h == nil || p.closed {
		p.send(m.Reply, parcel{N: 1, End: true, Failure: talk.Fail(talk.Offline, "", nil)}) //nolint:errcheck // send has logged it
		return
	}
	ctx, cancel := context.WithCancelCause(p.board.ctx)
	s := &served{asker: o.Asker, hungUp: make(chan struct{}), cancel: cancel}
	p.busy[o.Turn.ID] = s
	p.jobs.Go(func() {
		defer func() {
			p.mu.Lock()
			delete(p.busy, o.Turn.ID)
			p.mu.Unlock()
			cancel(nil)
		}()
		p.deliver(ctx, h.seat, s, o, m.Reply)
	})
}

// deliver lets the bot answer and sends the parcels.
func (p *presence) deliver(ctx context.Context, seat *seat, s *served, o order, inbox string) {
	var mu sync.Mutex
	n := 0
	send := func(x parcel) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		x.N = n
		return p.send(inbox, x)
	}
	send(parcel{Holder: p.board.Bus.Instance})  //nolint:errcheck // it was logged
	end := stillHere(func() { send(parcel{}) }) //nolint:errcheck // as above
	var waited time.Duration
	err := p.board.loadPictures(ctx, o.Turn)
	if err == nil {
		waited, err = seat.answer(ctx, s.hungUp, o.Turn, func(e talk.Event) error { return send(parcel{Event: &e}) })
	}
	end()
	last := parcel{End: true, Waited: waited, Failure: talk.AsFailure(err)}
	if errors.Is(err, talk.ErrHungUp) {
		last.HungUp, last.Failure = true, nil
	}
	if errors.Is(err, talk.ErrMoved) {
		last.Moved, last.Failure = true, nil
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrStopping) {
		last.Failure = talk.Fail(talk.Lost, "", cause)
	}
	send(last) //nolint:errcheck // it was logged
}

func (p *presence) send(inbox string, x parcel) error {
	text, err := json.Marshal(x)
	if err == nil {
		err = p.board.Bus.Publish(inbox, text)
	}
	if err != nil {
		p.board.Logger.Warn("a piece of an answer was not sent to another instance", "error", err)
	}
	return err
}

// hangup hears that an asker on another instance has gone.
func (p *presence) hangup(m *nats.Msg) {
	var f farewell
	if json.Unmarshal(m.Data, &f) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.busy[f.Turn]
	if s == nil {
		return
	}
	if !s.gone {
		s.gone = true
		close(s.hungUp)
	}
	if f.Give {
		s.cancel(talk.ErrHungUp)
	}
}
