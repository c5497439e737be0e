package hub

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// presence tracks which instance holds which inbound bot.
//
// The instance that holds a bot subscribes to the bot's subject, so that it gets turns published
// there, and a turn for a bot that no instance holds fails with "no responders" at once. If two
// instances hold the same bot, because its peer has two connections, the one with the newer
// connection gets the turns: the other learns of it by an announcement, and unsubscribes until the
// newer connection ends.
type presence struct {
	hub *Hub

	mu             sync.Mutex
	local          map[int64]*heldBot
	remote         map[string]map[int64]int64 // instance → bot → epoch
	lastHeld       map[int64]time.Time        // when a bot that no instance holds was last held
	change         chan struct{}              // closed and replaced at every change
	subs           []*nats.Subscription
	jobs           sync.WaitGroup // turns served for other instances
	serving        map[string]*remoteTurn
	watchers       map[chan string]bool // get the ids of lost instances
	closed         bool                 // accepts no more turns from other instances
	disconnectFunc func(bot int64)      // closes a bot's connection on this instance; may be nil
	stop           chan struct{}
	done           chan struct{}
}

// heldBot is a bot that this instance holds.
type heldBot struct {
	slot  *slot
	epoch int64
	moved bool               // the bot has been told that another instance holds it
	sub   *nats.Subscription // nil if there is no other instance, or if another one took over
}

// announcement is the list of bots that an instance holds.
type announcement struct {
	Instance string          `json:"i"`
	Bots     map[int64]int64 `json:"b"`
}

const (
	presenceSubject   = "presence"
	disconnectSubject = "unplug"
	// presenceInterval is the interval of announcements, for instances that started later or
	// missed one. Changes are announced at once.
	presenceInterval = 5 * time.Second
	// markSeenInterval is how often the database is updated with the connected bots.
	markSeenInterval = 15 * time.Second
)

func newPresence(h *Hub) (*presence, error) {
	p := &presence{
		hub: h, local: map[int64]*heldBot{}, remote: map[string]map[int64]int64{}, lastHeld: map[int64]time.Time{},
		change: make(chan struct{}), serving: map[string]*remoteTurn{}, watchers: map[chan string]bool{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if !h.Bus.IsStandalone() {
		h.Bus.OnPeerLost(p.instanceLost)
		h.Bus.OnPeerJoined(p.announce)
		for subject, handle := range map[string]nats.MsgHandler{
			presenceSubject:                   p.onAnnouncement,
			turnCancelSubject(h.Bus.Instance): p.onTurnCancel,
			disconnectSubject:                 p.onDisconnectBot,
		} {
			sub, err := h.Bus.Subscribe(subject, handle)
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
	announce, seen := time.NewTicker(presenceInterval), time.NewTicker(markSeenInterval)
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

// withdraw stops accepting turns from other instances: the bots held here are not announced any
// more. Running turns continue.
func (p *presence) withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, h := range p.local {
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

// release unsubscribes from the bot's subject.
func (h *heldBot) release() {
	if h.sub != nil {
		h.sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed, which has the same effect
		h.sub = nil
	}
}

// held returns the numbers of the bots held on this instance.
func (p *presence) held() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]int64, 0, len(p.local))
	for n := range p.local {
		out = append(out, n)
	}
	return out
}

func (p *presence) markSeen(bots ...int64) {
	if len(bots) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if err := p.hub.Store.Bots.MarkSeen(ctx, bots, time.Now()); err != nil {
		p.hub.Logger.Warn("when bots were last seen was not written", "error", err)
	}
}

// AttachBot registers the connection of an inbound bot, with the limits of the connection unless
// the bot's owner set others. It replaces an earlier connection of the bot. The returned function
// unregisters it; running turns continue.
func (h *Hub) AttachBot(number int64, bot talk.Bot, l Limits) (detach func()) {
	p := h.presence
	ctx, cancel := context.WithTimeout(h.ctx, writeTimeout)
	defer cancel()
	var c Common
	if row, err := h.Store.Bots.ByNumber(ctx, number); err == nil {
		if err := h.Registry.Settings(row, &c); err != nil {
			h.Logger.Warn("a bot's settings cannot be read", "bot", number, "error", err)
		}
	}
	held := &heldBot{slot: h.newSlot(bot, l, c), epoch: h.epochs.next()}
	p.mu.Lock()
	old := p.local[number]
	p.local[number] = held
	if old != nil {
		held.sub, old.sub = old.sub, nil
	}
	p.updateSubscriptions()
	p.mu.Unlock()
	p.markSeen(number)
	p.announce()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		if p.local[number] == held {
			delete(p.local, number)
			p.lastHeld[number] = time.Now()
		}
		held.release()
		p.updateSubscriptions()
		p.mu.Unlock()
		p.markSeen(number)
		p.announce()
	})
}

// RenewBot marks this instance as the one with the newest connection of an attached bot, because
// the bot has connected here again.
func (h *Hub) RenewBot(number int64) {
	p := h.presence
	p.mu.Lock()
	held := p.local[number]
	if held != nil {
		held.epoch = h.epochs.next()
		p.updateSubscriptions()
	}
	p.mu.Unlock()
	if held != nil {
		p.announce()
	}
}

// updateSubscriptions subscribes to the subjects of the bots whose turns this instance takes,
// unsubscribes from the others, and wakes turns that wait for a bot. Requires mu.
func (p *presence) updateSubscriptions() {
	close(p.change)
	p.change = make(chan struct{})
	if p.hub.Bus.IsStandalone() {
		return
	}
	for n, h := range p.local {
		mine := !p.newerElsewhere(n, h.epoch)
		if m, ok := h.slot.bot.(Movable); ok && !mine && !h.moved {
			m.Moved(h.epoch)
		}
		h.moved = !mine
		switch {
		case p.closed:
		case mine && h.sub == nil:
			sub, err := p.hub.Bus.QueueSubscribe(turnSubject(n), "holder", p.serve)
			if err != nil {
				p.hub.Logger.Error("a bot cannot be offered to other instances", "bot", n, "error", err)
				continue
			}
			h.sub = sub
		case !mine && h.sub != nil:
			h.release()
		}
	}
}

// newerElsewhere reports whether another instance has a newer connection of a bot. Requires mu.
func (p *presence) newerElsewhere(bot, epoch int64) bool {
	for instance, bots := range p.remote {
		if other, ok := bots[bot]; ok && newer(other, instance, epoch, p.hub.Bus.Instance) {
			return true
		}
	}
	return false
}

func (p *presence) announce() {
	if p.hub.Bus.IsStandalone() {
		return
	}
	a := announcement{Instance: p.hub.Bus.Instance, Bots: map[int64]int64{}}
	p.mu.Lock()
	for n, h := range p.local {
		a.Bots[n] = h.epoch
	}
	p.mu.Unlock()
	text, err := json.Marshal(a)
	if err == nil {
		err = p.hub.Bus.Publish(presenceSubject, text)
	}
	if err != nil {
		p.hub.Logger.Warn("what this instance holds was not announced", "error", err)
	}
}

// onAnnouncement handles the announcement of another instance.
func (p *presence) onAnnouncement(m *nats.Msg) {
	var a announcement
	if json.Unmarshal(m.Data, &a) != nil || a.Instance == p.hub.Bus.Instance {
		return
	}
	p.mu.Lock()
	_, known := p.remote[a.Instance]
	for n := range p.remote[a.Instance] {
		if _, still := a.Bots[n]; !still {
			p.lastHeld[n] = time.Now()
		}
	}
	for _, epoch := range a.Bots {
		p.hub.epochs.observe(epoch)
	}
	p.remote[a.Instance] = a.Bots
	p.updateSubscriptions()
	p.mu.Unlock()
	if !known {
		p.announce() // it is new and does not know this instance
	}
}

// instanceLost removes a lost instance and ends the turns served for it.
func (p *presence) instanceLost(instance string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.remote[instance] {
		p.lastHeld[n] = time.Now()
	}
	delete(p.remote, instance)
	for _, s := range p.serving {
		if s.asker == instance {
			s.cancel(errAskerLost)
		}
	}
	for w := range p.watchers {
		select {
		case w <- instance:
		default: // full; the watcher's regular check finds this one
		}
	}
	p.updateSubscriptions()
}

// watchLost returns a channel with the ids of instances that are lost from now on, until
// unsubscribe is called.
func (p *presence) watchLost() (lost <-chan string, unsubscribe func()) {
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

// find returns the target of an inbound bot. If the bot disconnected a moment ago, find waits for
// its peer to reconnect, up to ReconnectGrace; it calls onWait once if that takes longer than
// ReconnectNotice.
func (p *presence) find(ctx context.Context, bot store.Bot, onWait func()) (target, error) {
	notice := time.NewTimer(p.hub.ReconnectNotice)
	defer notice.Stop()
	for {
		p.mu.Lock()
		t := p.holder(bot.Number)
		seen, change := p.lastHeld[bot.Number], p.change
		p.mu.Unlock()
		if t != nil {
			return t, nil
		}
		if bot.Seen.After(seen) {
			seen = bot.Seen
		}
		left := time.Until(seen.Add(p.hub.ReconnectGrace))
		if left <= 0 {
			return nil, talk.Fail(talk.Offline, "", nil)
		}
		timer := time.NewTimer(left)
		select {
		case <-change:
		case <-timer.C:
		case <-notice.C:
			onWait()
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, talk.Fail(talk.Offline, "", ctx.Err())
		}
	}
}

// movedPollInterval is how often waitMoved returns without a change, because the announcement of
// the instance that a bot moves to can be missed.
const movedPollInterval = 25 * time.Millisecond

// waitMoved waits until a bot may have moved. It returns false if ctx ended.
func (p *presence) waitMoved(ctx context.Context) bool {
	p.mu.Lock()
	change := p.change
	p.mu.Unlock()
	netx.WaitUnless(ctx, change, movedPollInterval)
	return ctx.Err() == nil
}

// holder returns the target of a bot's turns, or nil. Requires mu.
func (p *presence) holder(bot int64) target {
	h := p.local[bot]
	if h != nil && !p.newerElsewhere(bot, h.epoch) {
		return h.slot
	}
	for _, bots := range p.remote {
		if _, ok := bots[bot]; ok {
			return &remoteBot{p.hub, bot}
		}
	}
	if h != nil {
		return h.slot
	}
	return nil
}

// IsOnline reports whether an inbound bot is connected, to any instance.
func (h *Hub) IsOnline(bot int64) bool {
	h.presence.mu.Lock()
	defer h.presence.mu.Unlock()
	return h.presence.holder(bot) != nil
}

// BotChanges returns a channel that is closed at the next connect or disconnect of an inbound bot,
// on any instance.
func (h *Hub) BotChanges() <-chan struct{} {
	h.presence.mu.Lock()
	defer h.presence.mu.Unlock()
	return h.presence.change
}

// IsReachable reports whether a bot could be asked now: it is connected, or its kind is not
// inbound.
func (h *Hub) IsReachable(bot store.Bot) bool {
	k, err := h.Registry.Kind(bot.Kind)
	return err == nil && (!k.Inbound || h.IsOnline(bot.Number))
}

// OnDisconnectBot sets the function that closes the connection of a bot on this instance.
func (h *Hub) OnDisconnectBot(f func(bot int64)) {
	h.presence.mu.Lock()
	defer h.presence.mu.Unlock()
	h.presence.disconnectFunc = f
}

// DisconnectBot closes the connections of a bot on every instance, because its token has changed or
// it was removed. The running turns of a removed bot end.
func (h *Hub) DisconnectBot(bot int64) {
	h.presence.disconnect(bot)
	h.endRemoved(bot)
	if h.Bus.IsStandalone() {
		return
	}
	if err := h.Bus.Publish(disconnectSubject, strconv.AppendInt(nil, bot, 10)); err != nil {
		h.Logger.Warn("other instances were not told to unplug a bot", "bot", bot, "error", err)
	}
}

// onDisconnectBot handles the request of another instance to disconnect a bot. It is idempotent.
func (p *presence) onDisconnectBot(m *nats.Msg) {
	if bot, err := strconv.ParseInt(string(m.Data), 10, 64); err == nil {
		p.disconnect(bot)
		p.hub.endRemoved(bot)
	}
}

func (p *presence) disconnect(bot int64) {
	p.mu.Lock()
	cut := p.disconnectFunc
	p.mu.Unlock()
	if cut != nil {
		cut(bot)
	}
}
