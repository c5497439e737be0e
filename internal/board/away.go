package board

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/tool"
)

// Outlets that one instance holds are offered on the others too. The holder says
// on the bus what it holds; whoever does not know a list yet asks for it, a page
// at a time. A call is an order to the holder's own subject with an inbox to
// reply to; parcels come back, numbered from 1: progress and log lines, then the
// end, in as many pieces as it needs. Cancelling goes to another subject of the
// holder's.

const (
	toolsSubject = "pb.tools"
	// parcelBytes bounds a message, well below what NATS takes.
	parcelBytes = 512 << 10
	// fetchLimit bounds the reading of one list.
	fetchLimit = 10 * time.Second
)

func listSubject(instance string) string   { return "pb.tools." + instance }
func callSubject(instance string) string   { return "pb.call." + instance }
func cancelSubject(instance string) string { return "pb.cancel." + instance }

// away is an outlet that another instance holds.
type away struct {
	print uint64 // of the list that is known or being fetched
	offer *offer // nil until the list is known
}

// held is what an instance says about an outlet of its own.
type held struct {
	Outlet
	Print uint64 `json:"print"`
}

type toolsAnnouncement struct {
	Instance string `json:"i"`
	Held     []held `json:"h"`
}

type listOrder struct {
	Outlet string `json:"outlet"`
	From   int    `json:"from"`
}

type listPage struct {
	Tools []tool.Tool `json:"tools"`
	More  bool        `json:"more,omitempty"`
	Gone  bool        `json:"gone,omitempty"`
}

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

// exchanger is the board's side of all that.
type exchanger struct {
	board *Board
	wake  chan struct{} // something held here has changed
	done  chan struct{}
	subs  []*nats.Subscription
	jobs  sync.WaitGroup

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // calls carried out for others
	askers  map[string]string                  // by call
}

func newExchanger(b *Board) (*exchanger, error) {
	x := &exchanger{board: b, wake: make(chan struct{}, 1), done: make(chan struct{}), running: map[string]context.CancelCauseFunc{}, askers: map[string]string{}}
	if b.Bus.Alone() {
		close(x.done)
		return x, nil
	}
	for subject, handle := range map[string]nats.MsgHandler{
		toolsSubject:                  x.heard,
		listSubject(b.Bus.Instance):   x.tellList,
		callSubject(b.Bus.Instance):   x.serve,
		cancelSubject(b.Bus.Instance): x.cancelled,
	} {
		sub, err := b.Bus.Subscribe(subject, handle)
		if err != nil {
			return nil, err
		}
		x.subs = append(x.subs, sub)
	}
	b.Bus.OnLost(x.lost)
	b.catalog.announce = func() {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
	go x.run()
	return x, nil
}

func (x *exchanger) run() {
	defer close(x.done)
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-x.wake:
		case <-tick.C:
		case <-x.board.ctx.Done():
			return
		}
		x.announce()
	}
}

func (x *exchanger) close() {
	<-x.done
	for _, s := range x.subs {
		s.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
	x.jobs.Wait()
}

func (x *exchanger) announce() {
	c := x.board.catalog
	a := toolsAnnouncement{Instance: x.board.Bus.Instance, Held: []held{}}
	c.mu.Lock()
	for _, s := range c.here {
		if s.outlet.Held {
			a.Held = append(a.Held, held{s.outlet, printOf(s.offer.tools)})
		}
	}
	c.mu.Unlock()
	x.publish(toolsSubject, a)
}

func (x *exchanger) publish(subject string, v any) bool {
	text, err := json.Marshal(v)
	if err == nil {
		err = x.board.Bus.Publish(subject, text)
	}
	if err != nil {
		x.board.Logger.Warn("another instance was not told about tools", "error", err)
	}
	return err == nil
}

// printOf tells lists apart, on every instance in the same way.
func printOf(tools []*Offered) uint64 {
	h := fnv.New64a()
	for _, t := range tools {
		h.Write(t.Listed())
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// heard takes what another instance holds.
func (x *exchanger) heard(m *nats.Msg) {
	var a toolsAnnouncement
	if json.Unmarshal(m.Data, &a) != nil || a.Instance == x.board.Bus.Instance {
		return
	}
	c := x.board.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.away[a.Instance]
	if known == nil {
		known = map[string]*away{}
		c.away[a.Instance] = known
		x.nudge() // it may be new and know nothing of us
	}
	still := map[string]bool{}
	for _, h := range a.Held {
		still[h.ID] = true
		if have := known[h.ID]; have != nil && have.print == h.Print {
			continue
		}
		known[h.ID] = &away{print: h.Print, offer: offerOf(known[h.ID])}
		x.jobs.Go(func() { x.fetch(a.Instance, h) })
	}
	gone := false
	for id := range known {
		if !still[id] {
			delete(known, id)
			gone = true
		}
	}
	if gone {
		c.publish()
	}
}

func offerOf(a *away) *offer {
	if a == nil {
		return nil
	}
	return a.offer
}

func (x *exchanger) nudge() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// fetch reads the list of tools of an outlet elsewhere.
func (x *exchanger) fetch(instance string, h held) {
	ctx, cancel := context.WithTimeout(x.board.ctx, fetchLimit)
	defer cancel()
	tools, err := x.pages(ctx, instance, h.ID)
	c := x.board.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.away[instance][h.ID]
	if a == nil || a.print != h.Print {
		return // it has changed again, or is gone
	}
	if err != nil {
		x.board.Logger.Warn("the tools that another instance holds could not be read", "outlet", h.ID, "error", err)
		delete(c.away[instance], h.ID) // the next announcement begins anew
		return
	}
	named, _ := c.name(h.Outlet, &farPlace{x, instance, h.ID}, tools)
	a.offer = &offer{Outlet: h.Outlet, tools: named}
	c.publish()
}

var errGone = errors.New("it is not plugged in there any more")

func (x *exchanger) pages(ctx context.Context, instance, outlet string) ([]tool.Tool, error) {
	var tools []tool.Tool
	for {
		text, err := json.Marshal(listOrder{outlet, len(tools)})
		if err != nil {
			return nil, err
		}
		m, err := x.board.Bus.RequestWithContext(ctx, listSubject(instance), text)
		if err != nil {
			return nil, err
		}
		var p listPage
		switch err := json.Unmarshal(m.Data, &p); {
		case err != nil:
			return nil, err
		case p.Gone:
			return nil, errGone
		}
		tools = append(tools, p.Tools...)
		if !p.More || len(p.Tools) == 0 {
			return tools, nil
		}
	}
}

// tellList answers with a page of a list.
func (x *exchanger) tellList(m *nats.Msg) {
	var o listOrder
	if json.Unmarshal(m.Data, &o) != nil || m.Reply == "" {
		return
	}
	c := x.board.catalog
	c.mu.Lock()
	s := c.here[o.Outlet]
	var tools []*Offered
	if s != nil {
		tools = s.offer.tools
	}
	c.mu.Unlock()
	p := listPage{Gone: s == nil, Tools: []tool.Tool{}}
	size := 0
	for i := max(o.From, 0); i < len(tools); i++ {
		if size += len(tools[i].Listed()) + 256; size > parcelBytes && len(p.Tools) > 0 {
			p.More = true
			break
		}
		p.Tools = append(p.Tools, tools[i].Tool)
	}
	x.publish(m.Reply, p)
}

// lost forgets an instance that is gone, and stops what was done for it.
func (x *exchanger) lost(instance string) {
	c := x.board.catalog
	c.mu.Lock()
	if _, ok := c.away[instance]; ok {
		delete(c.away, instance)
		c.publish()
	}
	c.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, asker := range x.askers {
		if asker == instance {
			x.running[id](errAskerLost)
		}
	}
}

// farPlace is where the calls of an outlet go that another instance holds.
type farPlace struct {
	x        *exchanger
	instance string
	outlet   string
}

// Call has the other instance carry the call out.
func (f *farPlace) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	bus := f.x.board.Bus
	offline := tool.Fail(tool.Offline, "This is not connected at the moment. Try again later.", nil)
	text, err := json.Marshal(callOrder{bus.Instance, f.outlet, *c, c.Progress != nil, c.Log != nil})
	if err != nil {
		return nil, err
	}
	if len(text) > parcelBytes {
		return nil, tool.Fail(tool.TooLarge, "The arguments are too large.", nil)
	}
	parcels := make(chan *nats.Msg, parcelBuffer)
	inbox := bus.NewInbox()
	sub, err := bus.ChanSubscribe(inbox, parcels)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	lost, forget := f.x.board.presence.watch()
	defer forget()
	if err := bus.PublishRequest(callSubject(f.instance), inbox, text); err != nil {
		return nil, offline
	}
	alive := time.NewTicker(acceptWait)
	defer alive.Stop()
	gone := tool.Fail(tool.Lost, "The connection broke before there was a result. It is not known whether the call was carried out.", nil)
	var end []byte
	for next := 1; ; next++ {
		select {
		case m := <-parcels:
			if m.Header.Get("Status") == "503" {
				return nil, offline
			}
			var p callParcel
			if json.Unmarshal(m.Data, &p) != nil || p.N != next {
				return nil, gone
			}
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
			if next--; !bus.Lives(f.instance) {
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
	n := 0
	send := func(p callParcel) {
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
		end.Error = tool.Fail(tool.Offline, "This is not connected at the moment. Try again later.", nil)
	} else {
		res, err := s.provider.Call(ctx, &o.Call)
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
