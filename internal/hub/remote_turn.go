package hub

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
	"patchbay/internal/tracing"
)

// A turn on the bus: the asker's instance sends a request to the bot's subject, with an inbox for
// the reply. The holder of the bot sends frames to the inbox, numbered from 1: first its name, then
// an event each, or empty heartbeats, the last one with End set. A gap in the numbers, or the death
// or silence of the holder, ends the answer with an error. Disconnection of the asker, and
// cancellation, go to another subject of the holder.

type turnRequest struct {
	Asker string       `json:"asker"`
	Turn  *talk.Turn   `json:"turn"`
	Trace tracing.Link `json:"trace,omitzero"`
}

type turnFrame struct {
	N            int           `json:"n"`
	Holder       string        `json:"holder,omitempty"`
	Event        *talk.Event   `json:"e,omitempty"`
	End          bool          `json:"end,omitempty"`
	Waited       time.Duration `json:"waited,omitempty"`
	Failure      *talk.Failure `json:"failure,omitempty"`
	Disconnected bool          `json:"disconnected,omitempty"` // ended because the asker disconnected
	Moved        bool          `json:"moved,omitempty"`        // ended because the bot is on another instance now
}

type turnCancel struct {
	Turn string `json:"turn"`
	Stop bool   `json:"give_up,omitempty"` // not only disconnected: the bot must stop
}

func turnSubject(bot int64) string             { return fmt.Sprintf("turn.%d", bot) }
func turnCancelSubject(instance string) string { return "hangup." + instance }

var (
	errAskerLost = errors.New("the asker's instance is gone")
	errLostFrame = errors.New("a piece of the answer was lost on the bus")
	// errMoving is the error while a bot moves from one instance to another.
	errMoving = talk.Fail(talk.Offline, "", errors.New("no instance takes turns for the bot at the moment"))
)

// frameBuffer limits the frames of one answer that wait for a slow asker. Beyond it the bus drops
// some, which the numbers show.
const frameBuffer = 8192

// remoteBot is a bot that another instance holds.
type remoteBot struct {
	hub *Hub
	bot int64
}

func (t *remoteBot) answer(ctx context.Context, disconnected <-chan struct{}, turn *talk.Turn,
	emit talk.Emit) (time.Duration, error) {
	h := t.hub
	text, err := json.Marshal(turnRequest{h.Bus.Instance, turn, h.Tracer.LinkTo(ctx)})
	if err != nil {
		return 0, talk.Fail(talk.Internal, "", err)
	}
	frames := make(chan *nats.Msg, frameBuffer)
	inbox, sub, err := h.Bus.Inbox(frames)
	if err != nil {
		return 0, talk.Fail(talk.Internal, "", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	if err := h.Bus.PublishRequest(turnSubject(t.bot), inbox, text); err != nil {
		return 0, talk.Fail(talk.Internal, "", err)
	}
	return t.receive(ctx, disconnected, turn.ID, frames, emit)
}

// receive receives the frames of one answer.
func (t *remoteBot) receive(ctx context.Context, disconnected <-chan struct{}, turn string, frames <-chan *nats.Msg,
	emit talk.Emit) (time.Duration, error) {
	holder, silent := "", 0
	alive := time.NewTicker(acceptTimeout)
	defer alive.Stop()
	lost, unsubscribe := t.hub.presence.watchLost()
	defer unsubscribe()
	for next := 1; ; {
		gone := disconnected
		if holder == "" {
			gone = nil // no holder to notify yet
		}
		select {
		case m := <-frames:
			if bus.IsNoResponders(m) {
				return 0, errMoving
			}
			var p turnFrame
			if err := json.Unmarshal(m.Data, &p); err != nil {
				return 0, talk.Fail(talk.Internal, "", err)
			}
			if p.N != next {
				t.sendCancel(holder, turnCancel{turn, true})
				return 0, talk.Fail(talk.Lost, "", errLostFrame)
			}
			next++
			silent = 0
			switch {
			case p.Holder != "":
				holder = p.Holder
			case p.Disconnected:
				return p.Waited, talk.ErrDisconnected
			case p.Moved:
				return p.Waited, talk.ErrMoved
			case p.End && p.Failure != nil:
				return p.Waited, p.Failure
			case p.End:
				return p.Waited, nil
			case p.Event != nil:
				if err := emit(*p.Event); err != nil {
					t.sendCancel(holder, turnCancel{turn, true})
					return 0, err
				}
			}
		case instance := <-lost:
			if instance == holder {
				return 0, talk.Fail(talk.Lost, "", errors.New("the instance that held the bot is gone"))
			}
		case <-alive.C:
			if holder == "" {
				return 0, talk.Fail(talk.Offline,
					"", errors.New("the instance that held the bot did not take the turn"))
			}
			if silent++; silent >= maxSilentChecks || !t.hub.Bus.IsAlive(holder) {
				t.sendCancel(holder, turnCancel{turn, true})
				return 0, talk.Fail(talk.Lost, "", errors.New("the instance that held the bot is silent"))
			}
		case <-gone:
			t.sendCancel(holder, turnCancel{turn, false})
			disconnected = nil
		case <-ctx.Done():
			if holder == "" {
				holder = awaitHolder(frames)
			}
			t.sendCancel(holder, turnCancel{turn, true})
			return 0, context.Cause(ctx)
		}
	}
}

// awaitHolder waits for the first frame, so that a request that is cancelled before a holder has
// replied does not run on.
func awaitHolder(frames <-chan *nats.Msg) string {
	timer := time.NewTimer(acceptTimeout)
	defer timer.Stop()
	select {
	case m := <-frames:
		var p turnFrame
		if json.Unmarshal(m.Data, &p) == nil {
			return p.Holder
		}
	case <-timer.C:
	}
	return ""
}

func (t *remoteBot) sendCancel(holder string, f turnCancel) {
	if holder == "" {
		return
	}
	text, err := json.Marshal(f)
	if err == nil {
		err = t.hub.Bus.Publish(turnCancelSubject(holder), text)
	}
	if err != nil {
		t.hub.Logger.Warn("another instance was not told that an asker has gone", "turn", f.Turn, "error", err)
	}
}

// remoteTurn is a turn for an asker on another instance.
type remoteTurn struct {
	asker        string
	disconnected chan struct{}
	cancel       context.CancelCauseFunc
	gone         bool
}

// serve handles a request from the bus.
func (p *presence) serve(m *nats.Msg) {
	var o turnRequest
	if err := json.Unmarshal(m.Data, &o); err != nil || o.Turn == nil || m.Reply == "" {
		p.hub.Logger.Warn("an order from the bus cannot be read", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.local[o.Turn.Bot]
	if h == nil || p.closed {
		p.send(m.Reply, turnFrame{N: 1, End: true, Failure: talk.Fail(talk.Offline, "", nil)}) //nolint:errcheck // send has logged the error
		return
	}
	ctx, cancel := context.WithCancelCause(p.hub.Tracer.Join(p.hub.ctx, o.Trace))
	s := &remoteTurn{asker: o.Asker, disconnected: make(chan struct{}), cancel: cancel}
	p.serving[o.Turn.ID] = s
	p.jobs.Go(func() {
		defer func() {
			p.mu.Lock()
			delete(p.serving, o.Turn.ID)
			p.mu.Unlock()
			cancel(nil)
		}()
		p.deliver(ctx, h.slot, s, o, m.Reply)
	})
}

// deliver makes the bot answer and sends the frames.
func (p *presence) deliver(ctx context.Context, slot *slot, s *remoteTurn, o turnRequest, inbox string) {
	var mu sync.Mutex
	n := 0
	send := func(x turnFrame) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		x.N = n
		return p.send(inbox, x)
	}
	send(turnFrame{Holder: p.hub.Bus.Instance})         //nolint:errcheck // the error is logged
	end := startHeartbeat(func() { send(turnFrame{}) }) //nolint:errcheck // as above
	var waited time.Duration
	err := p.hub.loadImages(ctx, o.Turn)
	if err == nil {
		waited, err = slot.answer(ctx, s.disconnected, o.Turn,
			func(e talk.Event) error { return send(turnFrame{Event: &e}) })
	}
	end()
	last := turnFrame{End: true, Waited: waited, Failure: talk.AsFailure(err)}
	if errors.Is(err, talk.ErrDisconnected) {
		last.Disconnected, last.Failure = true, nil
	}
	if errors.Is(err, talk.ErrMoved) {
		last.Moved, last.Failure = true, nil
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrStopping) {
		last.Failure = talk.Fail(talk.Lost, "", cause)
	}
	send(last) //nolint:errcheck // the error is logged
}

func (p *presence) send(inbox string, x turnFrame) error {
	text, err := json.Marshal(x)
	if err == nil {
		err = p.hub.Bus.Publish(inbox, text)
	}
	if err != nil {
		p.hub.Logger.Warn("a piece of an answer was not sent to another instance", "error", err)
	}
	return err
}

// onTurnCancel handles the disconnection of an asker on another instance.
func (p *presence) onTurnCancel(m *nats.Msg) {
	var f turnCancel
	if json.Unmarshal(m.Data, &f) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.serving[f.Turn]
	if s == nil {
		return
	}
	if !s.gone {
		s.gone = true
		close(s.disconnected)
	}
	if f.Stop {
		s.cancel(talk.ErrDisconnected)
	}
}
