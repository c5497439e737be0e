package control

import (
	"encoding/json"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// Kinds of upstreams.
const (
	// KindServer is an MCP server whose tools join the hub.
	KindServer = "mcp"
	// KindDialsIn is a tool server that connects to Patchbay.
	KindDialsIn = "endpoint"
	// KindCloud is a service that Patchbay connects to and that calls tools here.
	KindCloud = "cloud"
	// KindShim is an OpenClaw gateway that the owner's devices join as nodes.
	KindShim = "shim"
)

// States of an upstream in [UpstreamHealth].
const (
	UpstreamConnecting = "connecting"
	UpstreamReady      = "ready"
	UpstreamWaiting    = "waiting"   // a retry may succeed
	UpstreamFailed     = "failed"    // needs a person; retried nevertheless
	UpstreamElsewhere  = "elsewhere" // another instance has the connection
)

// UpstreamHealth is the state of an upstream's connection, for its owner.
type UpstreamHealth struct {
	// Where is the address of the peer without its query, or a command without its arguments; empty
	// if the peer connects to us.
	Where string `json:"where,omitempty"`
	// State is one of the Upstream… constants; empty: not known here.
	State string    `json:"state,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Tools is the number of tools that are offered, Hidden of those that the settings exclude,
	// Skipped of those that cannot be used. Cut reports whether there are more than the limit.
	Tools   int  `json:"tools"`
	Hidden  int  `json:"hidden,omitempty"`
	Skipped int  `json:"skipped,omitempty"`
	Cut     bool `json:"cut,omitempty"`
	// Server is the name that it reports.
	Server        string    `json:"server,omitempty"`
	ServerVersion string    `json:"server_version,omitempty"`
	Protocol      string    `json:"protocol,omitempty"`
	Transport     string    `json:"transport,omitempty"`
	NextTry       time.Time `json:"next_try,omitzero"`
	// Problem is the last error. Cause and Stderr have details of this machine and its network, for
	// admins.
	Problem i18n.Text `json:"-"`
	Cause   string    `json:"cause,omitempty"`
	Stderr  []string  `json:"stderr,omitempty"`
	// Nodes are the nodes as which devices have joined, if it is a gateway.
	Nodes []ShimNode `json:"nodes,omitempty"`
}

// ShimNode is a node at somebody's gateway.
type ShimNode struct {
	// Device is the id of the device's provider; empty if the node stands for all.
	Device string `json:"device,omitempty"`
	Name   string `json:"name"`
	// Node is its id at the gateway.
	Node string `json:"node,omitempty"`
	// State is one of the Upstream… constants, NodePairing or NodeApproval.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Tools is the number of tools that it publishes, Taken of those that the gateway has accepted,
	// and Cut of those over the gateway's limit.
	Tools   int       `json:"tools"`
	Taken   int       `json:"taken"`
	Cut     int       `json:"cut,omitempty"`
	NextTry time.Time `json:"next_try,omitzero"`
	// Message explains the problem and the remedy; Command is a command for the gateway's owner.
	Message i18n.Text `json:"-"`
	Problem string    `json:"problem,omitempty"`
	Command string    `json:"command,omitempty"`
}

// Further states of a [ShimNode]: the gateway's owner has something to do.
const (
	NodePairing  = "pairing"  // to approve its connection
	NodeApproval = "approval" // to approve its commands
)

// Upstream is an upstream in the list of /api/v1/upstreams.
type Upstream struct {
	store.Upstream
	OwnerName string `json:"owner_name,omitempty"`
	UpstreamHealth
	Problem string `json:"problem,omitempty"`
}

// UpstreamDetail is one upstream with its settings, secrets masked.
type UpstreamDetail struct {
	Upstream
	Settings map[string]json.RawMessage `json:"settings"`
	// Dropped are the settings that were removed because the address changed, which Notice
	// explains.
	Dropped []string `json:"dropped,omitempty"`
	Notice  string   `json:"notice,omitempty"`
}

// UpstreamFound is the result of checking a server.
type UpstreamFound struct {
	Server    string   `json:"server,omitempty"`
	Version   string   `json:"server_version,omitempty"`
	Protocol  string   `json:"protocol,omitempty"`
	Transport string   `json:"transport,omitempty"`
	Tools     []string `json:"tools"` // full names
	Hidden    int      `json:"hidden,omitempty"`
	Skipped   int      `json:"skipped,omitempty"`
	Cut       bool     `json:"cut,omitempty"`
	// Problem explains why nothing was found. Cause has details of this machine and its network,
	// for admins.
	Problem string    `json:"problem,omitempty"`
	Message i18n.Text `json:"-"`
	Cause   string    `json:"cause,omitempty"`
	// Dropped are settings that were not sent because they belong to another address, which Notice
	// explains.
	Dropped []string `json:"dropped,omitempty"`
	Notice  string   `json:"notice,omitempty"`
}
