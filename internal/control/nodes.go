package control

import (
	"encoding/json"
	"time"
)

// The acts of a [NodeAct].
const (
	NodeList     = "list"     // of nodes
	NodeDescribe = "describe" // Node
	NodeInvoke   = "invoke"   // Node, Command, Params, Timeout, Once
	NodeRename   = "rename"   // Node, Name
	NodeRemove   = "remove"   // Node
	PairList     = "pairs"    // of whoever asks to be let in, and what nodes want to do
	PairApprove  = "approve"  // Request
	PairReject   = "reject"   // Request
)

// NodeAct is something that is to be done about OpenClaw's nodes.
type NodeAct struct {
	Act string
	// Node is an id, the beginning of one, or a name.
	Node, Name, Request string

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
