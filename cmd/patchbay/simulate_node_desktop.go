package main

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"sync"
	"time"

	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// desktopNode is a simulated node in the terminal.
type desktopNode struct {
	sh    *shell
	cmd   *simulateNodeCmd
	place *nodePlace
	ids   *identities
	lamp  lamp

	resolved chan string // decisions about what it can do

	mu   sync.Mutex // of what is printed
	told map[string]bool
}

func newDesktopNode(sh *shell, c *simulateNodeCmd, p *nodePlace, ids *identities) *desktopNode {
	return &desktopNode{sh: sh, cmd: c, place: p, ids: ids, lamp: lamp{Bright: 100}, resolved: make(chan string, 1), told: map[string]bool{}}
}

// nodeEvent is what happens to a simulated node, as JSON.
type nodeEvent struct {
	Event string `json:"event"`
	Node  string `json:"nodeId,omitempty"`
	Name  string `json:"name,omitempty"`
	URL   string `json:"url,omitempty"`
	// Request waits to be approved, and Approve is the command for that.
	Request string `json:"requestId,omitempty"`
	Approve string `json:"approve,omitempty"`
	// Command is what the node was called for.
	Command string          `json:"command,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Tools   int             `json:"tools,omitempty"`
}

// tell tells what happens, in words or as JSON.
func (d *desktopNode) tell(e nodeEvent, s talk.Say, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.sh.json {
		d.sh.say(s, args...)
		return
	}
	_ = d.sh.writeJSON(e, "") // nobody reads any more, and Ctrl-C ends it
}

// once says whether something was not told before.
func (d *desktopNode) once(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.told[what]
	d.told[what] = true
	return !again
}

var (
	saySimIs        = talk.Say{Zh: "节点 %s（%s）→ %s", En: "Node %s (%s) → %s"}
	saySimConnected = talk.Say{Zh: "  已连接", En: "  connected"}
	saySimLost      = talk.Say{Zh: "  连接断开（%s），正在重连", En: "  disconnected (%s); it connects again"}
	saySimNobody    = talk.Say{Zh: "  连不上：%s；会继续尝试", En: "  it cannot connect: %s; it keeps trying"}
	saySimWaits     = talk.Say{Zh: "  等待允许连接：%s", En: "  waits to be let in: %s"}
	saySimWaitsToo  = talk.Say{Zh: "  它要运行的命令等待批准：%s", En: "  what it wants to run waits to be approved: %s"}
	saySimReady     = talk.Say{Zh: "  就绪；按 Ctrl-C 结束", En: "  ready; Ctrl-C ends it"}
	saySimToolsGood = talk.Say{Zh: "  就绪，%d 个工具已被接受；按 Ctrl-C 结束", En: "  ready, and its tools are taken: %d; Ctrl-C ends it"}
	saySimToolsLeft = talk.Say{
		Zh: "  就绪，但只有 %d 个工具被接受，共 %d 个；可能还有要批准的：patchbay pair list%s",
		En: "  ready, but %d of its %d tools are taken; perhaps something new has to be approved: patchbay pair list%s",
	}
	saySimNo     = talk.Say{Zh: "  它要运行的命令被拒绝；重新连接时会再问", En: "  what it wants to run was rejected; it asks again when it connects"}
	saySimCalled = talk.Say{Zh: "  被调用：%s %s → %s", En: "  is called: %s %s → %s"}
)

const (
	// nodeRetryLast is the longest pause before the node connects again: somebody sits
	// in front of it.
	nodeRetryLast = 3 * time.Second
	// nodeAsks is how often it is asked whether what the node can do is approved, if
	// the server does not tell.
	nodeAsks = 3 * time.Second
)

// live connects the node until ctx ends, or it is turned away for good.
func (d *desktopNode) live(ctx context.Context) error {
	name, url := d.cmd.Name, d.place.url
	me := d.ids.of(name)
	if err := d.ids.save(); err != nil {
		return err
	}
	id := me.Identity.ID()
	d.tell(nodeEvent{Event: "begins", Node: id, Name: name, URL: url}, saySimIs, name, shortID(id, shortNode), url)
	for {
		if me.Tokens[url] == "" {
			if err := d.place.needKey(ctx); err != nil {
				return err
			}
		}
		refused := d.connect(ctx, me)
		switch {
		case ctx.Err() != nil:
			return d.ended(ctx)
		case refused.Detail() == wire.DetailPairing:
			// This gateway wants to be asked anew; it remembers the request meanwhile.
			if !pauseUntil(ctx, time.Now().Add(nodeRetryLast)) {
				return d.ended(ctx)
			}
		case me.Tokens[url] != "": // its own token is good no longer
			d.ids.token(name, url, "")
			if err := d.ids.save(); err != nil {
				return err
			}
		default:
			return turnedAway(refused)
		}
		me = d.ids.of(name)
	}
}

// ended is nothing for Ctrl-C, which is how it ends.
func (d *desktopNode) ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return ctx.Err()
}

// turnedAway is why a node cannot connect, and what to do.
func turnedAway(e *wire.Error) error {
	switch e.Detail() {
	case wire.DetailTokenMismatch, wire.DetailTokenMissing, wire.DetailDeviceToken:
		return talk.Say{Zh: "服务器拒绝了密钥；再生成一个：patchbay key add --name node --scope node", En: "the server refuses the key; make another one with: patchbay key add --name node --scope node"}.Wrong()
	}
	return talk.Say{Zh: "服务器不接受这个节点：%s", En: "the server turns the node away: %s"}.Wrong(plain(e.Message))
}

// connect connects the node until ctx ends or it does not try again, and returns why
// not.
func (d *desktopNode) connect(ctx context.Context, me nodeIdentity) *wire.Error {
	ctx, cancel := context.WithCancel(ctx)
	o := d.cmd.options(d.place, d.cmd.Name, me)
	o.Handle, o.OnEvent, o.RetryLast = d.carryOut, d.hear, nodeRetryLast
	n := sim.NewNode(o)
	var work sync.WaitGroup
	defer work.Wait()
	defer n.Close()
	defer cancel()
	times, connected := 0, false
	for {
		s, changed := n.State()
		d.keep(s.Token, me)
		if s.Times != times {
			times = s.Times
			d.tell(nodeEvent{Event: "connected", Node: n.ID()}, saySimConnected)
			work.Go(func() { d.introduce(ctx, n) })
		}
		if connected && !s.Connected {
			d.tell(nodeEvent{Event: "disconnected", Error: reason(s.Err)}, saySimLost, reason(s.Err))
		}
		connected = s.Connected
		switch {
		case s.Refused.Detail() == wire.DetailPairing:
			d.waits("waits", saySimWaits, requestIn(s.Refused), "openclaw devices approve ")
		case !connected && times == 0 && s.Err != nil && s.Refused == nil && d.once("nobody"):
			d.tell(nodeEvent{Event: "unreachable", Error: reason(s.Err)}, saySimNobody, reason(s.Err))
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

// keep keeps the node's own token.
func (d *desktopNode) keep(token string, me nodeIdentity) {
	if token == "" || token == me.Tokens[d.place.url] || !d.once("token "+token) {
		return
	}
	d.ids.token(d.cmd.Name, d.place.url, token)
	if err := d.ids.save(); err != nil {
		d.sh.fail(talk.Say{Zh: "没能保存节点的令牌：%v", En: "the node's token is not kept: %v"}.Wrong(err))
	}
}

// reason is an error in a sentence.
func reason(err error) string {
	if err == nil {
		return "?"
	}
	return oneLine(plain(err.Error()))
}

// requestIn is the id of the request that waits, according to a refusal.
func requestIn(e *wire.Error) string {
	var d struct {
		Request string `json:"requestId"`
	}
	_ = json.Unmarshal(e.Details, &d) // then it is not known
	return d.Request
}

// waits tells once that a request waits, and what to run. There is what OpenClaw's own
// command line calls it.
func (d *desktopNode) waits(event string, s talk.Say, request, there string) {
	if !d.once(event + request) {
		return
	}
	approve := "patchbay pair approve " + quoteWord(shortID(request, shortRequest)) + d.place.again
	if request == "" {
		approve = "patchbay pair list" + d.place.again
	}
	words := approve
	if !d.place.here {
		words += " / " + there + quoteWord(plain(request))
	}
	d.tell(nodeEvent{Event: event, Request: request, Approve: approve}, s, words)
}

// surfaceRequest is how gateways name the request in what they say.
var surfaceRequest = regexp.MustCompile(`openclaw nodes approve ([0-9A-Za-z][0-9A-Za-z_-]{0,63})`)

// surfaceWaits says whether a gateway refuses something because what the node can do is
// not approved, and which request waits for that, if one does.
func surfaceWaits(e *wire.Error) (request string, waits bool) {
	if e == nil || e.Code != wire.Unavailable {
		return "", false
	}
	if m := surfaceRequest.FindStringSubmatch(e.Message); m != nil {
		return m[1], true
	}
	return "", e.Retryable // it was rejected, or the gateway has something else to do
}

// introduce says what a node host says when it has connected, and again when something
// was decided, until the connection is gone.
func (d *desktopNode) introduce(ctx context.Context, n *sim.Node) {
	for {
		_, err := n.Request(ctx, wire.MethodRunnerInventory, []byte(`{"protocolFeatures":["node-worker-supervisor-v6"],"workerHost":{"enabled":false}}`))
		e, refused := errors.AsType[*wire.Error](err)
		if err != nil && !refused {
			return
		}
		request, waits := surfaceWaits(e)
		if waits {
			if request != "" {
				d.waits("waits-for-commands", saySimWaitsToo, request, "openclaw nodes approve ")
			}
			if !d.decided(ctx, nodeAsks) {
				return
			}
			continue
		}
		if !d.publish(ctx, n) || !d.decided(ctx, 0) {
			return
		}
	}
}

// decided waits until something is decided about what the node can do, but no longer
// than for a time; 0: for ever. False means that ctx has ended.
func (d *desktopNode) decided(ctx context.Context, most time.Duration) bool {
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
			d.tell(nodeEvent{Event: "rejected"}, saySimNo)
		}
	}
	return true
}

// publish publishes the tools, and tells that the node is ready.
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
	_ = json.Unmarshal(answer, &taken) // then none is taken
	e := nodeEvent{Event: "ready", Tools: len(taken.Tools)}
	switch {
	case len(taken.Tools) < len(tools):
		d.tell(e, saySimToolsLeft, len(taken.Tools), len(tools), d.place.again)
	case len(tools) > 0:
		d.tell(e, saySimToolsGood, len(tools))
	default:
		d.tell(e, saySimReady)
	}
	return true
}

// hear takes what the server tells by itself.
func (d *desktopNode) hear(f wire.Frame) {
	var verdict wire.Decision
	if f.Event != wire.EventNodeResolved || json.Unmarshal(f.Payload, &verdict) != nil {
		return
	}
	select {
	case d.resolved <- verdict.Decision:
	default: // one of several is enough to look again
	}
}

// maxParams is how many columns of a call are printed.
const maxParams = 100

// carryOut carries out a command, and tells it.
func (d *desktopNode) carryOut(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	result, err := d.lamp.simulated(ctx, command, params)
	e := nodeEvent{Event: "call", Command: command, Params: params, Result: result}
	text := string(result)
	if err != nil {
		e.Error, text = err.Error(), err.Error()
	}
	d.tell(e, saySimCalled, short(command, maxCommand), short(string(params), maxParams), short(text, maxParams))
	return result, err
}
