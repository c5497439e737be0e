package broker

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// eventPrefix is the prefix of EMQX's presence events; the broker's node name follows (EMQX 5
// documentation, "System Topic", "Client Online and Offline Events").
const eventPrefix = "$SYS/brokers/"

// separator separates the parts of a board's client id: a group, the MAC address with underscores,
// and a UUID (mqtt-gateway app.js, handleConnect).
const separator = "@@@"

// identify returns the MAC address in a client id, with colons. The client id may also consist of
// the MAC address alone.
func identify(name string) (id string, ok bool) {
	if len(name) > maxClientID || strings.ContainsAny(name, "+#/\x00") || !utf8.ValidString(name) {
		return "", false
	}
	mac := name
	switch parts := strings.Split(name, separator); len(parts) {
	case 1:
	case 3:
		mac = parts[1]
	default:
		return "", false
	}
	if len(mac) != len("aa_bb_cc_dd_ee_ff") {
		return "", false
	}
	for i := range len(mac) {
		digit := '0' <= mac[i] && mac[i] <= '9' || 'a' <= mac[i] && mac[i] <= 'f'
		if i%3 == 2 && mac[i] != '_' || i%3 != 2 && !digit {
			return "", false
		}
	}
	return strings.ReplaceAll(mac, "_", ":"), true
}

// connFor returns the Conn of a board, and begins one if there is none. Nil: the board is refused.
// The caller holds c.mu.
func (c *Client) connFor(id, name string) *Conn {
	conn := c.conns[id]
	if conn != nil && !conn.isEnded() {
		conn.mu.Lock()
		conn.clientID = name
		conn.mu.Unlock()
		return conn
	}
	now := time.Now()
	if until, ok := c.refusedUntil[id]; ok {
		if now.Before(until) {
			c.metrics.dropped.WithLabelValues("unknown").Inc()
			return nil
		}
		delete(c.refusedUntil, id)
	}
	if c.connCount >= c.opt.MaxConns || c.pending >= maxPending {
		c.metrics.refused.WithLabelValues("full").Inc()
		return nil
	}
	next := &Conn{
		c: c, id: id, clientID: name, began: now, limiter: rate.NewLimiter(rate.Limit(c.opt.Rate), c.opt.Burst),
		wake: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{}),
	}
	next.lastHeard.Store(now.UnixNano())
	if conn != nil {
		next.previous = conn.done
	}
	c.conns[id] = next
	c.connCount++
	c.pending++
	c.sessions.Go(next.run)
	return next
}

// markApproved counts a Conn as approved.
func (c *Client) markApproved(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.approved = true
	c.pending--
}

// refuse ends the Conn of a refused board, and remembers the refusal.
func (c *Client) refuse(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refusedUntil) >= maxRefused {
		clear(c.refusedUntil)
	}
	c.refusedUntil[conn.id] = time.Now().Add(c.timings.refusalTTL)
	conn.end(mqtt.ErrClosed)
}

// remove forgets a Conn that has ended.
func (c *Client) remove(conn *Conn) {
	conn.end(mqtt.ErrClosed)
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.clearQueue()
	if c.conns[conn.id] == conn {
		delete(c.conns, conn.id)
	}
	c.connCount--
	if !conn.approved {
		c.pending--
	}
	close(conn.done)
}

// endAll ends all boards. It does not wait for their sessions.
func (c *Client) endAll(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endAllLocked(why)
}

func (c *Client) endAllLocked(why error) {
	for _, conn := range c.conns {
		conn.end(why)
	}
}

// presenceEvent is the payload of a presence event (EMQX 5 documentation, "System Topic").
type presenceEvent struct {
	ClientID       string `json:"clientid"`
	IP             string `json:"ipaddress"`
	ConnectedAt    int64  `json:"connected_at"`    // ms
	DisconnectedAt int64  `json:"disconnected_at"` // ms
	Reason         string `json:"reason"`
}

// parseRemote parses a client's address; most brokers omit the port.
func parseRemote(s string) netip.AddrPort {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), 0)
}

// parseEvent parses a presence event. topic is without eventPrefix.
func parseEvent(topic string, payload []byte) (e presenceEvent, connected, ok bool) {
	parts := strings.Split(topic, "/")
	if len(parts) != 4 || parts[1] != "clients" || json.Unmarshal(payload, &e) != nil {
		return presenceEvent{}, false, false
	}
	e.ClientID = cmp.Or(e.ClientID, parts[2])
	connected = parts[3] == "connected"
	return e, connected, e.ClientID == parts[2] && (connected || parts[3] == "disconnected")
}

// onBrokerEvent handles a presence event. The caller holds c.mu.
func (c *Client) onBrokerEvent(topic string, payload []byte) {
	e, connected, ok := parseEvent(topic, payload)
	if !ok {
		c.metrics.dropped.WithLabelValues("event").Inc()
		return
	}
	id, ok := identify(e.ClientID)
	if !ok {
		return // not a board
	}
	conn := c.conns[id]
	if conn != nil && conn.isEnded() {
		conn = nil
	}
	if connected {
		c.onBoardConnected(id, e, conn)
	} else if conn != nil && conn.ClientID() == e.ClientID {
		c.onBoardDisconnected(e, conn)
	}
}

// onBoardConnected handles a connect event. The event, the board's messages and the disconnect
// event of its previous connection can arrive in any order.
func (c *Client) onBoardConnected(id string, e presenceEvent, conn *Conn) {
	switch {
	case conn != nil && e.ConnectedAt != 0 && e.ConnectedAt <= conn.connectedAt:
		return
	case conn != nil && conn.connectedAt == 0 && time.Since(conn.began) < c.timings.adoptWindow: // message came first
	default:
		if conn != nil {
			conn.end(mqtt.ErrTakenOver)
		}
		if conn = c.connFor(id, e.ClientID); conn == nil {
			return
		}
	}
	conn.connectedAt = e.ConnectedAt
	conn.lastHeard.Store(time.Now().UnixNano())
	conn.mu.Lock()
	conn.clientID, conn.remote = e.ClientID, parseRemote(e.IP)
	conn.mu.Unlock()
}

// onBoardDisconnected handles a disconnect event, unless the board has reconnected.
func (c *Client) onBoardDisconnected(e presenceEvent, conn *Conn) {
	switch e.Reason {
	case "takenover", "discarded", "session_taken_over":
		return
	case "normal":
		if e.DisconnectedAt == 0 || e.DisconnectedAt >= conn.connectedAt {
			conn.end(nil)
		}
		return
	}
	if e.DisconnectedAt == 0 || e.DisconnectedAt >= conn.connectedAt {
		conn.end(ErrBoardDisconnected)
	}
}

// probeLoop probes silent boards until the client stops.
func (c *Client) probeLoop() {
	tick := time.NewTicker(max(c.opt.ProbeInterval/8, time.Millisecond))
	defer tick.Stop()
	var called time.Time
	for {
		fresh := false
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		case <-c.reconnected: // messages may have been missed
			fresh = true
		}
		if !c.IsConnected() {
			continue
		}
		for _, conn := range c.silentConns() {
			if c.probeLimiter.Wait(c.ctx) != nil {
				return
			}
			conn.requestProbe()
		}
		if fresh || time.Since(called) >= c.opt.ProbeInterval {
			called = time.Now()
			c.probeMissing()
		}
	}
}

// silentConns returns the boards to probe: those silent for ProbeInterval, or since the connection
// to the broker. It ends those that were probed and have been silent for SilenceTimeout.
func (c *Client) silentConns() []*Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var quiet []*Conn
	for _, conn := range c.conns {
		heard := conn.LastHeard()
		switch {
		case now.Sub(heard) >= c.opt.SilenceTimeout && conn.probedAt.After(heard):
			conn.end(mqtt.ErrSilent)
		case now.Sub(heard) >= c.opt.ProbeInterval && now.Sub(conn.probedAt) >= c.opt.ProbeInterval,
			heard.Before(c.connectedAt) && conn.probedAt.Before(c.connectedAt):
			conn.probedAt = now
			quiet = append(quiet, conn)
		}
	}
	return quiet
}

// probeMissing probes the boards that are not present.
func (c *Client) probeMissing() {
	if c.opt.ClientIDs == nil {
		return
	}
	names, err := c.opt.ClientIDs(c.ctx)
	if err != nil {
		if c.ctx.Err() == nil {
			c.opt.Logger.Warn("it is not known which boards may be behind the MQTT broker", "error", err)
		}
		return
	}
	for _, name := range names {
		id, ok := identify(name)
		if !ok {
			c.opt.Logger.Error("the client id of a board does not fit", "client", name)
			continue
		}
		c.mu.Lock()
		_, there := c.conns[id]
		c.mu.Unlock()
		if there {
			continue
		}
		if c.probeLimiter.Wait(c.ctx) != nil {
			return
		}
		c.metrics.probes.Inc()
		// If the outbox is full, the next round probes the board.
		_ = c.outbox.put(c.opt.PushPrefix+"/"+name, []byte(c.opt.ProbePayload))
	}
}
