package cli

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// desktopNode is a simulated node with its output in the terminal.
type desktopNode struct {
	sh     *shell
	cmd    *simulateNodeCmd
	target *nodeTarget
	ids    *identities
	lamp   lamp

	resolved chan string // receives decisions about its surface

	mu       sync.Mutex // guards the output
	reported map[string]bool
}

func newDesktopNode(sh *shell, c *simulateNodeCmd, p *nodeTarget, ids *identities) *desktopNode {
	return &desktopNode{sh: sh, cmd: c, target: p, ids: ids, lamp: lamp{Bright: 100}, resolved: make(chan string, 1),
		reported: map[string]bool{}}
}

// nodeEvent is an event of a simulated node in the JSON output.
type nodeEvent struct {
	Event string `json:"event"`
	Node  string `json:"nodeId,omitempty"`
	Name  string `json:"name,omitempty"`
	URL   string `json:"url,omitempty"`
	// Request is a pending request, and Approve the command that approves it.
	Request string `json:"requestId,omitempty"`
	Approve string `json:"approve,omitempty"`
	// Command is the invoked command.
	Command string          `json:"command,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Tools   int             `json:"tools,omitempty"`
}

// report prints an event, as text or as JSON.
func (d *desktopNode) report(e nodeEvent, s i18n.Message, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.sh.json {
		d.sh.say(s, args...)
		return
	}
	_ = d.sh.writeJSON(e, "") // the reader is gone; Ctrl-C ends the command
}

// firstTime reports whether something has not been printed before.
func (d *desktopNode) firstTime(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.reported[what]
	d.reported[what] = true
	return !again
}

const (
	msgSimIs        = i18n.Message("Node %s (%s) → %s")
	msgSimConnected = i18n.Message("  connected")
	msgSimLost      = i18n.Message("  disconnected (%s); reconnecting")
	msgSimNobody    = i18n.Message("  cannot connect: %s; retrying")
	msgSimWaits     = i18n.Message("  waiting for approval to connect: %s")
	msgSimWaitsToo  = i18n.Message("  its commands are pending approval: %s")
	msgSimReady     = i18n.Message("  ready; press Ctrl-C to stop")
	msgSimToolsGood = i18n.Message("  ready, tools accepted: %d; press Ctrl-C to stop")
	msgSimToolsLeft = i18n.Message("  ready, but only %d of its %d tools were accepted; new commands may need approval: patchbay pair list%s")
	msgSimNo        = i18n.Message("  its commands were rejected; they are requested again at the next connection")
	msgSimCalled    = i18n.Message("  call: %s %s → %s")
)

const (
	// nodeRetryLast is the longest pause before the node reconnects: a person is waiting for it.
	nodeRetryLast = 3 * time.Second
	// nodeAsks is how often the node checks whether its surface is approved, if the server does not
	// announce it.
	nodeAsks = 3 * time.Second
)

// runUntilDone keeps the node connected until ctx ends, or the server rejects it permanently.
func (d *desktopNode) runUntilDone(ctx context.Context) error {
	name, url := d.cmd.Name, d.target.url
	me := d.ids.of(name)
	if err := d.ids.save(); err != nil {
		return err
	}
	id := me.Identity.ID()
	d.report(nodeEvent{Event: "begins", Node: id, Name: name, URL: url}, msgSimIs, name, shortID(id, shortNode), url)
	for {
		if me.Tokens[url] == "" {
			if err := d.target.needKey(ctx); err != nil {
				return err
			}
		}
		refused := d.connect(ctx, me)
		switch {
		case ctx.Err() != nil:
			return d.endError(ctx)
		case refused.Detail() == wire.DetailPairing:
			// This gateway needs another connection; it keeps the request meanwhile.
			if netx.Wait(ctx, nodeRetryLast) != nil {
				return d.endError(ctx)
			}
		case me.Tokens[url] != "": // its own token is no longer valid
			d.ids.token(name, url, "")
			if err := d.ids.save(); err != nil {
				return err
			}
		default:
			return connectError(refused)
		}
		me = d.ids.of(name)
	}
}

// endError returns nil after Ctrl-C, the normal end.
func (d *desktopNode) endError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return ctx.Err()
}

// connectError explains why a node cannot connect, and what to do.
func connectError(e *wire.Error) error {
	switch e.Detail() {
	case wire.DetailTokenMismatch, wire.DetailTokenMissing, wire.DetailDeviceToken:
		return i18n.Message("the server rejects the key; create another one with: patchbay key add --name node --scope node").Errorf()
	}
	return i18n.Message("the server rejected the node: %s").Errorf(plain(e.Message))
}

// connect keeps the node connected until ctx ends or it does not retry, and returns the reason.
func (d *desktopNode) connect(ctx context.Context, me nodeIdentity) *wire.Error {
	ctx, cancel := context.WithCancel(ctx)
	o := d.cmd.options(d.target, d.cmd.Name, me)
	o.Handler, o.OnEvent, o.MaxBackoff = d.execute, d.onFrame, nodeRetryLast
	n := sim.NewNode(o)
	var work sync.WaitGroup
	defer work.Wait()
	defer n.Close()
	defer cancel()
	times, connected := 0, false
	for {
		s, changed := n.State()
		d.saveToken(s.Token, me)
		if s.ConnectCount != times {
			times = s.ConnectCount
			d.report(nodeEvent{Event: "connected", Node: n.ID()}, msgSimConnected)
			work.Go(func() { d.sendNodeInfo(ctx, n) })
		}
		if connected && !s.Connected {
			d.report(nodeEvent{Event: "disconnected", Error: reason(s.Err)}, msgSimLost, reason(s.Err))
		}
		connected = s.Connected
		switch {
		case s.Refused.Detail() == wire.DetailPairing:
			d.reportPending("waits", msgSimWaits, requestIn(s.Refused), "openclaw devices approve ")
		case !connected && times == 0 && s.Err != nil && s.Refused == nil && d.firstTime("nobody"):
			d.report(nodeEvent{Event: "unreachable", Error: reason(s.Err)}, msgSimNobody, reason(s.Err))
		}
		if s.Paused {
			return s.Refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// saveToken stores the node's own token.
func (d *desktopNode) saveToken(token string, me nodeIdentity) {
	if token == "" || token == me.Tokens[d.target.url] || !d.firstTime("token "+token) {
		return
	}
	d.ids.token(d.cmd.Name, d.target.url, token)
	if err := d.ids.save(); err != nil {
		d.sh.fail(i18n.Message("the node's token could not be saved: %v").Errorf(err))
	}
}

// reason returns the message of an error.
func reason(err error) string {
	if err == nil {
		return "?"
	}
	return singleLine(plain(err.Error()))
}

// requestIn returns the ID of the pending request in an error response.
func requestIn(e *wire.Error) string {
	var d struct {
		Request string `json:"requestId"`
	}
	_ = json.Unmarshal(e.Details, &d) // then it is unknown
	return d.Request
}

// reportPending prints once that a request is pending, and which command to run. there is the
// equivalent command of OpenClaw.
func (d *desktopNode) reportPending(event string, s i18n.Message, request, there string) {
	if !d.firstTime(event + request) {
		return
	}
	approve := "patchbay pair approve " + quoteWord(shortID(request, shortRequest)) + d.target.again
	if request == "" {
		approve = "patchbay pair list" + d.target.again
	}
	words := approve
	if !d.target.here {
		words += " / " + there + quoteWord(plain(request))
	}
	d.report(nodeEvent{Event: event, Request: request, Approve: approve}, s, words)
}

// surfaceRequest matches how gateways name the request in their messages.
var surfaceRequest = regexp.MustCompile(`openclaw nodes approve ([0-9A-Za-z][0-9A-Za-z_-]{0,63})`)

// pendingSurface reports whether a gateway has refused something because the node's surface is not
// approved, and returns the pending request, if there is one.
func pendingSurface(e *wire.Error) (request string, waits bool) {
	if e == nil || e.Code != wire.Unavailable {
		return "", false
	}
	if m := surfaceRequest.FindStringSubmatch(e.Message); m != nil {
		return m[1], true
	}
	return "", e.Retryable // rejected, or the gateway is busy
}

// sendNodeInfo sends what a node host sends after connecting, and again after each decision, until
// the connection ends.
func (d *desktopNode) sendNodeInfo(ctx context.Context, n *sim.Node) {
	for {
		_, err := n.Request(ctx, wire.MethodRunnerInventory,
			[]byte(`{"protocolFeatures":["node-worker-supervisor-v6"],"workerHost":{"enabled":false}}`))
		e, refused := errors.AsType[*wire.Error](err)
		if err != nil && !refused {
			return
		}
		request, waits := pendingSurface(e)
		if waits {
			if request != "" {
				d.reportPending("waits-for-commands", msgSimWaitsToo, request, "openclaw nodes approve ")
			}
			if !d.awaitDecision(ctx, nodeAsks) {
				return
			}
			continue
		}
		if !d.publish(ctx, n) || !d.awaitDecision(ctx, 0) {
			return
		}
	}
}

// awaitDecision waits until something about the node's surface is decided, at most for a duration;
// 0 means no limit. It returns false if ctx has ended.
func (d *desktopNode) awaitDecision(ctx context.Context, most time.Duration) bool {
	var late <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-late:
	case verdict := <-d.resolved:
		if verdict == wire.DecisionRejected {
			d.report(nodeEvent{Event: "rejected"}, msgSimNo)
		}
	}
	return true
}

// publish publishes the tools, and prints that the node is ready.
func (d *desktopNode) publish(ctx context.Context, n *sim.Node) bool {
	tools := []wire.PluginTool{}
	if d.cmd.Tools {
		tools = d.lamp.tools()
	}
	params, err := json.Marshal(wire.PluginTools{Tools: tools})
	if err != nil {
		return false
	}
	answer, err := n.Request(ctx, wire.MethodPluginTools, params)
	if _, refused := errors.AsType[*wire.Error](err); err != nil && !refused {
		return false
	}
	var taken wire.PluginTools
	_ = json.Unmarshal(answer, &taken) // then none was accepted
	e := nodeEvent{Event: "ready", Tools: len(taken.Tools)}
	switch {
	case len(taken.Tools) < len(tools):
		d.report(e, msgSimToolsLeft, len(taken.Tools), len(tools), d.target.again)
	case len(tools) > 0:
		d.report(e, msgSimToolsGood, len(tools))
	default:
		d.report(e, msgSimReady)
	}
	return true
}

// onFrame handles events of the server.
func (d *desktopNode) onFrame(f wire.Frame) {
	var verdict wire.Decision
	if f.Event != wire.EventNodeResolved || json.Unmarshal(f.Payload, &verdict) != nil {
		return
	}
	select {
	case d.resolved <- verdict.Decision:
	default: // a pending notification is enough to check again
	}
}

// maxParams is how many columns of a call's parameters are printed.
const maxParams = 100

// execute runs a command and prints it.
func (d *desktopNode) execute(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	result, err := d.lamp.simulated(ctx, command, params)
	e := nodeEvent{Event: "call", Command: command, Params: params, Result: result}
	text := string(result)
	if err != nil {
		e.Error, text = err.Error(), err.Error()
	}
	d.report(e, msgSimCalled, short(command, maxCommand), short(string(params), maxParams), short(text, maxParams))
	return result, err
}
