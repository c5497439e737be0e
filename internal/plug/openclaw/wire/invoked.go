package wire

import "encoding/json"

// The errors of node.invoke that say the same to everybody.
var (
	// PairingChanged is told who calls a node that is not there, or of which nothing
	// is approved. It means what it says only now and then.
	PairingChanged = &Error{
		Code: Unavailable, Message: "node pairing changed while invocation was active",
		Details: details(DetailPairChanged), Retryable: true,
	}
	// PairingReplaced is told a node whose device has connected again elsewhere.
	PairingReplaced = &Error{
		Code: Unavailable, Message: "node pairing changed before request dispatch",
		Details: details(DetailPairChanged), Retryable: true,
	}
	// NotConnected is told who calls a node that is known but away.
	NotConnected = &Error{Code: Unavailable, Message: "node not connected", Details: mustJSON(struct {
		Code string    `json:"code"`
		Node NodeError `json:"nodeError"`
		Sent bool      `json:"nodeCommandDispatched"`
	}{DetailNotConnected, NodeError{DetailNotConnected, "node not connected"}, false})}
	// NodeMismatch is told a node that answers for another one.
	NodeMismatch = Invalid("nodeId mismatch")
)

// NodeFailed is told who called a command that the node did not carry out. With a
// nil error, the node has not said why.
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

// TimedOut is told who called a command that took too long.
func TimedOut() *Error { return NodeFailed(&NodeError{NodeTimeout, "node invoke timed out"}) }

// Disconnected is told who called a command of a node that went away meanwhile.
func Disconnected(command string) *Error {
	code := NodeDisconnected
	if command == CommandTool {
		code = NodeNoServer
	}
	return NodeFailed(&NodeError{code, "node disconnected (" + command + ")"})
}

// NodeErrorOf is what a node said, according to the answer that an operator got;
// false if the node said nothing. Sent says whether the call may have reached the
// node.
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
