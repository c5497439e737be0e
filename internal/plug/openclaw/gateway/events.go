package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// broadcastEvent is an event for clients of all instances.
type broadcastEvent struct {
	Event   string          `json:"event,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Owner   string          `json:"owner,omitempty"` // person whose operators receive it
	Scope   string          `json:"scope,omitempty"` // scope they need
	Session string          `json:"session,omitempty"`
	Bot     int64           `json:"bot,omitempty"`   // of the session
	Index   bool            `json:"index,omitempty"` // only for those who follow the list of sessions, or this session
	// Tool events are for clients that show tools; those with Index are for all others.
	Tool bool   `json:"tool,omitempty"`
	Node string `json:"node,omitempty"` // node that receives it too

	Peer string `json:"peer,omitempty"` // id of a changed peer
}

// broadcast sends an event to the clients of all instances.
func (g *Gateway) broadcast(t broadcastEvent) {
	if t.Event != "" {
		g.deliver(t)
	}
	if g.Broadcast == nil {
		return
	}
	if err := g.Broadcast(encoded(t)); err != nil {
		g.metrics.broadcastFailures.Inc()
		g.Logger.Warn("openclaw: other instances were not told", "event", t.Event, "error", err)
	}
}

// onBroadcast handles an event from another instance.
func (g *Gateway) onBroadcast(data []byte) {
	var t broadcastEvent
	if json.Unmarshal(data, &t) != nil {
		return
	}
	switch {
	case t.Event != "":
		g.deliver(t)
	case t.Peer != "":
		g.spawn(func() { g.reloadPeer(t.Peer) })
	}
}

// deliver sends an event to the clients of this instance.
func (g *Gateway) deliver(t broadcastEvent) {
	for _, c := range g.operators(t.Owner) {
		if !c.hasScope(t.Scope) || t.Tool && (c.toolEvents == t.Index || c.access.Rules != defaultRules) {
			continue // keys with rules get no results of tools that others may use
		}
		switch {
		case c.person.ID != t.Owner && (t.Session != "" || t.Scope == wire.ScopeApprovals):
			// Administrators receive no conversations of others, and do not decide for them.
		case t.Session == "":
			c.event(t.Event, t.Payload, true)
		case c.access.OnlyBot != 0 && c.access.OnlyBot != t.Bot:
		case t.Index:
			if c.follows(t.Session, t.Event) {
				c.event(t.Event, t.Payload, !c.sessionScoped)
			}
		case !c.sessionScoped:
			c.event(t.Event, t.Payload, true)
		case c.isSubscribed(t.Session):
			c.event(t.Event, t.Payload, false)
		}
	}
	if n := g.node(t.Node); t.Node != "" && n != nil {
		n.c.event(t.Event, t.Payload, false)
	}
	if t.Session == "" || t.Index || t.Tool {
		return
	}
	for _, n := range g.listeners(t.Owner, t.Session) {
		n.c.event(t.Event, t.Payload, false)
	}
}

// listeners returns the nodes of a person that have subscribed to a conversation.
func (g *Gateway) listeners(owner, session string) []*node {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*node
	for _, n := range g.nodes {
		if n.owner == owner && n.isSubscribed(session) {
			list = append(list, n)
		}
	}
	return list
}

// reloadPeer applies a peer's changes that were made elsewhere.
func (g *Gateway) reloadPeer(id string) {
	ctx, cancel := context.WithTimeout(g.ctx, databaseTimeout)
	defer cancel()
	p, err := g.Store.Peers.ByID(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		g.forgetPeer(id)
	case err != nil:
		g.Logger.Warn("openclaw: what has changed about a device could not be read", "device", id, "error", err)
	default:
		g.applyPeer(p)
	}
}

// watchPeers polls for changes of peers made by other programs, such as the command line, and
// for missed broadcasts.
func (g *Gateway) watchPeers() {
	known := int64(-1)
	var rest, keys time.Time
	next := time.Now() // first poll at once, to list absent nodes
	for netx.Wait(g.ctx, time.Until(next)) == nil {
		next = time.Now().Add(g.Timings.PeerRefresh)
		version, err := g.Store.PeersVersion(g.ctx)
		if began := time.Now(); err == nil && version != known && began.After(rest) {
			if err = g.Refresh(g.ctx); err == nil {
				known, keys = version, time.Now().Add(keyCacheTTL)
			}
			// When thousands of nodes connect, something changes all the time; polling must not
			// use more than a fraction of the time.
			rest = time.Now().Add(20 * time.Since(began))
		}
		if !keys.IsZero() && time.Now().After(keys) {
			keys = time.Time{}
			g.closeRevoked()
		}
		if err != nil && g.ctx.Err() == nil {
			g.Logger.Warn("openclaw: whether devices have changed could not be found out", "error", err)
		}
	}
}

// keyCacheTTL is how long a key validation is cached, see [account.Recent].
const keyCacheTTL = 1500 * time.Millisecond

// closeRevoked ends the connections of operators that authenticated with a key that is no longer
// valid, such as that of a removed person. Device tokens are handled with their peers.
func (g *Gateway) closeRevoked() {
	for _, c := range g.connections() {
		if c.device == "" && !c.isCredentialValid(g.ctx) {
			c.closeWith(errAuthChanged)
		}
	}
}

// KeysChanged closes the connections whose key was revoked or restricted. It does not block.
func (g *Gateway) KeysChanged() {
	g.keys.Forget()
	select {
	case g.keysChanged <- struct{}{}:
	default:
	}
}

// Refresh applies changes of all peers, connected or not.
func (g *Gateway) Refresh(ctx context.Context) error {
	here := map[string][]*conn{} // connections of devices
	for _, c := range g.connections() {
		if c.device != "" {
			here[c.device] = append(here[c.device], c)
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
			if conns := here[p.ID]; conns != nil {
				delete(here, p.ID)
				g.applyIfChanged(p)
				for _, c := range conns {
					c.closeUnlessValid(p) // a node that is known as it is now may have a token that has ended
				}
			} else {
				g.syncAway(p)
			}
		}
		if len(page) < pageOfPeers {
			break
		}
		after = page[len(page)-1].ID
	}
	for id := range here {
		g.reloadPeer(id) // it may have been paired after the page was read
	}
	for _, id := range g.slots.awayDevices() {
		if !known[id] {
			g.reloadPeer(id) // it was removed, or paired since
		}
	}
	return nil
}

// applyIfChanged applies a peer if it differs from the known state.
func (g *Gateway) applyIfChanged(p store.Peer) {
	if n := g.node(p.ID); n != nil && n.isUnchanged(p) {
		return
	}
	g.applyPeer(p)
}

// heartbeat does the periodic work for all connections: ticks, pings, health and presence
// events.
func (g *Gateway) heartbeat() {
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
		g.slots.expireRecent(now)
		presence := g.presenceChanged()
		for _, c := range g.connections() {
			g.heartbeatConn(c, now, health, presence)
			if keys && !c.isCredentialValid(g.ctx) {
				c.closeWith(errAuthChanged)
			}
		}
	}
}

// heartbeatConn does the periodic work for one connection.
func (g *Gateway) heartbeatConn(c *conn, now time.Time, health, presence bool) {
	silent := now.Sub(time.Unix(0, c.link.lastRead.Load()))
	switch {
	case silent > 2*g.Timings.Ping:
		g.metrics.closed.WithLabelValues("silent").Inc()
		c.closeNow()
		return
	case silent > g.Timings.Ping && now.Sub(c.lastPing) > g.Timings.Ping:
		c.lastPing = now
		c.ping()
	}
	if now.UnixMilli()-c.lastTick.Load() >= g.Timings.Tick.Milliseconds() {
		c.lastTick.Store(now.UnixMilli())
		c.event(wire.EventTick, encoded(map[string]int64{"ts": now.UnixMilli()}), true)
	}
	if health {
		c.event(wire.EventHealth, g.healthPayload(), true)
	}
	if presence && c.role == wire.RoleOperator && c.hasScope(wire.ScopeRead) {
		c.event(wire.EventPresence, encoded(map[string]any{"presence": g.presenceList(c)}), true)
	}
}

// presenceChanged reports whether clients connected or disconnected since the last call.
func (g *Gateway) presenceChanged() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := g.presence != g.announcedPresence
	g.announcedPresence = g.presence
	return changed
}

// healthPayload returns the payload of a health event.
func (g *Gateway) healthPayload() json.RawMessage {
	return encoded(map[string]any{"ok": true, "ts": time.Now().UnixMilli(), "durationMs": 0,
		"defaultAgentId": mainAgent, "channels": struct{}{}, "channelOrder": []string{}})
}

// maxPresenceEntries limits the clients in a presence event.
const maxPresenceEntries = 200

// presenceList returns the clients of this instance that an operator sees.
func (g *Gateway) presenceList(c *conn) []any {
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
	for _, o := range g.connections() {
		if !c.canSee(o.person.ID) || o.client.ID == wire.ClientCLI {
			continue
		}
		if len(list) == maxPresenceEntries {
			break
		}
		host := nameOf(o.client)
		if host == "" {
			host = o.client.ID
		}
		list = append(list, entry{
			Host: host, ClientID: o.client.ID, IP: o.address.String(), Version: o.client.Version,
			Platform: o.client.Platform, Family: o.client.DeviceFamily,
			Mode: o.client.Mode, Device: o.device, Roles: []string{o.role},
			Reason: "connect", TS: millis(o.connectedAt), Text: host + " · mode " + o.client.Mode,
		})
	}
	return list
}

// defaultRules are the rules of a key that has none.
var defaultRules = func() string {
	own, _, _, _ := rulesOf(store.Key{}) // the zero rules always parse
	return own
}()
