package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// pairingRetryDelay is how often the link checks whether the owner has approved the device. A
	// gateway drops a pairing request that was not repeated for five minutes
	// (src/infra/device-pairing-state.kernel.ts, DEVICE_PAIRING_PENDING_TTL_MS).
	pairingRetryDelay = 10 * time.Second
	// lastingRetryDelay is the delay after an error that only a person can fix. It is long,
	// because gateways lock out clients that show wrong tokens.
	lastingRetryDelay = 2 * time.Minute
	// lastingRetryGap is the minimum delay after such an error, however many callers want a
	// connection.
	lastingRetryGap = 5 * time.Second
	// maxWaitingDelay is the longest delay while a caller waits for the connection: a gateway
	// needs half a minute to restart, and answers are recovered then.
	maxWaitingDelay = 4 * time.Second
)

// State is the state of a link.
type State struct {
	Connected bool
	// Since is the time of the connect; zero if not connected.
	Since time.Time
	// Problem is the last error; nil if there was none since the last connect.
	Problem *ConnectionError
	// NextTry is the time of the next attempt; zero if connected or connecting.
	NextTry time.Time
	// Version is the gateway's version, if it was ever connected.
	Version string
}

// Link keeps a connection to a gateway and reconnects when it is lost. It is safe for concurrent
// use.
type Link struct {
	opt      Options
	cancel   context.CancelFunc
	work     sync.WaitGroup
	retryNow chan struct{} // a caller wants a connection now

	mu          sync.Mutex
	conn        *Conn
	state       State
	attempts    uint64        // finished attempts
	lastAttempt time.Time     // end of the last attempt
	changed     chan struct{} // closed and replaced when anything here changes
	waiting     int           // callers waiting for the connection
	closed      bool
}

// Open starts connecting and returns at once. Close ends the link.
func Open(o Options) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Link{opt: o, cancel: cancel, retryNow: make(chan struct{}, 1), changed: make(chan struct{})}
	l.work.Go(func() { l.run(ctx) })
	return l
}

// Close closes the connection and waits until all goroutines have ended.
func (l *Link) Close() {
	l.cancel()
	l.work.Wait()
}

// State returns the state of the link.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Conn returns the connection, and waits for it if there is none. After an error that only a
// person can fix it does not wait, but triggers one more attempt unless the last one was a
// moment ago. The error is a [*ConnectionError], or that of ctx if there is none yet.
func (l *Link) Conn(ctx context.Context) (*Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting++
	defer func() { l.waiting-- }()
	before, poked := l.attempts, false
	if time.Since(l.lastAttempt) < lastingRetryGap && before > 0 {
		before--
	}
	for {
		t := l.state.Problem
		switch {
		case l.conn != nil && l.conn.ctx.Err() == nil:
			return l.conn, nil
		case l.closed:
			return nil, errClosed
		case t != nil && t.Lasting() && l.attempts > before:
			return nil, t
		}
		changed := l.changed
		l.mu.Unlock()
		if !poked { // once: a waiting caller triggers one attempt only
			poked = true
			select {
			case l.retryNow <- struct{}{}:
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
			if t := l.state.Problem; t != nil {
				return nil, t
			}
			return nil, err
		}
	}
}

// run connects repeatedly.
func (l *Link) run(ctx context.Context) {
	pause := netx.Backoff{First: wire.MinBackoff, Max: wire.MaxBackoff}
	var told Problem // last logged problem
	for ctx.Err() == nil {
		began := time.Now()
		t := l.connectOnce(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > wire.MaxBackoff {
			pause.Reset()
			told = ""
		}
		level := slog.LevelWarn
		if t.Problem == told {
			level = slog.LevelDebug
		}
		told = t.Problem
		l.logProblem(ctx, level, t)
		var d time.Duration
		l.update(func() {
			d = retryDelay(t, l.shortenDelay(pause.Next()))
			l.setFailed(t, d)
			select {
			case <-l.retryNow: // the caller was answered by this attempt
			default:
			}
		})
		l.waitForRetry(ctx, d, max(t.RetryAfter, wire.MinBackoff))
	}
	l.update(func() {
		l.closed, l.conn = true, nil
		l.state.Connected, l.state.Since, l.state.NextTry = false, time.Time{}, time.Time{}
	})
}

// logProblem logs why there is no connection. A changed certificate is an error: somebody else may
// answer at the address.
func (l *Link) logProblem(ctx context.Context, level slog.Level, t *ConnectionError) {
	args := []any{"problem", t.Problem, "error", t.Error()}
	if c := t.Certificate; c != nil {
		args = append(args, "fingerprint", c.Shown)
		if c.Pinned != "" {
			args = append(args, "pinned", c.Pinned)
		}
		if level == slog.LevelWarn && t.Problem == Changed {
			level = slog.LevelError
		}
	}
	l.opt.log().Log(ctx, level, "openclaw: there is no connection to the gateway", args...)
}

// shortenDelay returns the delay, shortened while a caller waits. The caller holds mu.
func (l *Link) shortenDelay(pause time.Duration) time.Duration {
	if l.waiting > 0 {
		return min(pause, maxWaitingDelay)
	}
	return pause
}

// connectOnce connects, waits until the connection ends, and returns the reason.
func (l *Link) connectOnce(ctx context.Context) *ConnectionError {
	l.update(func() { l.state.NextTry = time.Time{} })
	c, err := Connect(ctx, &l.opt)
	if err == nil {
		defer c.Close()
		err = l.onConnect(ctx, c)
	}
	if err != nil {
		return asConnectionError(err)
	}
	l.update(func() {
		l.conn, l.attempts, l.lastAttempt = c, l.attempts+1, time.Now()
		l.state = State{Connected: true, Since: c.connectedAt, Version: c.hello.Server.Version}
	})
	l.opt.log().InfoContext(ctx, "openclaw: connected to the gateway", "version", c.hello.Server.Version)
	select {
	case <-ctx.Done():
		return errClosed
	case <-c.Done():
	}
	return asConnectionError(c.Err())
}

// onConnect calls Options.OnConnect for a new connection.
func (l *Link) onConnect(ctx context.Context, c *Conn) error {
	if l.opt.OnConnect == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	err := l.opt.OnConnect(ctx, c)
	if err != nil && c.Err() != nil {
		return c.Err()
	}
	return err
}

// setFailed records an error and the time of the next attempt. The caller holds mu.
func (l *Link) setFailed(t *ConnectionError, pause time.Duration) {
	now := time.Now()
	l.conn, l.attempts, l.lastAttempt = nil, l.attempts+1, now
	l.state.Connected, l.state.Since, l.state.Problem, l.state.NextTry = false, time.Time{}, t, now.Add(pause)
}

// update changes the public state and notifies waiting callers.
func (l *Link) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
	if l.opt.OnStateChange != nil {
		l.opt.OnStateChange(l.state)
	}
}

// reconnectJitter spreads the clients that lost the same gateway.
var reconnectJitter = netx.Jitter{From: 1, To: 1.2}

// retryDelay returns the delay before the next attempt.
func retryDelay(t *ConnectionError, pause time.Duration) time.Duration {
	switch {
	case t.RetryAfter > 0:
		return t.RetryAfter
	case t.Problem == Pairing:
		return pairingRetryDelay
	case t.Problem == Removed:
		return pause
	case t.Lasting():
		return lastingRetryDelay
	}
	return reconnectJitter.Of(pause)
}

// waitForRetry waits for d, or, after at least least, until a caller wants a connection.
func (l *Link) waitForRetry(ctx context.Context, d, least time.Duration) {
	least = min(d, least)
	if netx.Wait(ctx, least) == nil {
		netx.WaitUnless(ctx, l.retryNow, d-least)
	}
}
