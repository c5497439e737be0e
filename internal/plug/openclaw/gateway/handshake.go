package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"patchbay/internal/plug/openclaw/wire"
)

// handshake authenticates the client. It returns the hello response, which the caller still has
// to send: other frames are queued behind it. It returns nil if the connection has ended.
func (c *conn) handshake() *frame {
	entered := true
	defer func() {
		if entered {
			c.g.removeHalfOpen(c.address)
		}
	}()
	ctx, cancel := context.WithTimeout(c.g.ctx, c.g.Timings.Handshake)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		c.closeWith(&wire.Error{Message: "", Close: wire.CloseNormal})
	})()
	nonce := uuid.NewString()
	challenge := newFrame()
	challenge.b = wire.AppendChallenge(challenge.b, nonce, time.Now())
	c.post(challenge)
	req, e := c.readConnect()
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
		c.awaitClose()
		return nil
	}
	c.holdOutput()
	if !c.g.join(c) {
		c.g.metrics.refused.WithLabelValues("stopping").Inc()
		f := newFrame()
		f.b = wire.AppendFailure(f.b, req.ID, wire.Starting)
		c.releaseOutput(f)
		c.closeWith(wire.Restarting)
		c.awaitClose()
		return nil
	}
	entered = false
	c.ws.SetReadLimit(wire.MaxFrame)
	f := newFrame()
	payload, e := c.helloPayload(ctx)
	if e != nil { // what has ended its token came before it was among the connections
		f.b = wire.AppendFailure(f.b, req.ID, e)
		if c.node != nil {
			c.node.detach()
		}
		c.closeWith(e)
		return f
	}
	f.b = wire.AppendResult(f.b, req.ID, payload)
	return f
}

var (
	// errNotJSON closes the connection of a client whose first frame is not JSON.
	errNotJSON = &wire.Error{Message: "", Close: wire.CloseNormal}
	// errDisconnected means that the client disconnected before its first frame.
	errDisconnected = &wire.Error{Message: "disconnected"}
)

// readConnect reads the connect request.
func (c *conn) readConnect() (wire.Request, *wire.Error) {
	buf, kind, err := c.next()
	switch {
	case err != nil:
		return wire.Request{}, errDisconnected
	case kind != websocket.MessageText:
		return wire.Request{}, errNotJSON
	}
	// The buffer is not reused: the request shares its memory.
	req, err := wire.ParseRequest(buf.Bytes())
	switch {
	case errors.Is(err, wire.ErrSyntax):
		return req, errNotJSON
	case err != nil:
		return req, wire.InvalidFrame
	case req.Method != wire.MethodConnect:
		return req, wire.ConnectRequired
	}
	return req, nil
}

// refuse sends an error and waits until the client has disconnected.
func (c *conn) refuse(id string, e *wire.Error) {
	if e == errDisconnected {
		c.g.metrics.refused.WithLabelValues("disconnected").Inc()
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
	c.g.Logger.Info("openclaw: refused", "address", c.address, "client", c.client.ID, "why", e.Message,
		"detail", e.Detail())
	if e != errNotJSON && e != wire.InvalidFrame {
		f := newFrame()
		f.b = wire.AppendFailure(f.b, id, e)
		c.post(f)
	}
	c.closeWith(e)
	c.awaitClose()
}

// awaitClose reads until the connection ends, to receive the peer's Close frame.
func (c *conn) awaitClose() {
	timer := time.AfterFunc(2*closeTimeout, c.closeNow)
	defer timer.Stop()
	for {
		buf, _, err := c.next()
		if err != nil {
			return
		}
		buffers.Put(buf)
	}
}

// join adds an authenticated client. A node replaces the connection of the same device. It
// returns false if the gateway stops.
func (g *Gateway) join(c *conn) bool {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return false
	}
	g.halfOpen--
	if g.halfOpenByAddr[c.address]--; g.halfOpenByAddr[c.address] == 0 {
		delete(g.halfOpenByAddr, c.address)
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
		old.detach()
	}
	c.lastTick.Store(time.Now().UnixMilli())
	return true
}

// The events that clients may receive.
var eventNames = []string{
	wire.EventChallenge, wire.EventTick, wire.EventHealth, wire.EventPresence, wire.EventShutdown, wire.EventAgent,
	wire.EventChat, wire.EventSessionMessage, wire.EventSessionsChanged, wire.EventSessionTool,
	wire.EventInvoke, wire.EventHostStats, wire.EventNodeRequested, wire.EventNodeResolved, wire.EventDeviceRequested,
	wire.EventDeviceResolved, EventNotification, wire.EventExecRequested, wire.EventExecResolved,
	wire.EventPluginRequested, wire.EventPluginResolved,
}

// helloPayload returns the payload of the connect response, or the error if the client's token has
// ended meanwhile.
func (c *conn) helloPayload(ctx context.Context) ([]byte, *wire.Error) {
	g := c.g
	h := wire.Hello{
		Server:   wire.Server{Version: g.Version, ConnID: c.id, BootID: g.bootID},
		Features: wire.Features{Methods: g.methodNames(c.role), Events: eventNames},
		Snapshot: wire.Snapshot{Health: g.healthPayload(), UptimeMS: time.Since(g.startedAt).Milliseconds()},
		Auth:     wire.Granted{Role: c.role, Scopes: c.scopes},
	}
	if c.role == wire.RoleOperator {
		h.Snapshot.Sessions = &wire.SessionDefaults{AgentID: mainAgent, MainKey: mainAgent,
			MainSessionKey: "agent:" + mainAgent + ":" + mainAgent}
	}
	token, at, err := c.deviceToken(ctx)
	if err != nil {
		return nil, wire.DeviceTokenMismatch
	}
	if token != "" {
		h.Auth.DeviceToken, h.Auth.IssuedAtMS = token, at
	}
	return h.JSON(), nil
}
