package board

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/tool"
)

// A call of an outlet elsewhere is an order to the holder's own subject with an
// inbox to reply to; parcels come back, numbered from 1: progress and log lines, or nothing if
// there were none for a while, then the end, in as many pieces as it needs. Cancelling goes to another subject
// of the holder's.

func callSubject(instance string) string   { return "call." + instance }
func cancelSubject(instance string) string { return "cancel." + instance }

type callOrder struct {
	Asker    string    `json:"asker"`
	Outlet   string    `json:"outlet"`
	Call     tool.Call `json:"call"`
	Progress bool      `json:"progress,omitempty"`
	Log      bool      `json:"log,omitempty"`
}

type callParcel struct {
	N        int            `json:"n"`
	Progress *tool.Progress `json:"progress,omitempty"`
	Log      *tool.Log      `json:"log,omitempty"`
	Part     []byte         `json:"part,omitempty"` // of the end
	End      bool           `json:"end,omitempty"`
}

type callEnd struct {
	Result *tool.Result `json:"result,omitempty"`
	Error  *tool.Error  `json:"error,omitempty"`
}

// farPlace is where the calls of an outlet go that another instance holds.
type farPlace struct {
	x        *exchanger
	instance string
	outlet   string
	title    string
}

// Call has the other instance carry the call out.
func (f *farPlace) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	instances := f.x.board.Bus
	offline := notConnected(f.title)
	text, err := json.Marshal(callOrder{instances.Instance, f.outlet, *c, c.Progress != nil, c.Log != nil})
	if err != nil {
		return nil, err
	}
	if len(text) > parcelBytes {
		return nil, tool.Fail(tool.TooLarge, "The arguments are too large.", nil)
	}
	parcels := make(chan *nats.Msg, parcelBuffer)
	inbox, sub, err := instances.Inbox(parcels)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	lost, forget := f.x.board.presence.watch()
	defer forget()
	if err := instances.PublishRequest(callSubject(f.instance), inbox, text); err != nil {
		return nil, offline
	}
	alive := time.NewTicker(acceptWait)
	defer alive.Stop()
	gone := tool.Fail(tool.Lost, "The connection broke before there was a result. It is not known whether the call was carried out.", nil)
	var end []byte
	silent := 0
	for next := 1; ; next++ {
		select {
		case m := <-parcels:
			if bus.Nobody(m) {
				return nil, offline
			}
			var p callParcel
			if json.Unmarshal(m.Data, &p) != nil || p.N != next {
				return nil, gone
			}
			silent = 0
			end = append(end, p.Part...)
			if p.End {
				return finished(end)
			}
			tell(c, p)
		case instance := <-lost:
			if next--; instance == f.instance {
				return nil, gone
			}
		case <-alive.C:
			silent++
			if next--; silent >= silentLooks || !instances.Lives(f.instance) {
				f.x.publish(cancelSubject(f.instance), c.ID)
				return nil, gone
			}
		case <-ctx.Done():
			f.x.publish(cancelSubject(f.instance), c.ID)
			return nil, context.Cause(ctx)
		}
	}
}

func tell(c *tool.Call, p callParcel) {
	if p.Progress != nil && c.Progress != nil {
		c.Progress(*p.Progress)
	}
	if p.Log != nil && c.Log != nil {
		c.Log(*p.Log)
	}
}

func finished(text []byte) (*tool.Result, error) {
	var e callEnd
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, tool.Fail(tool.Garbled, "The tool's answer cannot be used.", err)
	}
	if e.Error != nil {
		return nil, e.Error
	}
	return e.Result, nil
}

// serve carries out a call for another instance.
func (x *exchanger) serve(m *nats.Msg) {
	var o callOrder
	if err := json.Unmarshal(m.Data, &o); err != nil || m.Reply == "" {
		x.board.Logger.Warn("an order from the bus cannot be read", "error", err)
		return
	}
	c := x.board.catalog
	c.mu.Lock()
	s := c.here[o.Outlet]
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(x.board.ctx)
	x.mu.Lock()
	x.running[o.Call.ID], x.askers[o.Call.ID] = cancel, o.Asker
	x.mu.Unlock()
	x.jobs.Go(func() {
		defer func() {
			cancel(nil)
			x.mu.Lock()
			defer x.mu.Unlock()
			delete(x.running, o.Call.ID)
			delete(x.askers, o.Call.ID)
		}()
		x.deliver(ctx, s, o, m.Reply)
	})
}

func (x *exchanger) deliver(ctx context.Context, s *Socket, o callOrder, inbox string) {
	var mu sync.Mutex
	n := 0
	send := func(p callParcel) {
		mu.Lock()
		defer mu.Unlock()
		n++
		p.N = n
		x.publish(inbox, p)
	}
	if o.Progress {
		o.Call.Progress = func(p tool.Progress) { send(callParcel{Progress: &p}) }
	}
	if o.Log {
		o.Call.Log = func(l tool.Log) { send(callParcel{Log: &l}) }
	}
	var end callEnd
	if s == nil {
		end.Error = notConnected("")
	} else {
		ended := stillHere(func() { send(callParcel{}) })
		res, err := s.provider.Call(ctx, &o.Call)
		ended()
		end.Result, end.Error = res, tool.AsError(err)
	}
	text, err := json.Marshal(end)
	if err != nil {
		text, _ = json.Marshal(callEnd{Error: tool.Fail(tool.Garbled, "The tool's answer cannot be used.", err)})
	}
	for len(text) > parcelBytes {
		send(callParcel{Part: text[:parcelBytes]})
		text = text[parcelBytes:]
	}
	send(callParcel{Part: text, End: true})
}

// cancelled hears that nobody waits for a call any more.
func (x *exchanger) cancelled(m *nats.Msg) {
	var id string
	if json.Unmarshal(m.Data, &id) != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if cancel := x.running[id]; cancel != nil {
		cancel(context.Canceled)
	}
}
