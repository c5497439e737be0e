package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// Operator is somebody who runs nodes without being connected as OpenClaw's programs
// are: by the command line, or by pages.
type Operator struct {
	Person store.Person
	// Admin operators reach what is everybody's.
	Admin bool
	// Only is the only bot that the operator's key opens; 0: any. Keys that are narrow
	// decide about no pairing.
	Only int64
	// Key is the id of the key, and Rules are its rules, as kept.
	Key, Rules string
	// Program is how the operator came, for the audit trail.
	Program string
}

// scopes are what an operator may do.
func (o *Operator) scopes() []string {
	s := []string{wire.ScopeRead, wire.ScopeWrite}
	if o.Only != 0 || o.Key != "" && board.IsNarrow(o.Rules) {
		return s
	}
	s = append(s, wire.ScopePairing)
	if o.Admin {
		s = append(s, wire.ScopeAdmin)
	}
	return s
}

// done are the methods that [Gateway.Do] carries out: those whose answer is all there
// is to them.
var done = map[string]bool{
	wire.MethodNodeList: true, wire.MethodNodeDescribe: true, wire.MethodNodeRename: true, wire.MethodNodeRemove: true, wire.MethodNodeInvoke: true,
	wire.MethodNodePairList: true, wire.MethodNodeApprove: true, wire.MethodNodeReject: true,
	wire.MethodDevicePairList: true, wire.MethodDeviceApprove: true, wire.MethodDeviceReject: true, wire.MethodDeviceRemove: true,
}

// Do carries out one of the methods about nodes and pairing, as if the operator had
// called it over a connection, with params that are encoded to JSON. It returns the
// payload of the answer. The error is nil or a *[wire.Error]. A call of a node's
// command ends with ctx.
func (g *Gateway) Do(ctx context.Context, o Operator, method string, params any) (json.RawMessage, error) {
	if !done[method] {
		return nil, fmt.Errorf("openclaw: %s is for connections", method)
	}
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	c, err := g.conn(o)
	if err != nil {
		return nil, wire.Invalid("the rules of this key cannot be read")
	}
	m := g.methods[method]
	e := wire.Permit(method, c.role, c.scopes)
	if e == nil && m.shape != nil {
		e = m.shape.Invalid(text)
	}
	if e != nil {
		return nil, e
	}
	if method == wire.MethodNodeInvoke {
		payload, e := g.invoke(ctx, c, text)
		if e != nil {
			return nil, e
		}
		return payload, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*databaseLimit)
	defer cancel()
	out, e := m.run(ctx, c, text)
	if e != nil {
		return nil, e
	}
	return encoded(out), nil
}

// conn is an operator as the methods know one: without anything that has to do with
// a connection.
func (g *Gateway) conn(o Operator) (*conn, error) {
	own, nodes, bound, err := rulesOf(store.Key{Rules: o.Rules, Bot: o.Only})
	if err != nil {
		return nil, err
	}
	scopes := o.scopes()
	c := &conn{
		g: g, role: wire.RoleOperator, client: wire.Client{ID: o.Program}, person: o.Person, admin: o.Admin, scopes: scopes,
		// Whoever types a command, or presses a button, wants it as what it is.
		asked: slices.Concat(scopes, []string{wire.ScopeAdmin}), nodeView: nodes, since: time.Now(),
	}
	c.access = callerOf(o.Person, o.Key, o.Only, c.client, own, bound)
	c.access.Address = c.address.String()
	return c, nil
}

// Paired are the nodes of the operator's that were let in, whatever was approved of them,
// without what only appears as a node.
func (g *Gateway) Paired(ctx context.Context, o Operator) ([]wire.Node, error) {
	c, err := g.conn(o)
	if err != nil {
		return nil, wire.Invalid("the rules of this key cannot be read")
	}
	if e := wire.Permit(wire.MethodNodeList, c.role, c.scopes); e != nil {
		return nil, e
	}
	ctx, cancel := context.WithTimeout(ctx, 2*databaseLimit)
	defer cancel()
	return g.pairedRows(ctx, c)
}
