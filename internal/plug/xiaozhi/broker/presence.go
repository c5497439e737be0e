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

// eventPrefix is before the name of a broker's node, and who comes and goes there.
const eventPrefix = "$SYS/brokers/"

// separator is between the parts of a board's client id: a group, its MAC address
// with underscores, and a UUID.
const separator = "@@@"

// identify finds the MAC address in a client id, which may be nothing else, and
// writes it with colons.
func identify(name string) (id string, ok bool) {
	if len(name) > maxName || strings.ContainsAny(name, "+#/\x00") || !utf8.ValidString(name) {
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

// seat is the Conn of a board, which begins if there is none. Nil refuses. The caller
// holds c.mu.
func (c *Client) seat(id, name string) *Conn {
	conn := c.conns[id]
	if conn != nil && !conn.isEnded() {
		conn.mu.Lock()
		conn.name = name
		conn.mu.Unlock()
		return conn
	}
	now := time.Now()
	if until, ok := c.strangers[id]; ok {
		if now.Before(until) {
			c.metrics.dropped.WithLabelValues("unknown").Inc()
			return nil
		}
		delete(c.strangers, id)
	}
	if c.count >= c.opt.MaxConns || c.pending >= maxPending {
		c.metrics.refused.WithLabelValues("full").Inc()
		return nil
	}
	next := &Conn{
		c: c, id: id, name: name, began: now, pace: rate.NewLimiter(rate.Limit(c.opt.Rate), c.opt.Burst),
		wake: make(chan struct{}, 1), ended: make(chan struct{}), over: make(chan struct{}),
	}
	next.heard.Store(now.UnixNano())
	if conn != nil {
		next.after = conn.over
	}
	c.conns[id] = next
	c.count++
	c.pending++
	c.sessions.Go(next.run)
	return next
}

// letIn counts a Conn among those that are approved.
func (c *Client) letIn(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.known = true
	c.pending--
}

// estrange ends a Conn that is refused, and remembers that for a while.
func (c *Client) estrange(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.strangers) >= maxStrangers {
		clear(c.strangers)
	}
	c.strangers[conn.id] = time.Now().Add(c.waits.refused)
	conn.end(mqtt.ErrClosed)
}

// leave is the end of a Conn.
func (c *Client) leave(conn *Conn) {
	conn.end(mqtt.ErrClosed)
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.discard()
	if c.conns[conn.id] == conn {
		delete(c.conns, conn.id)
	}
	c.count--
	if !conn.known {
		c.pending--
	}
	close(conn.over)
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

// event is what a broker tells of a client of its that comes or goes.
type event struct {
	ClientID       string `json:"clientid"`
	IP             string `json:"ipaddress"`
	ConnectedAt    int64  `json:"connected_at"`    // ms
	DisconnectedAt int64  `json:"disconnected_at"` // ms
	Reason         string `json:"reason"`
}

// parseRemote reads where a client is. Some brokers say the port, most do not.
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

// parseEvent reads what is told, on a topic after eventPrefix.
func parseEvent(topic string, payload []byte) (e event, came, ok bool) {
	parts := strings.Split(topic, "/")
	if len(parts) != 4 || parts[1] != "clients" || json.Unmarshal(payload, &e) != nil {
		return event{}, false, false
	}
	e.ClientID = cmp.Or(e.ClientID, parts[2])
	came = parts[3] == "connected"
	return e, came, e.ClientID == parts[2] && (came || parts[3] == "disconnected")
}

// news is what the broker tells. The caller holds c.mu.
func (c *Client) news(topic string, payload []byte) {
	e, came, ok := parseEvent(topic, payload)
	if !ok {
		c.metrics.dropped.WithLabelValues("event").Inc()
		return
	}
	id, ok := identify(e.ClientID)
	if !ok {
		return // somebody else's client
	}
	conn := c.conns[id]
	if conn != nil && conn.isEnded() {
		conn = nil
	}
	if came {
		c.came(id, e, conn)
	} else if conn != nil && conn.ClientID() == e.ClientID {
		c.went(e, conn)
	}
}

// came is a board that has connected. The order in which brokers tell that, its
// messages and the end of its last connection is any.
func (c *Client) came(id string, e event, conn *Conn) {
	switch {
	case conn != nil && e.ConnectedAt != 0 && e.ConnectedAt <= conn.since:
		return
	case conn != nil && conn.since == 0 && time.Since(conn.began) < c.waits.adopt: // its message was faster
	default:
		if conn != nil {
			conn.end(mqtt.ErrTakenOver)
		}
		if conn = c.seat(id, e.ClientID); conn == nil {
			return
		}
	}
	conn.since = e.ConnectedAt
	conn.heard.Store(time.Now().UnixNano())
	conn.mu.Lock()
	conn.name, conn.remote = e.ClientID, parseRemote(e.IP)
	conn.mu.Unlock()
}

// went is a board that has left, unless it is back by now.
func (c *Client) went(e event, conn *Conn) {
	switch e.Reason {
	case "takenover", "discarded", "session_taken_over":
		return
	case "normal":
		if e.DisconnectedAt == 0 || e.DisconnectedAt >= conn.since {
			conn.end(nil)
		}
		return
	}
	if e.DisconnectedAt == 0 || e.DisconnectedAt >= conn.since {
		conn.end(ErrLeft)
	}
}

// patrol sees to it that boards say something now and then, as long as the client
// runs.
func (c *Client) patrol() {
	tick := time.NewTicker(max(c.opt.Probe/8, time.Millisecond))
	defer tick.Stop()
	var called time.Time
	for {
		fresh := false
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		case <-c.joined: // nobody knows what was missed
			fresh = true
		}
		if !c.Up() {
			continue
		}
		for _, conn := range c.quiet() {
			if c.knocks.Wait(c.ctx) != nil {
				return
			}
			conn.ask()
		}
		if fresh || time.Since(called) >= c.opt.Probe {
			called = time.Now()
			c.callRoll()
		}
	}
}

// quiet is who is to be asked: who has said nothing for Probe, or since there is a
// connection. Who was asked, and has said nothing for Silent, ends.
func (c *Client) quiet() []*Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var quiet []*Conn
	for _, conn := range c.conns {
		heard := conn.LastHeard()
		switch {
		case now.Sub(heard) >= c.opt.Silent && conn.probed.After(heard):
			conn.end(mqtt.ErrSilent)
		case now.Sub(heard) >= c.opt.Probe && now.Sub(conn.probed) >= c.opt.Probe,
			heard.Before(c.joinedAt) && conn.probed.Before(c.joinedAt):
			conn.probed = now
			quiet = append(quiet, conn)
		}
	}
	return quiet
}

// callRoll knocks at the boards that are not known to be there.
func (c *Client) callRoll() {
	if c.opt.Roll == nil {
		return
	}
	names, err := c.opt.Roll(c.ctx)
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
		if c.knocks.Wait(c.ctx) != nil {
			return
		}
		c.metrics.knocks.Inc()
		// Without room the next time does it.
		_ = c.out.put(c.opt.PushPrefix+"/"+name, []byte(c.opt.Knock))
	}
}
