package shim

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
)

// saveTimeout limits reading or storing a node's key.
const saveTimeout = 10 * time.Second

// node is a node at a gateway: one device, or all of them.
type node struct {
	gateway *joinedGateway
	key     string // device id; "" in mode OneNode
	log     *slog.Logger

	ctx       context.Context
	cancel    context.CancelFunc
	reconnect chan struct{}  // a reconnect may be needed; holds 1
	work      sync.WaitGroup // sessions

	id string // at the gateway; known before the first connection

	saveMu sync.Mutex // serializes Save

	mu        sync.Mutex
	surface   *surface
	secret    NodeSecret
	linkState client.State
	session   *session // of the newest connection; nil without one
	status    Status
}

func newNode(s *joinedGateway, key string, o *surface) *node {
	n := &node{
		gateway: s, key: key, log: s.log.With("device", key), reconnect: make(chan struct{}, 1), surface: o,
		status: Status{Device: key, State: Connecting, Since: time.Now()},
	}
	n.ctx, n.cancel = context.WithCancel(s.ctx)
	return n
}

// setSurface replaces the node's surface.
func (n *node) setSurface(o *surface) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.surface = o
	wake(n.reconnect)
	if n.session != nil {
		wake(n.session.republish)
	}
}

// currentSurface returns the node's surface.
func (n *node) currentSurface() *surface {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.surface
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // already signalled
	}
}

// run keeps the node connected until it is stopped.
func (n *node) run() {
	metrics := n.gateway.m.metrics
	metrics.nodes.Inc()
	defer metrics.nodes.Dec()
	for n.ctx.Err() == nil {
		if err := n.ensureIdentity(); err != nil {
			if n.ctx.Err() == nil {
				n.log.Error("openclaw: a node's key cannot be read or kept", "error", err)
				n.setStatus(Waiting, msgNoKey.With(), "")
				_ = netx.Wait(n.ctx, n.gateway.m.opt.times.retryDelay)
			}
			continue
		}
		n.connect()
	}
}

// connect connects, and returns when the node is stopped or its declaration has changed.
func (n *node) connect() {
	o := n.currentSurface()
	link := client.Open(n.options(o))
	defer n.work.Wait()
	defer link.Close()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.reconnect:
			if !n.currentSurface().isSameSurface(o) {
				n.log.Info("openclaw: what a node can do has changed, it connects again")
				return
			}
		}
	}
}

// options returns the connection options for a surface.
func (n *node) options(o *surface) client.Options {
	s := n.gateway
	opt := client.Options{
		URL: s.spec.URL, Pin: s.spec.Pin, Token: s.spec.Token, Identity: n.secret.Identity,
		Connect: wire.Connect{
			Client: wire.Client{
				ID: wire.ClientNode, Mode: wire.ModeNode, Version: s.m.opt.Version,
				Platform: "linux", DeviceFamily: "Linux", DisplayName: o.name,
			},
			Role: wire.RoleNode, Caps: []string{wire.CapMCP}, Commands: o.commands,
		},
		LoadToken: func(context.Context) (string, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.secret.Token, nil
		},
		SaveToken: n.saveToken, OnEvent: n.handleEvent, OnConnect: n.onConnect, OnStateChange: n.onStateChange,
		Logger: n.log,
	}
	if s.spec.Untrusted {
		opt.Dial = s.m.opt.Dial
	}
	return opt
}

// ensureIdentity creates the node's key if needed, and stores it before its first use, because a
// gateway's owner approves it.
func (n *node) ensureIdentity() error {
	n.mu.Lock()
	known := n.secret.Identity != nil
	n.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, saveTimeout)
	defer cancel()
	opt, spec := &n.gateway.m.opt, n.gateway.spec
	k, err := opt.Load(ctx, spec.ID, n.key)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	changed := k.Identity == nil || k.Gateway != spec.URL
	if k.Identity == nil {
		k = NodeSecret{Identity: new(wire.NewIdentity())}
	}
	if k.Gateway != spec.URL {
		k.Token, k.Gateway = "", spec.URL // the token belongs to another gateway
	}
	if changed {
		if err := opt.Save(ctx, spec.ID, n.key, k); err != nil {
			return fmt.Errorf("keep: %w", err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id = k.Identity.ID()
	n.secret, n.status.Node = k, n.id
	return nil
}

// saveToken stores the token that the gateway issued.
func (n *node) saveToken(ctx context.Context, token string) error {
	n.saveMu.Lock()
	defer n.saveMu.Unlock()
	n.mu.Lock()
	n.secret.Token = token
	k := n.secret
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	return n.gateway.m.opt.Save(ctx, n.gateway.spec.ID, n.key, k)
}

// onConnect starts the session of a new connection.
func (n *node) onConnect(_ context.Context, c *client.Conn) error {
	s := n.sessionFor(c)
	n.work.Go(s.run)
	return nil
}

// sessionFor returns the session of a connection. Events may arrive before onConnect.
func (n *node) sessionFor(c *client.Conn) *session {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == nil || n.session.conn != c {
		n.session = newSession(n, c)
	}
	return n.session
}

// handleEvent handles an event of the gateway.
func (n *node) handleEvent(c *client.Conn, f wire.Frame) {
	switch f.Event {
	case wire.EventInvoke:
		n.sessionFor(c).handleInvoke(f.Payload)
	case wire.EventInvokeCancel:
		n.sessionFor(c).handleCancel(f.Payload)
	case wire.EventNodeResolved:
		n.sessionFor(c).handleDecision(f.Payload)
	}
}

// onStateChange records the state of the connection. The session's findings take precedence.
func (n *node) onStateChange(s client.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.linkState.Connected != s.Connected {
		if s.Connected {
			n.gateway.m.metrics.connected.Inc()
		} else {
			n.gateway.m.metrics.connected.Dec()
		}
	}
	n.linkState = s
	st := &n.status
	if st.NextTry = s.NextTry; s.Version != "" {
		st.Gateway = clip(s.Version, maxName)
	}
	t := s.Problem
	st.Code, st.Certificate = "", nil
	if t != nil && t.Problem != client.Closed {
		st.Code, st.Certificate = t.Problem, t.Certificate
	}
	switch {
	case s.Connected: // the session sets the status
	case t == nil:
		n.setStatusLocked(Connecting, i18n.Text{}, "")
	case t.Problem == client.Closed: // by the session, which set the reason
		n.setStatusLocked(Waiting, n.status.Message, "")
	case t.Problem == client.Pairing:
		n.setStatusLocked(Pairing, t.Message, t.Command)
	case t.Problem == client.Untrusted:
		n.setStatusLocked(Untrusted, t.Message, "")
	case t.Problem == client.Changed:
		n.setStatusLocked(Changed, t.Message, "")
	case t.Lasting():
		n.setStatusLocked(Failed, t.Message, t.Command)
	default:
		n.setStatusLocked(Waiting, t.Message, t.Command)
	}
	if !s.Connected {
		st.Accepted = 0
	}
}

// setStatus sets the node's status.
func (n *node) setStatus(state State, told i18n.Text, command string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setStatusLocked(state, told, command)
}

// setStatusLocked is setStatus with mu held.
func (n *node) setStatusLocked(state State, told i18n.Text, command string) {
	if n.status.State != state {
		n.status.State, n.status.Since = state, time.Now()
	}
	n.status.Message, n.status.Command = told, command
}

func (n *node) report() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.status
	st.Name, st.Tools, st.Omitted = cmp.Or(n.surface.name, n.key), n.surface.publishedCount, n.surface.omittedCount
	return st
}

// forwardNotice forwards a notification if the node is connected.
func (n *node) forwardNotice(notice hub.Notice) {
	n.mu.Lock()
	s := n.session
	n.mu.Unlock()
	if s == nil {
		n.gateway.m.metrics.notices.WithLabelValues("away").Inc()
		return
	}
	s.queueNotice(notice)
}
