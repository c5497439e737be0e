package client

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"patchbay/internal/plug/openclaw/wire"
)

const (
	// pairingPause is how often a gateway is asked whether its owner has approved the
	// device. It forgets who does not ask for five minutes.
	pairingPause = 10 * time.Second
	// lastingPause is how often it is tried whether other trouble has gone that does
	// not go by itself. It is long, as gateways lock out who shows wrong tokens.
	lastingPause = 2 * time.Minute
	// lastingGap is how long such trouble is believed without trying, however many
	// want a connection.
	lastingGap = 5 * time.Second
	// waitingPause is the longest pause while somebody waits for the connection: a
	// gateway needs half a minute to restart, and answers are recovered then.
	waitingPause = 4 * time.Second
)

// State is how a link is doing.
type State struct {
	Connected bool
	// Since is when it was connected; zero if it is not.
	Since time.Time
	// Trouble is what went wrong last; nil if nothing did since it was connected.
	Trouble *Trouble
	// Again is when it is tried again; zero if it is connected, or tried right now.
	Again time.Time
	// Version is that of the gateway, if it was ever connected to.
	Version string
}

// Link keeps a connection to a gateway: whenever it is lost, it makes a new one. It
// is safe for concurrent use.
type Link struct {
	opt    Options
	cancel context.CancelFunc
	work   sync.WaitGroup
	poke   chan struct{} // somebody wants it now

	mu       sync.Mutex
	conn     *Conn
	state    State
	attempts uint64        // that have ended
	tried    time.Time     // when the last one has
	changed  chan struct{} // closed and replaced when any of this changes
	waiting  int           // for the connection
	over     bool
}

// Open begins to connect, and returns at once. Close ends it.
func Open(o Options) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Link{opt: o, cancel: cancel, poke: make(chan struct{}, 1), changed: make(chan struct{})}
	l.work.Go(func() { l.run(ctx) })
	return l
}

// Close ends the connection and waits until nothing of it runs any more.
func (l *Link) Close() {
	l.cancel()
	l.work.Wait()
}

// State is how the link is doing.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Conn returns the connection, and waits for it if there is none. It does not wait
// for trouble to go away that does not go by itself, but has it tried once more,
// unless that was a moment ago. The error is a [*Trouble], or, if nothing has been
// found out yet, that of ctx.
func (l *Link) Conn(ctx context.Context) (*Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting++
	defer func() { l.waiting-- }()
	before, poked := l.attempts, false
	if time.Since(l.tried) < lastingGap && before > 0 {
		before--
	}
	for {
		t := l.state.Trouble
		switch {
		case l.conn != nil && l.conn.ctx.Err() == nil:
			return l.conn, nil
		case l.over:
			return nil, errClosed
		case t != nil && t.Lasting() && l.attempts > before:
			return nil, t
		}
		changed := l.changed
		l.mu.Unlock()
		if !poked { // once: who waits on does not have it tried all the time
			poked = true
			select {
			case l.poke <- struct{}{}:
			default:
			}
		}
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		l.mu.Lock()
		if err != nil {
			if t := l.state.Trouble; t != nil {
				return nil, t
			}
			return nil, err
		}
	}
}

// run connects again and again.
func (l *Link) run(ctx context.Context) {
	pause := wire.RetryFirst
	var told Problem // what is wrong, once it was logged
	for ctx.Err() == nil {
		began := time.Now()
		t := l.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > wire.RetryLast {
			pause, told = wire.RetryFirst, ""
		}
		level := slog.LevelWarn
		if t.Problem == told {
			level = slog.LevelDebug
		}
		told = t.Problem
		l.opt.log().Log(ctx, level, "openclaw: there is no connection to the gateway", "problem", t.Problem, "error", t.Error())
		var d time.Duration
		l.set(func() {
			d = wait(t, l.impatient(pause))
			l.failed(t, d)
			select {
			case <-l.poke: // by somebody whom this attempt has answered
			default:
			}
		})
		l.rest(ctx, d, max(t.RetryAfter, wire.RetryFirst))
		pause = min(2*pause, wire.RetryLast)
	}
	l.set(func() {
		l.over, l.conn = true, nil
		l.state.Connected, l.state.Since, l.state.Again = false, time.Time{}, time.Time{}
	})
}

// impatient is a pause, shortened if somebody waits. With mu held.
func (l *Link) impatient(pause time.Duration) time.Duration {
	if l.waiting > 0 {
		return min(pause, waitingPause)
	}
	return pause
}

// once connects and stays until the connection ends. It returns why it did.
func (l *Link) once(ctx context.Context) *Trouble {
	l.set(func() { l.state.Again = time.Time{} })
	c, err := Connect(ctx, &l.opt)
	if err == nil {
		defer c.Close()
		err = l.up(ctx, c)
	}
	if err != nil {
		return asTrouble(err)
	}
	l.set(func() {
		l.conn, l.attempts, l.tried = c, l.attempts+1, time.Now()
		l.state = State{Connected: true, Since: c.since, Version: c.hello.Server.Version}
	})
	l.opt.log().InfoContext(ctx, "openclaw: connected to the gateway", "version", c.hello.Server.Version)
	select {
	case <-ctx.Done():
		return errClosed
	case <-c.Done():
	}
	return asTrouble(c.Err())
}

// up has the owner of the link do what is to be done on each new connection.
func (l *Link) up(ctx context.Context, c *Conn) error {
	if l.opt.Up == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	err := l.opt.Up(ctx, c)
	if err != nil && c.Err() != nil {
		return c.Err()
	}
	return err
}

// failed notes what is wrong, and how long it is left so. With mu held.
func (l *Link) failed(t *Trouble, pause time.Duration) {
	now := time.Now()
	l.conn, l.attempts, l.tried = nil, l.attempts+1, now
	l.state.Connected, l.state.Since, l.state.Trouble, l.state.Again = false, time.Time{}, t, now.Add(pause)
}

// set changes what everybody can see.
func (l *Link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
	if l.opt.Changed != nil {
		l.opt.Changed(l.state)
	}
}

// wait is how long to leave a gateway alone.
func wait(t *Trouble, pause time.Duration) time.Duration {
	switch {
	case t.RetryAfter > 0:
		return t.RetryAfter
	case t.Problem == Pairing:
		return pairingPause
	case t.Problem == Removed:
		return pause
	case t.Lasting():
		return lastingPause
	}
	// Many clients that have lost one gateway do not come back all at once.
	return pause + rand.N(pause/5)
}

// rest waits until it is time to try again, or, after the least time, somebody
// wants a connection.
func (l *Link) rest(ctx context.Context, d, least time.Duration) {
	least = min(d, least)
	timer := time.NewTimer(least)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	timer.Reset(d - least)
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.poke:
	}
}
