package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// admit decides whether a client is let in, and as what. The error is what it is
// told.
func (c *conn) admit(ctx context.Context, p *wire.Connect, nonce string) *wire.Error {
	c.client = p.Client.Complete()
	switch {
	case p.Device != nil:
		if e := p.Verify(nonce, time.Now()); e != nil {
			return e
		}
	case p.Role == wire.RoleNode || p.Credential() == "" && (p.Auth == nil || p.Auth.Password == ""):
		return wire.IdentityRequired
	}
	l, e := c.proof(ctx, p)
	if e != nil {
		return e
	}
	c.g.slow.forgive(c.address)
	c.person, c.asked, c.keyHash, c.keyEnds = l.person, p.Scopes, l.hash, !l.key.Expires.IsZero()
	c.keyRules = l.key.Rules
	c.scopes = granted(p, l.may)
	c.admin = slices.Contains(c.scopes, wire.ScopeAdmin)
	c.scoped = slices.Contains(p.Caps, wire.CapSessionScoped)
	own, nodes, bound, err := rulesOf(l.key)
	if err != nil {
		return c.trouble(err)
	}
	c.access, c.nodeView = callerOf(l.person, l.key.ID, l.key.Bot, p.Client, own, bound), nodes
	c.access.Address = c.address.String()
	if p.Device != nil {
		if e := c.pair(ctx, p, &l); e != nil {
			return e
		}
		c.device = p.Device.ID
		if l.key.ID == "" {
			c.secret = l.peer.SecretVersion
		}
		if e := c.enroll(ctx, p, &l); e != nil {
			return e
		}
	}
	c.role = p.Role
	return nil
}

// pairTries is how often a device is looked at whose pairing is decided about by others
// in that very moment, as by another connection of its own.
const pairTries = 5

// pair sees to it that a device is paired with the person whose key it shows, or asks
// that person.
func (c *conn) pair(ctx context.Context, p *wire.Connect, l *login) *wire.Error {
	var err error
	for range pairTries {
		var e *wire.Error
		if e, err = c.pairNow(ctx, p, l); err == nil {
			return e
		}
	}
	return c.trouble(err)
}

// pairNow does that once. The error is [store.ErrAgreed] or [store.ErrNotFound] if
// somebody has decided meanwhile.
func (c *conn) pairNow(ctx context.Context, p *wire.Connect, l *login) (*wire.Error, error) {
	g := c.g
	peer, err := g.Store.Peers.ByID(ctx, p.Device.ID)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return c.trouble(err), nil
	}
	if known && peer.Owner != l.person.ID {
		return occupied, nil
	}
	why := wire.PairNew
	if known {
		if why = c.lacks(peer, p.Role); why == "" {
			l.peer = peer
			return nil, nil
		}
	}
	// Who is let in between these two steps must not ask again: that request would wait
	// beside a device that is paired.
	r, made, err := g.Store.Peers.RequestUnless(ctx, store.PeerRequest{
		ID: uuid.NewString(), Kind: store.RequestDevice, Peer: p.Device.ID, Owner: l.person.ID, Address: c.address.String(), Ask: c.asks(p), Refreshed: time.Now(),
	}, func(peer store.Peer) bool { return c.lacks(peer, p.Role) == "" })
	switch {
	case errors.Is(err, store.ErrAgreed):
		return nil, err
	case errors.Is(err, store.ErrOccupied):
		return occupied, nil
	case err != nil:
		return c.trouble(err), nil
	}
	if c.local && g.AutoApproveLocal && l.key.ID != "" {
		l.peer, _, err = g.Store.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, Owner: r.Owner, Via: store.ViaSilent, At: time.Now()})
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, err
		case errors.Is(err, store.ErrFull):
			return tooMany, nil
		case err != nil:
			return c.trouble(err), nil
		}
		g.metrics.pairings.WithLabelValues(store.RequestDevice, "silent").Inc()
		g.resolved(r, wire.DecisionApproved)
		return nil, nil
	}
	if made {
		g.metrics.pairings.WithLabelValues(store.RequestDevice, "requested").Inc()
		g.tell(told{Owner: r.Owner, Scope: wire.ScopePairing, Event: wire.EventDeviceRequested, Payload: encoded(deviceRequest(r, known))})
	}
	return wire.PairingRequired(why, r.ID, p.Device.ID, p.Role, true), nil
}

// lacks says why what was approved of a peer is not enough for a connection; empty: it
// is.
func (c *conn) lacks(peer store.Peer, role string) string {
	switch {
	case !slices.Contains(peer.Roles, role):
		return wire.PairRole
	case role == wire.RoleOperator && !account.Covers(peer.Scopes, c.scopes):
		return wire.PairScopes
	case changed(peer.Platform, c.client.Platform) || changed(peer.Family, c.client.DeviceFamily):
		return wire.PairMetadata
	}
	return ""
}

var (
	// occupied is told a device that somebody else has paired.
	occupied = &wire.Error{
		Code: wire.NotPaired, Message: "device is paired with another person of this gateway; that person has to remove it first", Close: wire.ClosePolicy,
		Details: []byte(`{"code":"AUTH_UNAUTHORIZED","reason":"paired-with-another-person"}`),
	}
	// tooMany is told a device of somebody who has paired too many.
	tooMany = &wire.Error{Code: wire.Unavailable, Message: "too many devices are paired already; remove some", Close: wire.ClosePolicy}
)

// changed says whether a device is another kind of machine than the one that was
// approved.
func changed(was, is string) bool {
	return was != "" && !strings.EqualFold(strings.TrimSpace(was), strings.TrimSpace(is))
}

// asks is what a client wants, and says of itself.
func (c *conn) asks(p *wire.Connect) store.PeerAsk {
	return store.PeerAsk{
		PublicKey: p.Device.PublicKey, Name: nameOf(c.client), Platform: c.client.Platform, Family: c.client.DeviceFamily, ClientID: c.client.ID,
		ClientMode: c.client.Mode, Version: c.client.Version, Roles: []string{p.Role}, Scopes: c.scopes,
	}
}

// maxName bounds the name of a device, in characters, as accounts do.
const maxName = 60

// nameOf is what a device calls itself, made fit for lists.
func nameOf(c wire.Client) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.TrimSpace(c.DisplayName))
	if r := []rune(name); len(r) > maxName {
		name = string(r[:maxName])
	}
	return name
}

// enroll notes that a paired device is here, and of a node, what it can do.
func (c *conn) enroll(ctx context.Context, p *wire.Connect, l *login) *wire.Error {
	peers := c.g.Store.Peers
	at := store.PeerConnect{
		ID: p.Device.ID, ClientID: c.client.ID, ClientMode: c.client.Mode, Version: c.client.Version, Address: c.address.String(), PathEnv: p.PathEnv, At: time.Now(),
	}
	if len(p.Permissions) > 0 {
		at.Permissions = encoded(p.Permissions)
	}
	if err := peers.Connected(ctx, at); err != nil {
		return c.trouble(err)
	}
	if p.Role != wire.RoleNode {
		return nil
	}
	n := newNode(c, p, l.peer)
	if err := n.declare(ctx); err != nil {
		return c.trouble(err)
	}
	c.node = n
	return nil
}

// token is with what a paired device may connect the next time, and since when, in
// Unix milliseconds. Operators whose key is bound by rules, or ends some day, get none: it
// would be bound by nothing, and stay.
func (c *conn) token(ctx context.Context) (string, int64) {
	if c.device == "" || c.role == wire.RoleOperator && (c.access.Only != 0 || c.keyHash != "" && (c.access.Rules != peoples || c.keyEnds)) {
		return "", 0
	}
	peer, err := c.g.Store.Peers.ByID(ctx, c.device)
	if err == nil {
		var token string
		var kept store.PeerToken
		if token, kept, err = c.g.Accounts.PeerToken(ctx, peer, c.role, c.scopes); err == nil {
			return token, kept.Created.UnixMilli()
		}
	}
	c.g.Logger.Warn("openclaw: a device got no token", "device", c.device, "error", err)
	return "", 0
}
