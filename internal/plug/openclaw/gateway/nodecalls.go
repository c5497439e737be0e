package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
)

// serveNode handles a request of a node, synchronously and in order: it must not block, because
// results arrive the same way.
func (c *conn) serveNode(req *wire.Request) {
	n := c.node
	e := wire.CheckPermission(req.Method, c.role, nil)
	c.countUnauthorized(e)
	var payload []byte
	switch {
	case req.Method == wire.MethodConnect:
		e = wire.ConnectTwice
	case e != nil:
	case !n.isCurrent() && req.Method != wire.MethodInvokeResult:
		e = wire.PairingReplaced
	default:
		payload, e = n.handleRequest(req)
	}
	if e != nil && e.Code != wire.Unavailable {
		c.g.metrics.requests.WithLabelValues("node", string(e.Code)).Inc()
	}
	f := newFrame()
	if e != nil {
		f.b = wire.AppendFailure(f.b, req.ID, e)
	} else {
		f.b = wire.AppendResult(f.b, req.ID, payload)
	}
	c.post(f)
}

var (
	okPayload      = []byte(`{"ok":true}`)
	ignoredPayload = []byte(`{"ok":true,"ignored":true}`)
	emptyPayload   = []byte(`{}`)
)

// handleRequest executes a node's method.
func (n *node) handleRequest(req *wire.Request) ([]byte, *wire.Error) {
	switch req.Method {
	case wire.MethodInvokeResult:
		return n.handleResult(req.Params)
	case wire.MethodInvokeProgress:
		if e := wire.ShapeInvokeProgress.Invalid(req.Params); e != nil {
			return nil, e
		}
		return ignoredPayload, nil
	case wire.MethodNodeEvent:
		return n.handleEvent(req.Params)
	case wire.MethodPluginTools:
		return n.publish(req.Params)
	case wire.MethodSkills:
		if e := wire.ShapeSkills.Invalid(req.Params); e != nil {
			return nil, e
		}
		// Patchbay's bots have no skills.
		return encoded(map[string]any{"nodeId": n.id, "skills": []any{}}), nil
	case wire.MethodRunnerInventory:
		if e := n.approvalPending(); e != nil {
			return nil, e
		}
		return emptyPayload, nil
	case "node.pending.pull":
		return encoded(map[string]any{"nodeId": n.id, "actions": []any{}}), nil
	case "node.pending.ack":
		return encoded(map[string]any{"nodeId": n.id, "ackedIds": []any{}, "remainingCount": 0}), nil
	case "node.pending.drain":
		return encoded(map[string]any{"nodeId": n.id, "revision": 0, "items": []any{}, "hasMore": false}), nil
	case "node.pluginSurface.refresh":
		surface := strings.TrimSpace(field(req.Params, "surface"))
		if surface == "" {
			return nil, wire.Invalid("surface required")
		}
		// Plugin surfaces are not supported.
		return nil, &wire.Error{Code: wire.Unavailable, Message: surface + " plugin surface unavailable"}
	case "skills.bins":
		return encoded(map[string]any{"bins": []any{}}), nil
	}
	return nil, wire.UnknownMethod(req.Method)
}

// handleResult handles the result of a command.
func (n *node) handleResult(params []byte) ([]byte, *wire.Error) {
	r, e := wire.ParseInvokeResult(params)
	switch {
	case e != nil:
		return nil, e
	case r.NodeID != n.id:
		return nil, wire.NodeMismatch
	}
	r.Payload = bytes.Clone(r.Payload) // the receiver reads it after the frame is gone
	if !n.calls.result(r) {
		n.g.metrics.lateResults.Inc()
		return ignoredPayload, nil
	}
	return okPayload, nil
}

// approvalPending returns the error for a node whose surface is not approved yet.
func (n *node) approvalPending() *wire.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.peer.SurfaceAt.IsZero() {
		return wire.SurfacePending(n.request)
	}
	return nil
}

// publish handles the tools that the node publishes.
func (n *node) publish(params []byte) ([]byte, *wire.Error) {
	if len(params) > maxPublishedBytes {
		return nil, wire.Invalid("too much is published; the limit is 1 MiB")
	}
	p, e := wire.ParsePluginTools(params)
	switch {
	case e != nil:
		return nil, e
	case len(p.Tools) > maxPublished:
		return nil, wire.Invalid("too many tools are published; the limit is 512")
	}
	n.mu.Lock()
	n.published, n.hasPublished = p.Tools, true
	n.selectTools()
	accepted := []wire.PluginTool{}
	for i := range n.published {
		if t := &n.published[i]; n.tools[t.Name] == t {
			accepted = append(accepted, *t)
		}
	}
	n.mu.Unlock()
	n.offerTools()
	return encoded(map[string]any{"nodeId": n.id, "tools": accepted}), nil
}

// handleEvent handles an event of the node. Unsupported events are acknowledged as such and ignored
// (src/gateway/server-node-events.ts).
func (n *node) handleEvent(params []byte) ([]byte, *wire.Error) {
	ev, e := wire.ParseNodeEvent(params)
	if e != nil {
		return nil, e
	}
	if !n.isApproved() {
		return nil, wire.PairingChanged
	}
	handled := func(reason string) []byte {
		return encoded(wire.EventAck{OK: true, Event: ev.Event, Handled: new(true), Reason: reason})
	}
	switch ev.Event {
	case wire.NodeStats:
		if len(ev.Payload) == 0 || ev.Payload[0] != '{' || len(ev.Payload) > maxStats {
			return encoded(wire.EventAck{OK: true, Event: ev.Event, Handled: new(false), Reason: "invalid_payload"}),
				nil
		}
		stats := withTimestamp(ev.Payload, time.Now())
		n.mu.Lock()
		n.stats = stats
		n.mu.Unlock()
		n.g.broadcast(broadcastEvent{Owner: n.owner, Scope: wire.ScopeRead, Event: wire.EventHostStats,
			Payload: encoded(map[string]any{"nodeId": n.id, "hostStats": stats})})
		return handled("updated"), nil
	case wire.NodeAlive, "node.presence.activity", "node.desktop.availability":
		n.recordSeen()
		return handled("updated"), nil
	case wire.NodeSubscribe, wire.NodeUnsubscribe:
		return n.setSubscription(ev)
	case wire.NodeTranscript:
		return n.transcript(ev.Payload)
	case wire.NodeAgentRequest:
		return n.agentRequest(ev.Payload)
	case wire.NodeNotifications, "exec.started", "exec.finished", "exec.denied":
		n.notify(ev.Event, ev.Payload)
		return okPayload, nil
	case wire.NodeMCPNotification:
		m, err := jsonrpc.Parse(ev.Payload)
		if err != nil || m.Method == "" || m.IsRequest() {
			return encoded(wire.EventAck{OK: true, Event: ev.Event, Handled: new(false), Reason: "invalid_payload"}),
				nil
		}
		n.notify(m.Method, m.Params)
		return handled("relayed"), nil
	case "push.apns.register":
		return okPayload, nil
	}
	return encoded(wire.UnsupportedEvent(ev.Event)), nil
}

// notify tells the subscribers of notices what the node has told. Params share memory with the
// frame.
func (n *node) notify(method string, params []byte) {
	n.mu.Lock()
	socket := n.registration
	n.mu.Unlock()
	if socket != nil {
		socket.Notify(method, bytes.Clone(params))
	}
}

// withTimestamp adds the time to a node's report about its machine, an object.
func withTimestamp(stats json.RawMessage, at time.Time) json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(stats, &all) != nil {
		return nil
	}
	all["updatedAtMs"] = encoded(at.UnixMilli())
	return encoded(all)
}

// recordSeen records that the node is alive.
func (n *node) recordSeen() {
	n.g.spawn(func() {
		_ = n.g.Store.Peers.Seen(n.g.ctx, n.id, "presence", time.Now()) // repeated at the next event
	})
}

// setSubscription subscribes the node to a conversation or unsubscribes it.
func (n *node) setSubscription(ev wire.NodeEvent) ([]byte, *wire.Error) {
	var p struct {
		Key string `json:"sessionKey"`
	}
	if json.Unmarshal(ev.Payload, &p) != nil || p.Key == "" {
		return okPayload, nil
	}
	s, e := n.g.session(n.g.ctx, n.owner, 0, p.Key, "")
	if e != nil {
		return okPayload, nil // as OpenClaw does
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case ev.Event == wire.NodeUnsubscribe:
		delete(n.sessions, s.key)
	case len(n.sessions) < maxSubscriptions:
		if n.sessions == nil {
			n.sessions = map[string]bool{}
		}
		n.sessions[s.key] = true
	}
	return okPayload, nil
}
