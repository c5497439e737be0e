package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// The acts of a [NodeAction].
const (
	NodeList     = "list"     // of nodes
	NodePaired   = "paired"   // of those nodes that were paired
	NodeDescribe = "describe" // Node
	NodeInvoke   = "invoke"   // Node, Command, Params, Timeout, Once
	NodeRename   = "rename"   // Node, Name
	NodeRemove   = "remove"   // Node
	PairList     = "pairs"    // of whoever asks to be let in, and what nodes want to do
	PairApprove  = "approve"  // Request
	PairReject   = "reject"   // Request
)

// NodeAction is something that is to be done about OpenClaw's nodes.
type NodeAction struct {
	Action string
	// Node is an id, the beginning of one, or a name; an id and nothing else if Exact.
	Node, Name, Request string
	Exact               bool

	Command string
	Params  json.RawMessage // nil: none
	Timeout time.Duration   // 0: 30 s
	// Once is a key by which a call is carried out once, however often it comes. Empty:
	// each is another one.
	Once string

	// Who does it. An empty Person is the operator of this machine.
	Person, Key, Rules, Program string
	Only                        int64
	Admin                       bool
}

// NodeError is why it was not done, as the caller is told it.
type NodeError struct {
	Status  int    // of HTTP
	Code    string // as OpenClaw has it
	Message string
	Details json.RawMessage // nil: none
}

// Error implements error.
func (e *NodeError) Error() string { return e.Message }

// NodePolicy is what the settings say about commands of nodes: nodes.allow and
// nodes.deny.
type NodePolicy struct {
	Allow, Deny []string
	// Dangerous reports whether a command is one that programs and bots get only if its
	// owner asks for it by name.
	Dangerous func(command string) bool
}

// Node is an OpenClaw node, as far as people are told about it.
type Node struct {
	ID       string     `json:"nodeId"`
	Name     string     `json:"displayName"`
	Platform string     `json:"platform"`
	Family   string     `json:"deviceFamily"`
	Program  string     `json:"clientId"`
	Version  string     `json:"version"`
	Address  string     `json:"remoteIp"`
	Commands []string   `json:"commands"` // those that can be called
	Tools    []NodeTool `json:"nodePluginTools"`
	// Approval is one of the Node… of this package.
	Approval    string   `json:"approvalState"`
	Request     string   `json:"pendingRequestId"`
	Asked       []string `json:"pendingDeclaredCommands"`
	Connected   bool     `json:"connected"`
	ConnectedMS int64    `json:"connectedAtMs"`
	LastMS      int64    `json:"lastConnectedAtMs"`
	LeftMS      int64    `json:"lastDisconnectedAtMs"`
	SeenMS      int64    `json:"lastSeenAtMs"`
	// Refused are commands that it has and that cannot be called, with why.
	Refused []RefusedCommand `json:"-"`
	// Kept says that it was paired, and is not something that is plugged in here and
	// appears as a node.
	Kept bool `json:"-"`
}

// NodeTool is a tool of an MCP server behind a node.
type NodeTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// How far a node is approved.
const (
	NodeApproved = "approved"
	NodeAsks     = "pending-approval"
	NodeAsksMore = "pending-reapproval"
	NodeRejected = "unapproved"
)

// RefusedCommand is a command that a node has and that cannot be called.
type RefusedCommand struct {
	Command string
	Why     string // one of the Command… of this package
}

// Why a command of a node cannot be called.
const (
	CommandAsked  = "asked"  // its owner has not approved it yet
	CommandDenied = "denied" // nodes.deny names it
	CommandUnsaid = "unsaid" // nodes.allow has to name it
)

// Since is when it connected, if it is connected.
func (n *Node) Since() time.Time { return fromMillis(n.ConnectedMS) }

// Seen is when it was heard of last.
func (n *Node) Seen() time.Time { return fromMillis(max(n.SeenMS, n.LastMS, n.LeftMS)) }

// Called is its name, or the beginning of its id.
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

// PairRequest is the request of somebody who wants to connect to the gateway, or of a node that
// wants to do something.
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
	Repair   bool     `json:"isRepair"` // it was in before
	MS       int64    `json:"ts"`
}

// Since is when it asked.
func (r *PairRequest) Since() time.Time { return fromMillis(r.MS) }

// Called is its name, or the beginning of its id.
func (r *PairRequest) Called() string { return called(r.Name, r.Device+r.Node) }

// GatewayState is who is at the gateway, and who waits to be let in or to do something.
type GatewayState struct {
	Devices []PairRequest `json:"devices"` // to be let in
	Wishes  []PairRequest `json:"nodes"`   // to do something
	Nodes   []Node        `json:"paired"`  // connected ones first
}

var (
	sayNodeMissing = talk.Say{Zh: "没有这个节点，或它已被移除。", En: "There is no such node, or it was removed."}
	sayPairMissing = talk.Say{Zh: "这个请求已经过期，或已有人处理过。设备再次尝试时会重新出现。",
		En: "This request has expired, or somebody has decided about it. It comes again when the device tries again."}
	sayNodeAway   = talk.Say{Zh: "这个节点现在没有连接。", En: "The node is not connected now."}
	sayNodeParams = talk.Say{Zh: "参数不是 JSON。例如：{\"bins\":[\"git\"]}",
		En: "The parameters are no JSON. They look like {\"bins\":[\"git\"]}"}
	sayNodeName = talk.Say{Zh: "请输入名称。", En: "Give it a name."}
)

// nodeActions are the acts that change something, as the journal calls them. What is invoked
// is in the audit trail.
var nodeActions = map[string]string{NodeRename: EventNodeRenamed, NodeRemove: EventNodeRemoved,
	PairApprove: EventPairApproved, PairReject: EventPairRejected}

// OnNodes is what [Options].Nodes does, written down in the journal if it has changed
// something.
func (s *Service) OnNodes(ctx context.Context, c Caller, a NodeAction) (json.RawMessage, error) {
	out, err := s.Nodes(ctx, a)
	if act := nodeActions[a.Action]; act != "" && err == nil {
		s.RecordAdminEvent(ctx, c, act, strings.TrimSpace(a.Node+a.Request+" "+a.Name))
	}
	return out, err
}

// node does something about nodes for a caller.
func (s *Service) node(ctx context.Context, c Caller, a NodeAction, missing talk.Say) (json.RawMessage, error) {
	a.Person, a.Key, a.Rules, a.Program, a.Only, a.Admin, a.Exact = c.Person, c.Key, c.Rules, c.Program, c.Only,
		c.Admin, true
	out, err := s.OnNodes(ctx, c, a)
	e, ok := errors.AsType[*NodeError](err)
	if !ok {
		return out, err
	}
	switch e.Status {
	case http.StatusNotFound:
		return nil, Fail(Missing, missing)
	case http.StatusServiceUnavailable:
		return nil, Fail(Away, sayNodeAway)
	case http.StatusForbidden:
		return nil, said(Refused, e)
	case http.StatusConflict:
		return nil, said(Conflict, e)
	case http.StatusBadRequest:
		return nil, said(Invalid, e)
	}
	return nil, said(Away, e) // the node's own fault
}

// Gateway tells who is at the gateway.
func (s *Service) Gateway(ctx context.Context, c Caller) (g GatewayState, err error) {
	out, err := s.node(ctx, c, NodeAction{Action: PairList}, sayNodeMissing)
	if err == nil {
		err = json.Unmarshal(out, &g)
	}
	if err != nil {
		return g, err
	}
	if out, err = s.node(ctx, c, NodeAction{Action: NodePaired}, sayNodeMissing); err == nil {
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

// NodeDetail tells about one node, by its id.
func (s *Service) NodeDetail(ctx context.Context, c Caller, id string) (n Node, err error) {
	out, err := s.node(ctx, c, NodeAction{Action: NodeDescribe, Node: id}, sayNodeMissing)
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

// DecidePair lets somebody in, or a node do what it wants to, or not.
func (s *Service) DecidePair(ctx context.Context, c Caller, request string, approve bool) error {
	act := PairReject
	if approve {
		act = PairApprove
	}
	_, err := s.node(ctx, c, NodeAction{Action: act, Request: request}, sayPairMissing)
	return err
}

// RenameNode gives a node another name.
func (s *Service) RenameNode(ctx context.Context, c Caller, id, name string) error {
	if strings.TrimSpace(name) == "" {
		return Fail(Invalid, sayNodeName)
	}
	_, err := s.node(ctx, c, NodeAction{Action: NodeRename, Node: id, Name: strings.TrimSpace(name)}, sayNodeMissing)
	return err
}

// RemoveNode takes a node out: it has to be let in again.
func (s *Service) RemoveNode(ctx context.Context, c Caller, id string) error {
	_, err := s.node(ctx, c, NodeAction{Action: NodeRemove, Node: id}, sayNodeMissing)
	return err
}

// InvokeNode has a node carry out a command. Params are JSON, or empty.
func (s *Service) InvokeNode(ctx context.Context, c Caller, id, command, params string) (json.RawMessage, error) {
	a := NodeAction{Action: NodeInvoke, Node: id, Command: command, Timeout: time.Minute}
	if params = strings.TrimSpace(params); params != "" {
		if !json.Valid([]byte(params)) {
			return nil, Fail(Invalid, sayNodeParams)
		}
		a.Params = json.RawMessage(params)
	}
	return s.node(ctx, c, a, sayNodeMissing)
}
