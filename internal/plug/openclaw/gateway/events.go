package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// told is something that clients of all instances may have to hear.
type told struct {
	Event   string          `json:"event,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Owner   string          `json:"owner,omitempty"` // whose operators hear it
	Scope   string          `json:"scope,omitempty"` // that they need
	Session string          `json:"session,omitempty"`
	Node    string          `json:"node,omitempty"` // hears it too

	Peer string `json:"peer,omitempty"` // has changed
}

// tell tells all instances something.
func (g *Gateway) tell(t told) {
	if t.Event != "" {
		g.hear(t)
	}
	if g.Tell == nil {
		return
	}
	if err := g.Tell(encoded(t)); err != nil {
		g.metrics.untold.Inc()
		g.Logger.Warn("openclaw: other instances were not told", "event", t.Event, "error", err)
	}
}

// heard takes what another instance told.
func (g *Gateway) heard(data []byte) {
	var t told
	if json.Unmarshal(data, &t) != nil {
		return
	}
	switch {
	case t.Event != "":
		g.hear(t)
	case t.Peer != "":
		g.spawn(func() { g.look(t.Peer) })
	}
}

// hear hands an event to the clients of this instance.
func (g *Gateway) hear(t told) {
	for _, c := range g.operators(t.Owner) {
		if !c.may(t.Scope) {
			continue
		}
		switch {
		case t.Session == "":
			c.event(t.Event, t.Payload, true)
		case c.person.ID != t.Owner: // an administrator is not in on conversations of others
		case !c.scoped:
			c.event(t.Event, t.Payload, true)
		case c.subscribed(t.Session):
			c.event(t.Event, t.Payload, false)
		}
	}
	if n := g.node(t.Node); t.Node != "" && n != nil {
		n.c.event(t.Event, t.Payload, false)
	}
	if t.Session == "" {
		return
	}
	for _, n := range g.listeners(t.Owner, t.Session) {
		n.c.event(t.Event, t.Payload, false)
	}
}

// listeners are the nodes of a person that hear a conversation.
func (g *Gateway) listeners(owner, session string) []*node {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*node
	for _, n := range g.nodes {
		if n.owner == owner && n.hears(session) {
			list = append(list, n)
		}
	}
	return list
}

// look takes over what somebody else has changed about a peer.
func (g *Gateway) look(id string) {
	ctx, cancel := context.WithTimeout(g.ctx, databaseLimit)
	defer cancel()
	p, err := g.Store.Peers.ByID(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		g.forget(id)
	case err != nil:
		g.Logger.Warn("openclaw: what has changed about a device could not be read", "device", id, "error", err)
	default:
		g.apply(p)
	}
}

// keepFresh notices what other programs, such as the command line, have changed about
// peers, and what instances have not told each other.
func (g *Gateway) keepFresh() {
	tick := time.NewTimer(0) // nodes that are away are listed from the beginning
	defer tick.Stop()
	known := int64(-1)
	var rest, keys time.Time
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			tick.Reset(g.Timings.Fresh)
		}
		version, err := g.Store.PeersVersion(g.ctx)
		if began := time.Now(); err == nil && version != known && began.After(rest) {
			if err = g.Refresh(g.ctx); err == nil {
				known, keys = version, time.Now().Add(keyLife)
			}
			// Thousands that come at the same time change something all the time, and
			// reading all of them must not be all that is done.
			rest = time.Now().Add(20 * time.Since(began))
		}
		if !keys.IsZero() && time.Now().After(keys) {
			keys = time.Time{}
			g.turnOut()
		}
		if err != nil && g.ctx.Err() == nil {
			g.Logger.Warn("openclaw: whether devices have changed could not be found out", "error", err)
		}
	}
}

// keyLife is after how long nobody believes any more that a key is good without looking
// again, see [account.Recent].
const keyLife = 1500 * time.Millisecond

// turnOut ends the connections of operators that have nothing but a key which is good no
// more, as those of somebody who was removed. Who has a device goes with that.
func (g *Gateway) turnOut() {
	for _, c := range g.everybody() {
		if c.device == "" && !c.stillGood(g.ctx) {
			c.bye(authChanged)
		}
	}
}

// KeysChanged ends the connections whose key is good no more, or good for less. It returns
// at once.
func (g *Gateway) KeysChanged() {
	g.keys.Forget()
	select {
	case g.keysChanged <- struct{}{}:
	default:
	}
}

// Refresh takes over what has changed about peers, connected or not.
func (g *Gateway) Refresh(ctx context.Context) error {
	here := map[string]bool{} // devices
	for _, c := range g.everybody() {
		if c.device != "" {
			here[c.device] = true
		}
	}
	known := map[string]bool{} // all devices
	for after := ""; ; {
		page, err := g.Store.Peers.ByOwner(ctx, "", after, pageOfPeers)
		if err != nil {
			return err
		}
		for _, p := range page {
			known[p.ID] = true
			if here[p.ID] {
				delete(here, p.ID)
				g.takeOver(p)
			} else {
				g.settle(p)
			}
		}
		if len(page) < pageOfPeers {
			break
		}
		after = page[len(page)-1].ID
	}
	for id := range here {
		g.look(id) // it may have been paired since the page was read
	}
	for _, id := range g.slots.away() {
		if !known[id] {
			g.look(id) // it was removed, or paired since
		}
	}
	return nil
}

// takeOver is apply for a peer that is probably the same as before.
func (g *Gateway) takeOver(p store.Peer) {
	if n := g.node(p.ID); n != nil && n.same(p) {
		return
	}
	g.apply(p)
}

// beat does what is to be done now and then for all connections.
func (g *Gateway) beat() {
	step := max(min(g.Timings.Tick, g.Timings.Ping, g.Timings.Health, 4*time.Second)/4, 5*time.Millisecond)
	tick := time.NewTicker(step)
	defer tick.Stop()
	healthy, looked := time.Now(), time.Now()
	for {
		var now time.Time
		changed := false
		select {
		case <-g.ctx.Done():
			return
		case <-g.keysChanged:
			now, changed = time.Now(), true
		case now = <-tick.C:
		}
		health := now.Sub(healthy) >= g.Timings.Health
		if health {
			healthy = now
		}
		keys := changed || now.Sub(looked) >= g.Timings.Ping
		if keys {
			looked = now
		}
		g.slots.lapse(now)
		presence := g.presenceChanged()
		for _, c := range g.everybody() {
			g.beatOf(c, now, health, presence)
			if keys && !c.stillGood(g.ctx) {
				c.bye(authChanged)
			}
		}
	}
}

// beatOf does it for one connection.
func (g *Gateway) beatOf(c *conn, now time.Time, health, presence bool) {
	silent := now.Sub(time.Unix(0, c.link.heard.Load()))
	switch {
	case silent > 2*g.Timings.Ping:
		g.metrics.closed.WithLabelValues("silent").Inc()
		c.drop()
		return
	case silent > g.Timings.Ping && now.Sub(c.pinged) > g.Timings.Ping:
		c.pinged = now
		c.ping()
	}
	if now.UnixMilli()-c.ticked.Load() >= g.Timings.Tick.Milliseconds() {
		c.ticked.Store(now.UnixMilli())
		c.event(wire.EventTick, encoded(map[string]int64{"ts": now.UnixMilli()}), true)
	}
	if health {
		c.event(wire.EventHealth, g.health(), true)
	}
	if presence && c.role == wire.RoleOperator && c.may(wire.ScopeRead) {
		c.event(wire.EventPresence, encoded(map[string]any{"presence": g.present(c)}), true)
	}
}

// presenceChanged says whether clients came or went since it was asked last.
func (g *Gateway) presenceChanged() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := g.presence != g.told
	g.told = g.presence
	return changed
}

// health is how the gateway is, as clients are told.
func (g *Gateway) health() json.RawMessage {
	return encoded(map[string]any{"ok": true, "ts": time.Now().UnixMilli(), "durationMs": 0, "defaultAgentId": mainAgent, "channels": struct{}{}, "channelOrder": []string{}})
}

// maxPresent bounds how many clients are told as being present.
const maxPresent = 200

// present are the clients of this instance that an operator sees.
func (g *Gateway) present(c *conn) []any {
	type entry struct {
		Host     string   `json:"host,omitempty"`
		ClientID string   `json:"clientId"`
		IP       string   `json:"ip,omitempty"`
		Version  string   `json:"version"`
		Platform string   `json:"platform"`
		Family   string   `json:"deviceFamily,omitempty"`
		Mode     string   `json:"mode"`
		Device   string   `json:"deviceId,omitempty"`
		Roles    []string `json:"roles"`
		Reason   string   `json:"reason"`
		TS       int64    `json:"ts"`
		Text     string   `json:"text"`
	}
	list := []any{}
	for _, o := range g.everybody() {
		if !c.sees(o.person.ID) || o.client.ID == wire.ClientCLI {
			continue
		}
		if len(list) == maxPresent {
			break
		}
		host := nameOf(o.client)
		if host == "" {
			host = o.client.ID
		}
		list = append(list, entry{
			Host: host, ClientID: o.client.ID, IP: o.address.String(), Version: o.client.Version, Platform: o.client.Platform, Family: o.client.DeviceFamily,
			Mode: o.client.Mode, Device: o.device, Roles: []string{o.role}, Reason: "connect", TS: millis(o.since), Text: host + " · mode " + o.client.Mode,
		})
	}
	return list
}

// peoples are the rules of a key without any of its own.
var peoples = func() string {
	own, _, _, _ := rulesOf(store.Key{}) // the zero rules can be read
	return own
}()
