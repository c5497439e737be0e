package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// nodeOperations does for /api/v1, and so for the command line and the console, what OpenClaw
// operators do over a connection.
func nodeOperations(b *Base, g *gateway.Gateway) func(context.Context, control.NodeAction) (json.RawMessage, error) {
	return func(ctx context.Context, a control.NodeAction) (json.RawMessage, error) {
		n := nodeActions{gateway: g, who: gateway.Operator{Admin: a.Admin, Only: a.Only, Key: a.Key, Rules: a.Rules,
			Program: a.Program}}
		var err error
		if n.who.Person, err = b.actor(ctx, a.Person); err != nil {
			return nil, err
		}
		out, err := n.run(ctx, a)
		return out, nodeError(err)
	}
}

// actor returns the person for whom an operation runs. For the operator of this machine, without a
// person, that is the only person there is. With several people it is the zero person, so that
// tools that need a person, such as Learn, cannot be called.
func (b *Base) actor(ctx context.Context, person string) (p store.Person, err error) {
	if person != "" {
		return b.Store.People.ByID(ctx, person)
	}
	people, err := b.Store.People.All(ctx)
	if err == nil && len(people) == 1 {
		p = people[0]
	}
	return p, err
}

// nodeActions runs operations for one operator.
type nodeActions struct {
	gateway *gateway.Gateway
	who     gateway.Operator
}

func (n nodeActions) do(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return n.gateway.Do(ctx, n.who, method, params)
}

func (n nodeActions) run(ctx context.Context, a control.NodeAction) (json.RawMessage, error) {
	switch a.Action {
	case control.NodeList:
		return n.do(ctx, wire.MethodNodeList, struct{}{})
	case control.NodePaired:
		rows, err := n.gateway.PairedNodes(ctx, n.who)
		if err != nil {
			return nil, err
		}
		return json.Marshal(wire.NodePairs{Paired: rows})
	case control.PairList:
		return n.pairs(ctx)
	case control.PairApprove:
		return n.decide(ctx, a.Request, wire.MethodDeviceApprove, wire.MethodNodeApprove)
	case control.PairReject:
		return n.decide(ctx, a.Request, wire.MethodDeviceReject, wire.MethodNodeReject)
	case control.PairDevices:
		return n.do(ctx, wire.MethodDevicePairList, struct{}{})
	case control.PairRevoke:
		return n.revoke(ctx, a.Node, a.Name)
	case control.PairInvite:
		return n.do(ctx, wire.MethodSetupCode, map[string]any{"publicUrl": a.Name,
			"bootstrapProfile": wire.SetupProfileNode, "joinUrl": true})
	}
	node := a.Node
	if !a.Exact {
		var err error
		if node, err = n.find(ctx, node); err != nil {
			return nil, err
		}
	}
	type id struct {
		NodeID string `json:"nodeId"`
	}
	switch a.Action {
	case control.NodeDescribe:
		return n.do(ctx, wire.MethodNodeDescribe, id{node})
	case control.NodeRemove:
		out, err := n.do(ctx, wire.MethodNodeRemove, id{node})
		return out, notPaired(a, err)
	case control.NodeRename:
		out, err := n.do(ctx, wire.MethodNodeRename, struct {
			id
			Name string `json:"displayName"`
		}{id{node}, a.Name})
		return out, notPaired(a, err)
	case control.NodeGetPolicy:
		out, err := n.do(ctx, wire.MethodNodeExecPolicyGet, id{node})
		return policyOf(node, out, notPaired(a, err))
	case control.NodeSetPolicy:
		out, err := n.do(ctx, wire.MethodNodeExecPolicySet, struct {
			id
			File json.RawMessage `json:"file"`
			Hash string          `json:"baseHash,omitempty"`
		}{id{node}, a.Params, a.Once})
		return policyOf(node, out, notPaired(a, err))
	case control.NodeInvoke:
		call := wire.Invoke{NodeID: node, Command: a.Command, Params: a.Params, IdempotencyKey: a.Once}
		if call.IdempotencyKey == "" {
			call.IdempotencyKey = uuid.NewString()
		}
		if a.Timeout > 0 {
			call.TimeoutMS = new(a.Timeout.Milliseconds())
		}
		return n.do(ctx, wire.MethodNodeInvoke, call)
	}
	return nil, fmt.Errorf("nobody knows how to %s nodes", a.Action)
}

// policyOf adds the node to its policy for running programs.
func policyOf(node string, policy json.RawMessage, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		NodeID string          `json:"nodeId"`
		Policy json.RawMessage `json:"policy"`
	}{node, policy})
}

const (
	msgNotPaired = i18n.Message("this is no node that was paired, but something that is plugged in here: a board (patchbay device …), a server of tools (patchbay upstream …), or a part of Patchbay")
	msgNoNode    = i18n.Message("there is no node %q; patchbay node list shows those there are")
	msgNodes     = i18n.Message("%d nodes may be meant by %q; give the id of one")
	msgNoDevice  = i18n.Message("there is no paired device %q; patchbay pair devices shows those there are")
	msgDevices   = i18n.Message("%d devices may be meant by %q; give the id of one")
	msgNoToken   = i18n.Message("the device has no valid token as %s")
	msgNoRequest = i18n.Message("no request %q waits; patchbay pair list shows those that do. One that has expired comes again when the device tries again")
	msgRequests  = i18n.Message("%d requests may be meant by %q; give the id of one: %s")
)

// notPaired replaces the error for a node that was found but never paired by one that explains it.
// For an exact id, which was not searched for, the error stays.
func notPaired(a control.NodeAction, err error) error {
	if e, ok := errors.AsType[*wire.Error](err); ok && e == wire.UnknownNode && !a.Exact {
		return problem.New(problem.Invalid, msgNotPaired)
	}
	return err
}

// pairs lists the pending requests for pairing and for capabilities of nodes.
func (n nodeActions) pairs(ctx context.Context) (json.RawMessage, error) {
	var devices wire.DevicePairs
	var nodes wire.NodePairs
	for method, into := range map[string]any{wire.MethodDevicePairList: &devices, wire.MethodNodePairList: &nodes} {
		out, err := n.do(ctx, method, struct{}{})
		if err == nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(Pairs{Devices: devices.Pending, Nodes: nodes.Pending})
}

// Pairs is the response of /api/v1/pairs: requests that wait for a decision.
type Pairs struct {
	Devices []wire.DeviceRequest `json:"devices"` // to be paired
	Nodes   []wire.NodeRequest   `json:"nodes"`   // to use capabilities
}

// decide decides a request of either kind. The request is given by its id or a prefix of it, or by
// the id or the name of the device if only one request matches.
func (n nodeActions) decide(ctx context.Context, ref, device, node string) (json.RawMessage, error) {
	text, err := n.pairs(ctx)
	if err != nil {
		return nil, err
	}
	var all Pairs
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	r, wrong := all.Find(ref)
	if wrong != nil {
		return nil, wrong
	}
	method := device
	if r.Node {
		method = node
	}
	return n.do(ctx, method, map[string]string{"requestId": r.ID})
}

// PairRef refers to a request in [Pairs].
type PairRef struct {
	ID   string
	Node bool // about the capabilities of a node
}

// shortRequest is how many characters of an id name one of thousands of requests.
const shortRequest = 8

// Find returns the request that ref names: an id or a prefix of one, or the id or the name of a
// device that only one request is about.
func (p *Pairs) Find(ref string) (PairRef, *problem.Error) {
	var exact, some []PairRef
	look := func(r PairRef, peer, name string) {
		switch {
		case r.ID == ref:
			exact = append(exact, r)
		case ref != "" && (strings.HasPrefix(r.ID, ref) || strings.HasPrefix(peer, ref) ||
			strings.EqualFold(name, ref)):
			some = append(some, r)
		}
	}
	for _, d := range p.Devices {
		look(PairRef{ID: d.RequestID}, d.DeviceID, d.DisplayName)
	}
	for _, d := range p.Nodes {
		look(PairRef{ID: d.RequestID, Node: true}, d.NodeID, d.DisplayName)
	}
	if len(exact) > 0 {
		return exact[0], nil
	}
	switch len(some) {
	case 0:
		return PairRef{}, problem.New(problem.NotFound, msgNoRequest, ref)
	case 1:
		return some[0], nil
	}
	ids := make([]string, len(some))
	for i, r := range some {
		ids[i] = r.ID[:min(len(r.ID), shortRequest)]
	}
	return PairRef{}, problem.New(problem.Conflict, msgRequests, len(some), ref, strings.Join(ids, ", "))
}

// revoke ends the token of a device for a role.
func (n nodeActions) revoke(ctx context.Context, ref, role string) (json.RawMessage, error) {
	out, err := n.do(ctx, wire.MethodDevicePairList, struct{}{})
	if err != nil {
		return nil, err
	}
	var all wire.DevicePairs
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, err
	}
	var devices [][2]string
	for _, d := range all.Paired {
		devices = append(devices, [2]string{d.DeviceID, d.DisplayName})
	}
	device, err := match(ref, devices, msgNoDevice, msgDevices)
	if err != nil {
		return nil, err
	}
	out, err = n.do(ctx, wire.MethodTokenRevoke, map[string]string{"deviceId": device, "role": role})
	if e, ok := errors.AsType[*wire.Error](err); ok && e == wire.RevocationDenied {
		return nil, problem.New(problem.NotFound, msgNoToken, role)
	}
	return out, err
}

// find returns the id of a node by its id, a prefix of it, or its name.
func (n nodeActions) find(ctx context.Context, ref string) (id string, err error) {
	out, err := n.do(ctx, wire.MethodNodeList, struct{}{})
	if err != nil {
		return "", err
	}
	var list wire.NodeList
	if err := json.Unmarshal(out, &list); err != nil {
		return "", err
	}
	var nodes [][2]string
	for _, node := range list.Nodes {
		nodes = append(nodes, [2]string{node.NodeID, node.DisplayName})
	}
	return match(ref, nodes, msgNoNode, msgNodes)
}

// match returns the id that ref names: an id, a prefix of one, or a name, of those in list, which
// are pairs of both. missing and several are the messages if there is none, or are several.
func match(ref string, list [][2]string, missing, several i18n.Message) (string, error) {
	var found []string
	for _, each := range list {
		if each[0] == ref {
			return ref, nil
		}
		if ref != "" && (strings.HasPrefix(each[0], ref) || strings.EqualFold(each[1], ref)) {
			found = append(found, each[0])
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", problem.New(problem.NotFound, missing, ref)
	}
	return "", problem.New(problem.Conflict, several, len(found), ref)
}

// nodeError translates an error of the gateway for /api/v1.
func nodeError(err error) error {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return err
	}
	status := http.StatusBadGateway // an error of the node
	switch {
	case e == wire.UnknownNode || e == wire.UnknownRequest:
		status = http.StatusNotFound
	case e.Detail() == wire.DetailNotConnected:
		status = http.StatusServiceUnavailable
	case e.Code == wire.InvalidRequest:
		status = http.StatusBadRequest
	case e.Code == wire.Forbidden:
		status = http.StatusForbidden
	}
	return &control.NodeError{Status: status, Code: string(e.Code), Message: e.Message, Details: e.Details}
}
