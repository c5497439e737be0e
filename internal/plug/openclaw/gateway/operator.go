package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// Operator is somebody who operates nodes from the command line or the console instead of an
// OpenClaw program.
type Operator struct {
	Person store.Person
	// Admin operators reach what belongs to anybody.
	Admin bool
	// Only is the only bot that the operator's key opens; 0: any. Restricted keys cannot decide
	// on pairings.
	Only int64
	// Key is the id of the key, and Rules are its rules, as stored.
	Key, Rules string
	// Program is the client name in the audit trail.
	Program string
}

// scopes returns the operator's scopes.
func (o *Operator) scopes() []string {
	s := []string{wire.ScopeRead, wire.ScopeWrite}
	if o.Only != 0 || o.Key != "" && hub.AreNarrow(o.Rules) {
		return s
	}
	s = append(s, wire.ScopePairing, wire.ScopeApprovals)
	if o.Admin {
		s = append(s, wire.ScopeAdmin)
	}
	return s
}

// doMethods are the methods that [Gateway.Do] executes: those with a single response and no
// events.
var doMethods = map[string]bool{
	wire.MethodNodeList: true, wire.MethodNodeDescribe: true, wire.MethodNodeRename: true, wire.MethodNodeRemove: true,
	wire.MethodNodeInvoke:   true,
	wire.MethodNodePairList: true, wire.MethodNodeApprove: true, wire.MethodNodeReject: true,
	wire.MethodDevicePairList: true, wire.MethodDeviceApprove: true, wire.MethodDeviceReject: true,
	wire.MethodDeviceRemove: true, wire.MethodDeviceRename: true, wire.MethodTokenRotate: true,
	wire.MethodTokenRevoke: true, wire.MethodSetupCode: true,
	wire.MethodNodeExecPolicyGet: true, wire.MethodNodeExecPolicySet: true,
}

// Do executes a method about nodes or pairing, as if the operator had called it over a
// connection; params are encoded to JSON. It returns the response payload. The error is nil or a
// *[wire.Error]. A call of a node's command ends with ctx.
func (g *Gateway) Do(ctx context.Context, o Operator, method string, params any) (json.RawMessage, error) {
	if !doMethods[method] {
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
	e := wire.CheckPermission(method, c.role, c.scopes)
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
	ctx, cancel := context.WithTimeout(ctx, 2*databaseTimeout)
	defer cancel()
	out, e := m.run(ctx, c, text)
	if e != nil {
		return nil, e
	}
	if a, ok := out.(answered); ok {
		a.then()
		out = a.result
	}
	return encoded(out), nil
}

// conn returns an operator without a connection, in the form that methods expect.
func (g *Gateway) conn(o Operator) (*conn, error) {
	own, nodes, bound, err := rulesOf(store.Key{Rules: o.Rules, Bot: o.Only})
	if err != nil {
		return nil, err
	}
	scopes := o.scopes()
	c := &conn{
		g: g, role: wire.RoleOperator, client: wire.Client{ID: o.Program}, person: o.Person, isAdmin: o.Admin,
		scopes: scopes,
		// The request comes from a person, so it may use all of the person's scopes.
		requestedScopes: slices.Concat(scopes, []string{wire.ScopeAdmin}), nodeRules: nodes, connectedAt: time.Now(),
	}
	c.access = callerOf(o.Person, o.Key, o.Only, c.client, own, bound)
	c.access.Address = c.address.String()
	return c, nil
}

// PairedNodes returns the operator's paired nodes, approved or not, without virtual ones.
func (g *Gateway) PairedNodes(ctx context.Context, o Operator) ([]wire.Node, error) {
	c, err := g.conn(o)
	if err != nil {
		return nil, wire.Invalid("the rules of this key cannot be read")
	}
	if e := wire.CheckPermission(wire.MethodNodeList, c.role, c.scopes); e != nil {
		return nil, e
	}
	ctx, cancel := context.WithTimeout(ctx, 2*databaseTimeout)
	defer cancel()
	return g.pairedRows(ctx, c)
}

// Change is a change that an operator has made over its connection.
type Change struct {
	Person  string // id
	Key     string // id; empty: the token of a device
	Address string
	Method  string // one of OpenClaw's
	About   string // ids of devices and requests, names and roles
}

// changes are the methods that change something about devices, with the parameters that say what.
var changes = map[string][]string{
	wire.MethodNodeRename: {"nodeId", "displayName"}, wire.MethodNodeRemove: {"nodeId"},
	wire.MethodNodeApprove: {"requestId"}, wire.MethodNodeReject: {"requestId"},
	wire.MethodDeviceApprove: {"requestId"}, wire.MethodDeviceReject: {"requestId"},
	wire.MethodDeviceRename: {"deviceId", "label"}, wire.MethodDeviceRemove: {"deviceId"},
	wire.MethodTokenRotate: {"deviceId", "role"}, wire.MethodTokenRevoke: {"deviceId", "role"},
	wire.MethodSetupCode: {"publicUrl"}, wire.MethodNodeExecPolicySet: {"nodeId"},
}

// reportChange reports a method that was carried out, if it has changed something.
func (g *Gateway) reportChange(c *conn, method string, params []byte) {
	names, ok := changes[method]
	if !ok || g.OnChange == nil {
		return
	}
	var about []string
	for _, name := range names {
		if text := field(params, name); text != "" {
			about = append(about, text)
		}
	}
	ctx, cancel := context.WithTimeout(g.ctx, databaseTimeout)
	defer cancel()
	g.OnChange(ctx, Change{Person: c.person.ID, Key: c.keyID, Address: c.address.String(), Method: method,
		About: strings.Join(about, " ")})
}
