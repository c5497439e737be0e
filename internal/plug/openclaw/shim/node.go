package shim

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// keepLimit bounds how long reading or keeping a node's key may take.
const keepLimit = 10 * time.Second

// node is a node of a gateway: a device, or all of them.
type node struct {
	shim *shim
	key  string // the id of the device; "" in mode One
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	anew   chan struct{}  // holds 1: another connection may be needed
	work   sync.WaitGroup // sessions

	id string // at the gateway; known before there is a connection

	keeping sync.Mutex // one Save at a time

	mu      sync.Mutex
	offer   *offer
	kept    Kept
	link    client.State
	session *session // of the newest connection; nil if there is none
	status  Status
}

func newNode(s *shim, key string, o *offer) *node {
	n := &node{
		shim: s, key: key, log: s.log.With("device", key), anew: make(chan struct{}, 1), offer: o,
		status: Status{Device: key, State: Connecting, Since: time.Now()},
	}
	n.ctx, n.cancel = context.WithCancel(s.ctx)
	return n
}

// set gives the node something else to offer.
func (n *node) set(o *offer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.offer = o
	nudge(n.anew)
	if n.session != nil {
		nudge(n.session.stale)
	}
}

// offers is what the node offers now.
func (n *node) offers() *offer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.offer
}

func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // it is going to look anyway
	}
}

// run keeps the node at its gateway until it is ended.
func (n *node) run() {
	metrics := n.shim.m.metrics
	metrics.nodes.Inc()
	defer metrics.nodes.Dec()
	for n.ctx.Err() == nil {
		if err := n.identify(); err != nil {
			if n.ctx.Err() == nil {
				n.log.Error("openclaw: a node's key cannot be read or kept", "error", err)
				n.trouble(Waiting, sayNoKey, "")
				pause(n.ctx, n.shim.m.opt.times.again)
			}
			continue
		}
		n.join()
	}
}

// join connects, and stays until the node ends, or has to say something else about
// itself.
func (n *node) join() {
	o := n.offers()
	link := client.Open(n.options(o))
	defer n.work.Wait()
	defer link.Close()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.anew:
			if !n.offers().sameSurface(o) {
				n.log.Info("openclaw: what a node can do has changed, it connects again")
				return
			}
		}
	}
}

// options are how to connect with an offer.
func (n *node) options(o *offer) client.Options {
	s := n.shim
	opt := client.Options{
		URL: s.spec.URL, Token: s.spec.Token, Identity: n.kept.Identity,
		Connect: wire.Connect{
			Client: wire.Client{
				ID: wire.ClientNode, Mode: wire.ModeNode, Version: s.m.opt.Version, Platform: "linux", DeviceFamily: "Linux", DisplayName: o.name,
			},
			Role: wire.RoleNode, Caps: []string{wire.CapMCP}, Commands: o.commands,
		},
		Load: func(context.Context) (string, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.kept.Token, nil
		},
		Save: n.saveToken, Event: n.event, Up: n.up, Changed: n.linked, Logger: n.log,
	}
	if s.spec.Guarded {
		opt.Dial = s.m.opt.Dial
	}
	return opt
}

// identify sees to it that the node has a key, which is kept before it is used: a
// gateway's owner approves it.
func (n *node) identify() error {
	n.mu.Lock()
	known := n.kept.Identity != nil
	n.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, keepLimit)
	defer cancel()
	opt, spec := &n.shim.m.opt, n.shim.spec
	k, err := opt.Load(ctx, spec.ID, n.key)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	changed := k.Identity == nil || k.Gateway != spec.URL
	if k.Identity == nil {
		k = Kept{Identity: new(wire.NewIdentity())}
	}
	if k.Gateway != spec.URL {
		k.Token, k.Gateway = "", spec.URL // it is another gateway's secret
	}
	if changed {
		if err := opt.Save(ctx, spec.ID, n.key, k); err != nil {
			return fmt.Errorf("keep: %w", err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id = k.Identity.ID()
	n.kept, n.status.Node = k, n.id
	return nil
}

// saveToken keeps what the gateway gave the node.
func (n *node) saveToken(ctx context.Context, token string) error {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	n.mu.Lock()
	n.kept.Token = token
	k := n.kept
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	return n.shim.m.opt.Save(ctx, n.shim.spec.ID, n.key, k)
}

// up begins the session of a new connection.
func (n *node) up(_ context.Context, c *client.Conn) error {
	s := n.of(c)
	n.work.Go(s.run)
	return nil
}

// of is the session of a connection. Events may come before anybody knows of it.
func (n *node) of(c *client.Conn) *session {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == nil || n.session.conn != c {
		n.session = newSession(n, c)
	}
	return n.session
}

// event takes what the gateway says.
func (n *node) event(c *client.Conn, f wire.Frame) {
	switch f.Event {
	case wire.EventInvoke:
		n.of(c).invoked(f.Payload)
	case wire.EventInvokeCancel:
		n.of(c).calledOff(f.Payload)
	case wire.EventNodeResolved:
		n.of(c).resolved(f.Payload)
	}
}

// linked notes how the connection is. What a session finds out comes on top of it.
func (n *node) linked(s client.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link.Connected != s.Connected {
		if s.Connected {
			n.shim.m.metrics.connected.Inc()
		} else {
			n.shim.m.metrics.connected.Dec()
		}
	}
	n.link = s
	st := &n.status
	if st.NextTry = s.Again; s.Version != "" {
		st.Gateway = clip(s.Version, maxName)
	}
	t := s.Trouble
	switch {
	case s.Connected: // the session tells
	case t == nil:
		n.become(Connecting, talk.Say{}, "")
	case t.Problem == client.Closed: // by the session, which said why
		n.become(Waiting, n.status.Told, "")
	case t.Problem == client.Pairing:
		n.become(Pairing, t.Told, t.Command)
	case t.Lasting():
		n.become(Failed, t.Told, t.Command)
	default:
		n.become(Waiting, t.Told, t.Command)
	}
	if !s.Connected {
		st.Taken = 0
	}
}

// trouble notes how the node is.
func (n *node) trouble(state State, told talk.Say, command string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.become(state, told, command)
}

// become is trouble with mu held.
func (n *node) become(state State, told talk.Say, command string) {
	if n.status.State != state {
		n.status.State, n.status.Since = state, time.Now()
	}
	n.status.Told, n.status.Command = told, command
}

func (n *node) report() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.status
	st.Name, st.Tools, st.Cut = cmp.Or(n.offer.name, n.key), n.offer.count, n.offer.leftOut
	return st
}

// tell passes a notice on, if the node is there.
func (n *node) tell(notice board.Notice) {
	n.mu.Lock()
	s := n.session
	n.mu.Unlock()
	if s == nil {
		n.shim.m.metrics.notices.WithLabelValues("away").Inc()
		return
	}
	s.noticed(notice)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
