package control

import (
	"encoding/json"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// The kinds of upstreams.
const (
	// KindServer is an MCP server whose tools join the board.
	KindServer = "mcp"
	// KindDialsIn is a tool server that connects to us.
	KindDialsIn = "endpoint"
	// KindCloud is a service that we connect to, and that calls our tools.
	KindCloud = "cloud"
	// KindShim is an OpenClaw gateway of somebody's that the owner's devices join as
	// nodes.
	KindShim = "shim"
)

// The states of an upstream in [UpstreamHealth].
const (
	UpstreamConnecting = "connecting"
	UpstreamReady      = "ready"
	UpstreamWaiting    = "waiting"   // the next try may well succeed
	UpstreamFailed     = "failed"    // somebody has to do something; it is tried again nevertheless
	UpstreamElsewhere  = "elsewhere" // another instance holds the connection
)

// UpstreamHealth is how the connection of an upstream is, for its owner.
type UpstreamHealth struct {
	// Where its far side is: an address without its query, or a command without
	// its arguments; empty if it connects to us.
	Where string `json:"where,omitempty"`
	// State is one of the Upstream… of this package; empty: not known here.
	State string    `json:"state,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Tools counts the tools that are offered, Hidden those that the settings leave
	// out, Skipped those that cannot be used; Cut says that there are more than
	// are taken over.
	Tools   int  `json:"tools"`
	Hidden  int  `json:"hidden,omitempty"`
	Skipped int  `json:"skipped,omitempty"`
	Cut     bool `json:"cut,omitempty"`
	// Server is what it calls itself.
	Server        string    `json:"server,omitempty"`
	ServerVersion string    `json:"server_version,omitempty"`
	Protocol      string    `json:"protocol,omitempty"`
	Transport     string    `json:"transport,omitempty"`
	NextTry       time.Time `json:"next_try,omitzero"`
	// Problem is what went wrong last. Cause and Stderr, which say more about this
	// machine and its network, are for admins alone.
	Problem talk.Say `json:"-"`
	Cause   string   `json:"cause,omitempty"`
	Stderr  []string `json:"stderr,omitempty"`
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
	// State is one of the Upstream… of this package, NodePairing or NodeApproval.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Tools counts those that it publishes, Taken those of them that the gateway has
	// taken, and Cut those that are too many for it.
	Tools   int       `json:"tools"`
	Taken   int       `json:"taken"`
	Cut     int       `json:"cut,omitempty"`
	NextTry time.Time `json:"next_try,omitzero"`
	// Message is what is wrong and what to do; Command is what the gateway's owner has to
	// run for that.
	Message talk.Say `json:"-"`
	Problem string   `json:"problem,omitempty"`
	Command string   `json:"command,omitempty"`
}

// The states that only a [ShimNode] has: the gateway's owner has something to do.
const (
	NodePairing  = "pairing"  // to let it in
	NodeApproval = "approval" // to approve what it can do
)

// Upstream is an upstream as /api/v1/upstreams lists it.
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
	// Dropped are the settings that a change of the address has just taken away, and
	// Notice says so.
	Dropped []string `json:"dropped,omitempty"`
	Notice  string   `json:"notice,omitempty"`
}

// UpstreamFound is what a look at a server found.
type UpstreamFound struct {
	Server    string   `json:"server,omitempty"`
	Version   string   `json:"server_version,omitempty"`
	Protocol  string   `json:"protocol,omitempty"`
	Transport string   `json:"transport,omitempty"`
	Tools     []string `json:"tools"` // by their full names
	Hidden    int      `json:"hidden,omitempty"`
	Skipped   int      `json:"skipped,omitempty"`
	Cut       bool     `json:"cut,omitempty"`
	// Problem says why nothing was found; Cause, which says more about this machine
	// and its network, is for admins alone.
	Problem string   `json:"problem,omitempty"`
	Message talk.Say `json:"-"`
	Cause   string   `json:"cause,omitempty"`
	// Dropped are settings that were not sent to the server, since they were given for
	// another address, and Notice says so.
	Dropped []string `json:"dropped,omitempty"`
	Notice  string   `json:"notice,omitempty"`
}
