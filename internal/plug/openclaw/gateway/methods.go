package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
)

// What Patchbay has beyond OpenClaw: an operator that has subscribed hears what
// devices tell by themselves.
const (
	MethodNotices     = "notices.subscribe"
	EventNotification = "mcp.notification"
)

// method is what an operator can call. It returns what is to be encoded as the payload
// of the answer, or a json.RawMessage.
type method struct {
	shape *wire.Shape // nil: it looks for itself
	scope string      // of methods that package wire does not know
	run   func(ctx context.Context, c *conn, params []byte) (any, *wire.Error)
}

// table is all methods of operators but node.invoke and agent, which are answered
// differently.
func (g *Gateway) table() map[string]method {
	return map[string]method{
		wire.MethodHealth:         {run: func(context.Context, *conn, []byte) (any, *wire.Error) { return g.health(), nil }},
		wire.MethodStatus:         {run: g.status},
		wire.MethodSystemPresence: {run: func(_ context.Context, c *conn, _ []byte) (any, *wire.Error) { return g.present(c), nil }},
		wire.MethodNodeList:       {wire.ShapeNodeList, "", g.nodeList},
		wire.MethodNodeDescribe:   {wire.ShapeNodeDescribe, "", g.nodeDescribe},
		wire.MethodNodeRename:     {wire.ShapeNodeRename, "", g.nodeRename},
		wire.MethodNodePairList:   {wire.ShapeNodePairList, "", g.nodePairs},
		wire.MethodNodeApprove:    {wire.ShapeNodeApprove, "", g.nodeApprove},
		wire.MethodNodeReject:     {wire.ShapeNodeReject, "", g.nodeReject},
		wire.MethodNodeRemove:     {wire.ShapeNodeRemove, "", g.nodeRemove},
		wire.MethodDevicePairList: {wire.ShapeDevicePairList, "", g.devicePairs},
		wire.MethodDeviceApprove:  {wire.ShapeDeviceApprove, "", g.deviceApprove},
		wire.MethodDeviceReject:   {wire.ShapeDeviceReject, "", g.deviceReject},
		wire.MethodDeviceRemove:   {wire.ShapeDeviceRemove, "", g.deviceRemove},
		wire.MethodSessionsList: {run: func(context.Context, *conn, []byte) (any, *wire.Error) {
			return map[string]any{"ts": time.Now().UnixMilli(), "count": 0, "sessions": []any{}}, nil
		}},
		wire.MethodAgentsList:  {run: g.agentsList},
		wire.MethodAgentWait:   {wire.ShapeAgentWait, "", g.agentWait},
		wire.MethodChatSend:    {wire.ShapeChatSend, "", g.chatSend},
		wire.MethodChatAbort:   {wire.ShapeChatAbort, "", g.chatAbort},
		wire.MethodChatHistory: {wire.ShapeChatHistory, "", g.chatHistory},
		wire.MethodSubscribe:   {wire.ShapeSubscribe, "", g.subscribe},
		wire.MethodUnsubscribe: {run: g.unsubscribe},
		MethodNotices:          {scope: wire.ScopeRead, run: g.notices},
	}
}

// nodeMethods are what nodes call.
var nodeMethods = []string{
	wire.MethodInvokeResult, wire.MethodInvokeProgress, wire.MethodNodeEvent, wire.MethodPluginTools, wire.MethodSkills, wire.MethodRunnerInventory,
	"node.pluginSurface.refresh", "node.pending.pull", "node.pending.ack", "node.pending.drain", "skills.bins",
}

// methodNames are what a client can call, for its greeting.
func (g *Gateway) methodNames(role string) []string {
	if role == wire.RoleNode {
		return nodeMethods
	}
	names := []string{wire.MethodAgent, wire.MethodNodeInvoke}
	for name := range g.methods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// busy is told an operator for which too much runs already.
var busy = &wire.Error{Code: wire.Unavailable, Message: "The server is busy; try again in a moment.", Retryable: true, RetryAfter: 100 * time.Millisecond}

// serveOperator handles a request of an operator. The request shares memory with the
// frame, which is gone afterwards.
func (c *conn) serveOperator(req *wire.Request) {
	g := c.g
	m, ok := g.methods[req.Method]
	known := ok || req.Method == wire.MethodNodeInvoke || req.Method == wire.MethodAgent
	e := wire.Permit(req.Method, c.role, c.scopes)
	if e == nil && ok && m.scope != "" && !c.may(m.scope) {
		e = wire.MissingScope(m.scope)
	}
	c.stranger(e)
	switch {
	case req.Method == wire.MethodConnect:
		e = wire.ConnectTwice
	case e == nil && !known:
		e = wire.UnknownMethod(req.Method)
	case e == nil && m.shape != nil:
		e = m.shape.Invalid(req.Params)
	}
	if e == nil && c.running.Add(1) > maxRunning {
		c.running.Add(-1)
		e = busy
	}
	if e != nil {
		name := req.Method
		if !known {
			name = "other"
		}
		g.metrics.requests.WithLabelValues(name, string(e.Code)).Inc()
		f := newFrame()
		f.b = wire.AppendFailure(f.b, req.ID, e)
		c.post(f)
		return
	}
	id, name, params := req.ID, req.Method, bytes.Clone(req.Params)
	if !g.spawn(func() {
		defer c.running.Add(-1)
		c.carryOut(id, name, m, params)
	}) {
		c.running.Add(-1)
	}
}

// carryOut answers a request.
func (c *conn) carryOut(id, name string, m method, params []byte) {
	g := c.g
	if !c.stillGood(g.ctx) {
		c.bye(authChanged)
		return
	}
	var out any
	var e *wire.Error
	switch name {
	case wire.MethodNodeInvoke:
		var payload []byte
		payload, e = g.invoke(g.ctx, c, params)
		if e == nil {
			g.metrics.invoked[0].Inc()
			c.answer(id, payload)
			return
		}
	case wire.MethodAgent:
		out, e = g.agent(c, id, params)
	default:
		ctx, cancel := context.WithTimeout(g.ctx, 2*databaseLimit)
		if name == wire.MethodAgentWait {
			cancel()
			ctx, cancel = context.WithCancel(g.ctx)
		}
		out, e = m.run(ctx, c, params)
		cancel()
	}
	if e != nil {
		g.metrics.requests.WithLabelValues(name, string(e.Code)).Inc()
		c.fail(id, e)
		return
	}
	g.metrics.requests.WithLabelValues(name, "ok").Inc()
	switch v := out.(type) {
	case json.RawMessage:
		c.answer(id, v)
	default:
		c.answer(id, encoded(v))
	}
}

// field is a text among parameters, which are of a shape that was checked.
func field(params []byte, name string) string {
	if !json.Valid(params) {
		return ""
	}
	for in := jsonrpc.Scan(params); in.Next(); {
		if string(in.Key) == name {
			return jsonrpc.Text(in.Value)
		}
	}
	return ""
}

// status answers status.
func (g *Gateway) status(_ context.Context, c *conn, _ []byte) (any, *wire.Error) {
	operators, nodes := 0, 0
	for _, o := range g.everybody() {
		switch {
		case !c.sees(o.person.ID):
		case o.role == wire.RoleNode:
			nodes++
		default:
			operators++
		}
	}
	return map[string]any{
		"runtimeVersion": g.Version, "uptimeMs": time.Since(g.began).Milliseconds(), "nodes": nodes, "operators": operators,
		"sessions": map[string]any{"count": 0, "recent": []any{}}, "channelSummary": []any{}, "queuedSystemEvents": []any{},
		"heartbeat": map[string]any{"defaultAgentId": mainAgent, "agents": []any{}},
	}, nil
}

// maxSubscriptions bounds the conversations that one client hears, some 100 bytes
// each.
const maxSubscriptions = 1000

func (c *conn) subscribed(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[session]
}

func (g *Gateway) subscribe(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.Only, field(params, "key"), field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		c.sessions = map[string]bool{}
	}
	if len(c.sessions) >= maxSubscriptions && !c.sessions[s.key] {
		return nil, wire.Invalid("too many subscriptions")
	}
	c.sessions[s.key] = true
	return map[string]any{"subscribed": true, "key": s.key}, nil
}

func (g *Gateway) unsubscribe(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.Only, field(params, "key"), field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, s.key)
	return map[string]any{"subscribed": false, "key": s.key}, nil
}

// notices has the client hear what devices tell by themselves, from now on.
func (g *Gateway) notices(_ context.Context, c *conn, _ []byte) (any, *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forget != nil {
		return map[string]bool{"subscribed": true}, nil
	}
	who := c.person.ID
	if c.admin {
		who = ""
	}
	heard, forget := g.Hub.Notices(who)
	if !g.spawn(func() {
		for n := range heard {
			c.event(EventNotification, encoded(map[string]any{
				"nodeId": g.nodeOf(n.Owner, n.Outlet), "displayName": n.Title, "method": n.Method, "params": n.Params, "ts": millis(n.At),
			}), false)
		}
	}) {
		forget()
		return nil, stopping
	}
	c.forget = forget
	if c.gone() { // it has left, and does not forget any more
		c.forget = nil
		forget()
	}
	return map[string]bool{"subscribed": true}, nil
}

// gone says whether the connection is not among those of the gateway.
func (c *conn) gone() bool {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	_, here := c.g.conns[c]
	return !here
}

// nodeOf is the id of the node that an outlet is, or appears as.
func (g *Gateway) nodeOf(owner, outlet string) string {
	prefix, is := bytes.CutPrefix([]byte(outlet), []byte("node:"))
	if !is {
		return g.virtualID(outlet)
	}
	ctx, cancel := context.WithTimeout(g.ctx, databaseLimit)
	defer cancel()
	// Ids are sorted, and the first one behind its own beginning is it.
	found, err := g.Store.Peers.ByOwner(ctx, owner, string(prefix), 1)
	if err != nil || len(found) == 0 || !bytes.HasPrefix([]byte(found[0].ID), prefix) {
		return string(prefix)
	}
	return found[0].ID
}
