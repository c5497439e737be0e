package board

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// presence knows which connected bots are held where.
//
// An instance that holds a bot subscribes to the bot's subject, so that a turn
// published there reaches it, and one published for a bot that nobody holds is
// answered "no responders" at once. When two instances hold the same bot, since
// its far side has two connections, the one with the newer takes the turns: the
// other hears of that by announcement and lets go of the subject until the newer
// is gone.
type presence struct {
	board *Board

	mu       sync.Mutex
	here     map[int64]*holding
	there    map[string]map[int64]int64 // instance → bot → epoch
	seen     map[int64]time.Time        // when a bot that is held nowhere was last held
	change   chan struct{}              // closed and replaced at every change
	subs     []*nats.Subscription
	jobs     sync.WaitGroup // turns served for other instances
	busy     map[string]*served
	watchers map[chan string]bool // told of every instance that is lost
	closed   bool                 // no more turns for other instances
	cut      func(bot int64)      // how a bot's connection is cut off here; may be nil
	stop     chan struct{}
	done     chan struct{}
}

// holding is a bot that is held here.
type holding struct {
	seat  *seat
	epoch int64
	moved bool               // the bot was told that another instance holds it
	sub   *nats.Subscription // nil when alone on the bus, or when another instance took over
}

// announcement says what an instance holds.
type announcement struct {
	Instance string          `json:"i"`
	Bots     map[int64]int64 `json:"b"`
}

const (
	presenceSubject = "presence"
	unplugSubject   = "unplug"
	// announceEvery repeats the announcement for instances that came later or
	// missed one; changes are announced at once.
	announceEvery = 5 * time.Second
	// seenEvery is how often the database is told which bots are connected.
	seenEvery = 15 * time.Second
)

func newPresence(b *Board) (*presence, error) {
	p := &presence{
		board: b, here: map[int64]*holding{}, there: map[string]map[int64]int64{}, seen: map[int64]time.Time{},
		change: make(chan struct{}), busy: map[string]*served{}, watchers: map[chan string]bool{}, stop: make(chan struct{}), done: make(chan struct{}),
	}
	if !b.Bus.Alone() {
		b.Bus.OnLost(p.lost)
		b.Bus.OnMeet(p.announce)
		for subject, handle := range map[string]nats.MsgHandler{
			presenceSubject:               p.heard,
			hangupSubject(b.Bus.Instance): p.hangup,
			unplugSubject:                 p.unplug,
		} {
			sub, err := b.Bus.Subscribe(subject, handle)
			if err != nil {
				return nil, err
			}
			p.subs = append(p.subs, sub)
		}
	}
	go p.run()
	return p, nil
}

func (p *presence) run() {
	defer close(p.done)
	announce, seen := time.NewTicker(announceEvery), time.NewTicker(seenEvery)
	defer announce.Stop()
	defer seen.Stop()
	for {
		select {
		case <-announce.C:
			p.announce()
		case <-seen.C:
			p.markSeen(p.held()...)
		case <-p.stop:
			return
		}
	}
}

// withdraw takes no more turns for other instances. What is held here is not
// offered any more; the turns that run go on.
func (p *presence) withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, h := range p.here {
		h.release()
	}
}

func (p *presence) close() {
	close(p.stop)
	<-p.done
	p.markSeen(p.held()...)
	for _, s := range p.subs {
		s.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
}

// release lets go of a bot's subject.
func (h *holding) release() {
	if h.sub != nil {
		h.sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed, which has the same effect
		h.sub = nil
	}
}

// held lists the bots held here.
func (p *presence) held() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]int64, 0, len(p.here))
	for n := range p.here {
		out = append(out, n)
	}
	return out
}

func (p *presence) markSeen(bots ...int64) {
	if len(bots) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	if err := p.board.Store.Bots.MarkSeen(ctx, bots, time.Now()); err != nil {
		p.board.Logger.Warn("when bots were last seen was not written", "error", err)
	}
}

// Attach plugs in a connected bot, with the limits of its connection, unless its
// owner set others. A bot that is attached already is replaced. The returned
// function unplugs it; turns that are running are not ended by that.
func (b *Board) Attach(number int64, bot talk.Bot, l Limits) (detach func()) {
	p := b.presence
	ctx, cancel := context.WithTimeout(b.ctx, writeLimit)
	defer cancel()
	var c Common
	if row, err := b.Store.Bots.ByNumber(ctx, number); err == nil {
		if err := b.Registry.Settings(row, &c); err != nil {
			b.Logger.Warn("a bot's settings cannot be read", "bot", number, "error", err)
		}
	}
	h := &holding{seat: b.newSeat(bot, l, c), epoch: b.epochs.next()}
	p.mu.Lock()
	old := p.here[number]
	p.here[number] = h
	if old != nil {
		h.sub, old.sub = old.sub, nil
	}
	p.settle()
	p.mu.Unlock()
	p.markSeen(number)
	p.announce()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		if p.here[number] == h {
			delete(p.here, number)
			p.seen[number] = time.Now()
		}
		h.release()
		p.settle()
		p.mu.Unlock()
		p.markSeen(number)
		p.announce()
	})
}

// Renew says that a bot which is attached has connected here again: this is where it was
// seen last.
func (b *Board) Renew(number int64) {
	p := b.presence
	p.mu.Lock()
	h := p.here[number]
	if h != nil {
		h.epoch = b.epochs.next()
		p.settle()
	}
	p.mu.Unlock()
	if h != nil {
		p.announce()
	}
}

// settle subscribes to what this instance is to take turns for, lets go of the
// rest, and wakes those who wait for a bot. With mu held.
func (p *presence) settle() {
	close(p.change)
	p.change = make(chan struct{})
	if p.board.Bus.Alone() {
		return
	}
	for n, h := range p.here {
		mine := !p.newerElsewhere(n, h.epoch)
		if m, ok := h.seat.bot.(Movable); ok && !mine && !h.moved {
			m.Moved(h.epoch)
		}
		h.moved = !mine
		switch {
		case p.closed:
		case mine && h.sub == nil:
			sub, err := p.board.Bus.QueueSubscribe(turnSubject(n), "holder", p.serve)
			if err != nil {
				p.board.Logger.Error("a bot cannot be offered to other instances", "bot", n, "error", err)
				continue
			}
			h.sub = sub
		case !mine && h.sub != nil:
			h.release()
		}
	}
}

// newerElsewhere says whether another instance has a newer hold on a bot. With
// mu held.
func (p *presence) newerElsewhere(bot, epoch int64) bool {
	for instance, bots := range p.there {
		if other, ok := bots[bot]; ok && newer(other, instance, epoch, p.board.Bus.Instance) {
			return true
		}
	}
	return false
}

func (p *presence) announce() {
	if p.board.Bus.Alone() {
		return
	}
	a := announcement{Instance: p.board.Bus.Instance, Bots: map[int64]int64{}}
	p.mu.Lock()
	for n, h := range p.here {
		a.Bots[n] = h.epoch
	}
	p.mu.Unlock()
	text, err := json.Marshal(a)
	if err == nil {
		err = p.board.Bus.Publish(presenceSubject, text)
	}
	if err != nil {
		p.board.Logger.Warn("what this instance holds was not announced", "error", err)
	}
}

// heard takes another instance's announcement.
func (p *presence) heard(m *nats.Msg) {
	var a announcement
	if json.Unmarshal(m.Data, &a) != nil || a.Instance == p.board.Bus.Instance {
		return
	}
	p.mu.Lock()
	_, known := p.there[a.Instance]
	for n := range p.there[a.Instance] {
		if _, still := a.Bots[n]; !still {
			p.seen[n] = time.Now()
		}
	}
	for _, epoch := range a.Bots {
		p.board.epochs.heard(epoch)
	}
	p.there[a.Instance] = a.Bots
	p.settle()
	p.mu.Unlock()
	if !known {
		p.announce() // it is new and knows nothing of us
	}
}

// lost forgets an instance that is gone, and ends what was done for it.
func (p *presence) lost(instance string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.there[instance] {
		p.seen[n] = time.Now()
	}
	delete(p.there, instance)
	for _, s := range p.busy {
		if s.asker == instance {
			s.cancel(errAskerLost)
		}
	}
	for w := range p.watchers {
		select {
		case w <- instance:
		default: // full of other losses; the regular look will see this one
		}
	}
	p.settle()
}

// watch tells which instances are lost from now on, until forget is called.
func (p *presence) watch() (lost <-chan string, forget func()) {
	w := make(chan string, 4)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = true
	return w, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, w)
	}
}

// find returns where a connected bot is. One that was here a moment ago is
// waited for, since its far side will come back; waits is called once if that takes longer
// than Quiet.
func (p *presence) find(ctx context.Context, bot store.Bot, waits func()) (target, error) {
	quiet := time.NewTimer(p.board.Quiet)
	defer quiet.Stop()
	for {
		p.mu.Lock()
		t := p.holder(bot.Number)
		seen, change := p.seen[bot.Number], p.change
		p.mu.Unlock()
		if t != nil {
			return t, nil
		}
		if bot.Seen.After(seen) {
			seen = bot.Seen
		}
		left := time.Until(seen.Add(p.board.Grace))
		if left <= 0 {
			return nil, talk.Fail(talk.Offline, "", nil)
		}
		timer := time.NewTimer(left)
		select {
		case <-change:
		case <-timer.C:
		case <-quiet.C:
			waits()
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, talk.Fail(talk.Offline, "", ctx.Err())
		}
	}
}

// movedEvery is how often it is looked whether a bot has arrived where it moves to: an
// instance that takes it is not always heard of.
const movedEvery = 25 * time.Millisecond

// moved waits until bots may be somewhere else than they were. It is false if ctx ended.
func (p *presence) moved(ctx context.Context) bool {
	p.mu.Lock()
	change := p.change
	p.mu.Unlock()
	timer := time.NewTimer(movedEvery)
	defer timer.Stop()
	select {
	case <-change:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// holder is who takes a bot's turns, or nil. With mu held.
func (p *presence) holder(bot int64) target {
	h := p.here[bot]
	if h != nil && !p.newerElsewhere(bot, h.epoch) {
		return h.seat
	}
	for _, bots := range p.there {
		if _, ok := bots[bot]; ok {
			return &remote{p.board, bot}
		}
	}
	if h != nil {
		return h.seat
	}
	return nil
}

// Online says whether a connected bot is plugged in, on any instance.
func (b *Board) Online(bot int64) bool {
	b.presence.mu.Lock()
	defer b.presence.mu.Unlock()
	return b.presence.holder(bot) != nil
}

// Plugs returns a channel that is closed when a connected bot is plugged in or unplugged
// next, on any instance.
func (b *Board) Plugs() <-chan struct{} {
	b.presence.mu.Lock()
	defer b.presence.mu.Unlock()
	return b.presence.change
}

// Reachable says whether a bot could be asked now: it is plugged in, or is of a
// kind that needs no plugging in.
func (b *Board) Reachable(bot store.Bot) bool {
	k, err := b.Registry.kind(bot.Kind)
	return err == nil && (!k.Connects || b.Online(bot.Number))
}

// OnUnplug sets how the connection of a bot is cut off on this instance.
func (b *Board) OnUnplug(f func(bot int64)) {
	b.presence.mu.Lock()
	defer b.presence.mu.Unlock()
	b.presence.cut = f
}

// Unplug cuts the connection of a bot off, on every instance: its token has
// changed, or it was removed. What one that was removed is answering ends.
func (b *Board) Unplug(bot int64) {
	b.presence.cutOff(bot)
	b.endRemoved(bot)
	if b.Bus.Alone() {
		return
	}
	if err := b.Bus.Publish(unplugSubject, strconv.AppendInt(nil, bot, 10)); err != nil {
		b.Logger.Warn("other instances were not told to unplug a bot", "bot", bot, "error", err)
	}
}

// unplug hears that a bot is to be cut off. Hearing it again does no harm.
func (p *presence) unplug(m *nats.Msg) {
	if bot, err := strconv.ParseInt(string(m.Data), 10, 64); err == nil {
		p.cutOff(bot)
		p.board.endRemoved(bot)
	}
}

func (p *presence) cutOff(bot int64) {
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	if cut != nil {
		cut(bot)
	}
}
