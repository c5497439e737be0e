package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// nodeGroup is a group of simulated nodes.
type nodeGroup struct {
	cmd    *simulateNodeCmd
	target *nodeTarget
	ids    *identities
	lamp   lamp
	names  []string
	nodes  []*sim.Node
	calls  atomic.Int64
}

// nodeFigures are the numbers of simulated nodes by state.
type nodeFigures struct {
	Nodes     int   `json:"nodes"`
	Connected int   `json:"connected"`
	Waiting   int   `json:"waiting"` // pending approval
	Lost      int   `json:"lost"`    // connections that were lost and restored
	Calls     int64 `json:"calls"`
	// Seconds is how long it took until all were connected; 0 means they never were.
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"` // why the first unconnected node is not connected
}

const (
	msgNodeFleet  = i18n.Message("%s  nodes %d, connected %d, pending approval %d, reconnects %d, calls %d")
	msgNodesDone  = i18n.Message("Nodes %d, connected %d, pending approval %d, reconnects %d, calls %d")
	msgNodesAfter = i18n.Message("All were connected after %.1f s")
)

// many connects many nodes, and keeps them connected until ctx ends.
func (c *simulateNodeCmd) many(ctx context.Context, sh *shell, p *nodeTarget, ids *identities) error {
	m := &nodeGroup{cmd: c, target: p, ids: ids, lamp: lamp{Bright: 100}}
	for i := range c.Count {
		name := fmt.Sprintf("%s %d", c.Name, i+1)
		m.names = append(m.names, name)
		// A token may have become invalid; a key is provided for that if it can be created here.
		if ids.of(name).Tokens[p.url] == "" || p.make != nil {
			if err := p.needKey(ctx); err != nil {
				return err
			}
		}
	}
	if err := ids.save(); err != nil {
		return err
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	began, all := time.Now(), time.Duration(0)
	m.startAll(ctx, began)
	next := began.Add(manyEvery)
	for netx.Wait(ctx, 100*time.Millisecond) == nil {
		f := m.figures()
		if all == 0 && f.Connected == f.Nodes {
			all = time.Since(began)
		}
		if time.Now().After(next) {
			next = next.Add(manyEvery)
			fmt.Fprintln(sh.stderr, msgNodeFleet.In(sh.lang, time.Since(began).Round(time.Second), f.Nodes, f.Connected,
				f.Waiting, f.Lost, f.Calls))
		}
	}
	f := m.figures()
	f.Seconds = all.Seconds()
	m.close()
	for i, n := range m.nodes {
		if s, _ := n.State(); s.Token != "" {
			ids.token(m.names[i], p.url, s.Token)
		}
	}
	if err := ids.save(); err != nil {
		return err
	}
	if err := sh.result(f, func() {
		sh.say(msgNodesDone, f.Nodes, f.Connected, f.Waiting, f.Lost, f.Calls)
		if f.Seconds > 0 {
			sh.say(msgNodesAfter, f.Seconds)
		}
	}); err != nil {
		return err
	}
	if f.Connected < f.Nodes {
		return i18n.Message("%d of %d nodes are not connected; the first: %s").Errorf(f.Nodes-f.Connected, f.Nodes,
			f.Error)
	}
	return nil
}

// startAll starts the nodes at the requested rate.
func (m *nodeGroup) startAll(ctx context.Context, began time.Time) {
	for i, name := range m.names {
		due := began.Add(time.Duration(float64(i) / m.cmd.perSecond * float64(time.Second)))
		if netx.Wait(ctx, time.Until(due)) != nil {
			return
		}
		o := m.cmd.options(m.target, name, m.ids.of(name))
		o.Serial, o.Handler = true, m.execute
		if m.cmd.Tools {
			o.Tools = m.lamp.tools()
		}
		m.nodes = append(m.nodes, sim.NewNode(o))
	}
}

func (m *nodeGroup) execute(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	m.calls.Add(1)
	return m.lamp.simulated(ctx, command, params)
}

func (m *nodeGroup) figures() nodeFigures {
	f := nodeFigures{Nodes: len(m.names), Calls: m.calls.Load()}
	for _, n := range m.nodes {
		s, _ := n.State()
		f.Lost += max(s.ConnectCount-1, 0)
		switch {
		case s.Connected:
			f.Connected++
		case s.Refused.Detail() == wire.DetailPairing:
			f.Waiting++
		}
		if !s.Connected && f.Error == "" {
			f.Error = notConnected(s)
		}
	}
	if f.Error == "" && len(m.nodes) < len(m.names) {
		f.Error = "it was not turned on yet"
	}
	return f
}

// notConnected explains why a node is not connected.
func notConnected(s sim.State) string {
	switch {
	case s.Refused.Detail() == wire.DetailPairing:
		return "it waits to be let in; see: patchbay pair list"
	case s.Refused != nil:
		return connectError(s.Refused).Error()
	case s.Err != nil && !errors.Is(s.Err, context.Canceled):
		return reason(s.Err)
	}
	return "it is still connecting"
}

func (m *nodeGroup) close() {
	var all sync.WaitGroup
	for _, n := range m.nodes {
		all.Go(n.Close)
	}
	all.Wait()
}
