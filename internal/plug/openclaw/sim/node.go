package sim

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
)

// CommandHandler executes a command. Parameters are JSON, or nil for none. A [*CommandError] is
// sent as it is; of other errors the gateway gets the text.
type CommandHandler func(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error)

// Options configure a [Node]. URL, Handler, and Token or SetupToken are required.
type Options struct {
	URL         string
	Token       string // the gateway's shared secret; a paired node has its own
	DeviceToken string // its own, from an earlier connection; empty: none
	// SetupToken is the token in a setup code, with which it connects first instead of with Token.
	SetupToken string
	Identity   wire.Identity
	Name       string
	Platform   string // empty: linux
	Family     string // empty: Linux, if Platform is linux
	Caps       []string
	Commands   []string
	Handler    CommandHandler
	Tools      []wire.PluginTool // published after every connection
	Logger     *slog.Logger      // nil discards
	// Serial executes commands one after the other in the goroutine that reads, which saves a
	// goroutine per command. Handler must be quick then.
	Serial bool
	// MinBackoff and MaxBackoff are the first and the longest delay before a reconnect; 0:
	// OpenClaw's.
	MinBackoff, MaxBackoff time.Duration
	// SkipIntro omits what a node host sends after every connect, except Tools.
	SkipIntro bool
	// OnEvent handles events of the gateway other than commands and ticks.
	OnEvent func(wire.Frame)
	// Transport makes the connections; nil: the default HTTP transport.
	Transport http.RoundTripper
}

// Node is a node that reconnects until it is closed, or until the gateway refuses it for good. It
// is safe for concurrent use.
type Node struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	jobs   sync.WaitGroup

	mu           sync.Mutex
	client       *Client // nil: not connected
	changed      chan struct{}
	token        string // its device token
	refused      *wire.Error
	paused       bool
	connectCount int   // number of connects
	err          error // of the last connection or attempt
}

// NewNode makes a node and starts connecting. Close ends it.
func NewNode(o Options) *Node {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Platform == "" {
		o.Platform = wire.Linux
	}
	if o.Family == "" && o.Platform == wire.Linux {
		o.Family = "Linux"
	}
	if o.MinBackoff == 0 {
		o.MinBackoff = wire.MinBackoff
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = wire.MaxBackoff
	}
	if o.Identity.ID() == "" {
		o.Identity = wire.NewIdentity()
	}
	n := &Node{o: o, done: make(chan struct{}), changed: make(chan struct{}), token: o.DeviceToken}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	go n.run()
	return n
}

// ID returns the node's id.
func (n *Node) ID() string { return n.o.Identity.ID() }

// Close disconnects, and waits until all goroutines have ended.
func (n *Node) Close() {
	n.cancel()
	<-n.done
}

// Cut closes the connection without a Close frame, as a network failure does. The node reconnects.
func (n *Node) Cut() {
	n.mu.Lock()
	c := n.client
	n.mu.Unlock()
	if c != nil {
		c.Cut()
	}
}

// State is the state of a node.
type State struct {
	Connected    bool
	ConnectCount int         // number of connects
	Refused      *wire.Error // the last refusal
	Paused       bool        // it does not retry
	Token        string      // its device token; empty: none yet
	Err          error       // why it is not connected; nil: connected, or the first attempt
}

// State returns the node's state. The channel is closed at the next change.
func (n *Node) State() (State, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return State{n.client != nil, n.connectCount, n.refused, n.paused, n.token, n.err}, n.changed
}

// Await waits until the state satisfies a condition.
func (n *Node) Await(ctx context.Context, is func(State) bool) error {
	for {
		s, changed := n.State()
		if is(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// AwaitConnected waits until the node is connected.
func (n *Node) AwaitConnected(ctx context.Context) error {
	return n.Await(ctx, func(s State) bool { return s.Connected })
}

func (n *Node) update(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// SendEvent sends a node event.
func (n *Node) SendEvent(ctx context.Context, event string, payload any) (json.RawMessage, error) {
	data, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	e := wire.NodeEvent{Event: event, Payload: data}
	return n.Request(ctx, wire.MethodNodeEvent, e.Append(nil))
}

// Request calls a method of the gateway.
func (n *Node) Request(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	n.mu.Lock()
	c := n.client
	n.mu.Unlock()
	if c == nil {
		return nil, ErrClosed
	}
	return c.Request(ctx, method, params)
}

// Write sends a frame unchanged.
func (n *Node) Write(ctx context.Context, frame []byte) error {
	n.mu.Lock()
	c := n.client
	n.mu.Unlock()
	if c == nil {
		return ErrClosed
	}
	return c.Write(ctx, frame)
}

// run connects repeatedly.
func (n *Node) run() {
	defer close(n.done)
	defer n.jobs.Wait()
	pause := netx.Backoff{First: n.o.MinBackoff, Max: n.o.MaxBackoff}
	for n.ctx.Err() == nil {
		began := time.Now()
		err := n.serve()
		var refused *wire.Error
		wait := pause.Next()
		if !errors.As(err, &refused) {
			n.update(func() { n.err = err })
		} else {
			stop := !shouldRetry(refused)
			n.update(func() { n.refused, n.paused, n.err = refused, stop, err })
			if stop {
				n.o.Logger.Info("the gateway has turned the node away", "error", refused)
				<-n.ctx.Done()
				return
			}
			wait = max(wait, refused.RetryAfter)
		}
		n.o.Logger.Debug("the node connects again", "in", wait, "error", err)
		if time.Since(began) > n.o.MaxBackoff {
			pause.Reset()
		}
		_ = netx.Wait(n.ctx, wait)
	}
}

// shouldRetry reports whether a node host retries after a refusal
// (packages/gateway-client/src/reconnect-policy.ts).
func shouldRetry(e *wire.Error) bool {
	switch e.Detail() {
	case wire.DetailPairing:
		return e.Next() == wire.NextWait
	case wire.DetailTokenMismatch, wire.DetailTokenMissing, wire.DetailDeviceToken, wire.DetailScopeMismatch,
		wire.DetailProtocol, wire.DetailIdentity:
		return false
	}
	return e.Retryable || e.Close == 0
}

// connectParams returns the node's connect parameters.
func (n *Node) connectParams() wire.Connect {
	n.mu.Lock()
	own := n.token
	n.mu.Unlock()
	h := wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleNode, Caps: n.o.Caps,
		Commands: n.o.Commands,
		Client: wire.Client{ID: wire.ClientNode, DisplayName: n.o.Name, Version: "1", Platform: n.o.Platform,
			DeviceFamily: n.o.Family, Mode: wire.ModeNode},
		Auth: &wire.Auth{Token: n.o.Token, BootstrapToken: n.o.SetupToken},
	}
	if own != "" {
		h.Auth = &wire.Auth{Token: own, DeviceToken: own}
	}
	return h
}

// serve makes one connection and serves it until it ends.
func (n *Node) serve() error {
	var c *Client
	ready := make(chan struct{})
	limit, cancel := context.WithTimeout(n.ctx, wire.HandshakeTimeout)
	c, err := dial(limit, n.o.Transport, n.o.URL, n.connectParams(), &n.o.Identity, func(f wire.Frame) {
		<-ready
		n.handleEvent(c, f)
	})
	cancel()
	if err != nil {
		close(ready)
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Detail() == wire.DetailTokenMismatch {
			n.mu.Lock()
			again := n.token != ""
			n.token = ""
			n.mu.Unlock()
			if again { // the device token was invalid
				return ErrClosed
			}
		}
		return err
	}
	n.update(func() {
		n.client, n.refused, n.err, n.connectCount = c, nil, nil, n.connectCount+1
		if c.Hello.Auth.DeviceToken != "" {
			n.token = c.Hello.Auth.DeviceToken
		}
	})
	close(ready)
	defer n.update(func() { n.client = nil })
	n.jobs.Go(func() { n.sendIntro(c) })
	n.watchTicks(c)
	return c.Err()
}

// watchTicks closes the connection when the gateway has been silent for too long.
func (n *Node) watchTicks(c *Client) {
	interval := time.Duration(c.Hello.Policy.TickIntervalMS) * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-c.Done():
			return
		case <-n.ctx.Done():
			c.Close()
			return
		case <-tick.C:
			if c.SinceLastFrame() > 2*interval {
				_ = c.conn.Close(wire.CloseNoTick, "tick timeout") // the gateway does not answer anyway
			}
		}
	}
}

// sendIntro sends what a node host sends after every connect (src/node-host/runner.ts). Errors are
// ignored.
func (n *Node) sendIntro(c *Client) {
	ctx, cancel := context.WithTimeout(n.ctx, wire.InvokeTimeout)
	defer cancel()
	if !n.o.SkipIntro {
		stats := wire.NodeEvent{Event: wire.NodeStats,
			Payload: json.RawMessage(`{"cpuCount":2,"memoryTotalBytes":4294967296,"memoryFreeBytes":1073741824}`)}
		_, _ = c.Request(ctx, wire.MethodNodeEvent, stats.Append(nil))
		_, _ = c.Request(ctx, wire.MethodRunnerInventory,
			[]byte(`{"protocolFeatures":["node-worker-supervisor-v6"],"workerHost":{"enabled":false}}`))
		_, _ = c.Request(ctx, wire.MethodSkills, []byte(`{"skills":[]}`))
	}
	if n.o.Tools != nil || !n.o.SkipIntro {
		tools := n.o.Tools
		if tools == nil {
			tools = []wire.PluginTool{}
		}
		_ = c.Call(ctx, wire.MethodPluginTools, wire.PluginTools{Tools: tools}, nil)
	}
}

// handleEvent handles an event of the gateway.
func (n *Node) handleEvent(c *Client, f wire.Frame) {
	switch {
	case f.Event == wire.EventInvoke && n.o.Serial:
		n.runCommand(c, f.Payload)
	case f.Event == wire.EventInvoke:
		n.jobs.Go(func() { n.runCommand(c, f.Payload) })
	case f.Event != wire.EventTick && n.o.OnEvent != nil:
		n.o.OnEvent(f)
	}
}

// runCommand executes a command and sends its result.
func (n *Node) runCommand(c *Client, payload []byte) {
	req, err := wire.ParseInvokeRequest(payload)
	if req.ID == "" {
		return
	}
	res := wire.InvokeResult{ID: req.ID, NodeID: n.ID()}
	if err != nil {
		res.Error = &wire.NodeError{Code: string(wire.InvalidRequest), Message: err.Error()}
	} else {
		ctx, cancel := n.ctx, context.CancelFunc(func() {})
		if req.Timeout > 0 && !n.o.Serial {
			ctx, cancel = context.WithTimeout(ctx, req.Timeout)
		}
		res.Payload, err = n.o.Handler(ctx, req.Command, req.Params)
		cancel()
		var said *CommandError
		switch {
		case err == nil:
			res.OK = true
		case errors.As(err, &said):
			res.Error, res.Payload = &said.NodeError, nil
		default:
			res.Error, res.Payload = &wire.NodeError{Code: wire.NodeUnavailable, Message: err.Error()}, nil
		}
	}
	if errors.Is(err, ErrNoAnswer) {
		return
	}
	c.post(n.ctx, wire.MethodInvokeResult, res.Append(nil))
}

// CommandError is an error that is sent to the gateway as it is.
type CommandError struct{ wire.NodeError }

func (f *CommandError) Error() string { return f.Code + ": " + f.Message }

// Fail makes a [*Failed].
func Fail(code, message string) error {
	return &CommandError{wire.NodeError{Code: code, Message: message}}
}

// ErrNoAnswer has a node say nothing at all.
var ErrNoAnswer = errors.New("say nothing")

// NotSupported returns a node host's error for an unknown command.
var NotSupported = Fail(wire.NodeUnavailable, "command not supported")

// post calls a method without waiting for the answer.
func (c *Client) post(ctx context.Context, method string, params []byte) {
	// reading finds out that it has ended
	_ = c.conn.Write(ctx, websocket.MessageText, wire.AppendRequest(nil, "r", method, params))
}
