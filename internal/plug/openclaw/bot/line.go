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

// maxSubscribed bounds how many conversations a connection is subscribed to: with
// each, the gateway sends what is said in it by others, too. Beyond, the one that was
// used least lately is given up.
const maxSubscribed = 64

// keepLimit is how long it may take to keep our key.
const keepLimit = 10 * time.Second

// errRetired says that a turn came when everything had been closed.
var errRetired = errors.New("the server is stopping")

// line is the connection of a bot to its gateway. It is opened when it is needed,
// and closed when it has not been for a while.
type line struct {
	bots       *Bots
	bot        store.Bot
	url, token string

	mu       sync.Mutex
	kept     device
	fresh    bool // our key has yet to be kept
	link     *client.Link
	links    int          // that were opened
	last     client.State // how the link is or was doing
	accepted bool         // by the gateway, at some time
	users    int
	idle     *time.Timer // nil: not idle
	retired  bool
	heard    time.Time
	runs     map[string]*run // by their ids

	// subscribed are conversations of the connection at, the one used last at the
	// end. One goroutine at a time changes them.
	turnstile  chan struct{}
	at         *client.Conn
	subscribed []string
}

func newLine(b *Bots, sb store.Bot, url, token string, kept device) *line {
	return &line{bots: b, bot: sb, url: url, token: token, kept: kept, accepted: kept.Token != "", runs: map[string]*run{}, turnstile: make(chan struct{}, 1)}
}

// serves says whether a bot with these settings can use the line.
func (l *line) serves(url, token string, kept device) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.retired && l.url == url && l.token == token && (kept.id() == "" || kept.id() == l.kept.id())
}

// take makes sure that the line is not closed until give.
func (l *line) take() error {
	closed := l.bots.isClosed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if closed && l.users == 0 {
		return errRetired
	}
	l.users++
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	l.identify()
	if l.link == nil {
		l.links++
		l.link = client.Open(l.options())
	}
	return nil
}

// identify makes our key, if there is none. With mu held.
func (l *line) identify() {
	if l.kept.Identity == nil {
		l.kept.Identity = new(wire.NewIdentity())
		l.fresh = true
	}
}

// give undoes take.
func (l *line) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	switch {
	case l.users > 0:
	case l.retired:
		l.hangUp()
	default:
		var timer *time.Timer
		timer = time.AfterFunc(l.bots.opt.idle, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.idle == timer {
				l.idle = nil
				l.hangUp()
			}
		})
		l.idle = timer
	}
}

// retire closes the line as soon as nobody uses it.
func (l *line) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	if l.users == 0 {
		l.hangUp()
	}
}

// hangUp closes the link, which takes a second at most. With mu held.
func (l *line) hangUp() {
	if link := l.link; link != nil {
		l.link = nil
		l.links++ // what it does from now on is of no interest
		was := l.last
		l.last.Connected, l.last.Since, l.last.Again = false, time.Time{}, time.Time{}
		l.bots.metrics.changed(was, l.last)
		l.bots.job(link.Close)
	}
}

// options are how to connect. With mu held.
func (l *line) options() client.Options {
	mine := l.links
	o := client.Options{
		URL: l.url, Token: l.token, Identity: l.kept.Identity,
		Connect: wire.Connect{
			Client: wire.Client{ID: wire.ClientGateway, Mode: wire.ModeBackend, Version: orElse(l.bots.opt.Version, "dev"), Platform: "patchbay", DisplayName: "Patchbay"},
			Role:   wire.RoleOperator, Scopes: []string{wire.ScopeRead, wire.ScopeWrite}, Caps: []string{wire.CapSessionScoped},
		},
		Load: l.load,
		Save: func(ctx context.Context, token string) error {
			l.mu.Lock()
			l.kept.Token = token
			l.mu.Unlock()
			return l.keep(ctx)
		},
		Event: l.event, Logger: l.bots.opt.Logger.With("bot", l.bot.Number),
		Changed: func(s client.State) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.links != mine {
				return
			}
			l.bots.metrics.changed(l.last, s)
			l.last = s
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

// load is called before each attempt to connect. It has a new key kept before the
// gateway's owner is asked to approve it. If that fails, another will have to be
// approved after the next start.
func (l *line) load(ctx context.Context) (string, error) {
	l.mu.Lock()
	fresh, token := l.fresh, l.kept.Token
	l.fresh = false
	l.mu.Unlock()
	if fresh {
		if err := l.keep(ctx); err != nil {
			l.bots.opt.Logger.WarnContext(ctx, "openclaw: the device's key was not kept", "bot", l.bot.Number, "error", err)
		}
	}
	return token, nil
}

// keep has our key kept. Only the link calls it, by one goroutine.
func (l *line) keep(ctx context.Context) error {
	l.mu.Lock()
	text, err := l.kept.text()
	l.mu.Unlock()
	if err != nil || l.bots.opt.Keep == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	return l.bots.opt.Keep(ctx, l.bot.Number, l.url, text)
}

// conn is the connection, made if need be. The caller has taken the line.
func (l *line) conn(ctx context.Context) (*client.Conn, error) {
	l.mu.Lock()
	link := l.link
	l.mu.Unlock()
	return link.Conn(ctx)
}

// event takes what the gateway tells.
func (l *line) event(_ *client.Conn, f wire.Frame) {
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
		l.heard = time.Now()
	}
	l.mu.Unlock()
	if r != nil {
		r.take(&e)
	}
}

func (l *line) add(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[r.id] = r
}

// adopt has a run go on as another one.
func (l *line) adopt(r *run, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[r.id] != r || l.runs[id] != nil {
		return
	}
	if r.later != "" {
		delete(l.runs, r.later)
	}
	r.later = id
	l.runs[id] = r
}

// current is the id by which the gateway knows a run now.
func (l *line) current(r *run) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return orElse(r.later, r.id)
}

func (l *line) remove(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range []string{r.id, r.later} {
		if l.runs[id] == r {
			delete(l.runs, id)
		}
	}
}

// subscribe makes sure that the connection tells about a conversation.
func (l *line) subscribe(ctx context.Context, c *client.Conn, session string) error {
	select {
	case l.turnstile <- struct{}{}:
		defer func() { <-l.turnstile }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.at != c {
		l.at, l.subscribed = c, nil
	}
	for i, s := range l.subscribed {
		if s == session {
			l.subscribed = append(append(l.subscribed[:i:i], l.subscribed[i+1:]...), session)
			return nil
		}
	}
	if len(l.subscribed) >= maxSubscribed {
		if i := l.unused(); i >= 0 {
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

// unused is the place of a conversation in which nothing is being answered, or -1.
func (l *line) unused() int {
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

func (l *line) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		Connected: l.last.Connected && l.link != nil, Heard: l.heard, Version: l.last.Version, Device: l.kept.id(),
		Paired: l.accepted,
	}
	if s.Connected {
		s.Since = l.last.Since
	}
	if t := l.last.Trouble; t != nil && t.Problem != client.Closed {
		s.Trouble, s.Command = t.Told, t.Command
		if t.Problem == client.Pairing || t.Problem == client.Removed {
			s.Paired = false
		}
	}
	return s
}
