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

	"patchbay/internal/plug/openclaw/wire"
)

// Handle carries out a command. Parameters are JSON, or nil for none. An error that is
// a [*Failed] is told as it is; of any other, the gateway hears the words.
type Handle func(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error)

// Options make a [Node]. URL, Token and Handle are required.
type Options struct {
	URL      string
	Token    string // the gateway's; once paired, the node has its own
	Own      string // its own, from an earlier time; empty: none
	Identity wire.Identity
	Name     string
	Platform string // empty: linux
	Family   string // empty: Linux, if the platform is
	Caps     []string
	Commands []string
	Handle   Handle
	Tools    []wire.PluginTool // published after every connection
	Logger   *slog.Logger      // nil discards
	// Serial has commands carried out one after the other, by the goroutine that reads:
	// it saves one for each. Handle must be quick then.
	Serial bool
	// RetryFirst and RetryLast are the pauses before it connects again; 0: as OpenClaw
	// does.
	RetryFirst, RetryLast time.Duration
	// Quiet leaves out what a node host says after every connection but Tools.
	Quiet bool
	// OnEvent hears what the gateway tells by itself, but commands and ticks.
	OnEvent func(wire.Frame)
	// Over is what connections are made over; nil: the usual transport of HTTP.
	Over http.RoundTripper
}

// Node is a node that stays connected until it is closed, or turned away for good. It
// is safe for concurrent use.
type Node struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	jobs   sync.WaitGroup

	mu      sync.Mutex
	client  *Client // nil: not connected
	changed chan struct{}
	token   string // its own
	refused *wire.Error
	paused  bool
	times   int   // that it has connected
	err     error // of the last connection, or the last attempt
}

// NewNode makes a node, which begins to connect. Close ends it.
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
	if o.RetryFirst == 0 {
		o.RetryFirst = wire.RetryFirst
	}
	if o.RetryLast == 0 {
		o.RetryLast = wire.RetryLast
	}
	if o.Identity.ID() == "" {
		o.Identity = wire.NewIdentity()
	}
	n := &Node{o: o, done: make(chan struct{}), changed: make(chan struct{}), token: o.Own}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	go n.run()
	return n
}

// ID is the node's id.
func (n *Node) ID() string { return n.o.Identity.ID() }

// Close disconnects, and waits until nothing runs any more.
func (n *Node) Close() {
	n.cancel()
	<-n.done
}

// Cut ends the connection without a word, as a network does. The node connects again.
func (n *Node) Cut() {
	n.mu.Lock()
	c := n.client
	n.mu.Unlock()
	if c != nil {
		c.Cut()
	}
}

// State is how a node is.
type State struct {
	Connected bool
	Times     int         // that it has connected
	Refused   *wire.Error // the last time
	Paused    bool        // it does not try again
	Token     string      // its own; empty: none yet
	Err       error       // why it is not connected; nil: it is, or tries for the first time
}

// State tells how the node is. The channel is closed when that changes.
func (n *Node) State() (State, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return State{n.client != nil, n.times, n.refused, n.paused, n.token, n.err}, n.changed
}

// Await waits until the node is as it is wanted.
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

// Connected waits until the node is connected.
func (n *Node) Connected(ctx context.Context) error {
	return n.Await(ctx, func(s State) bool { return s.Connected })
}

func (n *Node) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Tell tells the gateway something.
func (n *Node) Tell(ctx context.Context, event string, payload any) (json.RawMessage, error) {
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

// Write sends a frame as it is.
func (n *Node) Write(ctx context.Context, frame []byte) error {
	n.mu.Lock()
	c := n.client
	n.mu.Unlock()
	if c == nil {
		return ErrClosed
	}
	return c.Write(ctx, frame)
}

// run connects again and again.
func (n *Node) run() {
	defer close(n.done)
	defer n.jobs.Wait()
	pause := n.o.RetryFirst
	for n.ctx.Err() == nil {
		began := time.Now()
		err := n.serve()
		var refused *wire.Error
		wait := pause
		if !errors.As(err, &refused) {
			n.set(func() { n.err = err })
		} else {
			stop := !keepTrying(refused)
			n.set(func() { n.refused, n.paused, n.err = refused, stop, err })
			if stop {
				n.o.Logger.Info("the gateway has turned the node away", "error", refused)
				<-n.ctx.Done()
				return
			}
			wait = max(wait, refused.RetryAfter)
		}
		n.o.Logger.Debug("the node connects again", "in", wait, "error", err)
		pause = min(2*pause, n.o.RetryLast)
		if time.Since(began) > n.o.RetryLast {
			pause = n.o.RetryFirst
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-n.ctx.Done():
			timer.Stop()
		}
	}
}

// keepTrying says whether a node host tries again that was refused.
func keepTrying(e *wire.Error) bool {
	switch e.Detail() {
	case wire.DetailPairing:
		return e.Next() == wire.NextWait
	case wire.DetailTokenMismatch, wire.DetailTokenMissing, wire.DetailDeviceToken, wire.DetailScopeMismatch, wire.DetailProtocol, wire.DetailIdentity:
		return false
	}
	return e.Retryable || e.Close == 0
}

// hello is what the node says of itself.
func (n *Node) hello() wire.Connect {
	n.mu.Lock()
	own := n.token
	n.mu.Unlock()
	h := wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleNode, Caps: n.o.Caps, Commands: n.o.Commands,
		Client: wire.Client{ID: wire.ClientNode, DisplayName: n.o.Name, Version: "1", Platform: n.o.Platform, DeviceFamily: n.o.Family, Mode: wire.ModeNode},
		Auth:   &wire.Auth{Token: n.o.Token},
	}
	if own != "" {
		h.Auth = &wire.Auth{Token: own, DeviceToken: own}
	}
	return h
}

// serve is one connection.
func (n *Node) serve() error {
	var c *Client
	ready := make(chan struct{})
	limit, cancel := context.WithTimeout(n.ctx, wire.HandshakeTimeout)
	c, err := dial(limit, n.o.Over, n.o.URL, n.hello(), &n.o.Identity, func(f wire.Frame) {
		<-ready
		n.hear(c, f)
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
			if again { // its own was not good any more
				return ErrClosed
			}
		}
		return err
	}
	n.set(func() {
		n.client, n.refused, n.err, n.times = c, nil, nil, n.times+1
		if c.Hello.Auth.DeviceToken != "" {
			n.token = c.Hello.Auth.DeviceToken
		}
	})
	close(ready)
	defer n.set(func() { n.client = nil })
	n.jobs.Go(func() { n.introduce(c) })
	n.watch(c)
	return c.Err()
}

// watch ends the connection when the gateway has said nothing for too long.
func (n *Node) watch(c *Client) {
	interval := time.Duration(c.Hello.Policy.TickIntervalMS) * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-c.Gone():
			return
		case <-n.ctx.Done():
			c.Close()
			return
		case <-tick.C:
			if c.Idle() > 2*interval {
				_ = c.conn.Close(wire.CloseNoTick, "tick timeout") // it is not there anyway
			}
		}
	}
}

// introduce says what a node host says after every connection, unasked. Nobody minds
// what comes of it.
func (n *Node) introduce(c *Client) {
	ctx, cancel := context.WithTimeout(n.ctx, wire.InvokeTimeout)
	defer cancel()
	if !n.o.Quiet {
		stats := wire.NodeEvent{Event: wire.NodeStats, Payload: json.RawMessage(`{"cpuCount":2,"memoryTotalBytes":4294967296,"memoryFreeBytes":1073741824}`)}
		_, _ = c.Request(ctx, wire.MethodNodeEvent, stats.Append(nil))
		_, _ = c.Request(ctx, wire.MethodRunnerInventory, []byte(`{"protocolFeatures":["node-worker-supervisor-v6"],"workerHost":{"enabled":false}}`))
		_, _ = c.Request(ctx, wire.MethodSkills, []byte(`{"skills":[]}`))
	}
	if n.o.Tools != nil || !n.o.Quiet {
		tools := n.o.Tools
		if tools == nil {
			tools = []wire.PluginTool{}
		}
		_ = c.Call(ctx, wire.MethodPluginTools, wire.PluginTools{Tools: tools}, nil)
	}
}

// hear takes what the gateway tells by itself.
func (n *Node) hear(c *Client, f wire.Frame) {
	switch {
	case f.Event == wire.EventInvoke && n.o.Serial:
		n.carryOut(c, f.Payload)
	case f.Event == wire.EventInvoke:
		n.jobs.Go(func() { n.carryOut(c, f.Payload) })
	case f.Event != wire.EventTick && n.o.OnEvent != nil:
		n.o.OnEvent(f)
	}
}

// carryOut carries out a command and tells what came of it.
func (n *Node) carryOut(c *Client, payload []byte) {
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
		res.Payload, err = n.o.Handle(ctx, req.Command, req.Params)
		cancel()
		var said *Failed
		switch {
		case err == nil:
			res.OK = true
		case errors.As(err, &said):
			res.Error, res.Payload = &said.NodeError, nil
		default:
			res.Error, res.Payload = &wire.NodeError{Code: wire.NodeUnavailable, Message: err.Error()}, nil
		}
	}
	if errors.Is(err, ErrSilent) {
		return
	}
	c.post(n.ctx, wire.MethodInvokeResult, res.Append(nil))
}

// Failed is an error that the gateway is told as it is.
type Failed struct{ wire.NodeError }

func (f *Failed) Error() string { return f.Code + ": " + f.Message }

// Fail makes a [*Failed].
func Fail(code, message string) error { return &Failed{wire.NodeError{Code: code, Message: message}} }

// ErrSilent has a node say nothing at all.
var ErrSilent = errors.New("say nothing")

// NotSupported is what a node host says to a command that it does not have.
var NotSupported = Fail(wire.NodeUnavailable, "command not supported")

// post calls a method without waiting for the answer.
func (c *Client) post(ctx context.Context, method string, params []byte) {
	_ = c.conn.Write(ctx, websocket.MessageText, wire.AppendRequest(nil, "r", method, params)) // reading finds out that it has ended
}
