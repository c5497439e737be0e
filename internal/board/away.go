package board

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Outlets that one instance holds are offered on the others too. The holder says
// on the bus what has changed, at once, and all that it holds to whoever asks; see census.go.
// A list of tools is told by its print. Whoever does not know a list yet asks for
// it, a page at a time, and once for all outlets that offer the same: ten thousand
// devices of one make have one list.

const (
	toolsSubject = "tools"
	// parcelBytes bounds a message, well below what NATS takes.
	parcelBytes = 512 << 10
	// announcedAtOnce bounds how many outlets are told of in one message, for the
	// same reason: one takes a few hundred bytes.
	announcedAtOnce = 500
)

// away is an outlet that another instance holds.
type away struct {
	held
	instance string
	offer    *offer // what is known to be offered there; nil: nothing yet
	list     *list
	waiting  bool // for the list
	current  bool // the offer is made of the list
	// until is when the outlet is forgotten, if nobody holds it any more; zero: it is held.
	until time.Time
}

// held is what an instance says about an outlet of its own.
type held struct {
	Outlet
	Print uint64 `json:"print"`
	// Epoch numbers its newest connection, see [epochs].
	Epoch int64 `json:"since,omitempty"`
}

// toolsAnnouncement says what an instance holds: all of it between two ids, or
// some that has changed.
type toolsAnnouncement struct {
	Instance string `json:"i"`
	// Number counts the changes that the instance has told, to the one in this announcement.
	Number uint64 `json:"n,omitempty"`
	Held   []held `json:"h"`
	// After and Until bound the ids of which Held is all, in order: those from
	// After, without it, to Until, with it. Empty: no bound.
	After string `json:"after,omitempty"`
	Until string `json:"until,omitempty"`
	// Part says that Held and Gone are changes.
	Part bool     `json:"part,omitempty"`
	Gone []string `json:"gone,omitempty"`
	// Left is who may be back in a moment, here or elsewhere. They stay listed, see absent.go.
	Left []string `json:"left,omitempty"`
}

// exchanger is the board's side of all that.
type exchanger struct {
	board  *Board
	wake   chan struct{} // something held here has changed
	done   chan struct{}
	subs   []*nats.Subscription
	deafen func() // no more announcements are heard
	jobs   sync.WaitGroup

	// With catalog.mu held.
	dirty    map[string]bool      // outlets here of which others must be told
	number   uint64               // of changes that others were told of
	greets   bool                 // others must be told the number
	askedBy  map[string]bool      // instances that need a census
	followed map[string]*followed // by instance
	lists    map[uint64]*list
	queue    []listFetch // waiting; each list is there once at most
	fetching int

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // calls carried out for others
	askers  map[string]string                  // by call

	leaving atomic.Bool // this instance stops: what it holds goes elsewhere
}

func newExchanger(b *Board) (*exchanger, error) {
	x := &exchanger{board: b, wake: make(chan struct{}, 1), done: make(chan struct{}), dirty: map[string]bool{}, askedBy: map[string]bool{}, followed: map[string]*followed{}, lists: map[uint64]*list{}, running: map[string]context.CancelCauseFunc{}, askers: map[string]string{}}
	if b.Bus.Alone() {
		close(x.done)
		return x, nil
	}
	for subject, handle := range map[string]nats.MsgHandler{
		censusSubject(b.Bus.Instance):  x.asked,
		listSubject(b.Bus.Instance):    x.tellList,
		callSubject(b.Bus.Instance):    x.serve,
		cancelSubject(b.Bus.Instance):  x.cancelled,
		refreshSubject(b.Bus.Instance): x.refreshAsked,
	} {
		sub, err := b.Bus.Subscribe(subject, handle)
		if err != nil {
			return nil, err
		}
		x.subs = append(x.subs, sub)
	}
	// Changes come in the order in which they were told, a census between them.
	var err error
	if x.deafen, err = b.Bus.SubscribeInOrder(x.heard, toolsSubject, answerSubject(b.Bus.Instance)); err != nil {
		return nil, err
	}
	b.Bus.OnLost(x.lost)
	b.Bus.OnMeet(x.greet)
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.tell = func(id string) {
		x.dirty[id] = true
		x.nudge()
	}
	b.catalog.unlearn = x.unlearn
	go x.run()
	return x, nil
}

func (x *exchanger) run() {
	defer close(x.done)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		beat := false
		select {
		case <-x.wake:
		case <-tick.C:
			beat = true
			x.expire(time.Now())
		case <-x.board.ctx.Done():
			return
		}
		news, census, askers := x.news(beat)
		for _, a := range news {
			x.publish(toolsSubject, a)
		}
		for asker := range askers {
			for _, a := range census {
				x.publish(answerSubject(asker), a)
			}
		}
	}
}

func (x *exchanger) close() {
	<-x.done
	if x.deafen != nil {
		x.deafen()
	}
	for _, s := range x.subs {
		s.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
	x.jobs.Wait()
}

// news are the announcements that are due: of what has changed, and the number that says
// whether somebody has missed something. Of those who have, askers are to be told the census.
func (x *exchanger) news(beat bool) (out, census []toolsAnnouncement, askers map[string]bool) {
	c := x.board.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty := x.dirty
	x.dirty = map[string]bool{}
	a := toolsAnnouncement{Instance: x.board.Bus.Instance, Held: []held{}, Part: true}
	add := func() {
		x.number++
		a.Number = x.number
		out = append(out, a)
		a.Held, a.Gone, a.Left = []held{}, nil, nil
	}
	for id := range dirty {
		switch s := c.here[id]; {
		case s != nil && s.offer.Held:
			a.Held = append(a.Held, s.announced())
		case s != nil || x.leaving.Load():
			a.Left = append(a.Left, id)
		default:
			a.Gone = append(a.Gone, id)
		}
		if len(a.Held)+len(a.Gone)+len(a.Left) == announcedAtOnce {
			add()
		}
	}
	if !a.empty() {
		add()
	}
	if beat || x.greets {
		x.greets = false
		a.Number = x.number
		out = append(out, a)
	}
	if len(x.askedBy) > 0 {
		askers, x.askedBy = x.askedBy, map[string]bool{}
		census = x.census()
	}
	return out, census, askers
}

// announced is what other instances are told. With catalog.mu held.
func (s *Socket) announced() held { return held{s.offer.Outlet, s.offer.print(), s.held} }

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

// heard takes what another instance holds.
func (x *exchanger) heard(m *nats.Msg) {
	var a toolsAnnouncement
	if json.Unmarshal(m.Data, &a) != nil || a.Instance == x.board.Bus.Instance {
		return
	}
	gave, ask := x.take(a)
	for _, m := range gave {
		m.provider.Moved(m.upTo)
	}
	if ask {
		x.board.Bus.Publish(censusSubject(a.Instance), []byte(x.board.Bus.Instance)) //nolint:errcheck // it is asked for again
	}
}

// moved is a provider that has connected to another instance, and the number of its newest
// connection here.
type moved struct {
	provider Movable
	upTo     int64
}

// take takes what another instance holds, and returns what this one has to let go of, and
// whether it needs a census.
func (x *exchanger) take(a toolsAnnouncement) (gave []moved, ask bool) {
	c := x.board.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	ask = x.follow(&a, time.Now())
	known := c.away[a.Instance]
	if known == nil {
		known = map[string]*away{}
		c.away[a.Instance] = known
	}
	changed := false
	still := make(map[string]bool, len(a.Held))
	for _, h := range a.Held {
		still[h.ID] = true
		x.board.epochs.heard(h.Epoch)
		changed = x.learn(a.Instance, h) || changed
		gave = append(gave, x.letGo(a.Instance, h)...)
	}
	gone := a.Gone
	if !a.Part {
		for id, was := range known {
			if !still[id] && was.until.IsZero() && id > a.After && (a.Until == "" || id <= a.Until) {
				gone = append(gone, id)
			}
		}
	}
	for _, id := range gone {
		changed = x.unlearn(a.Instance, id) || changed
	}
	for _, id := range a.Left {
		changed = x.missed(a.Instance, id) || changed
	}
	if changed {
		c.wake()
	}
	x.fetchMore()
	return gave, ask
}

// letGo lets go of an outlet that another instance has a newer connection of. What it has
// announced itself says who is the newer, so both decide the same. With catalog.mu held.
func (x *exchanger) letGo(instance string, h held) []moved {
	s := x.board.catalog.here[h.ID]
	if s == nil || !s.offer.Held || !newer(h.Epoch, instance, s.held, x.board.Bus.Instance) {
		return nil
	}
	s.setHeld(false)
	if m, ok := s.provider.(Movable); ok {
		return []moved{{m, s.held}}
	}
	return nil
}

// learn takes what an instance says about one outlet, and says whether more is
// offered by that, or something else. With catalog.mu held.
func (x *exchanger) learn(instance string, h held) bool {
	c := x.board.catalog
	a := c.away[instance][h.ID]
	if a == nil {
		a = &away{instance: instance}
		c.away[instance][h.ID] = a
	}
	if a.list == nil || a.list.print != h.Print {
		x.leave(a)
		a.list, a.current = x.join(h), false
	}
	was := a.held
	a.held, a.until = h, time.Time{}
	switch {
	case a.current && was == h:
		return false
	case a.current && was.Outlet == h.Outlet:
		c.stale(h.Owner)
		return true
	case a.list.known:
		x.offered(a)
		return true
	}
	x.want(a)
	return false
}

// unlearn forgets an outlet that an instance does not hold any more. With
// catalog.mu held.
func (x *exchanger) unlearn(instance, id string) bool {
	c := x.board.catalog
	a := c.away[instance][id]
	if a == nil {
		return false
	}
	delete(c.away[instance], id)
	x.leave(a)
	if a.offer == nil {
		return false
	}
	c.unlist(a.offer.Owner, id)
	c.stale(a.offer.Owner)
	return true
}

// offered makes the offer of an outlet elsewhere whose list is known. With
// catalog.mu held.
func (x *exchanger) offered(a *away) {
	c, was := x.board.catalog, a.offer
	a.offer, _ = c.offer(a.Outlet, &farPlace{x, a.instance, a.ID, a.Title}, a.list.tools)
	a.current = true
	if was != nil && was.Owner != a.Owner {
		c.unlist(was.Owner, a.ID)
		c.stale(was.Owner)
	}
	c.list(a.Owner, a.ID)
	c.stale(a.Owner)
}

func (x *exchanger) nudge() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// lost misses what an instance held that is gone, and stops what was done for it.
func (x *exchanger) lost(instance string) {
	c := x.board.catalog
	c.mu.Lock()
	delete(x.followed, instance) // if it comes back, nobody knows what was missed
	changed := false
	for id := range c.away[instance] {
		changed = x.missed(instance, id) || changed
	}
	if len(c.away[instance]) == 0 {
		delete(c.away, instance)
	}
	if changed {
		c.wake()
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
