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

// admit decides whether a client may connect, and with which role and scopes. The error is the
// response to the client.
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
	l, e := c.authenticate(ctx, p)
	if e != nil {
		return e
	}
	c.g.refusalDelays.reset(c.address)
	c.person, c.requestedScopes, c.keyID, c.keyExpires = l.person, p.Scopes, l.key.ID, !l.key.Expires.IsZero()
	c.keyRules = l.key.Rules
	c.scopes = grantedScopes(p, l.scopes)
	c.isAdmin = slices.Contains(c.scopes, wire.ScopeAdmin)
	c.sessionScoped = slices.Contains(p.Caps, wire.CapSessionScoped)
	c.toolEvents = slices.Contains(p.Caps, wire.CapToolEvents)
	own, nodes, bound, err := rulesOf(l.key)
	if err != nil {
		return c.internalError(err)
	}
	c.access, c.nodeRules = callerOf(l.person, l.key.ID, l.key.Bot, p.Client, own, bound), nodes
	c.access.Address = c.address.String()
	if p.Device != nil {
		// As they were when the token was found valid: what has changed since ends the connection.
		c.secret, c.tokenVersion, c.tokenChanges = l.peer.SecretVersion, l.token.Version, l.peer.TokenChanges
		if e := c.ensurePaired(ctx, p, &l); e != nil {
			return e
		}
		c.device = p.Device.ID
		if l.invite.ID != "" { // from now on it has the token that it is about to get
			_, token, err := c.g.Accounts.PeerToken(ctx, l.peer, p.Role, c.scopes, l.invite.Key, false)
			switch {
			case errors.Is(err, account.ErrUnknown) || errors.Is(err, store.ErrNotFound):
				return wire.SetupCodeInvalid // its token was revoked since it has used the code
			case err != nil:
				return c.internalError(err)
			}
			c.secret, c.tokenVersion, c.tokenChanges = l.peer.SecretVersion, token.Version, l.peer.TokenChanges
		}
		if e := c.recordPeer(ctx, p, &l); e != nil {
			return e
		}
	}
	c.role = p.Role
	return nil
}

// maxPairAttempts limits the retries when somebody else decides on the pairing at the same
// moment, for example another connection of the same device.
const maxPairAttempts = 5

// ensurePaired checks that a device is paired with the owner of its key, or creates a pairing
// request.
func (c *conn) ensurePaired(ctx context.Context, p *wire.Connect, l *login) *wire.Error {
	if l.invite.ID != "" {
		switch err := c.g.Accounts.UseInvite(ctx, l.invite.ID, p.Device.ID); {
		case errors.Is(err, account.ErrUnknown):
			return wire.SetupCodeInvalid // another device was faster
		case err != nil:
			return c.internalError(err)
		}
	}
	var err error
	for range maxPairAttempts {
		var e *wire.Error
		if e, err = c.tryPair(ctx, p, l); err == nil {
			return e
		}
	}
	return c.internalError(err)
}

// tryPair is one attempt of ensurePaired. The error is [store.ErrAlreadyApproved] or
// [store.ErrNotFound] if somebody has decided meanwhile.
func (c *conn) tryPair(ctx context.Context, p *wire.Connect, l *login) (*wire.Error, error) {
	g := c.g
	peer, err := g.Store.Peers.ByID(ctx, p.Device.ID)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return c.internalError(err), nil
	}
	if known && peer.Owner != l.person.ID {
		return errPairedElsewhere, nil
	}
	why := wire.PairNew
	if known {
		if why = c.pairingReason(peer, p.Role); why == "" {
			l.peer = peer
			return nil, nil
		}
	}
	// A device that was approved between these two steps must not create a request, which would
	// stay pending beside the paired device.
	r, made, err := g.Store.Peers.RequestUnless(ctx, store.PeerRequest{
		ID: uuid.NewString(), Kind: store.RequestDevice, Peer: p.Device.ID, Owner: l.person.ID,
		Address: c.address.String(), Ask: c.pairingAsk(p), Refreshed: time.Now(),
	}, func(peer store.Peer) bool { return c.pairingReason(peer, p.Role) == "" })
	switch {
	case errors.Is(err, store.ErrAlreadyApproved):
		return nil, err
	case errors.Is(err, store.ErrOccupied):
		return errPairedElsewhere, nil
	case err != nil:
		return c.internalError(err), nil
	}
	via := ""
	switch {
	case !isOwnAsk(r.Ask, c.pairingAsk(p)): // there is more in it that somebody has to decide on
	case l.invite.ID != "":
		via = store.ViaInvite
	case c.local && g.AutoApproveLocal && l.key.ID != "":
		via = store.ViaSilent
	}
	if via != "" {
		switch l.peer, err = g.approveUnasked(ctx, r, via); {
		case errors.Is(err, store.ErrNotFound):
			return nil, err
		case errors.Is(err, store.ErrFull):
			return errTooManyDevices, nil
		case err != nil:
			return c.internalError(err), nil
		}
		return nil, nil
	}
	if made {
		g.metrics.pairings.WithLabelValues(store.RequestDevice, "requested").Inc()
		g.broadcast(broadcastEvent{Owner: r.Owner, Scope: wire.ScopePairing, Event: wire.EventDeviceRequested,
			Payload: encoded(deviceRequest(r, known))})
	}
	return wire.PairingRequired(why, r.ID, p.Device.ID, p.Role, true), nil
}

// pairingReason returns why a peer's approval does not cover this connection; empty: it does.
func (c *conn) pairingReason(peer store.Peer, role string) string {
	switch {
	case !slices.Contains(peer.Roles, role):
		return wire.PairRole
	case role == wire.RoleOperator && !account.Covers(peer.Scopes, c.scopes):
		return wire.PairScopes
	case isChanged(peer.Platform, c.client.Platform) || isChanged(peer.Family, c.client.DeviceFamily):
		return wire.PairMetadata
	}
	return ""
}

var (
	// errPairedElsewhere means that another person has paired the device.
	errPairedElsewhere = &wire.Error{
		Code:    wire.NotPaired,
		Message: "device is paired with another person of this gateway; that person has to remove it first",
		Close:   wire.ClosePolicy,
		Details: []byte(`{"code":"AUTH_UNAUTHORIZED","reason":"paired-with-another-person"}`),
	}
	// errTooManyDevices means that the person has paired too many devices.
	errTooManyDevices = &wire.Error{Code: wire.Unavailable, Message: "too many devices are paired already; remove some",
		Close: wire.ClosePolicy}
)

// isChanged reports whether a device's platform or family differs from the approved one.
func isChanged(was, is string) bool {
	return was != "" && !strings.EqualFold(strings.TrimSpace(was), strings.TrimSpace(is))
}

// pairingAsk returns what a client requests and reports about itself.
func (c *conn) pairingAsk(p *wire.Connect) store.PeerAsk {
	return store.PeerAsk{
		PublicKey: p.Device.PublicKey, Name: nameOf(c.client), Platform: c.client.Platform,
		Family: c.client.DeviceFamily, ClientID: c.client.ID,
		ClientMode: c.client.Mode, Version: c.client.Version, Roles: []string{p.Role}, Scopes: c.scopes,
	}
}

// maxName limits the name of a device, in characters, as account names.
const maxName = 60

// nameOf returns a device's own name, sanitized for lists.
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

// recordPeer records that a paired device is connected and, for a node, its declared surface.
func (c *conn) recordPeer(ctx context.Context, p *wire.Connect, l *login) *wire.Error {
	peers := c.g.Store.Peers
	at := store.PeerConnect{
		ID: p.Device.ID, ClientID: c.client.ID, ClientMode: c.client.Mode, Version: c.client.Version,
		Address: c.address.String(), PathEnv: p.PathEnv, At: time.Now(),
	}
	if len(p.Permissions) > 0 {
		at.Permissions = encoded(p.Permissions)
	}
	if err := peers.Connected(ctx, at); err != nil {
		return c.internalError(err)
	}
	if p.Role != wire.RoleNode {
		return nil
	}
	n := newNode(c, p, l.peer)
	n.invited = l.invite.ID != "" && l.peer.SurfaceAt.IsZero()
	if err := n.declare(ctx); err != nil {
		return c.internalError(err)
	}
	c.node = n
	return nil
}

// isOwnAsk reports whether a request, which may have been merged with an earlier one, asks for no
// more than the connection itself does.
func isOwnAsk(merged, own store.PeerAsk) bool {
	within := func(list, of []string) bool {
		return !slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(of, s) })
	}
	return within(merged.Roles, own.Roles) && within(merged.Scopes, own.Scopes)
}

// mayHaveToken reports whether the client may have a token of its own. Operators whose key has
// rules or an expiry may not: the token would have neither.
func (c *conn) mayHaveToken() bool {
	return c.device != "" && (c.role != wire.RoleOperator || c.access.OnlyBot == 0 &&
		(c.keyID == "" || c.access.Rules == defaultRules && !c.keyExpires))
}

// deviceToken returns the token with which a paired device may connect next time, and its
// creation time in Unix milliseconds; an empty one if it gets none. The error is
// [account.ErrUnknown] if the token with which it has connected was replaced or revoked since.
func (c *conn) deviceToken(ctx context.Context) (token string, created int64, err error) {
	if !c.mayHaveToken() {
		return "", 0, nil
	}
	peer, err := c.g.Store.Peers.ByID(ctx, c.device)
	var kept store.PeerToken
	switch {
	case err != nil:
	case c.secret != 0 && c.secret != peer.SecretVersion:
		return "", 0, account.ErrUnknown
	case c.secret != 0:
		token, kept, err = c.g.Accounts.SamePeerToken(ctx, peer, c.role, c.tokenVersion)
	default:
		token, kept, err = c.g.Accounts.PeerToken(ctx, peer, c.role, c.scopes, c.keyID, true)
	}
	switch {
	case err == nil:
		return token, millis(kept.Created), nil
	case c.secret != 0 && errors.Is(err, account.ErrUnknown):
		return "", 0, err
	}
	c.g.Logger.Warn("openclaw: a device got no token", "device", c.device, "error", err)
	return "", 0, nil
}
