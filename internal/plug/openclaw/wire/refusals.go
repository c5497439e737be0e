package wire

import (
	"encoding/json"
	"strconv"
	"time"
)

// Detail codes by which a client decides what to do next
// (packages/gateway-protocol/src/connect-error-details.ts).
const (
	DetailTokenMissing  = "AUTH_TOKEN_MISSING"
	DetailTokenMismatch = "AUTH_TOKEN_MISMATCH"
	DetailDeviceToken   = "AUTH_DEVICE_TOKEN_MISMATCH"
	DetailSetupCode     = "AUTH_BOOTSTRAP_TOKEN_INVALID"
	DetailScopeMismatch = "AUTH_SCOPE_MISMATCH"
	DetailRateLimited   = "AUTH_RATE_LIMITED"
	DetailProtocol      = "PROTOCOL_MISMATCH"
	DetailIdentity      = "DEVICE_IDENTITY_REQUIRED"
	DetailPairing       = "PAIRING_REQUIRED"
	DetailScope         = "MISSING_SCOPE"
	DetailPairChanged   = "PAIRING_CHANGED"
	DetailNotConnected  = "NOT_CONNECTED"
)

// Next steps that a gateway recommends to a refused client
// (packages/gateway-protocol/src/connect-error-details.ts).
const (
	NextWait             = "wait_then_retry"
	NextRetryDeviceToken = "retry_with_device_token"
	NextConfiguration    = "update_auth_configuration"
	NextCredentials      = "update_auth_credentials"
	NextReview           = "review_auth_configuration"
)

// refusal returns an error response to connect after which the connection is closed.
func refusal(code Code, message string, details json.RawMessage) *Error {
	return &Error{Code: code, Message: message, Details: details, Close: ClosePolicy}
}

// Constant errors of connect (src/gateway/server/ws-connection/message-handler.ts,
// auth-messages.ts).
var (
	// ConnectRequired is the response to a first request other than connect.
	ConnectRequired = refusal(InvalidRequest, "invalid handshake: first request must be connect", nil)
	// ConnectTwice is the response to a second connect; the connection stays open.
	ConnectTwice = Invalid("connect is only valid as the first request")
	// InvalidFrame closes a connection whose first frame is not a request. There is no response.
	InvalidFrame = refusal(InvalidRequest, "invalid request frame", nil)
	// BadRole is the response to a client that is neither operator nor node.
	BadRole = refusal(InvalidRequest, "invalid role", nil)
	// IdentityRequired is the response to a node without a device, and to an operator with
	// neither device nor token.
	IdentityRequired = refusal(NotPaired, "device identity required", details(DetailIdentity))

	// TokenMissing is the response to a client without a token.
	TokenMissing = unauthorized("gateway token missing (use this gateway's gateway.auth.token or pair the device)",
		DetailTokenMissing, "token_missing", false, NextConfiguration)
	// DeviceTokenMismatch is the response to a device whose device token is invalid and that
	// shows no other.
	DeviceTokenMismatch = unauthorized("device token mismatch (rotate/reissue device token)",
		DetailDeviceToken, "device_token_mismatch", false, NextCredentials)
	// SetupCodeInvalid is the response to a node with a setup code that is not valid.
	SetupCodeInvalid = unauthorized("setup code invalid, expired, revoked, or already used (create a new code; "+
		"review `openclaw devices list`)", DetailSetupCode, "bootstrap_token_invalid", false, NextCredentials)
	// ScopeMismatch is the response to a device that requests more than its token grants.
	ScopeMismatch = unauthorized("device token scope mismatch (re-pair or approve scope upgrade)",
		DetailScopeMismatch, "scope_mismatch", false, NextReview)

	tokenMismatch       = mismatch(false, NextCredentials)
	tokenMismatchDevice = mismatch(true, NextRetryDeviceToken)

	// RepeatedlyUnauthorized closes the connection of a client that keeps calling methods
	// outside its role. There is no response.
	RepeatedlyUnauthorized = refusal(InvalidRequest, "repeated unauthorized calls", nil)
	// SlowConsumer closes the connection of a client that does not read.
	SlowConsumer = refusal(Unavailable, "slow consumer", nil)
	// Removed closes the connections of a device that was removed.
	Removed = &Error{Code: NotPaired, Message: "device removed", Close: CloseRemoved}
	// Restarting closes all connections when a gateway stops.
	Restarting = &Error{Code: Unavailable, Message: "service restart", Retryable: true, Close: CloseRestart}
	// Starting is the response while a gateway is not ready yet.
	Starting = &Error{
		Code: Unavailable, Message: "gateway starting; retry shortly",
		Details:   json.RawMessage(`{"reason":"startup-sidecars"}`),
		Retryable: true, RetryAfter: 500 * time.Millisecond, Close: CloseStarting,
	}
)

// Errors about pairing (src/gateway/server-methods/devices.ts, nodes.ts).
var (
	// UnknownRequest is the response to a decision about an unknown request.
	UnknownRequest = Invalid("unknown requestId")
	// UnknownNode is the response to an unknown node id.
	UnknownNode = Invalid("unknown nodeId")
	// ApprovalDenied is the response to an approval without the scope for it; the command line
	// then retries with more scopes.
	ApprovalDenied = Invalid("device pairing approval denied")
	// UnknownDevice is the response to an unknown device id.
	UnknownDevice = Invalid("unknown deviceId")
	// RotationDenied and RevocationDenied are the responses about a token of a device that does not
	// exist, has no such role or token, or has more scopes than the operator.
	RotationDenied   = Invalid("device token rotation denied")
	RevocationDenied = Invalid("device token revocation denied")
)

// SurfacePending returns the response to a node that publishes tools before its surface was
// approved (src/gateway/server-methods/nodes.read.ts).
func SurfacePending(request string) *Error {
	return &Error{Code: Unavailable, Retryable: true,
		Message: "node capability surface is awaiting operator approval; run `openclaw nodes approve " +
			request + "` (see `openclaw nodes pending`), then this node retries automatically"}
}

// unauthorized returns the error for a refused credential.
func unauthorized(what, code, reason string, deviceToken bool, next string) *Error {
	return refusal(InvalidRequest, "unauthorized: "+what, mustJSON(struct {
		Code   string `json:"code"`
		Reason string `json:"authReason"`
		Device bool   `json:"canRetryWithDeviceToken"`
		Next   string `json:"recommendedNextStep"`
	}{code, reason, deviceToken, next}))
}

func mismatch(device bool, next string) *Error {
	return unauthorized("gateway token mismatch (use this gateway's gateway.auth.token or pair the device)",
		DetailTokenMismatch, "token_mismatch", device, next)
}

// TokenMismatch returns the response to an invalid token. A client with a device may retry with
// its device token.
func TokenMismatch(device bool) *Error {
	if device {
		return tokenMismatchDevice
	}
	return tokenMismatch
}

// RateLimited returns the response to a client with too many failed logins.
func RateLimited(wait time.Duration) *Error {
	e := unauthorized("too many failed authentication attempts (retry later)", DetailRateLimited, "rate_limited", false,
		NextWait)
	e.Retryable, e.RetryAfter = true, wait
	return e
}

// ProtocolMismatch returns the response to a client without a common protocol version.
func ProtocolMismatch(least, most int64) *Error {
	return &Error{
		Code: InvalidRequest, Message: "protocol mismatch", Close: CloseProtocol,
		Details: json.RawMessage(`{"code":"` + DetailProtocol + `","clientMinProtocol":` +
			strconv.FormatInt(least, 10) +
			`,"clientMaxProtocol":` + strconv.FormatInt(most, 10) + `,"expectedProtocol":` + strconv.Itoa(Protocol) +
			`,"minimumProbeProtocol":` + strconv.Itoa(MinProbeProtocol) + `}`),
	}
}

// Reasons for a required approval, in [PairingRequired]
// (packages/gateway-protocol/src/connect-error-details.ts).
const (
	PairNew      = "not-paired"
	PairRole     = "role-upgrade"
	PairScopes   = "scope-upgrade"
	PairMetadata = "metadata-upgrade"
)

var pairMessages = map[string]struct{ why, hint string }{
	PairNew: {"device is not approved yet", "Approve this device from the pending pairing requests."},
	PairRole: {"device is asking for a higher role than currently approved",
		"Review the requested role upgrade, then approve the pending request."},
	PairScopes: {"device is asking for more scopes than currently approved",
		"Review the requested scopes, then approve the pending upgrade."},
	PairMetadata: {"device identity changed and must be re-approved",
		"Review the refreshed device details, then approve the pending request."},
}

// PairingRequired returns the response to a device that its owner has to approve first. why is one
// of the Pair constants. With wait, OpenClaw's node host keeps retrying; without, it stays idle
// until it is restarted (packages/gateway-client/src/reconnect-policy.ts, src/node-host/runner.ts).
func PairingRequired(why, request, device, role string, wait bool) *Error {
	words, ok := pairMessages[why]
	if !ok {
		words = pairMessages[PairNew]
	}
	type body struct {
		Code        string `json:"code"`
		Reason      string `json:"reason"`
		Request     string `json:"requestId"`
		Remediation string `json:"remediationHint"`
		Device      string `json:"deviceId"`
		Role        string `json:"requestedRole"`
		Next        string `json:"recommendedNextStep,omitempty"`
		Retryable   bool   `json:"retryable,omitempty"`
		Pause       *bool  `json:"pauseReconnect,omitempty"`
	}
	d := body{
		Code: DetailPairing, Reason: why, Request: request, Device: device, Role: role,
		Remediation: words.hint,
	}
	e := refusal(NotPaired, "pairing required: "+words.why, nil)
	if wait {
		d.Next, d.Retryable, d.Pause = NextWait, true, new(false)
		e.Retryable = true
	}
	e.Details = mustJSON(d)
	return e
}
