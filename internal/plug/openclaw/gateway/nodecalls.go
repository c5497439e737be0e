package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"patchbay/internal/plug/openclaw/wire"
)

// serveNode handles a request of a node, at once and in order: results must not wait
// for anything.
func (c *conn) serveNode(req *wire.Request) {
	n := c.node
	e := wire.Permit(req.Method, c.role, nil)
	c.stranger(e)
	var payload []byte
	switch {
	case req.Method == wire.MethodConnect:
		e = wire.ConnectTwice
	case e != nil:
	case !n.counts() && req.Method != wire.MethodInvokeResult:
		e = wire.PairingReplaced
	default:
		payload, e = n.serve(req)
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
	okPayload = []byte(`{"ok":true}`)
	ignored   = []byte(`{"ok":true,"ignored":true}`)
	empty     = []byte(`{}`)
)

// serve is what a node's methods do.
func (n *node) serve(req *wire.Request) ([]byte, *wire.Error) {
	switch req.Method {
	case wire.MethodInvokeResult:
		return n.result(req.Params)
	case wire.MethodInvokeProgress:
		if e := wire.ShapeInvokeProgress.Invalid(req.Params); e != nil {
			return nil, e
		}
		return ignored, nil
	case wire.MethodNodeEvent:
		return n.event(req.Params)
	case wire.MethodPluginTools:
		return n.publish(req.Params)
	case wire.MethodSkills:
		if e := wire.ShapeSkills.Invalid(req.Params); e != nil {
			return nil, e
		}
		// Bots of Patchbay use none.
		return encoded(map[string]any{"nodeId": n.id, "skills": []any{}}), nil
	case wire.MethodRunnerInventory:
		if e := n.awaits(); e != nil {
			return nil, e
		}
		return empty, nil
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
		// There are no plugins here that show something on nodes.
		return nil, &wire.Error{Code: wire.Unavailable, Message: surface + " plugin surface unavailable"}
	case "skills.bins":
		return encoded(map[string]any{"bins": []any{}}), nil
	}
	return nil, wire.UnknownMethod(req.Method)
}

// result takes the result of a command.
func (n *node) result(params []byte) ([]byte, *wire.Error) {
	r, e := wire.ParseInvokeResult(params)
	switch {
	case e != nil:
		return nil, e
	case r.NodeID != n.id:
		return nil, wire.NodeMismatch
	}
	r.Payload = bytes.Clone(r.Payload) // the frame is gone when whoever waits reads it
	if !n.calls.result(r) {
		n.g.metrics.late.Inc()
		return ignored, nil
	}
	return okPayload, nil
}

// awaits is told a node whose owner has not yet approved what it can do.
func (n *node) awaits() *wire.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.peer.SurfaceAt.IsZero() {
		return wire.SurfacePending(n.request)
	}
	return nil
}

// publish takes the tools that the node has behind it.
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
	n.published, n.publishes = p.Tools, true
	n.choose()
	accepted := []wire.PluginTool{}
	for i := range n.published {
		if t := &n.published[i]; n.tools[t.Name] == t {
			accepted = append(accepted, *t)
		}
	}
	n.mu.Unlock()
	n.offer()
	return encoded(map[string]any{"nodeId": n.id, "tools": accepted}), nil
}

// event takes what the node tells by itself. Of events that mean nothing here, the
// node hears so, and that is all.
func (n *node) event(params []byte) ([]byte, *wire.Error) {
	ev, e := wire.ParseNodeEvent(params)
	if e != nil {
		return nil, e
	}
	if !n.reachable() {
		return nil, wire.PairingChanged
	}
	handled := func(reason string) []byte {
		return encoded(wire.Handled{OK: true, Event: ev.Event, Handled: new(true), Reason: reason})
	}
	switch ev.Event {
	case wire.NodeStats:
		if len(ev.Payload) == 0 || ev.Payload[0] != '{' || len(ev.Payload) > maxStats {
			return encoded(wire.Handled{OK: true, Event: ev.Event, Handled: new(false), Reason: "invalid_payload"}), nil
		}
		stats := stamped(ev.Payload, time.Now())
		n.mu.Lock()
		n.stats = stats
		n.mu.Unlock()
		n.g.tell(told{Owner: n.owner, Scope: wire.ScopeRead, Event: wire.EventHostStats, Payload: encoded(map[string]any{"nodeId": n.id, "hostStats": stats})})
		return handled("updated"), nil
	case wire.NodeAlive, "node.presence.activity", "node.desktop.availability":
		n.seen()
		return handled("updated"), nil
	case wire.NodeSubscribe, wire.NodeUnsubscribe:
		return n.listen(ev)
	case wire.NodeTranscript:
		return n.transcript(ev.Payload)
	case wire.NodeAgentRequest:
		return n.agentRequest(ev.Payload)
	case wire.NodeNotifications, "exec.started", "exec.finished", "exec.denied":
		n.mu.Lock()
		socket := n.socket
		n.mu.Unlock()
		if socket != nil {
			socket.Notify(ev.Event, bytes.Clone(ev.Payload))
		}
		return okPayload, nil
	case "push.apns.register":
		return okPayload, nil
	}
	return encoded(wire.Unsupported(ev.Event)), nil
}

// stamped is what a node tells about its machine, an object, with when it did.
func stamped(stats json.RawMessage, at time.Time) json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(stats, &all) != nil {
		return nil
	}
	all["updatedAtMs"] = encoded(at.UnixMilli())
	return encoded(all)
}

// seen notes that the node is alive.
func (n *node) seen() {
	n.g.spawn(func() {
		_ = n.g.Store.Peers.Seen(n.g.ctx, n.id, "presence", time.Now()) // it is heard of again soon
	})
}

// listen begins or ends that the node hears a conversation.
func (n *node) listen(ev wire.NodeEvent) ([]byte, *wire.Error) {
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
