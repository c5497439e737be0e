package wire

import "encoding/json"

// Constant errors of node.invoke (src/gateway/server-methods/nodes.shared.ts,
// src/gateway/node-registry.ts).
var (
	// PairingChanged is the response to a call of a node that does not exist or has nothing
	// approved. Its text is literally true only in some cases.
	PairingChanged = &Error{
		Code: Unavailable, Message: "node pairing changed while invocation was active",
		Details: details(DetailPairChanged), Retryable: true,
	}
	// PairingReplaced is the response to a node whose device has reconnected elsewhere.
	PairingReplaced = &Error{
		Code: Unavailable, Message: "node pairing changed before request dispatch",
		Details: details(DetailPairChanged), Retryable: true,
	}
	// NotConnected is the response to a call of a known node that is not connected.
	NotConnected = &Error{Code: Unavailable, Message: "node not connected", Details: mustJSON(struct {
		Code string    `json:"code"`
		Node NodeError `json:"nodeError"`
		Sent bool      `json:"nodeCommandDispatched"`
	}{DetailNotConnected, NodeError{DetailNotConnected, "node not connected"}, false})}
	// NodeMismatch is the response to a node that sends a result for another node.
	NodeMismatch = Invalid("nodeId mismatch")
)

// NodeFailed returns the response for a command that the node did not execute. A nil error means
// that the node gave no reason.
func NodeFailed(e *NodeError) *Error {
	message := "node invoke failed"
	if e != nil && e.Message != "" {
		message = e.Message
	}
	if e != nil && e.Code != "" {
		message = e.Code + ": " + message
	}
	return &Error{Code: Unavailable, Message: message, Details: mustJSON(struct {
		Node *NodeError `json:"nodeError"`
		Sent bool       `json:"nodeCommandDispatched"`
	}{e, true})}
}

// NodeUnreached returns the response for a command that certainly did not reach the node. Retryable
// means that it may a moment later.
func NodeUnreached(e *NodeError, retryable bool) *Error {
	failed := NodeFailed(e)
	failed.Retryable = retryable
	failed.Details = mustJSON(struct {
		Node *NodeError `json:"nodeError"`
		Sent bool       `json:"nodeCommandDispatched"`
	}{e, false})
	return failed
}

// TimeoutMessage is what gateways say of a command that timed out (src/gateway/node-registry.ts).
const TimeoutMessage = "node invoke timed out"

// TimedOut returns the response for a command that timed out.
func TimedOut() *Error { return NodeFailed(&NodeError{NodeTimeout, TimeoutMessage}) }

// Disconnected returns the response for a command whose node disconnected meanwhile.
func Disconnected(command string) *Error {
	code := NodeDisconnected
	if command == CommandTool {
		code = NodeNoServer
	}
	return NodeFailed(&NodeError{code, "node disconnected (" + command + ")"})
}

// NodeErrorOf extracts the node's error from an operator's response; ok is false if the node
// gave none. sent reports whether the call may have reached the node.
func NodeErrorOf(e *Error) (said NodeError, sent, ok bool) {
	var d struct {
		Node *NodeError `json:"nodeError"`
		Sent bool       `json:"nodeCommandDispatched"`
	}
	if e == nil || json.Unmarshal(e.Details, &d) != nil || d.Node == nil {
		return NodeError{}, d.Sent, false
	}
	return *d.Node, d.Sent, true
}
