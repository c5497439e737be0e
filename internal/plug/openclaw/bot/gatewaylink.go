package bot

import (
	"context"
	"errors"
	"sync"
	"time"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// maxSubscribed limits the subscribed conversations of a connection: the gateway sends
// everything said in them. Beyond, the least recently used one is unsubscribed.
const maxSubscribed = 64

// saveTimeout limits storing the device key.
const saveTimeout = 10 * time.Second

// errStopping means that a turn came after Close.
var errStopping = errors.New("the server is stopping")

// address is how a gateway is reached.
type address struct {
	url, pin string // as in [client.Options]
	token    string
}

// gatewayLink is the connection of a bot to its gateway. It is opened on demand and closed when
// idle.
type gatewayLink struct {
	bots *Bots
	bot  store.Bot
	at   address

	mu              sync.Mutex
	identity        device
	identityUnsaved bool // the device key is not stored yet
	link            *client.Link
	generation      int          // number of opened links
	lastState       client.State // current or last state
	accepted        bool         // the gateway has accepted the device before
	users           int
	idleTimer       *time.Timer // nil: not idle
	closing         bool
	lastAnswerAt    time.Time
	runs            map[string]*run // by run id

	// subscribed are the conversations subscribed on the connection, most recently used last.
	// subscribeLock serializes changes.
	subscribeLock chan struct{}
	subscribedOn  *client.Conn
	subscribed    []string
}

func newGatewayLink(b *Bots, sb store.Bot, at address, kept device) *gatewayLink {
	return &gatewayLink{bots: b, bot: sb, at: at, identity: kept,
		accepted: kept.Token != "", runs: map[string]*run{}, subscribeLock: make(chan struct{}, 1)}
}

// matches reports whether a bot with these settings can share the link.
func (l *gatewayLink) matches(at address, kept device) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closing && l.at == at && (kept.id() == "" || kept.id() == l.identity.id())
}

// acquire keeps the link open until release.
func (l *gatewayLink) acquire() error {
	closed := l.bots.isClosed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if closed && l.users == 0 {
		return errStopping
	}
	l.users++
	if l.idleTimer != nil {
		l.idleTimer.Stop()
		l.idleTimer = nil
	}
	l.ensureIdentity()
	if l.link == nil {
		l.generation++
		l.link = client.Open(l.options())
	}
	return nil
}

// ensureIdentity creates the device key if there is none. The caller holds mu.
func (l *gatewayLink) ensureIdentity() {
	if l.identity.Identity == nil {
		l.identity.Identity = new(wire.NewIdentity())
		l.identityUnsaved = true
	}
}

// release undoes acquire.
func (l *gatewayLink) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	switch {
	case l.users > 0:
	case l.closing:
		l.closeLink()
	default:
		var timer *time.Timer
		timer = time.AfterFunc(l.bots.opt.idleTimeout, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.idleTimer == timer {
				l.idleTimer = nil
				l.closeLink()
			}
		})
		l.idleTimer = timer
	}
}

// closeWhenUnused closes the link when its last user has released it.
func (l *gatewayLink) closeWhenUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	if l.idleTimer != nil {
		l.idleTimer.Stop()
		l.idleTimer = nil
	}
	if l.users == 0 {
		l.closeLink()
	}
}

// closeLink closes the link, which takes at most a second. The caller holds mu.
func (l *gatewayLink) closeLink() {
	if link := l.link; link != nil {
		l.link = nil
		l.generation++ // ignore its further state changes
		was := l.lastState
		l.lastState.Connected, l.lastState.Since, l.lastState.NextTry = false, time.Time{}, time.Time{}
		l.bots.metrics.changed(was, l.lastState)
		l.bots.goBackground(link.Close)
	}
}

// options returns the connection options. The caller holds mu.
func (l *gatewayLink) options() client.Options {
	mine := l.generation
	o := client.Options{
		URL: l.at.url, Pin: l.at.pin, Token: l.at.token, Identity: l.identity.Identity,
		Connect: wire.Connect{
			Client: wire.Client{ID: wire.ClientGateway, Mode: wire.ModeBackend,
				Version: orElse(l.bots.opt.Version, "dev"), Platform: "patchbay", DisplayName: "Patchbay"},
			Role: wire.RoleOperator, Scopes: []string{wire.ScopeRead, wire.ScopeWrite},
			Caps: []string{wire.CapSessionScoped},
		},
		LoadToken: l.loadToken,
		SaveToken: func(ctx context.Context, token string) error {
			l.mu.Lock()
			l.identity.Token = token
			l.mu.Unlock()
			return l.saveIdentity(ctx)
		},
		OnEvent: l.handleEvent, Logger: l.bots.opt.Logger.With("bot", l.bot.Number),
		OnStateChange: func(s client.State) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.generation != mine {
				return
			}
			l.bots.metrics.changed(l.lastState, s)
			l.lastState = s
			if s.Connected {
				l.accepted = true
			}
		},
	}
	if l.bots.opt.Dial != nil {
		o.Dial = l.bots.opt.Dial(l.bot)
	}
	return o
}

// loadToken is called before each attempt to connect. It stores a new key before the gateway's
// owner is asked to approve it. If that fails, a new key needs approval after the next start.
func (l *gatewayLink) loadToken(ctx context.Context) (string, error) {
	l.mu.Lock()
	fresh, token := l.identityUnsaved, l.identity.Token
	l.identityUnsaved = false
	l.mu.Unlock()
	if fresh {
		if err := l.saveIdentity(ctx); err != nil {
			l.bots.opt.Logger.WarnContext(ctx, "openclaw: the device's key was not kept", "bot", l.bot.Number,
				"error", err)
		}
	}
	return token, nil
}

// saveIdentity stores the device key. Only the link calls it, from one goroutine.
func (l *gatewayLink) saveIdentity(ctx context.Context) error {
	l.mu.Lock()
	text, err := l.identity.text()
	l.mu.Unlock()
	if err != nil || l.bots.opt.SaveIdentity == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	return l.bots.opt.SaveIdentity(ctx, l.bot.Number, l.at.url, text)
}

// conn returns the connection, opening it if needed. The caller has acquired the link.
func (l *gatewayLink) conn(ctx context.Context) (*client.Conn, error) {
	l.mu.Lock()
	link := l.link
	l.mu.Unlock()
	return link.Conn(ctx)
}

// connSoon is conn, but does not wait for long if nothing accepts connections at the address.
func (l *gatewayLink) connSoon(ctx context.Context) (*client.Conn, error) {
	soon, cancel := context.WithTimeout(ctx, refusedTimeout)
	defer cancel()
	c, err := l.conn(soon)
	t, told := errors.AsType[*client.ConnectionError](err)
	if soon.Err() == nil || told && t.Problem == client.Unreachable {
		return c, err
	}
	return l.conn(ctx)
}

// handleEvent handles an event of the gateway.
func (l *gatewayLink) handleEvent(_ *client.Conn, f wire.Frame) {
	if f.Event != wire.EventChat {
		return
	}
	e, err := wire.ParseChat(f.Payload)
	if err != nil {
		return
	}
	l.mu.Lock()
	r := l.runs[e.RunID]
	if r != nil {
		l.lastAnswerAt = time.Now()
	}
	l.mu.Unlock()
	if r != nil {
		r.handleEvent(&e)
	}
}

func (l *gatewayLink) add(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[r.id] = r
}

// continueAs records that a run continues under another id.
func (l *gatewayLink) continueAs(r *run, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[r.id] != r || l.runs[id] != nil {
		return
	}
	if r.continuedBy != "" {
		delete(l.runs, r.continuedBy)
	}
	r.continuedBy = id
	l.runs[id] = r
}

// currentID returns the id under which the gateway knows a run now.
func (l *gatewayLink) currentID(r *run) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return orElse(r.continuedBy, r.id)
}

func (l *gatewayLink) remove(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range []string{r.id, r.continuedBy} {
		if l.runs[id] == r {
			delete(l.runs, id)
		}
	}
}

// subscribe subscribes the connection to a conversation.
func (l *gatewayLink) subscribe(ctx context.Context, c *client.Conn, session string) error {
	select {
	case l.subscribeLock <- struct{}{}:
		defer func() { <-l.subscribeLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.subscribedOn != c {
		l.subscribedOn, l.subscribed = c, nil
	}
	for i, s := range l.subscribed {
		if s == session {
			l.subscribed = append(append(l.subscribed[:i:i], l.subscribed[i+1:]...), session)
			return nil
		}
	}
	if len(l.subscribed) >= maxSubscribed {
		if i := l.findUnused(); i >= 0 {
			old := l.subscribed[i]
			l.subscribed = append(l.subscribed[:i:i], l.subscribed[i+1:]...)
			if _, err := c.Call(ctx, wire.MethodUnsubscribe, wire.Subscribe{Key: old}); err != nil {
				return err
			}
		}
	}
	if _, err := c.Call(ctx, wire.MethodSubscribe, wire.Subscribe{Key: session}); err != nil {
		return err
	}
	l.subscribed = append(l.subscribed, session)
	return nil
}

// findUnused returns the index of a conversation without an active answer, or -1.
func (l *gatewayLink) findUnused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := map[string]bool{}
	for _, r := range l.runs {
		used[r.session] = true
	}
	for i, s := range l.subscribed {
		if !used[s] {
			return i
		}
	}
	return -1
}

func (l *gatewayLink) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		Connected: l.lastState.Connected && l.link != nil, LastAnswer: l.lastAnswerAt, Version: l.lastState.Version,
		Device: l.identity.id(),
		Paired: l.accepted,
	}
	if s.Connected {
		s.Since = l.lastState.Since
	}
	if t := l.lastState.Problem; t != nil && t.Problem != client.Closed {
		s.Problem, s.Command, s.Code, s.Certificate = t.Message, t.Command, t.Problem, t.Certificate
		if t.Problem == client.Pairing || t.Problem == client.Removed {
			s.Paired = false
		}
	}
	return s
}
