package gateway

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// login is the result of checking a client's credential.
type login struct {
	person store.Person
	key    store.Key // zero: device token
	scopes []string  // as an operator
	peer   store.Peer
	token  store.PeerToken  // zero: a key or a setup code
	invite store.PeerInvite // zero: none
}

// authenticate checks a client's credential.
func (c *conn) authenticate(ctx context.Context, p *wire.Connect) (login, *wire.Error) {
	a := p.Auth
	if a == nil || *a == (wire.Auth{}) {
		return login{}, wire.TokenMissing
	}
	var cause error
	for _, secret := range []string{a.Token, a.Password} {
		if secret == "" {
			continue
		}
		l, err := c.byKey(ctx, p, secret)
		if err == nil || !account.Refused(err) {
			return l, c.internalError(err)
		}
		cause = err
	}
	if p.Device != nil {
		for _, token := range []string{a.DeviceToken, a.Token} {
			if token == "" {
				continue
			}
			l, err := c.byToken(ctx, p, token)
			switch {
			case err == nil || !account.Refused(err):
				return l, c.internalError(err)
			case errors.Is(err, account.ErrScope):
				return login{}, wire.ScopeMismatch
			}
			cause = err
		}
		if a.BootstrapToken != "" {
			l, err := c.byInvite(ctx, p)
			if err == nil || !account.Refused(err) {
				return l, c.internalError(err)
			}
			cause = err
		}
	}
	return login{}, c.rejectCredential(ctx, p, cause)
}

// internalError logs an internal error and returns the response; nil for nil.
func (c *conn) internalError(err error) *wire.Error {
	if err == nil {
		return nil
	}
	if c.g.ctx.Err() == nil {
		c.g.Logger.Error("openclaw: who connects could not be found out", "error", err)
	}
	return wire.Starting
}

func (c *conn) byKey(ctx context.Context, p *wire.Connect, secret string) (login, error) {
	who, err := c.g.Accounts.Authenticate(ctx, secret, account.ScopeOperator, account.ScopeAdmin, account.ScopeNode)
	if err != nil {
		return login{}, err
	}
	l := login{person: who.Person, key: who.Key, scopes: who.OperatorScopes()}
	if hub.AreNarrow(who.Key.Rules) {
		l.scopes = slices.DeleteFunc(l.scopes, isDecisionScope)
	}
	if p.Role == wire.RoleNode && !who.OpensNode() || p.Role == wire.RoleOperator && l.scopes == nil {
		return login{}, account.ErrScope
	}
	return l, nil
}

func (c *conn) byToken(ctx context.Context, p *wire.Connect, token string) (login, error) {
	paired, err := c.g.Accounts.CheckPeerToken(ctx, account.PeerLogin{Peer: p.Device.ID, Role: p.Role, Scopes: p.Scopes,
		Token: token})
	if err != nil {
		return login{}, err
	}
	l := login{person: paired.Person, scopes: paired.Scopes, peer: paired.Peer, token: paired.Token}
	if p.Role != wire.RoleOperator || l.token.Key == "" {
		return l, nil
	}
	// The key may have got rules since.
	key, err := c.g.Store.Keys.ByID(ctx, l.token.Key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return login{}, err
	}
	l.key.Rules, l.key.Bot = key.Rules, key.Bot
	if key.Bot != 0 || hub.AreNarrow(key.Rules) {
		l.scopes = slices.DeleteFunc(slices.Clone(l.scopes), isDecisionScope)
	}
	return l, nil
}

// rejectCredential refuses a credential, with a delay that grows with the failures of the
// address. A valid credential is accepted without delay.
func (c *conn) rejectCredential(ctx context.Context, p *wire.Connect, cause error) *wire.Error {
	g := c.g
	g.Logger.Warn("openclaw: a token was refused", "address", c.address, "client", p.Client.ID, "role", p.Role,
		"cause", cause)
	// Loopback clients are not locked out.
	if locked := g.Guard != nil && g.Guard.Refuse(c.address) && !c.address.IsLoopback(); locked {
		return wire.RateLimited(time.Minute)
	}
	_ = netx.Wait(ctx, g.refusalDelays.next(c.address, time.Now()))
	if p.Auth.Token == "" && p.Auth.Password == "" {
		switch {
		case p.Auth.DeviceToken != "":
			return wire.DeviceTokenMismatch
		case p.Auth.BootstrapToken != "":
			return wire.SetupCodeInvalid
		}
	}
	return wire.TokenMismatch(p.Device != nil)
}

const (
	// maxDelay is the longest delay of a refusal (src/gateway/auth-rate-limit.ts,
	// LOOPBACK_FAILURE_DELAY_MAX_MS).
	maxDelay = 5 * time.Second
	// delayTTL is how long an address with refused tokens is remembered.
	delayTTL = time.Minute
	// maxDelayEntries limits the remembered addresses, some 100 bytes each. Beyond the limit,
	// others are refused without delay; the guard limits their number.
	maxDelayEntries = 10_000
)

// refusalDelays slows down token guessing.
type refusalDelays struct {
	first time.Duration

	mu    sync.Mutex
	seen  map[netip.Addr]refusalDelay
	swept time.Time
}

type refusalDelay struct {
	delay time.Duration
	at    time.Time
}

func (s *refusalDelays) init(first time.Duration) {
	s.first, s.seen = first, map[netip.Addr]refusalDelay{}
}

// next returns the delay for the next refusal of an address.
func (s *refusalDelays) next(from netip.Addr, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.swept) > delayTTL {
		s.swept = now
		for a, was := range s.seen {
			if now.Sub(was.at) > delayTTL {
				delete(s.seen, a)
			}
		}
	}
	was, ok := s.seen[from]
	delay := s.first
	if ok && now.Sub(was.at) <= delayTTL {
		delay = min(2*was.delay, maxDelay)
	}
	if ok || len(s.seen) < maxDelayEntries {
		s.seen[from] = refusalDelay{delay, now}
	}
	return delay
}

// reset forgets the refusals of an address that showed a valid token.
func (s *refusalDelays) reset(from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, from)
}

// grantedScopes returns the scopes of an operator: those it requests, limited to those of its
// credential. A request for operator.admin means all of them, as OpenClaw's command line sends it
// to approve a node. A program without a device must be one of those that people start themselves;
// see [wire.MayKeepScopes].
func grantedScopes(p *wire.Connect, may []string) []string {
	out := []string{}
	if p.Role == wire.RoleNode || p.Device == nil && !wire.MayKeepScopes(p.Client) {
		return out
	}
	wanted := p.Scopes
	if slices.Contains(wanted, wire.ScopeAdmin) && !account.Covers(may, []string{wire.ScopeAdmin}) {
		wanted = slices.Concat(wanted, may)
	}
	for _, s := range wanted {
		if account.Covers(may, []string{s}) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Calls of node commands have rules of their own: the policy and the node's approval decide
// whether a command is dangerous, so the hub does not decide it again.
const nodeSlugs = "node-*"

// rulesOf returns a key's rules for an operator, who uses the hub for a person; the same for
// calls of node commands; and those that bind the bots it asks.
func rulesOf(key store.Key) (own, nodes, bound string, err error) {
	r, err := hub.ParseRules(key.Rules)
	if err != nil {
		return "", "", "", err
	}
	r.People = true
	own = r.String()
	bound = own
	r.Dangerous = append(slices.Clone(r.Dangerous), nodeSlugs)
	nodes = r.String()
	if key.Bot != 0 {
		own, nodes = hub.NarrowRules(own, hub.BotToolNames), hub.NarrowRules(nodes, hub.BotToolNames)
	}
	return own, nodes, bound, nil
}

// isDecisionScope reports whether a scope lets an operator decide what others may do. A
// restricted key must not have it, since it could grant more than its own rules allow.
func isDecisionScope(scope string) bool {
	return scope == wire.ScopePairing || scope == wire.ScopeAdmin || scope == wire.ScopeApprovals
}

// isCredentialValid reports whether an operator's credential is still valid, and its person not
// paused.
func (c *conn) isCredentialValid(ctx context.Context) bool {
	if c.g.Hub.IsPaused(c.person.ID) {
		return false
	}
	if c.keyID == "" {
		return true // watchPeers handles changes of peers
	}
	who, err := c.g.keys.Recheck(ctx, c.keyID, account.ScopeOperator, account.ScopeAdmin, account.ScopeNode)
	if account.Refused(err) || err == nil && who.Key.Rules != c.keyRules {
		return false
	}
	// A former administrator has fewer scopes.
	return err != nil || !c.isAdmin || account.Covers(who.OperatorScopes(), []string{account.OperatorAdmin})
}

// errAuthChanged closes connections whose credential is no longer valid.
var errAuthChanged = &wire.Error{Code: wire.NotPaired, Message: "gateway auth changed", Close: wire.CloseRemoved}
