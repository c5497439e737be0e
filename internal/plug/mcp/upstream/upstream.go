package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/netx"
	"patchbay/internal/pin"
	"patchbay/internal/tool"
)

// upstream is one server and its connection loop. It is the tool.Provider registered with the
// hub.
type upstream struct {
	m      *Manager
	spec   Spec
	log    *slog.Logger
	redact func(string) string
	passes passing
	times  timings

	ctx     context.Context
	stop    context.CancelCauseFunc
	done    chan struct{} // closed when run has returned
	inbound inbound       // of an inbound server

	slots      chan struct{} // one entry per running call
	waiting    atomic.Int32
	timeouts   atomic.Int32
	logLimit   *rate.Limiter // for logs outside of calls
	connectNow chan struct{} // a call waits for a connection; holds 1

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when session changes
	session *session      // nil without a usable session
	catalog *catalog      // the newest; never nil
	status  Status
	parked  map[string]*parked // by state
	watched map[string]int     // URIs at the server, by number of callers who watch them
	live    Registration       // that of run, while its tools are offered
	used    time.Time          // when the last call began

	// Used by the goroutine of run only:
	registration    Registration // nil while an inbound server is not registered
	registeredTools []tool.Tool
	// dangerous are the tools that the server has ever called destructive; recalled means that
	// those of earlier runs are included.
	dangerous       []string
	dangerousLoaded bool
	lastTransport   transportHint
	lastLoggedError string // last error that was logged
	// closing waits for the previous session to end; also used by the goroutine that connects,
	// while run waits for that.
	closing sync.WaitGroup
	// pins are the marks of what the server offers; pinsStale means that reading or telling failed.
	// Both are used by the goroutine of run only.
	pins      map[pin.Key]pin.Mark
	pinsStale bool
	// pinsChanged reports that the owner has approved something; holds 1.
	pinsChanged chan struct{}
	approved    int64 // [Spec].Pins of the last approval; guarded by m.mu
	// signedIn reports that the owner has signed in to the server, or out; holds 1.
	signedIn chan struct{}
	signIns  int64 // [Spec].SignIns; guarded by m.mu
}

// transportHint is how the server was last reached; it is tried first.
type transportHint struct {
	transport string
	modern    bool
}

func newUpstream(m *Manager, spec Spec) *upstream {
	m.opt.addTokens(&spec)
	u := &upstream{
		m:          m,
		spec:       spec,
		log:        m.opt.Logger.With("upstream", spec.ID, "slug", spec.Slug),
		redact:     spec.redactor(),
		passes:     spec.Settings.passes(),
		times:      m.opt.timings(),
		done:       make(chan struct{}),
		slots:      make(chan struct{}, spec.Settings.concurrent()),
		logLimit:   newLogLimit(),
		connectNow: make(chan struct{}, 1),
		changed:    make(chan struct{}),

		pinsChanged: make(chan struct{}, 1),
		approved:    spec.Pins,
		signedIn:    make(chan struct{}, 1),
		signIns:     spec.SignIns,
		catalog:     &catalog{},
		parked:      map[string]*parked{},
		watched:     map[string]int{},
		status:      Status{State: Connecting, Since: time.Now()},
	}
	u.ctx, u.stop = context.WithCancelCause(context.Background())
	if spec.Inbound {
		u.inbound = newInbound()
		u.lastTransport.transport = WebSocket
		u.status.State, u.status.Err = Waiting, newConnectionError(msgNotYet, "")
	}
	return u
}

// connectResult is the result of an attempt to connect.
type connectResult struct {
	session *session
	catalog *catalog
	err     error
}

// run registers the upstream and keeps a connection until it is stopped.
func (u *upstream) run() {
	defer close(u.done)
	defer u.closeInbound()
	if u.ctx.Err() != nil {
		return
	}
	u.m.metrics.addUpstream(u.spec.Slug)
	defer u.m.metrics.removeUpstream(u)
	if u.spec.Inbound {
		u.runInbound()
		return
	}
	u.registration = u.m.opt.Register(u.spec, u)
	defer u.registration.Unregister()

	pause := netx.Backoff{First: u.times.minBackoff, Jitter: netx.HalfJitter}
	var away <-chan time.Time // fires when the tools are withdrawn
	rested := false
	for try := 0; ; try++ {
		if try > 0 && !rested {
			u.m.metrics.reconnects.WithLabelValues(u.spec.Slug).Inc()
		}
		if !u.takeSeat() {
			return
		}
		t, ok := u.try(&away, u.connect)
		if !ok {
			u.freeSeat()
			return
		}
		err := t.err
		began := time.Now()
		if err == nil {
			away = nil
			u.begin(t)
			err = u.serve(t.session)
		}
		u.freeSeat()
		if u.ctx.Err() != nil {
			return
		}
		if rested = errors.Is(err, errIdle); rested {
			if pause.Reset(); !u.rest() {
				return
			}
			continue
		}
		if t.err == nil {
			if away = time.After(u.times.toolsGrace); time.Since(began) > stableAfter {
				pause.Reset()
			}
		}
		problem := explain(err, u.redact)
		if problem.SignIn != nil {
			away = nil // the tools stay listed, and calls say that the owner has to sign in
		}
		if pause.Max = u.times.maxBackoff; problem.Auth {
			pause.Max = u.times.maxAuthBackoff
		}
		again := pause.Next()
		if problem.SignIn != nil {
			again = u.times.maxAuthBackoff // nothing changes until the owner has signed in, which is noticed
		}
		if !u.waitForRetry(problem, again, &away) {
			return
		}
	}
}

// try connects once. It returns false if the upstream was stopped meanwhile.
func (u *upstream) try(away *<-chan time.Time, connect func() connectResult) (connectResult, bool) {
	u.setState(Connecting, nil, time.Time{})
	result := make(chan connectResult, 1)
	go func() { result <- connect() }()
	for {
		select {
		case <-*away:
			*away = nil
			u.withdraw()
		case t := <-result: // connect ends soon after u.ctx does
			if u.ctx.Err() != nil {
				if t.session != nil {
					t.session.close()
				}
				return t, false
			}
			return t, true
		}
	}
}

// prepare makes a new session report what changes.
func (u *upstream) prepare(s *session) { s.onUpdated, s.onLog = u.resourceUpdated, u.logged }

// connect opens a connection and reads the tool list.
func (u *upstream) connect() connectResult {
	s, how, err := connect(u.ctx, &u.spec, &u.m.opt, u.lastTransport, u.log, u.redact, u.prepare)
	if err != nil {
		if isRefusal(err) {
			u.lastTransport = transportHint{} // it has become another server
		}
		u.keepStderr(s)
		return connectResult{err: err}
	}
	u.lastTransport = how
	ctx, cancel := context.WithTimeout(u.ctx, u.times.listTimeout)
	defer cancel()
	c, err := s.list(ctx, &u.spec.Settings)
	if err != nil {
		s.close()
		u.keepStderr(s)
		return connectResult{err: err}
	}
	return connectResult{session: s, catalog: c}
}

// waitForRetry waits for the next attempt. A call that waits for a connection shortens the wait,
// unless only the owner can fix the error. It returns false if the upstream was stopped.
func (u *upstream) waitForRetry(t *ConnectionError, d time.Duration, away *<-chan time.Time) bool {
	state := Waiting
	if t.Lasting {
		state = Failed
	}
	level := slog.LevelDebug
	if news := t.Error(); news != u.lastLoggedError {
		level, u.lastLoggedError = slog.LevelInfo, news
	}
	u.setState(state, t, time.Now().Add(d))
	u.log.Log(u.ctx, level, "upstream: not connected", "state", state, "again", d.Round(time.Millisecond),
		"error", t.Error())
	wanted := u.connectNow
	if t.Lasting || d <= u.times.minBackoff {
		wanted = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-u.signedIn:
			return true
		case <-wanted:
			wanted = nil
			timer.Reset(u.times.minBackoff / 2)
		case <-*away:
			*away = nil
			u.withdraw()
		case <-u.ctx.Done():
			return false
		}
	}
}

// begin publishes a new connection: its tools, catalog and status become visible together.
func (u *upstream) begin(t connectResult) {
	s := t.session
	u.timeouts.Store(0)
	u.lastLoggedError = ""
	u.checkPins(u.ctx, s, t.catalog)
	u.markDangerous(u.ctx, t.catalog)
	u.publish(t.catalog, s)
	u.log.Info("upstream: connected", "protocol", s.version, "transport", u.lastTransport.transport,
		"tools", len(t.catalog.tools),
		"hidden", t.catalog.hidden, "skipped", t.catalog.skipped, "cut", t.catalog.truncated)
}

// serve serves a connection until it ends, and returns the reason.
func (u *upstream) serve(s *session) error {
	u.m.metrics.connected.WithLabelValues(u.spec.Slug).Inc()
	err := u.supervise(s)
	u.m.metrics.connected.WithLabelValues(u.spec.Slug).Dec()
	u.mu.Lock()
	u.useSession(nil)
	u.mu.Unlock()
	u.dropParked(s)
	u.closeSession(s)
	u.keepStderr(s)
	return err
}

// closeSession ends a session. The session of an inbound server is closed in the background: its
// peer may be dead while its successor is already connected.
func (u *upstream) closeSession(s *session) {
	if !u.spec.Inbound {
		s.close()
		return
	}
	u.closing.Wait() // at most one runs at a time
	u.closing.Go(s.close)
}

// supervise watches a connection: list changes, pings, and its end.
func (u *upstream) supervise(s *session) error {
	health := time.NewTicker(u.times.healthInterval)
	defer health.Stop()
	list := time.NewTicker(u.times.listInterval)
	defer list.Stop()
	answers := s.modern // it has answered a ping before
	idle := u.watchIdleness()
	defer idle.stop()
	for {
		var err error
		select {
		case <-idle.check:
			err = u.checkIdle(u.times.idleAfter)
		case <-idle.wanted:
			err = u.checkIdle(u.times.yieldAfter)
		case <-u.ctx.Done():
			return u.ctx.Err()
		case <-s.done:
			return s.err
		case <-s.probeWanted:
			err = u.probe(s, &answers)
		case <-health.C:
			err = u.probe(s, &answers)
		case <-s.changed:
			if u.settle(s, s.changed) {
				u.refresh(s)
			}
		case <-s.contentChanged:
			if u.settle(s, s.contentChanged) {
				u.refreshContent(s)
				u.registration.NotifyContentChanged()
			}
		case <-s.contentSeen:
			if u.settle(s, s.contentSeen) {
				u.refreshContent(s)
			}
		case <-u.pinsChanged:
			u.applyApproval()
		case <-u.signedIn:
			err = u.checkSignIn()
		case <-list.C:
			if !s.notifiesChanges || !s.listening.Load() || u.pinsStale {
				u.refresh(s)
			}
		}
		if err != nil {
			return err
		}
	}
}

// probe checks whether the server is alive. A server that never answered a ping may not support
// it, so its silence proves nothing. A busy server is not probed if the wire detects a dead peer
// itself: many servers process one message at a time.
func (u *upstream) probe(s *session, answers *bool) error {
	err := s.ping(u.ctx, u.times.healthTimeout)
	switch {
	case err == nil:
		*answers = true
		return nil
	case u.ctx.Err() != nil:
		return u.ctx.Err()
	case s.isDone():
		return s.err
	case errors.Is(err, context.DeadlineExceeded) && (!*answers || s.hasHeartbeat && len(u.slots) > 0):
		return nil
	}
	return err
}

// refresh reads the tool list again. If that fails, the old list stays.
func (u *upstream) refresh(s *session) {
	ctx, cancel := context.WithTimeout(u.ctx, u.times.listTimeout)
	defer cancel()
	c, err := s.list(ctx, &u.spec.Settings)
	if err != nil {
		if u.ctx.Err() == nil {
			u.log.Info("upstream: the list of tools could not be read again", "error", u.redact(err.Error()))
			s.requestProbe()
		}
		return
	}
	u.checkPins(ctx, s, c)
	u.markDangerous(ctx, c)
	u.publishCatalog(c)
}
