package wire

import (
	"encoding/base64"
	"encoding/json"
)

// NodeRequest is a node's surface that waits for its owner's approval: an element of
// node.pair.list, and the payload of node.pair.requested.
type NodeRequest struct {
	RequestID    string   `json:"requestId"`
	NodeID       string   `json:"nodeId"`
	ClientID     string   `json:"clientId,omitempty"`
	ClientMode   string   `json:"clientMode,omitempty"`
	DisplayName  string   `json:"displayName,omitempty"`
	Platform     string   `json:"platform,omitempty"`
	Version      string   `json:"version,omitempty"`
	DeviceFamily string   `json:"deviceFamily,omitempty"`
	RemoteIP     string   `json:"remoteIp,omitempty"`
	Caps         []string `json:"caps"`
	Commands     []string `json:"commands"`
	// Scopes are what an operator needs to approve it, see [ApproveScopes]. The command line
	// requests no others.
	Scopes []string `json:"requiredApproveScopes"`
	Silent bool     `json:"silent,omitempty"` // nobody approved the device itself
	TS     int64    `json:"ts"`               // milliseconds since 1970
}

// PairedNode is a node with an approved surface, in the format of the response to
// node.pair.approve.
type PairedNode struct {
	NodeID         string   `json:"nodeId"`
	ClientID       string   `json:"clientId,omitempty"`
	ClientMode     string   `json:"clientMode,omitempty"`
	DisplayName    string   `json:"displayName,omitempty"`
	Platform       string   `json:"platform,omitempty"`
	Version        string   `json:"version,omitempty"`
	DeviceFamily   string   `json:"deviceFamily,omitempty"`
	Caps           []string `json:"caps"`
	Commands       []string `json:"commands"`
	CreatedAtMS    int64    `json:"createdAtMs"`
	ApprovedAtMS   int64    `json:"approvedAtMs"`
	ConnectedAtMS  int64    `json:"lastConnectedAtMs,omitempty"`
	LastSeenAtMS   int64    `json:"lastSeenAtMs,omitempty"`
	LastSeenReason string   `json:"lastSeenReason,omitempty"`
}

// ApprovedNode is the answer to node.pair.approve.
type ApprovedNode struct {
	RequestID string     `json:"requestId"`
	Node      PairedNode `json:"node"`
}

// NodePairs is the answer to node.pair.list.
type NodePairs struct {
	Pending []NodeRequest `json:"pending"`
	Paired  []Node        `json:"paired"`
}

// The approval states of a node (src/gateway/node-catalog.ts).
const (
	Approved          = "approved"
	PendingApproval   = "pending-approval"
	PendingReapproval = "pending-reapproval" // approved in part, with a pending request for more
	Unapproved        = "unapproved"         // rejected
)

// Node is a node in the format of node.list and node.describe.
type Node struct {
	NodeID         string          `json:"nodeId"`
	DisplayName    string          `json:"displayName,omitempty"`
	Platform       string          `json:"platform,omitempty"`
	Version        string          `json:"version,omitempty"`
	ClientID       string          `json:"clientId,omitempty"`
	ClientMode     string          `json:"clientMode,omitempty"`
	DeviceFamily   string          `json:"deviceFamily,omitempty"`
	RemoteIP       string          `json:"remoteIp,omitempty"`
	Caps           []string        `json:"caps"`
	Commands       []string        `json:"commands"` // callable ones
	SessionHost    bool            `json:"sessionHost"`
	PluginTools    []PluginTool    `json:"nodePluginTools"`
	Approval       string          `json:"approvalState,omitempty"`
	PendingRequest string          `json:"pendingRequestId,omitempty"`
	PendingCaps    []string        `json:"pendingDeclaredCaps,omitempty"`
	PendingCmds    []string        `json:"pendingDeclaredCommands,omitempty"`
	HostStats      json.RawMessage `json:"hostStats,omitempty"`
	PathEnv        string          `json:"pathEnv,omitempty"`

	// Times are in milliseconds since 1970; 0: unknown.
	ConnectedAtMS    int64  `json:"connectedAtMs,omitempty"`
	LastConnectedMS  int64  `json:"lastConnectedAtMs,omitempty"`
	LastDisconnectMS int64  `json:"lastDisconnectedAtMs,omitempty"`
	LastSeenAtMS     int64  `json:"lastSeenAtMs,omitempty"`
	LastSeenReason   string `json:"lastSeenReason,omitempty"`
	ApprovedAtMS     int64  `json:"approvedAtMs,omitempty"`

	Paired    bool `json:"paired"`
	Connected bool `json:"connected"`
}

// NodeList is the answer to node.list: connected nodes first, then by name.
type NodeList struct {
	TS    int64  `json:"ts"`
	Nodes []Node `json:"nodes"`
}

// NodeDetail is the answer to node.describe.
type NodeDetail struct {
	TS int64 `json:"ts"`
	Node
}

// DeviceRequest is a device that waits for its owner's approval: an element of device.pair.list,
// and the payload of device.pair.requested.
type DeviceRequest struct {
	RequestID    string   `json:"requestId"`
	DeviceID     string   `json:"deviceId"`
	PublicKey    string   `json:"publicKey"`
	DisplayName  string   `json:"displayName,omitempty"`
	Platform     string   `json:"platform,omitempty"`
	DeviceFamily string   `json:"deviceFamily,omitempty"`
	ClientID     string   `json:"clientId,omitempty"`
	ClientMode   string   `json:"clientMode,omitempty"`
	Role         string   `json:"role,omitempty"`
	Roles        []string `json:"roles,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	RemoteIP     string   `json:"remoteIp,omitempty"`
	Silent       bool     `json:"silent,omitempty"`
	Repair       bool     `json:"isRepair,omitempty"` // it was paired before
	TS           int64    `json:"ts"`                 // milliseconds since 1970
}

// PairedDevice is an approved device.
type PairedDevice struct {
	DeviceID     string        `json:"deviceId"`
	PublicKey    string        `json:"publicKey,omitempty"`
	DisplayName  string        `json:"displayName,omitempty"`
	Platform     string        `json:"platform,omitempty"`
	DeviceFamily string        `json:"deviceFamily,omitempty"`
	ClientID     string        `json:"clientId,omitempty"`
	ClientMode   string        `json:"clientMode,omitempty"`
	Role         string        `json:"role,omitempty"`
	Roles        []string      `json:"roles,omitempty"`
	Scopes       []string      `json:"scopes,omitempty"`
	RemoteIP     string        `json:"remoteIp,omitempty"`
	Tokens       []DeviceToken `json:"tokens,omitempty"`
	ApprovedVia  string        `json:"approvedVia,omitempty"` // owner, silent
	CreatedAtMS  int64         `json:"createdAtMs,omitempty"`
	ApprovedAtMS int64         `json:"approvedAtMs,omitempty"`
	Connected    bool          `json:"connected,omitempty"`
}

// DeviceToken is a credential of a device, without the secret.
type DeviceToken struct {
	Role        string   `json:"role"`
	Scopes      []string `json:"scopes"`
	CreatedAtMS int64    `json:"createdAtMs,omitempty"`
	LastUsedMS  int64    `json:"lastUsedAtMs,omitempty"`
	RevokedAtMS int64    `json:"revokedAtMs,omitempty"`
}

// TokenRotated is the answer to device.token.rotate.
type TokenRotated struct {
	DeviceID    string   `json:"deviceId"`
	Role        string   `json:"role"`
	Token       string   `json:"token,omitempty"`
	Scopes      []string `json:"scopes"`
	RotatedAtMS int64    `json:"rotatedAtMs"`
	Delivery    string   `json:"tokenDelivery"`
}

// How the token of [TokenRotated] reaches its device.
const (
	DeliveredInBand = "in-band"               // the device itself has asked, and gets it
	Withheld        = "withheld-cross-device" // it authenticates in another way and gets it then
)

// TokenRevoked is the answer to device.token.revoke.
type TokenRevoked struct {
	DeviceID    string `json:"deviceId"`
	Role        string `json:"role"`
	RevokedAtMS int64  `json:"revokedAtMs"`
}

// SetupProfileNode is the profile of setup codes for nodes without access as operators. Others are
// for OpenClaw's apps on phones.
const SetupProfileNode = "node"

// SetupCode is the answer to device.pair.setupCode.
type SetupCode struct {
	SetupID     string `json:"setupId"`
	SetupCode   string `json:"setupCode"`
	JoinURL     string `json:"joinUrl,omitempty"`
	GatewayURL  string `json:"gatewayUrl"`
	Auth        string `json:"auth"` // token
	URLSource   string `json:"urlSource"`
	Access      string `json:"access"`
	ExpiresAtMS int64  `json:"expiresAtMs"`
}

// Setup is what a setup code contains (src/pairing/setup-code.ts, decodePairingSetupCode).
type Setup struct {
	URL            string `json:"url"`
	BootstrapToken string `json:"bootstrapToken"`
	ExpiresAtMS    int64  `json:"expiresAtMs,omitempty"`
	Fingerprint    string `json:"tlsFingerprint,omitempty"`
}

// SetupURLPrefix begins a setup code that is written as a URL.
const SetupURLPrefix = "oc-pair://"

// Code returns the setup code.
func (s Setup) Code() string { return base64.RawURLEncoding.EncodeToString(mustJSON(s)) }

// ApprovedDevice is the answer to device.pair.approve.
type ApprovedDevice struct {
	RequestID string       `json:"requestId"`
	Device    PairedDevice `json:"device"`
}

// DevicePairs is the answer to device.pair.list.
type DevicePairs struct {
	Pending []DeviceRequest `json:"pending"`
	Paired  []PairedDevice  `json:"paired"`
}

// Decision is the payload of node.pair.resolved and device.pair.resolved.
type Decision struct {
	RequestID string `json:"requestId"`
	NodeID    string `json:"nodeId,omitempty"`
	DeviceID  string `json:"deviceId,omitempty"`
	Decision  string `json:"decision"` // DecisionApproved or DecisionRejected
	TS        int64  `json:"ts"`       // milliseconds since 1970
}

// The decisions.
const (
	DecisionApproved = "approved"
	DecisionRejected = "rejected"
)
