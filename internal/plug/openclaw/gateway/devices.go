package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// Methods of operators that change paired devices. There, operators with the token of a device
// manage that device only, unless they have operator.admin. Here they manage those of their person.

func (g *Gateway) nodeRename(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	id := field(params, "nodeId")
	name, e := g.rename(ctx, c, id, field(params, "displayName"))
	if e != nil {
		return nil, e
	}
	return map[string]string{"nodeId": id, "displayName": name}, nil
}

func (g *Gateway) deviceRename(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	id := field(params, "deviceId")
	name, e := g.rename(ctx, c, id, field(params, "label"))
	if e == wire.UnknownNode {
		e = wire.UnknownDevice
	}
	if e != nil {
		return nil, e
	}
	return map[string]string{"deviceId": id, "label": name}, nil
}

// rename renames a peer, and returns the name that it has then.
func (g *Gateway) rename(ctx context.Context, c *conn, id, name string) (string, *wire.Error) {
	p, e := g.peer(ctx, c, id)
	if e != nil {
		return "", e
	}
	p.Name = strings.TrimSpace(name)
	if err := account.CheckName(p.Name); err != nil {
		return "", wire.Invalid(err.Error())
	}
	if err := g.Accounts.RenamePeer(ctx, p.ID, p.Name); errors.Is(err, store.ErrNotFound) {
		return "", wire.UnknownNode
	} else if err != nil {
		return "", g.internalError(err)
	}
	g.announcePeer(p)
	return p.Name, nil
}

// deviceWithToken returns a device whose token for a role the operator may replace or revoke, and
// the token, which is valid. As there, each refusal is the same, and the log has the reason
// (src/gateway/server-methods/devices.ts).
func (g *Gateway) deviceWithToken(ctx context.Context, c *conn, id, role string,
	denied *wire.Error) (p store.Peer, t store.PeerToken, e *wire.Error) {
	p, e = g.peer(ctx, c, id)
	var err error
	if e == nil {
		t, err = g.Store.Peers.Token(ctx, p.ID, role)
	}
	why := ""
	switch {
	case e == wire.UnknownNode || errors.Is(err, store.ErrNotFound) || !t.Revoked.IsZero():
		why = "there is no such device, or it has no valid token for the role"
	case e != nil:
		return p, t, e
	case err != nil:
		return p, t, g.internalError(err)
	case role != wire.RoleOperator && !c.hasScopeFor(wire.ScopeAdmin, p.Owner):
		why = "other roles than operator need " + wire.ScopeAdmin
	case role == wire.RoleOperator && !account.Covers(c.scopes, t.Scopes):
		why = "the token has more scopes than the operator"
	case c.device == p.ID && c.role == role && c.secret != 0 && c.tokenVersion != t.Version:
		why = "the operator's own token was replaced"
	}
	if why != "" {
		g.Logger.Warn("openclaw: "+denied.Message, "device", id, "role", role, "by", c.person.ID, "why", why)
		return p, t, denied
	}
	return p, t, nil
}

func (g *Gateway) tokenRotate(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var in struct {
		Device string   `json:"deviceId"`
		Role   string   `json:"role"`
		Scopes []string `json:"scopes"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, wire.RotationDenied // the shape has been checked
	}
	p, was, e := g.deviceWithToken(ctx, c, in.Device, in.Role, wire.RotationDenied)
	if e != nil {
		return nil, e
	}
	scopes := was.Scopes
	if in.Scopes != nil {
		scopes = in.Scopes
	}
	if in.Role == wire.RoleOperator && !account.Covers(c.scopes, scopes) ||
		in.Role != wire.RoleOperator && len(scopes) > 0 {
		return nil, wire.RotationDenied
	}
	token, kept, err := g.Accounts.ReplacePeerToken(ctx, p, was, scopes)
	switch {
	case errors.Is(err, account.ErrScope) || errors.Is(err, account.ErrPeerRole) || errors.Is(err, store.ErrNotFound) ||
		errors.Is(err, store.ErrTokenChanged):
		return nil, wire.RotationDenied
	case err != nil:
		return nil, g.internalError(err)
	}
	out := wire.TokenRotated{DeviceID: p.ID, Role: kept.Role, Scopes: kept.Scopes, RotatedAtMS: millis(kept.Created),
		Delivery: wire.Withheld}
	if c.device == p.ID && c.role == in.Role && c.mayHaveToken() {
		out.Token, out.Delivery = token, wire.DeliveredInBand
	}
	return answered{out, func() { g.tokenChanged(c, p, in.Role, "replaced") }}, nil
}

func (g *Gateway) tokenRevoke(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	role := field(params, "role")
	p, _, e := g.deviceWithToken(ctx, c, field(params, "deviceId"), role, wire.RevocationDenied)
	if e != nil {
		return nil, e
	}
	if err := g.Accounts.RevokePeerToken(ctx, p.ID, role); errors.Is(err, store.ErrNotFound) {
		return nil, wire.RevocationDenied
	} else if err != nil {
		return nil, g.internalError(err)
	}
	return answered{wire.TokenRevoked{DeviceID: p.ID, Role: role, RevokedAtMS: time.Now().UnixMilli()},
		func() { g.tokenChanged(c, p, role, "revoked") }}, nil
}

// tokenChanged ends the connections of a token that was replaced or revoked, after the response has
// been queued: one of them may be the operator's own.
func (g *Gateway) tokenChanged(c *conn, p store.Peer, role, what string) {
	ctx, cancel := context.WithTimeout(g.ctx, databaseTimeout)
	defer cancel()
	g.Logger.Info("openclaw: the token of a device was "+what, "device", p.ID, "role", role, "owner", p.Owner,
		"by", c.person.ID)
	p, err := g.Store.Peers.ByID(ctx, p.ID)
	if err != nil {
		g.Logger.Warn("openclaw: a device with a changed token could not be read", "error", err) // polling does it
		return
	}
	g.announcePeer(p)
}

// isTokenValid reports whether the token with which a peer has connected is still its token. If
// that cannot be found out, it reports false: the peer connects again.
func (c *conn) isTokenValid(p store.Peer) bool {
	if c.secret != p.SecretVersion {
		return false
	}
	if c.tokenChanges == p.TokenChanges {
		return true
	}
	ctx, cancel := context.WithTimeout(c.g.ctx, databaseTimeout)
	defer cancel()
	t, err := c.g.Store.Peers.Token(ctx, p.ID, c.role)
	return err == nil && t.Revoked.IsZero() && t.Version == c.tokenVersion
}
