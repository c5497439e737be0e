package wire

import (
	"encoding/json"
	"strconv"
	"time"
)

// The codes in details by which a client decides what to do next.
const (
	DetailTokenMissing  = "AUTH_TOKEN_MISSING"
	DetailTokenMismatch = "AUTH_TOKEN_MISMATCH"
	DetailDeviceToken   = "AUTH_DEVICE_TOKEN_MISMATCH"
	DetailBootstrap     = "AUTH_BOOTSTRAP_TOKEN_INVALID"
	DetailScopeMismatch = "AUTH_SCOPE_MISMATCH"
	DetailRateLimited   = "AUTH_RATE_LIMITED"
	DetailProtocol      = "PROTOCOL_MISMATCH"
	DetailIdentity      = "DEVICE_IDENTITY_REQUIRED"
	DetailPairing       = "PAIRING_REQUIRED"
	DetailScope         = "MISSING_SCOPE"
	DetailPairChanged   = "PAIRING_CHANGED"
	DetailNotConnected  = "NOT_CONNECTED"
)

// What a refused client should do next, as far as a gateway knows.
const (
	NextWait             = "wait_then_retry"
	NextRetryDeviceToken = "retry_with_device_token"
	NextConfiguration    = "update_auth_configuration"
	NextCredentials      = "update_auth_credentials"
	NextReview           = "review_auth_configuration"
)

// refusal is an answer to connect after which the connection ends.
func refusal(code Code, message string, details json.RawMessage) *Error {
	return &Error{Code: code, Message: message, Details: details, Close: ClosePolicy}
}

// The refusals of a connection that say the same to everybody.
var (
	// NotConnect is told a client whose first request is another one.
	NotConnect = refusal(InvalidRequest, "invalid handshake: first request must be connect", nil)
	// ConnectTwice is told a client that is connected; it stays so.
	ConnectTwice = Invalid("connect is only valid as the first request")
	// NoRequest closes the connection of a client whose first frame is no request.
	// It gets no answer.
	NoRequest = refusal(InvalidRequest, "invalid request frame", nil)
	// BadRole is told a client that is neither operator nor node.
	BadRole = refusal(InvalidRequest, "invalid role", nil)
	// IdentityRequired is told a node without a device, and an operator with neither
	// device nor token.
	IdentityRequired = refusal(NotPaired, "device identity required", details(DetailIdentity))

	// TokenMissing is told a client that shows none.
	TokenMissing = unauthorized("gateway token missing (use this gateway's gateway.auth.token or pair the device)",
		DetailTokenMissing, "token_missing", false, NextConfiguration)
	// DeviceTokenMismatch is told a device whose own token is not good, and that shows
	// no other.
	DeviceTokenMismatch = unauthorized("device token mismatch (rotate/reissue device token)",
		DetailDeviceToken, "device_token_mismatch", false, NextCredentials)
	// ScopeMismatch is told a device that wants to do more than its token is for.
	ScopeMismatch = unauthorized("device token scope mismatch (re-pair or approve scope upgrade)",
		DetailScopeMismatch, "scope_mismatch", false, NextReview)

	tokenMismatch       = mismatch(false, NextCredentials)
	tokenMismatchDevice = mismatch(true, NextRetryDeviceToken)

	// RepeatedlyUnauthorized closes the connection of a client that keeps calling
	// what is not for its role. It gets no answer.
	RepeatedlyUnauthorized = refusal(InvalidRequest, "repeated unauthorized calls", nil)
	// SlowConsumer closes the connection of a client that does not read.
	SlowConsumer = refusal(Unavailable, "slow consumer", nil)
	// Removed closes the connections of a device that was removed.
	Removed = &Error{Code: NotPaired, Message: "device removed", Close: CloseRemoved}
	// Restarting closes all connections when a gateway stops.
	Restarting = &Error{Code: Unavailable, Message: "service restart", Retryable: true, Close: CloseRestart}
	// Starting is told clients that come while a gateway is not ready yet.
	Starting = &Error{
		Code: Unavailable, Message: "gateway starting; retry shortly", Details: json.RawMessage(`{"reason":"startup-sidecars"}`),
		Retryable: true, RetryAfter: 500 * time.Millisecond, Close: CloseStarting,
	}
)

// The errors about devices that want to be paired.
var (
	// UnknownRequest is told who approves or rejects a request that is not there.
	UnknownRequest = Invalid("unknown requestId")
	// UnknownNode is told who names a node that is not there.
	UnknownNode = Invalid("unknown nodeId")
	// ApprovalDenied is told who approves a device without the right to; the command
	// line then tries again with more.
	ApprovalDenied = Invalid("device pairing approval denied")
)

// SurfacePending is told a node that publishes what it has before its owner has
// approved what it can do.
func SurfacePending(request string) *Error {
	return &Error{Code: Unavailable, Retryable: true, Message: "node capability surface is awaiting operator approval; run `openclaw nodes approve " +
		request + "` (see `openclaw nodes pending`), then this node retries automatically"}
}

// unauthorized is a refusal of a credential.
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

// TokenMismatch is told a client whose token is not good. One with a device may try
// the token that it got after pairing.
func TokenMismatch(device bool) *Error {
	if device {
		return tokenMismatchDevice
	}
	return tokenMismatch
}

// RateLimited is told a client that guessed too often.
func RateLimited(wait time.Duration) *Error {
	e := unauthorized("too many failed authentication attempts (retry later)", DetailRateLimited, "rate_limited", false, NextWait)
	e.Retryable, e.RetryAfter = true, wait
	return e
}

// ProtocolMismatch is told a client that speaks none of the gateway's versions.
func ProtocolMismatch(least, most int64) *Error {
	return &Error{
		Code: InvalidRequest, Message: "protocol mismatch", Close: CloseProtocol,
		Details: json.RawMessage(`{"code":"` + DetailProtocol + `","clientMinProtocol":` + strconv.FormatInt(least, 10) +
			`,"clientMaxProtocol":` + strconv.FormatInt(most, 10) + `,"expectedProtocol":` + strconv.Itoa(Protocol) +
			`,"minimumProbeProtocol":` + strconv.Itoa(MinProbe) + `}`),
	}
}

// Why a device has to be approved, in [PairingRequired].
const (
	PairNew      = "not-paired"
	PairRole     = "role-upgrade"
	PairScopes   = "scope-upgrade"
	PairMetadata = "metadata-upgrade"
)

var pairWords = map[string]struct{ why, hint string }{
	PairNew:      {"device is not approved yet", "Approve this device from the pending pairing requests."},
	PairRole:     {"device is asking for a higher role than currently approved", "Review the requested role upgrade, then approve the pending request."},
	PairScopes:   {"device is asking for more scopes than currently approved", "Review the requested scopes, then approve the pending upgrade."},
	PairMetadata: {"device identity changed and must be re-approved", "Review the refreshed device details, then approve the pending request."},
}

// PairingRequired is told a device that its owner has to approve first. Why is one
// of the Pair constants. With wait, OpenClaw's node host keeps trying; without, it
// stays idle until it is started anew.
func PairingRequired(why, request, device, role string, wait bool) *Error {
	words, ok := pairWords[why]
	if !ok {
		words = pairWords[PairNew]
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
