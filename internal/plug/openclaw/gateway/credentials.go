package gateway

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// login is what a client's credential has proved.
type login struct {
	person store.Person
	key    store.Key // zero: it came with its own token
	hash   string    // of the key
	may    []string  // as an operator
	peer   store.Peer
}

// proof checks a client's credential.
func (c *conn) proof(ctx context.Context, p *wire.Connect) (login, *wire.Error) {
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
			return l, c.trouble(err)
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
				return l, c.trouble(err)
			case errors.Is(err, account.ErrScope):
				return login{}, wire.ScopeMismatch
			}
			cause = err
		}
	}
	return login{}, c.wrong(ctx, p, cause)
}

// trouble is our own fault, or nothing.
func (c *conn) trouble(err error) *wire.Error {
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
	l := login{person: who.Person, key: who.Key, hash: seal.Hash(secret), may: who.OperatorScopes()}
	if board.IsNarrow(who.Key.Rules) {
		l.may = slices.DeleteFunc(l.may, decides)
	}
	if p.Role == wire.RoleNode && !who.OpensNode() || p.Role == wire.RoleOperator && l.may == nil {
		return login{}, account.ErrScope
	}
	return l, nil
}

func (c *conn) byToken(ctx context.Context, p *wire.Connect, token string) (login, error) {
	paired, err := c.g.Accounts.CheckPeerToken(ctx, account.PeerLogin{Peer: p.Device.ID, Role: p.Role, Scopes: p.Scopes, Token: token})
	if err != nil {
		return login{}, err
	}
	return login{person: paired.Person, may: paired.Scopes, peer: paired.Peer}, nil
}

// wrong refuses a credential, the later the more of them there were from one address.
// Whoever then has a good one is let in at once.
func (c *conn) wrong(ctx context.Context, p *wire.Connect, cause error) *wire.Error {
	g := c.g
	g.Logger.Warn("openclaw: a token was refused", "address", c.address, "client", p.Client.ID, "role", p.Role, "cause", cause)
	// On this machine nobody guesses.
	if locked := g.Guard != nil && g.Guard.Refuse(c.address) && !c.address.IsLoopback(); locked {
		return wire.RateLimited(time.Minute)
	}
	timer := time.NewTimer(g.slow.next(c.address, time.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if p.Auth.Token == "" && p.Auth.Password == "" && p.Auth.DeviceToken != "" {
		return wire.DeviceTokenMismatch
	}
	return wire.TokenMismatch(p.Device != nil)
}

const (
	// maxDelay is the longest that a wrong token is answered late.
	maxDelay = 5 * time.Second
	// slowFor is for how long an address that showed a wrong token is remembered.
	slowFor = time.Minute
	// maxSlow bounds the addresses that are remembered, some 100 bytes each. Past it,
	// others are answered without delay; their number is limited by the guard.
	maxSlow = 10_000
)

// slowdown makes guessing take time.
type slowdown struct {
	first time.Duration

	mu    sync.Mutex
	seen  map[netip.Addr]slowed
	swept time.Time
}

type slowed struct {
	delay time.Duration
	at    time.Time
}

func (s *slowdown) init(first time.Duration) { s.first, s.seen = first, map[netip.Addr]slowed{} }

// next is how long the next wrong token of an address is answered late.
func (s *slowdown) next(from netip.Addr, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.swept) > slowFor {
		s.swept = now
		for a, was := range s.seen {
			if now.Sub(was.at) > slowFor {
				delete(s.seen, a)
			}
		}
	}
	was, ok := s.seen[from]
	delay := s.first
	if ok && now.Sub(was.at) <= slowFor {
		delay = min(2*was.delay, maxDelay)
	}
	if ok || len(s.seen) < maxSlow {
		s.seen[from] = slowed{delay, now}
	}
	return delay
}

// forgive forgets the wrong tokens of an address that has shown a good one.
func (s *slowdown) forgive(from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, from)
}

// granted are the scopes that an operator gets: what it asks for, as far as its
// credential is for that. Who asks for operator.admin asks for all of them, as
// OpenClaw's command line does to let a node in. A program without a device of its own
// has to be one of those that people start themselves.
func granted(p *wire.Connect, may []string) []string {
	out := []string{}
	if p.Role == wire.RoleNode || p.Device == nil && !wire.KeepsScopes(p.Client) {
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

// Nodes' commands are called by rules of their own: whether one is dangerous is
// decided by the policy and by whoever approved it, not once more by the board.
const nodeSlugs = "node-*"

// rulesOf are a key's rules for an operator, who runs the board for a person, the same for
// calls of nodes' commands, and those by which the bots are bound that it asks.
func rulesOf(key store.Key) (own, nodes, bound string, err error) {
	r, err := board.ParseRules(key.Rules)
	if err != nil {
		return "", "", "", err
	}
	r.People = true
	own = r.String()
	bound = own
	r.Dangerous = append(slices.Clone(r.Dangerous), nodeSlugs)
	nodes = r.String()
	if key.Bot != 0 {
		own, nodes = board.Narrow(own, board.BotTools), board.Narrow(nodes, board.BotTools)
	}
	return own, nodes, bound, nil
}

// decides reports whether a scope lets an operator decide what others may do. A key that
// is narrow does not: it would have more by that than its rules allow.
func decides(scope string) bool { return scope == wire.ScopePairing || scope == wire.ScopeAdmin }

// stillGood says whether the credential of an operator is still good.
func (c *conn) stillGood(ctx context.Context) bool {
	if c.keyHash == "" {
		return true // changes of peers are looked for, see keepFresh
	}
	who, err := c.g.keys.Again(ctx, c.keyHash, account.ScopeOperator, account.ScopeAdmin, account.ScopeNode)
	if account.Refused(err) || err == nil && who.Key.Rules != c.keyRules {
		return false
	}
	// An administrator who is none any longer has less to say.
	return err != nil || !c.admin || account.Covers(who.OperatorScopes(), []string{account.OperatorAdmin})
}

// authChanged closes connections whose credential is not good any more.
var authChanged = &wire.Error{Code: wire.NotPaired, Message: "gateway auth changed", Close: wire.CloseRemoved}
