package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
)

// execPolicyCommands are the commands that operators reach by methods of their own.
var execPolicyCommands = []string{wire.CommandPolicyGet, wire.CommandPolicySet}

// ownExecPolicy is the policy of this gateway, which runs no programs.
const ownExecPolicy = `{"version":1,"defaults":{"security":"deny","ask":"off","askFallback":"deny"}}`

// execPolicyGet serves exec.approvals.get: the policy for programs that the gateway itself runs.
func (g *Gateway) execPolicyGet(context.Context, *conn, []byte) (any, *wire.Error) {
	sum := sha256.Sum256([]byte(ownExecPolicy))
	return wire.ExecSnapshot{Path: "patchbay", Hash: hex.EncodeToString(sum[:]),
		File: json.RawMessage(ownExecPolicy),
		Resolved: &wire.ExecDefaults{Security: wire.SecurityDeny, Ask: wire.AskOff,
			AskFallback: wire.SecurityDeny}}, nil
}

// execPolicySet refuses exec.approvals.set.
func (g *Gateway) execPolicySet(context.Context, *conn, []byte) (any, *wire.Error) {
	return nil, wire.Invalid("this gateway runs no programs itself; name a node with --node")
}

// nodeExecPolicyGet serves exec.approvals.node.get.
func (g *Gateway) nodeExecPolicyGet(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	// Node hosts of 2026.9.6 add what holds where the policy says nothing; others ignore the wish.
	return g.execPolicy(ctx, c, field(params, "nodeId"), wire.CommandPolicyGet,
		json.RawMessage(`{"includeResolvedDefaults":true}`))
}

// nodeExecPolicySet serves exec.approvals.node.set. The node refuses the policy if it has another
// one by now than the caller has read.
func (g *Gateway) nodeExecPolicySet(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p struct {
		File   json.RawMessage            `json:"file"`
		Native map[string]json.RawMessage `json:"native"`
		Hash   string                     `json:"baseHash"`
	}
	if json.Unmarshal(params, &p) != nil || (p.File == nil) == (p.Native == nil) {
		return nil, wire.Invalid("invalid " + wire.MethodNodeExecPolicySet +
			" params: one of file and native is needed")
	}
	to := p.Native
	if to == nil {
		to = map[string]json.RawMessage{"file": p.File}
	}
	if p.Hash != "" {
		to["baseHash"] = encoded(p.Hash)
	}
	out, e := g.execPolicy(ctx, c, field(params, "nodeId"), wire.CommandPolicySet, encoded(to))
	if e == nil {
		g.Logger.Info("openclaw: the policy for running programs was changed", "node", field(params, "nodeId"),
			"by", c.person.ID)
	}
	return out, e
}

// execPolicy calls a command about the policy of a node. There, that needs operator.admin; here
// everybody decides about nodes of their own.
func (g *Gateway) execPolicy(ctx context.Context, c *conn, node, command string,
	params json.RawMessage) (json.RawMessage, *wire.Error) {
	if n := g.node(node); n != nil && c.canSee(n.owner) {
		if !c.hasScopeFor(wire.ScopeAdmin, n.owner) {
			return nil, wire.MissingScope(wire.ScopeAdmin)
		}
	} else if peer, err := g.Store.Peers.ByID(ctx, node); err == nil && c.canSee(peer.Owner) &&
		!c.hasScopeFor(wire.ScopeAdmin, peer.Owner) {
		return nil, wire.MissingScope(wire.ScopeAdmin)
	}
	p := wire.Invoke{NodeID: node, Command: command, Params: params, IdempotencyKey: uuid.NewString(),
		ByMethod: true}
	payload, _, e := g.dispatchInvoke(ctx, c, &p)
	if e != nil {
		return nil, e
	}
	var out struct {
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(payload, &out) != nil || !jsonrpc.Valid(out.Payload) || out.Payload[0] != '{' {
		return nil, wire.Invalid("node returned invalid exec approvals payload")
	}
	return out.Payload, nil
}

// isExecPolicy reports whether a command is about the policy of a node.
func isExecPolicy(command string) bool { return slices.Contains(execPolicyCommands, command) }
