package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Actions of a [NodeAction], with the fields that they use.
const (
	NodeList      = "list"     // lists nodes
	NodePaired    = "paired"   // lists paired nodes
	NodeDescribe  = "describe" // Node
	NodeInvoke    = "invoke"   // Node, Command, Params, Timeout, Once
	NodeRename    = "rename"   // Node, Name
	NodeRemove    = "remove"   // Node
	NodeGetPolicy = "policy"   // Node: the policy for running programs
	// NodeSetPolicy replaces it: Node, Params is the file, Once the hash of the one that was read,
	// Name what has changed.
	NodeSetPolicy = "set-policy"
	PairList      = "pairs"   // lists pairing requests and requested commands
	PairApprove   = "approve" // Request
	PairReject    = "reject"  // Request
	PairDevices   = "devices" // lists paired devices
	PairInvite    = "invite"  // Name: the address of the gateway
	PairRevoke    = "revoke"  // Node: a paired device; Name: its role
)

// NodeAction is an operation on OpenClaw's nodes.
type NodeAction struct {
	Action string
	// Node is an id, the beginning of an id, or a name; if Exact is set, an id.
	Node, Name, Request string
	Exact               bool

	Command string
	Params  json.RawMessage // nil: none
	Timeout time.Duration   // 0: 30 s
	// Once is an idempotency key: a call with it is executed once. Empty: each call is executed.
	Once string

	// The caller. An empty Person is the operator of this machine.
	Person, Key, Rules, Program string
	Only                        int64
	Admin                       bool
}

// NodeError is an error of the gateway with its response.
type NodeError struct {
	Status  int    // HTTP status
	Code    string // OpenClaw's error code
	Message string
	Details json.RawMessage // nil: none
}

// Error implements error.
func (e *NodeError) Error() string { return e.Message }

// NodePolicy is the configured policy for commands of nodes, nodes.allow and nodes.deny.
type NodePolicy struct {
	Allow, Deny []string
	// Dangerous reports whether programs and bots may use a command only if its owner allows it by
	// name.
	Dangerous func(command string) bool
}

// Node is an OpenClaw node.
type Node struct {
	ID       string     `json:"nodeId"`
	Name     string     `json:"displayName"`
	Platform string     `json:"platform"`
	Family   string     `json:"deviceFamily"`
	Program  string     `json:"clientId"`
	Version  string     `json:"version"`
	Address  string     `json:"remoteIp"`
	Commands []string   `json:"commands"` // that can be called
	Tools    []NodeTool `json:"nodePluginTools"`
	// Approval is one of the constants below.
	Approval    string   `json:"approvalState"`
	Request     string   `json:"pendingRequestId"`
	Asked       []string `json:"pendingDeclaredCommands"`
	Connected   bool     `json:"connected"`
	ConnectedMS int64    `json:"connectedAtMs"`
	LastMS      int64    `json:"lastConnectedAtMs"`
	LeftMS      int64    `json:"lastDisconnectedAtMs"`
	SeenMS      int64    `json:"lastSeenAtMs"`
	// Refused are the node's commands that cannot be called, with the reason.
	Refused []RefusedCommand `json:"-"`
	// Kept reports whether the node was paired. Otherwise it stands for something that is
	// registered here.
	Kept bool `json:"-"`
}

// NodeTool is a tool of an MCP server behind a node.
type NodeTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Approval states of a node.
const (
	NodeApproved = "approved"
	NodeAsks     = "pending-approval"
	NodeAsksMore = "pending-reapproval"
	NodeRejected = "unapproved"
)

// RefusedCommand is a command of a node that cannot be called.
type RefusedCommand struct {
	Command string
	Why     string // one of the Command… constants
}

// Reasons why a command of a node cannot be called.
const (
	CommandAsked  = "asked"  // not approved by its owner yet
	CommandDenied = "denied" // denied by nodes.deny
	CommandUnsaid = "unsaid" // not allowed by nodes.allow
)

// Since returns the time of the connection, if it is connected.
func (n *Node) Since() time.Time { return fromMillis(n.ConnectedMS) }

// Seen returns the time of the last activity.
func (n *Node) Seen() time.Time { return fromMillis(max(n.SeenMS, n.LastMS, n.LeftMS)) }

// Called returns its name, or the beginning of its id.
func (n *Node) Called() string { return called(n.Name, n.ID) }

func called(name, id string) string {
	if name == "" {
		return id[:min(len(id), 12)]
	}
	return name
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// PairRequest is the request of a device to connect to the gateway, or of a node to offer commands.
type PairRequest struct {
	ID       string   `json:"requestId"`
	Device   string   `json:"deviceId"`
	Node     string   `json:"nodeId"`
	Name     string   `json:"displayName"`
	Platform string   `json:"platform"`
	Family   string   `json:"deviceFamily"`
	Program  string   `json:"clientId"`
	Address  string   `json:"remoteIp"`
	Roles    []string `json:"roles"`
	Scopes   []string `json:"scopes"`
	Commands []string `json:"commands"`
	Repair   bool     `json:"isRepair"` // it was paired before
	MS       int64    `json:"ts"`
}

// Since returns the time of the request.
func (r *PairRequest) Since() time.Time { return fromMillis(r.MS) }

// Called returns its name, or the beginning of its id.
func (r *PairRequest) Called() string { return called(r.Name, r.Device+r.Node) }

// GatewayState has the nodes and the pending requests of the gateway.
type GatewayState struct {
	Devices []PairRequest `json:"devices"` // requests to connect
	Wishes  []PairRequest `json:"nodes"`   // requests to offer commands
	Nodes   []Node        `json:"paired"`  // connected ones first
}

const (
	msgNodeMissing = i18n.Message("There is no such node, or it was removed.")
	msgPairMissing = i18n.Message("This request has expired, or somebody has decided about it. It comes again when the device tries again.")
	msgNodeAway    = i18n.Message("The node is not connected now.")
	msgNodeParams  = i18n.Message("The parameters are no JSON. They look like {\"bins\":[\"git\"]}")
	msgNodeName    = i18n.Message("Give it a name.")
	msgInviteEnds  = i18n.Message("A key that expires makes no setup codes, since the node would go on without it.")
)

// nodeActions are the actions that change something, as admin events name them. Invocations are in
// the audit trail.
var nodeActions = map[string]string{NodeRename: EventNodeRenamed, NodeRemove: EventNodeRemoved,
	PairApprove: EventPairApproved, PairReject: EventPairRejected, NodeSetPolicy: EventNodePolicy,
	PairInvite: EventPairInvited, PairRevoke: EventPairRevoked}

// OnNodes calls [Options].Nodes, and records an admin event if that changed something.
func (s *Service) OnNodes(ctx context.Context, c Caller, a NodeAction) (json.RawMessage, error) {
	if a.Action == PairInvite && !c.Ends.IsZero() {
		return nil, problem.New(problem.Denied, msgInviteEnds)
	}
	if a.Action == PairInvite || a.Action == PairApprove {
		if err := s.mayAdd(c); err != nil {
			return nil, err
		}
	}
	out, err := s.Nodes(ctx, a)
	if act := nodeActions[a.Action]; act != "" && err == nil {
		s.RecordAdminEvent(ctx, c, act, strings.TrimSpace(a.Node+a.Request+" "+a.Name))
	}
	return out, err
}

// node executes an operation for a caller.
func (s *Service) node(ctx context.Context, c Caller, a NodeAction, missing i18n.Message) (json.RawMessage, error) {
	a.Person, a.Key, a.Rules, a.Program, a.Only, a.Admin, a.Exact = c.Person, c.Key, c.Rules, c.Program, c.Only,
		c.Admin, true
	out, err := s.OnNodes(ctx, c, a)
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Code == problem.NotFound {
		return nil, problem.New(problem.NotFound, missing)
	}
	e, ok := errors.AsType[*NodeError](err)
	if !ok {
		return out, err
	}
	switch e.Status {
	case http.StatusNotFound:
		return nil, problem.New(problem.NotFound, missing)
	case http.StatusServiceUnavailable:
		return nil, problem.New(problem.Unavailable, msgNodeAway)
	case http.StatusForbidden:
		return nil, InputProblem(problem.Denied, e)
	case http.StatusBadRequest:
		return nil, InputProblem(problem.Invalid, e)
	}
	return nil, InputProblem(problem.Unavailable, e) // the node's own error
}

// Gateway returns the state of the gateway.
func (s *Service) Gateway(ctx context.Context, c Caller) (g GatewayState, err error) {
	out, err := s.node(ctx, c, NodeAction{Action: PairList}, msgNodeMissing)
	if err == nil {
		err = json.Unmarshal(out, &g)
	}
	if err != nil {
		return g, err
	}
	if out, err = s.node(ctx, c, NodeAction{Action: NodePaired}, msgNodeMissing); err == nil {
		err = json.Unmarshal(out, &g)
	}
	slices.SortStableFunc(g.Nodes, func(a, b Node) int {
		if a.Connected != b.Connected {
			if a.Connected {
				return -1
			}
			return 1
		}
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return g, err
}

// NodeDetail returns a node by its id.
func (s *Service) NodeDetail(ctx context.Context, c Caller, id string) (n Node, err error) {
	out, err := s.node(ctx, c, NodeAction{Action: NodeDescribe, Node: id}, msgNodeMissing)
	if err == nil {
		err = json.Unmarshal(out, &n)
	}
	if err != nil {
		return n, err
	}
	p, err := s.Hub.Store.Peers.ByID(ctx, n.ID)
	if errors.Is(err, store.ErrNotFound) {
		return n, nil
	}
	n.Kept = true
	for _, command := range p.DeclaredCommands {
		if slices.Contains(n.Commands, command) {
			continue
		}
		why := CommandUnsaid
		switch {
		case slices.Contains(s.NodePolicy.Deny, command):
			why = CommandDenied
		case slices.Contains(n.Asked, command):
			why = CommandAsked
		}
		n.Refused = append(n.Refused, RefusedCommand{command, why})
	}
	return n, err
}

// DecidePair approves or rejects a request.
func (s *Service) DecidePair(ctx context.Context, c Caller, request string, approve bool) error {
	act := PairReject
	if approve {
		act = PairApprove
	}
	_, err := s.node(ctx, c, NodeAction{Action: act, Request: request}, msgPairMissing)
	return err
}

// NodeInvitation pairs one node, without asking anybody again.
type NodeInvitation struct {
	Code      string `json:"setupCode"`
	URL       string `json:"joinUrl"`
	Gateway   string `json:"gatewayUrl"`
	ExpiresMS int64  `json:"expiresAtMs"`
}

// Expires returns until when it is valid.
func (i *NodeInvitation) Expires() time.Time { return fromMillis(i.ExpiresMS) }

// InviteNode makes an invitation for a node of the caller's. url is the address of the server.
func (s *Service) InviteNode(ctx context.Context, c Caller, url string) (i NodeInvitation, err error) {
	out, err := s.node(ctx, c, NodeAction{Action: PairInvite, Name: url}, msgNodeMissing)
	if err == nil {
		err = json.Unmarshal(out, &i)
	}
	return i, err
}

// RenameNode renames a node.
func (s *Service) RenameNode(ctx context.Context, c Caller, id, name string) error {
	if strings.TrimSpace(name) == "" {
		return problem.New(problem.Invalid, msgNodeName)
	}
	_, err := s.node(ctx, c, NodeAction{Action: NodeRename, Node: id, Name: strings.TrimSpace(name)}, msgNodeMissing)
	return err
}

// RemoveNode removes a node, which has to be paired again.
func (s *Service) RemoveNode(ctx context.Context, c Caller, id string) error {
	_, err := s.node(ctx, c, NodeAction{Action: NodeRemove, Node: id}, msgNodeMissing)
	return err
}

// InvokeNode calls a command of a node. Params are JSON, or empty.
func (s *Service) InvokeNode(ctx context.Context, c Caller, id, command, params string) (json.RawMessage, error) {
	a := NodeAction{Action: NodeInvoke, Node: id, Command: command, Timeout: time.Minute}
	if params = strings.TrimSpace(params); params != "" {
		if !json.Valid([]byte(params)) {
			return nil, problem.New(problem.Invalid, msgNodeParams)
		}
		a.Params = json.RawMessage(params)
	}
	return s.node(ctx, c, a, msgNodeMissing)
}
