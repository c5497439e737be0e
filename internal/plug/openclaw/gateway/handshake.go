package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"patchbay/internal/plug/openclaw/wire"
)

// handshake finds out who has connected. It returns the greeting, which is still to
// be sent: what is said to the client meanwhile waits behind it. Nil: there is nobody,
// and the connection has ended.
func (c *conn) handshake() *frame {
	entered := true
	defer func() {
		if entered {
			c.g.known(c.address)
		}
	}()
	ctx, cancel := context.WithTimeout(c.g.ctx, c.g.Timings.Handshake)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		c.bye(&wire.Error{Message: "", Close: wire.CloseNormal})
	})()
	nonce := uuid.NewString()
	challenge := newFrame()
	challenge.b = wire.AppendChallenge(challenge.b, nonce, time.Now())
	c.post(challenge)
	req, e := c.first()
	if e == nil {
		var p *wire.Connect
		if p, e = wire.ParseConnect(req.Params); e == nil {
			e = c.admit(ctx, p, nonce)
		}
	}
	if e != nil {
		c.refuse(req.ID, e)
		return nil
	}
	if ctx.Err() != nil {
		c.wait()
		return nil
	}
	c.hold()
	if !c.g.join(c) {
		c.g.metrics.refused.WithLabelValues("stopping").Inc()
		f := newFrame()
		f.b = wire.AppendFailure(f.b, req.ID, wire.Starting)
		c.release(f)
		c.bye(wire.Restarting)
		c.wait()
		return nil
	}
	entered = false
	c.ws.SetReadLimit(wire.MaxFrame)
	f := newFrame()
	f.b = wire.AppendResult(f.b, req.ID, c.hello(ctx))
	return f
}

var (
	// noJSON closes the connection of a client whose first frame is none.
	noJSON = &wire.Error{Message: "", Close: wire.CloseNormal}
	// hungUp is who says nothing at all.
	hungUp = &wire.Error{Message: "hung up"}
)

// first reads the first frame.
func (c *conn) first() (wire.Request, *wire.Error) {
	buf, kind, err := c.next()
	switch {
	case err != nil:
		return wire.Request{}, hungUp
	case kind != websocket.MessageText:
		return wire.Request{}, noJSON
	}
	// The buffer is not given back: the request shares its memory.
	req, err := wire.ParseRequest(buf.Bytes())
	switch {
	case errors.Is(err, wire.ErrSyntax):
		return req, noJSON
	case err != nil:
		return req, wire.NoRequest
	case req.Method != wire.MethodConnect:
		return req, wire.NotConnect
	}
	return req, nil
}

// refuse says why nobody is let in, and waits until the client has gone.
func (c *conn) refuse(id string, e *wire.Error) {
	if e == hungUp {
		c.g.metrics.refused.WithLabelValues("hung up").Inc()
		return
	}
	reason := e.Detail()
	if reason == "" {
		reason = e.Reason()
		if e.Close == wire.ClosePolicy && len(reason) > 24 {
			reason = string(e.Code)
		}
	}
	c.g.metrics.refused.WithLabelValues(reason).Inc()
	c.g.Logger.Info("openclaw: refused", "address", c.address, "client", c.client.ID, "why", e.Message, "detail", e.Detail())
	if e != noJSON && e != wire.NoRequest {
		f := newFrame()
		f.b = wire.AppendFailure(f.b, id, e)
		c.post(f)
	}
	c.bye(e)
	c.wait()
}

// wait reads until the connection ends, for its Close frame.
func (c *conn) wait() {
	timer := time.AfterFunc(2*farewell, c.drop)
	defer timer.Stop()
	for {
		buf, _, err := c.next()
		if err != nil {
			return
		}
		buffers.Put(buf)
	}
}

// join lets a client in that has said who it is. A node takes the place of the one of
// the same device. It reports false if the gateway stops.
func (g *Gateway) join(c *conn) bool {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return false
	}
	g.halfOpen--
	if g.halfOf[c.address]--; g.halfOf[c.address] == 0 {
		delete(g.halfOf, c.address)
	}
	g.conns[c] = struct{}{}
	var old *node
	if c.node != nil {
		old = g.nodes[c.device]
		g.nodes[c.device] = c.node
	}
	g.presence++
	g.mu.Unlock()
	if c.role == wire.RoleNode {
		g.metrics.nodes.Inc()
	} else {
		g.metrics.operators.Inc()
	}
	if old != nil {
		old.retire()
	}
	c.ticked.Store(time.Now().UnixMilli())
	return true
}

// The events that clients can expect.
var eventNames = []string{
	wire.EventChallenge, wire.EventTick, wire.EventHealth, wire.EventPresence, wire.EventShutdown, wire.EventAgent, wire.EventChat,
	wire.EventInvoke, wire.EventHostStats, wire.EventNodeRequested, wire.EventNodeResolved, wire.EventDeviceRequested, wire.EventDeviceResolved, EventNotification,
}

// hello is the answer to connect.
func (c *conn) hello(ctx context.Context) []byte {
	g := c.g
	h := wire.Hello{
		Server:   wire.Server{Version: g.Version, ConnID: c.id, BootID: g.boot},
		Features: wire.Features{Methods: g.methodNames(c.role), Events: eventNames},
		Snapshot: wire.Snapshot{Health: g.health(), UptimeMS: time.Since(g.began).Milliseconds()},
		Auth:     wire.Granted{Role: c.role, Scopes: c.scopes},
	}
	if c.role == wire.RoleOperator {
		h.Snapshot.Sessions = &wire.SessionDefaults{AgentID: mainAgent, MainKey: mainAgent, MainSessionKey: "agent:" + mainAgent + ":" + mainAgent}
	}
	if token, at := c.token(ctx); token != "" {
		h.Auth.DeviceToken, h.Auth.IssuedAtMS = token, at
	}
	return h.JSON()
}
