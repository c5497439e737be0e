package mcpnode

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Codes besides those of package wire. Those of JSON-RPC are texts here.
const (
	codeMCP     = "MCP_ERROR"
	codeAborted = "ABORTED"
)

var (
	codeUnknown   = strconv.Itoa(jsonrpc.MethodNotFound)
	codeBadParams = strconv.Itoa(jsonrpc.InvalidParams)
)

// Failure is why a command was not carried out.
type Failure struct {
	wire.NodeError
	// Sent means that the server may have got the command. Retryable means that it did not, and
	// may get it a moment later.
	Sent, Retryable bool
	// told means that a model can act on the message.
	told bool
}

func failed(code, message string) *Failure {
	return &Failure{NodeError: wire.NodeError{Code: code, Message: message}, Sent: true}
}

func badParams(why string) *Failure {
	return &Failure{NodeError: wire.NodeError{Code: codeBadParams, Message: why}}
}

// BadParams returns the error for parameters that cannot be read.
func BadParams(why string) *wire.NodeError { return &badParams(why).NodeError }

// failureOf converts the error of a call, or the end of its context; nil remains nil.
func failureOf(ctx context.Context, err error) *Failure {
	if err == nil {
		return nil
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return failed(wire.NodeTimeout, wire.TimeoutMessage)
	case cause != nil:
		return failed(codeAborted, "the call was called off")
	}
	return FailureOf(tool.AsError(err))
}

// FailureOf converts the error of a call.
func FailureOf(e *tool.Error) *Failure {
	f := failed(strings.ToUpper(string(e.Code)), cmp.Or(e.Told, "It was not done."))
	switch e.Code {
	case tool.Offline:
		f.Code, f.Sent = wire.NodeNoServer, false
	case tool.Lost:
		f.Code = wire.NodeNoServer
	case tool.TimedOut:
		f.Code = wire.NodeTimeout
	case tool.Cancelled:
		f.Code = codeAborted
	case tool.Unknown:
		f.Code, f.Sent, f.told = codeUnknown, false, true
	case tool.BadArgs:
		f.Code, f.Sent, f.told = codeBadParams, false, true
	case tool.Denied, tool.Held, tool.Unapproved:
		f.Sent, f.told = false, true
	case tool.RateLimited, tool.Busy, tool.Stopping:
		f.Sent, f.told, f.Retryable = false, true, true
	default:
		f.told = true
	}
	if e.RPC != 0 {
		f.Code = strconv.Itoa(e.RPC)
	}
	return f
}
