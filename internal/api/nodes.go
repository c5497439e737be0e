package api

import (
	"context"
	"encoding/json"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

const (
	// maxInvoke limits the body of a call of a node's command, in bytes: the size of a frame of
	// OpenClaw's.
	maxInvoke = 25 << 20
	// maxInvoked limits the response to such a call, in bytes: a frame, which may contain the
	// result twice.
	maxInvoked = 64 << 20
	// maxInvokeTime limits how long a caller may wait for a node.
	maxInvokeTime = 10 * time.Minute
)

// Operations on OpenClaw's nodes. Their output is that of OpenClaw's methods.
var (
	Nodes        = onNodes("GET /api/v1/nodes", "List nodes", control.NodeList, noInput)
	DescribeNode = onNodes("GET /api/v1/nodes/{node}", "Return a node with its commands", control.NodeDescribe, NodeRef.action)
	InvokeNode   = onNodes("POST /api/v1/nodes/{node}/invoke", "Run a command on a node", control.NodeInvoke,
		NodeCall.action).taking(maxInvoke).replying(maxInvoked).lasting(maxInvokeTime + callLimit)
	RenameNode = onNodes("PATCH /api/v1/nodes/{node}", "Rename a node", control.NodeRename, NodeName.action)
	RunPolicy  = define("GET /api/v1/nodes/{node}/policy", "Return the policy by which a node runs programs",
		(*control.Service).RunPolicy)
	ChangeRunPolicy = define("PATCH /api/v1/nodes/{node}/policy", "Change the policy by which a node runs programs",
		(*control.Service).ChangeRunPolicy)
	RemoveNode = onNodes("DELETE /api/v1/nodes/{node}", "Delete a node", control.NodeRemove, NodeRef.action)
	Pairs      = onNodes("GET /api/v1/pairs", "List pending pairing requests",
		control.PairList, noInput)
	ApprovePair = onNodes("POST /api/v1/pairs/{request}/approve", "Approve a pairing request", control.PairApprove,
		PairRef.action)
	PairedDevices = onNodes("GET /api/v1/pairs/devices", "List paired devices and their tokens", control.PairDevices,
		noInput)
	InviteNode = onNodes("POST /api/v1/pairs/invites", "Make a setup code that pairs one node", control.PairInvite,
		NodeInvite.action)
	SetupCodes = define("GET /api/v1/pairs/invites", "List valid setup codes, without their secrets",
		(*control.Service).SetupCodes)
	CancelSetupCode = define("DELETE /api/v1/pairs/invites/{code}", "Cancel a setup code that was not used yet",
		(*control.Service).CancelSetupCode)
	RevokeDevice = onNodes("POST /api/v1/pairs/devices/{device}/revoke", "Revoke the token of a paired device",
		control.PairRevoke, DeviceToken.action)
	RejectPair = onNodes("POST /api/v1/pairs/{request}/reject", "Reject a pairing request", control.PairReject,
		PairRef.action)
)

// nodeOperations adds the operations on OpenClaw's nodes.
func (s *Server) nodeOperations() {
	s.operate(Nodes, DescribeNode, InvokeNode, RenameNode, RunPolicy, ChangeRunPolicy, RemoveNode, Pairs, ApprovePair,
		RejectPair, PairedDevices, InviteNode, SetupCodes, CancelSetupCode, RevokeDevice)
}

// onNodes returns an operation on nodes, whose input is completed by action.
func onNodes[In any](pattern, summary, act string,
	action func(In) (control.NodeAction, error)) *Op[In, json.RawMessage] {
	return define(pattern, summary,
		func(s *control.Service, ctx context.Context, c control.Caller, in In) (json.RawMessage, error) {
			a, err := action(in)
			if err != nil {
				return nil, err
			}
			a.Action = act
			a.Person, a.Key, a.Rules, a.Only, a.Admin, a.Program = c.Person, c.Key, c.Rules, c.Only, c.Admin, c.Program
			return s.OnNodes(ctx, c, a)
		})
}

func noInput(control.Empty) (control.NodeAction, error) { return control.NodeAction{}, nil }

// NodeRef identifies a node.
type NodeRef struct {
	Node string `path:"node" json:"-"` // its id, the beginning of it, or its name
}

func (n NodeRef) action() (control.NodeAction, error) { return control.NodeAction{Node: n.Node}, nil }

// NodeName renames a node.
type NodeName struct {
	Node string `path:"node" json:"-"`
	Name string `json:"name"`
}

func (n NodeName) action() (control.NodeAction, error) {
	if n.Name == "" {
		return control.NodeAction{}, problem.New(problem.Invalid, msgNodeName)
	}
	return control.NodeAction{Node: n.Node, Name: n.Name}, nil
}

// PairRef identifies a request.
type PairRef struct {
	Request string `path:"request" json:"-"`
}

func (p PairRef) action() (control.NodeAction, error) {
	return control.NodeAction{Request: p.Request}, nil
}

// NodeInvite is the input of [InviteNode].
type NodeInvite struct {
	URL string `json:"url"` // by which the node reaches this server
}

func (n NodeInvite) action() (control.NodeAction, error) {
	if n.URL == "" {
		return control.NodeAction{}, problem.New(problem.Invalid, msgNoServerURL)
	}
	return control.NodeAction{Name: n.URL}, nil
}

// DeviceToken identifies the token of a paired device.
type DeviceToken struct {
	Device string `path:"device" json:"-"` // its id, the beginning of it, or its name
	Role   string `json:"role"`            // node or operator
}

func (d DeviceToken) action() (control.NodeAction, error) {
	if d.Role == "" {
		return control.NodeAction{}, problem.New(problem.Invalid, msgNoRole)
	}
	return control.NodeAction{Node: d.Device, Name: d.Role}, nil
}

// NodeCall is the input of [InvokeNode].
type NodeCall struct {
	Node    string          `path:"node" json:"-"`
	Command string          `json:"command"`
	Params  json.RawMessage `json:"params,omitempty"`
	Timeout int64           `json:"timeout_ms,omitempty"`
	// Once is an idempotency key.
	Once string `json:"idempotency_key,omitempty"`
}

const (
	msgNodeName    = i18n.Message(`the request body must have the form {"name":"Desktop"}`)
	msgNoServerURL = i18n.Message("url is missing: the address by which the node reaches this server")
	msgNoRole      = i18n.Message("role is missing: node or operator")
	msgNoCommand   = i18n.Message("command is missing")
	msgNodeTimeout = i18n.Message("timeout_ms must be between 0 and 600000")
)

func (n NodeCall) action() (control.NodeAction, error) {
	a := control.NodeAction{Node: n.Node, Command: n.Command, Params: n.Params, Once: n.Once,
		Timeout: time.Duration(n.Timeout) * time.Millisecond}
	switch {
	case n.Command == "":
		return a, problem.New(problem.Invalid, msgNoCommand)
	case a.Timeout < 0 || a.Timeout > maxInvokeTime:
		return a, problem.New(problem.Invalid, msgNodeTimeout)
	}
	return a, nil
}
