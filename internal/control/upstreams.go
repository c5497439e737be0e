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
	UpstreamUnapproved = "approval"  // the owner of the gateway has to let it in
	UpstreamElsewhere  = "elsewhere" // another instance has the connection
	UpstreamIdle       = "idle"      // closed while it is not used; the next call connects
)

// UpstreamHealth is the state of an upstream's connection, for its owner.
type UpstreamHealth struct {
	// Where is the address of the peer without its query, or a command without its arguments; empty
	// if the peer connects to us.
	Where string `json:"where,omitempty"`
	// State is one of the Upstream… constants; empty: not known here.
	State string    `json:"state,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Tools is the number of tools that are offered, Prompts of prompts, Held of those that have
	// changed and are refused until their owner approves that, Hidden of those that the settings
	// exclude, Skipped of those that cannot be used. Cut reports whether there are more than the
	// limit.
	Tools   int  `json:"tools"`
	Prompts int  `json:"prompts,omitempty"`
	Held    int  `json:"held,omitempty"`
	Hidden  int  `json:"hidden,omitempty"`
	Skipped int  `json:"skipped,omitempty"`
	Cut     bool `json:"cut,omitempty"`
	// LeftOut says which operations of an OpenAPI document are no tools, and why.
	LeftOut []string    `json:"left_out,omitempty"`
	Omitted []i18n.Text `json:"-"`
	// Server is the name that it reports.
	Server        string    `json:"server,omitempty"`
	ServerVersion string    `json:"server_version,omitempty"`
	Protocol      string    `json:"protocol,omitempty"`
	Transport     string    `json:"transport,omitempty"`
	NextTry       time.Time `json:"next_try,omitzero"`
	// NeedsSignIn reports whether the owner has to sign in to it.
	NeedsSignIn bool `json:"needs_sign_in,omitempty"`
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
	// State is one of the Upstream… constants or one of the Node… ones.
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
	// Code is the kind of a connection problem; empty if there is none.
	Code string `json:"code,omitempty"`
	// Certificate is the gateway's certificate that is not accepted; nil: that is not the problem.
	Certificate *Certificate `json:"certificate,omitempty"`
}

// Certificate is the certificate of an OpenClaw gateway that is not accepted, because no authority
// has issued it that this machine knows, or because it is not the one that was accepted before. The
// fingerprints are the SHA-256 of certificates as 64 hexadecimal digits. The setting
// tls_fingerprint accepts one.
type Certificate struct {
	Shown  string `json:"fingerprint"`
	Pinned string `json:"pinned,omitempty"`
}

// Further states of a [ShimNode]: a person has something to do.
const (
	NodePairing   = "pairing"               // the gateway's owner has to approve its connection
	NodeApproval  = "approval"              // the gateway's owner has to approve its commands
	NodeUntrusted = "certificate_untrusted" // the gateway's certificate has to be accepted
	NodeChanged   = "certificate_changed"   // the gateway has another certificate than the accepted one
)

// Upstream is an upstream in the list of /api/v1/upstreams.
type Upstream struct {
	store.Upstream
	OwnerName string `json:"owner_name,omitempty"`
	UpstreamHealth
	Problem string `json:"problem,omitempty"`
	// Shared is with whom it is shared, for its owner; nil: with nobody.
	Shared *UpstreamShared `json:"shared,omitempty"`
	// Member means that another person shares it: the state, and the sign-in, are those of a person
	// who is not its owner, and settings are not shown.
	Member bool `json:"member,omitempty"`
	// Provider is the id under which its tools are offered.
	Provider string `json:"-"`
	// isOffered means that the person has not signed in, or has signed out.
	isOffered bool
}

// UpstreamDetail is one upstream with its settings, secrets masked.
type UpstreamDetail struct {
	Upstream
	Settings map[string]json.RawMessage `json:"settings"`
	// SignIn is the state of the sign-in to it; nil: one cannot sign in to it.
	SignIn *UpstreamSignIn `json:"sign_in,omitempty"`
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
	// LeftOut says which operations of an OpenAPI document are no tools, and why.
	LeftOut []string    `json:"left_out,omitempty"`
	Omitted []i18n.Text `json:"-"`
	// NeedsSignIn reports whether the owner has to sign in before tools are found.
	NeedsSignIn bool `json:"needs_sign_in,omitempty"`
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
