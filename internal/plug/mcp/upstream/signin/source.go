package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/seal"
)

const (
	// refreshPause is how long a refresh that failed for now is not tried again.
	refreshPause = 30 * time.Second
	// leaseLife is how long a refresh may take, until another instance tries.
	leaseLife = 2 * requestTimeout
	// leasePoll is how often an instance looks for the result of another one's refresh.
	leasePoll = 100 * time.Millisecond
)

// Source gives the connections to an upstream their tokens. It implements [upstream.Tokens].
type Source struct {
	s      *Service
	target Target
	holder string // of the lease

	stale atomic.Bool // what is known may be out of date

	mu     sync.Mutex // held while tokens are read or refreshed
	loaded bool
	grant  *Grant // nil: not signed in
	need   string // what the owner has to do
	// Of a machine: why it gets no token, what is known if the upstream is only looked at, the
	// challenge of the request that wants a token, and whether the last one is of no use any more.
	trouble *failed
	memory  record
	asked   *Challenge
	dead    bool
	paused  time.Time
	failed  error // of the refresh, until paused

	secrets sync.Mutex
	known   []string // tokens of this process, for redaction
}

// Source returns the tokens of an upstream.
func (s *Service) Source(t Target) *Source {
	return &Source{s: s, target: t, holder: s.Instance + "/" + seal.NewToken(8),
		memory: record{URL: t.Settings.URL, Login: t.login()}}
}

// Reload implements [upstream.Tokens].
func (c *Source) Reload() { c.stale.Store(true) } // without c.mu, which is held during requests

// Redact removes tokens from a text.
func (c *Source) Redact(text string) string {
	c.secrets.Lock()
	defer c.secrets.Unlock()
	for _, t := range c.known {
		text = strings.ReplaceAll(text, t, "[secret]")
	}
	return text
}

func (c *Source) isMachine() bool { return c.target.Settings.IsMachine() }

// keep takes over what was read or granted. The caller holds c.mu.
func (c *Source) keep(r *record) {
	c.loaded, c.grant, c.need, c.trouble = true, r.Grant, r.Need, r.Failed
	g := r.Grant
	if g == nil {
		return
	}
	c.secrets.Lock()
	defer c.secrets.Unlock()
	if len(c.known) > 0 && c.known[0] == g.Access {
		return
	}
	c.known = append([]string{g.Access}, c.known...)
	c.known = c.known[:min(len(c.known), 4)]
}

// Token implements [upstream.Tokens]. It refreshes a token in time; if that fails for now, the
// token is used for as long as it is valid. A sign-in that has ended is an error without a request,
// since servers count those that they refuse.
func (c *Source) Token(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale.Swap(false) {
		c.loaded, c.paused = false, time.Time{}
	}
	if !c.loaded {
		r, err := c.loadMachine(ctx)
		if err != nil {
			return "", err
		}
		c.keep(&r)
	}
	if g := c.grant; g != nil && (g.Refresh != "" || c.isMachine()) && !g.RefreshAt.IsZero() &&
		!c.s.Now().Before(g.RefreshAt) {
		_ = c.refresh(ctx, g.Access) // it is logged; what remains is looked at below
	}
	switch {
	case c.isMachine():
		return c.machineToken()
	case c.grant != nil:
		return c.grant.Access, nil
	case hasEnded(c.need):
		return "", c.s.needed(&c.target, &record{Need: c.need})
	}
	return "", nil
}

// hasEnded reports whether there was a sign-in that no longer counts.
func hasEnded(need string) bool { return need == NeedAgain || need == NeedOut }

// Refused implements [upstream.Tokens].
func (c *Source) Refused(ctx context.Context, r upstream.Refusal) (string, error) {
	ch := ParseChallenge(r.Challenges)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isMachine() {
		return c.machineRefused(ctx, r, ch)
	}
	if r.Status == http.StatusForbidden {
		if ch.Error != "insufficient_scope" {
			return "", nil
		}
		if r.Token == "" {
			return "", c.s.want(ctx, &c.target, NeedSignIn, ch)
		}
		return "", c.s.want(ctx, &c.target, NeedRights, ch)
	}
	now, _, err := c.s.load(ctx, &c.target)
	if err != nil {
		return "", err
	}
	c.keep(&now)
	switch {
	case now.Grant == nil:
		return "", c.first(ctx, &now, ch)
	case now.Grant.Access != r.Token: // another request or instance has refreshed it
		return now.Grant.Access, nil
	case r.Repeated || now.Grant.Refresh == "":
		if err = c.lose(ctx, now.Grant, nil); err != nil {
			return "", err
		}
	default:
		err = c.refresh(ctx, r.Token)
	}
	switch {
	case c.grant == nil && hasEnded(c.need):
		return "", c.s.want(ctx, &c.target, c.need, ch)
	case err != nil || c.grant == nil || c.grant.Access == r.Token:
		return "", err
	}
	return c.grant.Access, nil
}

// lose gives up a grant that the server refuses, for all instances: it is never sent again. The
// cause is that of a refresh. The caller holds c.mu.
func (c *Source) lose(ctx context.Context, g *Grant, cause error) error {
	now, err := c.s.change(ctx, &c.target, true, func(r *record) error {
		if r.Grant == nil || r.Grant.Access != g.Access || r.Grant.Refresh != g.Refresh { // signed in anew, or out
			return errUnchanged
		}
		client := r.clientOf(r.Grant).ID
		if r.Grant, r.Need = nil, NeedAgain; isUnknownClient(cause) {
			forgetClient(r, g.Issuer, client)
		}
		return nil
	})
	if err == nil {
		c.keep(&now)
	}
	if isUnknownClient(cause) {
		err = errors.Join(err, c.s.forgetSharedClient(ctx, &c.target, g.Issuer, g.Client.ID))
	}
	return err
}

// first decides whether a server to which nobody has signed in wants that. Most servers that answer
// 401 without saying more want a token that people paste.
func (c *Source) first(ctx context.Context, r *record, ch Challenge) error {
	need := NeedSignIn
	if hasEnded(r.Need) {
		need = r.Need
	}
	if r.Need != need {
		d, err := Discover(ctx, c.s.client(&c.target), c.target.Settings.URL, ch)
		if err != nil && ch.Metadata == "" || err == nil && d.Guessed && c.target.Settings.ClientID == "" {
			return nil
		}
		if err != nil {
			return ownersError(err)
		}
	}
	return c.s.want(ctx, &c.target, need, ch)
}

// ownersError returns an error of [Discover] as that of a connection.
func ownersError(err error) error {
	told, ok := errors.AsType[*i18n.Error](err)
	if !ok {
		return err
	}
	return &upstream.ConnectionError{Message: told.Text, Cause: clip(err.Error()), Auth: true,
		Lasting: !IsTemporary(err)}
}

// refresh replaces an access token, one instance at a time. The caller holds c.mu.
func (c *Source) refresh(ctx context.Context, old string) error {
	if c.s.Now().Before(c.paused) {
		return c.failed
	}
	// A caller that leaves must not lose a refresh token that is used up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseLife)
	defer cancel()
	err := c.refreshAlone(ctx, old)
	if err != nil {
		c.paused, c.failed = c.s.Now().Add(refreshPause), err
		c.s.Logger.WarnContext(ctx, "a token for a tool server could not be refreshed", "upstream", c.target.Number,
			"error", err)
	}
	return err
}

// refreshAlone waits for its turn, and refreshes the token unless another instance has.
func (c *Source) refreshAlone(ctx context.Context, old string) error {
	if c.isMachine() && c.target.Number == 0 {
		return c.obtainNow(ctx, &c.memory)
	}
	lease := fmt.Sprintf("signin/%d/%s", c.target.Number, c.target.Person)
	for {
		now := c.s.Now()
		mine, err := c.s.Store.Leases.Take(ctx, lease, c.holder, now, now.Add(leaseLife))
		if err != nil {
			return err
		}
		r, _, err := c.s.load(ctx, &c.target)
		if err == nil && mine && c.isMachine() && accessOf(r.Grant) == old {
			err = c.obtainNow(ctx, &r)
		} else if err == nil && mine && r.Grant != nil && r.Grant.Access == old {
			err = c.refreshNow(ctx, &r)
		} else if err == nil {
			c.keep(&r)
		}
		if mine {
			err = errors.Join(err, c.s.Store.Leases.Release(ctx, lease, c.holder))
		}
		if err != nil || c.grant == nil && !c.isMachine() || accessOf(c.grant) != old {
			return err
		}
		if mine {
			return nil
		}
		if err := netx.Wait(ctx, leasePoll); err != nil {
			return err
		}
	}
}

// refreshNow refreshes the token of a record that was read under the lease.
func (c *Source) refreshNow(ctx context.Context, r *record) error {
	next, err := r.Grant.refresh(ctx, c.s.client(&c.target), r.clientOf(r.Grant), c.s.Now())
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return errors.Join(err, c.lose(ctx, r.Grant, err)) // not tried again, whoever asks
	}
	if err != nil {
		return err
	}
	now, err := c.s.change(ctx, &c.target, false, func(now *record) error {
		if now.Grant == nil || now.Grant.Access != r.Grant.Access { // signed in anew, or out
			return errUnchanged
		}
		now.Grant = next
		return nil
	})
	if err == nil {
		c.keep(&now)
	}
	return err
}
