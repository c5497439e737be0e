package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tracing"
)

// Patchbay's extension of OpenClaw's protocol: subscribed operators receive the notifications of
// devices.
const (
	MethodNotificationsSubscribe = "notices.subscribe"
	EventNotification            = "mcp.notification"
)

// method is a method of operators. It returns a value to encode as the response payload, or a
// json.RawMessage.
type method struct {
	shape *wire.Shape // nil: the method validates itself
	scope string      // for methods unknown to package wire
	run   func(ctx context.Context, c *conn, params []byte) (any, *wire.Error)
}

// methodTable returns all methods of operators except node.invoke and agent, which respond
// differently.
func (g *Gateway) methodTable() map[string]method {
	return map[string]method{
		wire.MethodHealth: {run: func(context.Context, *conn, []byte) (any,
			*wire.Error) {
			return g.healthPayload(), nil
		}},
		wire.MethodStatus: {run: g.status},
		wire.MethodSystemPresence: {run: func(_ context.Context, c *conn, _ []byte) (any,
			*wire.Error) {
			return g.presenceList(c), nil
		}},
		wire.MethodNodeList:          {wire.ShapeNodeList, "", g.nodeList},
		wire.MethodNodeDescribe:      {wire.ShapeNodeDescribe, "", g.nodeDescribe},
		wire.MethodNodeRename:        {wire.ShapeNodeRename, "", g.nodeRename},
		wire.MethodNodePairList:      {wire.ShapeNodePairList, "", g.nodePairs},
		wire.MethodNodeApprove:       {wire.ShapeNodeApprove, "", g.nodeApprove},
		wire.MethodNodeReject:        {wire.ShapeNodeReject, "", g.nodeReject},
		wire.MethodNodeRemove:        {wire.ShapeNodeRemove, "", g.nodeRemove},
		wire.MethodDevicePairList:    {wire.ShapeDevicePairList, "", g.devicePairs},
		wire.MethodDeviceApprove:     {wire.ShapeDeviceApprove, "", g.deviceApprove},
		wire.MethodDeviceReject:      {wire.ShapeDeviceReject, "", g.deviceReject},
		wire.MethodDeviceRemove:      {wire.ShapeDeviceRemove, "", g.deviceRemove},
		wire.MethodDeviceRename:      {wire.ShapeDeviceRename, "", g.deviceRename},
		wire.MethodTokenRotate:       {wire.ShapeTokenRotate, "", g.tokenRotate},
		wire.MethodTokenRevoke:       {wire.ShapeTokenRevoke, "", g.tokenRevoke},
		wire.MethodSetupCode:         {wire.ShapeSetupCode, "", g.setupCode},
		wire.MethodAgentsList:        {run: g.agentsList},
		wire.MethodAgentWait:         {wire.ShapeAgentWait, "", g.agentWait},
		wire.MethodChatSend:          {wire.ShapeChatSend, "", g.chatSend},
		wire.MethodChatAbort:         {wire.ShapeChatAbort, "", g.chatAbort},
		wire.MethodChatHistory:       {wire.ShapeChatHistory, "", g.chatHistory},
		wire.MethodSubscribe:         {wire.ShapeSubscribe, "", g.subscribe},
		wire.MethodUnsubscribe:       {run: g.unsubscribe},
		MethodNotificationsSubscribe: {scope: wire.ScopeRead, run: g.subscribeNotifications},

		wire.MethodExecPolicyGet:     {wire.ShapeExecPolicyGet, "", g.execPolicyGet},
		wire.MethodExecPolicySet:     {wire.ShapeExecPolicySet, "", g.execPolicySet},
		wire.MethodNodeExecPolicyGet: {wire.ShapeNodeExecPolicyGet, "", g.nodeExecPolicyGet},
		wire.MethodNodeExecPolicySet: {wire.ShapeNodeExecPolicySet, "", g.nodeExecPolicySet},

		wire.MethodChatStartup:       {wire.ShapeChatHistory, "", g.chatHistory},
		wire.MethodChatMetadata:      {run: g.chatMetadata},
		wire.MethodChatInject:        {wire.ShapeChatInject, "", g.chatInject},
		wire.MethodSend:              {run: g.sendMessage},
		wire.MethodSessionsList:      {wire.ShapeSessionsList, "", g.sessionsList},
		wire.MethodSessionsSubscribe: {wire.ShapeSessionsList, "", g.sessionsSubscribe},
		wire.MethodSessionDescribe:   {wire.ShapeSessionDescribe, "", g.sessionDescribe},
		wire.MethodSessionResolve:    {run: g.sessionResolve},
		wire.MethodSessionGet:        {run: g.sessionGet},
		wire.MethodSessionPreview:    {wire.ShapeSessionPreview, "", g.sessionPreview},
		wire.MethodSessionCreate:     {wire.ShapeSessionCreate, "", g.sessionCreate},
		wire.MethodSessionPatch:      {wire.ShapeSessionPatch, "", g.sessionPatch},
		wire.MethodSessionReset:      {wire.ShapeSessionReset, "", g.sessionReset},
		wire.MethodSessionDelete:     {wire.ShapeSessionDelete, "", g.sessionDelete},
		wire.MethodSessionSend:       {wire.ShapeSessionSend, "", g.sessionSend},
		wire.MethodSessionAbort:      {wire.ShapeSessionAbort, "", g.sessionAbort},
		wire.MethodSessionCompact:    {wire.ShapeSessionCompact, "", g.sessionCompact},
		wire.MethodAgentIdentity:     {run: g.agentIdentity},
		wire.MethodToolsCatalog:      {run: g.toolsCatalog},
		wire.MethodCommandsList:      {run: empty("commands")},
		wire.MethodModelsList:        {run: empty("models")},
		wire.MethodQuestionList:      {run: empty("questions")},
		wire.MethodTaskSuggestions:   {run: empty("suggestions")},

		wire.MethodExecList:        {wire.ShapeExecList, "", g.approvalList(wire.ApprovalExec)},
		wire.MethodPluginList:      {wire.ShapePluginList, "", g.approvalList(wire.ApprovalPlugin)},
		wire.MethodSystemList:      {run: g.approvalList(wire.ApprovalSystem)},
		wire.MethodExecGet:         {wire.ShapeExecGet, "", g.execApproval},
		wire.MethodExecResolve:     {wire.ShapeExecResolve, "", g.approvalResolve(wire.ApprovalExec)},
		wire.MethodPluginResolve:   {wire.ShapePluginResolve, "", g.approvalResolve(wire.ApprovalPlugin)},
		wire.MethodApprovalGet:     {wire.ShapeApprovalGet, "", g.approvalGet},
		wire.MethodApprovalResolve: {wire.ShapeApproveOne, "", g.approvalSettle},
	}
}

// empty returns a method with a list of what there is none of here: bots have no commands that
// begin with a slash, no choice of models, and ask nothing by these ways.
func empty(name string) func(context.Context, *conn, []byte) (any, *wire.Error) {
	return func(context.Context, *conn, []byte) (any, *wire.Error) { return map[string]any{name: []any{}}, nil }
}

// answered is a result, and what happens when it is on its way to the client.
type answered struct {
	result any
	then   func()
}

// nodeMethods are the methods of nodes.
var nodeMethods = []string{
	wire.MethodInvokeResult, wire.MethodInvokeProgress, wire.MethodNodeEvent, wire.MethodPluginTools, wire.MethodSkills,
	wire.MethodRunnerInventory,
	"node.pluginSurface.refresh", "node.pending.pull", "node.pending.ack", "node.pending.drain", "skills.bins",
}

// methodNames returns the methods of a role, for the hello response.
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

// errBusy means that the operator has too many running requests.
var errBusy = &wire.Error{Code: wire.Unavailable, Message: "The server is busy; try again in a moment.",
	Retryable: true, RetryAfter: 100 * time.Millisecond}

// serveOperator handles a request of an operator. The request shares memory with the frame,
// which is invalid after the return.
func (c *conn) serveOperator(req *wire.Request) {
	g := c.g
	m, ok := g.methods[req.Method]
	known := ok || req.Method == wire.MethodNodeInvoke || req.Method == wire.MethodAgent
	e := wire.CheckPermission(req.Method, c.role, c.scopes)
	if e == nil && ok && m.scope != "" && !c.hasScope(m.scope) {
		e = wire.MissingScope(m.scope)
	}
	c.countUnauthorized(e)
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
		e = errBusy
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
	ctx := g.Tracer.Continue(g.ctx, tracing.Link{Parent: req.Traceparent})
	if !g.spawn(func() {
		defer c.running.Add(-1)
		c.handleRequest(ctx, id, name, m, params)
	}) {
		c.running.Add(-1)
	}
}

// handleRequest answers a request.
func (c *conn) handleRequest(ctx context.Context, id, name string, m method, params []byte) {
	g := c.g
	if !c.isCredentialValid(g.ctx) {
		c.closeWith(errAuthChanged)
		return
	}
	var out any
	var e *wire.Error
	switch name {
	case wire.MethodNodeInvoke:
		var payload []byte
		payload, e = g.invoke(ctx, c, params)
		if e == nil {
			g.metrics.invoked[0].Inc()
			c.answer(id, payload)
			return
		}
	case wire.MethodAgent:
		out, e = g.agent(ctx, c, id, params)
	default:
		limited, cancel := context.WithTimeout(ctx, 2*databaseTimeout)
		if name == wire.MethodAgentWait {
			cancel()
			limited, cancel = context.WithCancel(ctx)
		}
		out, e = m.run(limited, c, params)
		cancel()
	}
	if e != nil {
		g.metrics.requests.WithLabelValues(name, string(e.Code)).Inc()
		c.fail(id, e)
		return
	}
	g.metrics.requests.WithLabelValues(name, "ok").Inc()
	g.reportChange(c, name, params)
	if a, ok := out.(answered); ok {
		out = a.result
		defer a.then()
	}
	switch v := out.(type) {
	case json.RawMessage:
		c.answer(id, v)
	default:
		c.answer(id, encoded(v))
	}
}

// field returns a string parameter; the parameters have been validated.
func field(params []byte, name string) string {
	if !jsonrpc.Valid(params) {
		return ""
	}
	for in := jsonrpc.Scan(params); in.Next(); {
		if string(in.Key) == name {
			return jsonrpc.Text(in.Value)
		}
	}
	return ""
}

// status serves the method status.
func (g *Gateway) status(_ context.Context, c *conn, _ []byte) (any, *wire.Error) {
	operators, nodes := 0, 0
	for _, o := range g.connections() {
		switch {
		case !c.canSee(o.person.ID):
		case o.role == wire.RoleNode:
			nodes++
		default:
			operators++
		}
	}
	return map[string]any{
		"runtimeVersion": g.Version, "uptimeMs": time.Since(g.startedAt).Milliseconds(), "nodes": nodes,
		"operators": operators,
		"sessions":  map[string]any{"count": 0, "recent": []any{}}, "channelSummary": []any{},
		"queuedSystemEvents": []any{},
		"heartbeat":          map[string]any{"defaultAgentId": mainAgent, "agents": []any{}},
	}, nil
}

// maxSubscriptions limits the conversations that one client subscribes to, some 100 bytes each.
const maxSubscriptions = 1000

func (c *conn) isSubscribed(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[session]
}

// follows reports whether the client receives an event about the list of conversations, or what is
// said in one of them.
func (c *conn) follows(session, event string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hearsSessions || event == wire.EventSessionMessage && c.sessions[session]
}

func (g *Gateway) subscribe(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, field(params, "key"), field(params, "agentId"))
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
	return map[string]any{"subscribed": true, "key": s.shown}, nil
}

func (g *Gateway) unsubscribe(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, field(params, "key"), field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, s.key)
	return map[string]any{"subscribed": false, "key": s.shown}, nil
}

// subscribeNotifications subscribes the client to the notifications of devices.
func (g *Gateway) subscribeNotifications(_ context.Context, c *conn, _ []byte) (any, *wire.Error) {
	if c.access.OnlyBot != 0 {
		return nil, &wire.Error{Code: wire.Forbidden, Message: "a key for one bot hears no notices"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopNotifications != nil {
		return map[string]bool{"subscribed": true}, nil
	}
	who := c.person.ID
	if c.isAdmin {
		who = ""
	}
	heard, stop := g.Hub.SubscribeNotices(who)
	if !g.spawn(func() {
		for n := range heard {
			c.event(EventNotification, encoded(map[string]any{
				"nodeId": g.nodeOf(n.Owner, n.Provider), "displayName": n.Title, "method": n.Method, "params": n.Params,
				"ts": millis(n.At),
			}), false)
		}
	}) {
		stop()
		return nil, errStopping
	}
	c.stopNotifications = stop
	if c.isGone() { // disconnected meanwhile
		c.stopNotifications = nil
		stop()
	}
	return map[string]bool{"subscribed": true}, nil
}

// isGone reports whether the connection was removed from the gateway.
func (c *conn) isGone() bool {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	_, here := c.g.conns[c]
	return !here
}

// nodeOf returns the node id of a provider, real or virtual.
func (g *Gateway) nodeOf(owner, providerID string) string {
	prefix, is := bytes.CutPrefix([]byte(providerID), []byte("node:"))
	if !is {
		return g.virtualID(providerID)
	}
	ctx, cancel := context.WithTimeout(g.ctx, databaseTimeout)
	defer cancel()
	// Ids are sorted, so the first one after the prefix is the match.
	found, err := g.Store.Peers.ByOwner(ctx, owner, string(prefix), 1)
	if err != nil || len(found) == 0 || !bytes.HasPrefix([]byte(found[0].ID), prefix) {
		return string(prefix)
	}
	return found[0].ID
}
