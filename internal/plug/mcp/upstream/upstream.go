package upstream

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/tool"
)

// timings are the times that tests shorten.
type timings struct {
	// connect bounds connecting to a server and agreeing with it; start is the
	// same for a command, since npx and its like fetch the program first.
	connect, start time.Duration
	// list bounds reading the whole list of tools.
	list time.Duration
	// grace is how long the tools of an upstream stay offered while it is away, so
	// that its restart does not change the lists of all clients twice.
	grace time.Duration
	// patience is how long a call waits for an upstream that is away.
	patience time.Duration
	// firstPause is the pause before the second try; it doubles with each, up to
	// longestPause, or to longestAuthPause if a token is wrong: servers count
	// such tries.
	firstPause, longestPause, longestAuthPause time.Duration
	// healthEvery is how often a server is asked for a sign of life, and health
	// how long that may take.
	healthEvery, health time.Duration
	// coalesce is how long after word of a change the list is looked at: several
	// words of the same change come together.
	coalesce time.Duration
	// listEvery is how often the list is looked at if the server cannot say that
	// it has changed.
	listEvery time.Duration
}

var usual = timings{
	connect: 15 * time.Second, start: time.Minute, list: time.Minute,
	grace: 2 * time.Minute, patience: 10 * time.Second,
	firstPause: time.Second, longestPause: time.Minute, longestAuthPause: 10 * time.Minute,
	healthEvery: 30 * time.Second, health: 10 * time.Second,
	coalesce: 100 * time.Millisecond, listEvery: 5 * time.Minute,
}

// upstream is one server and the life with it. It is the tool.Provider that is
// plugged in.
type upstream struct {
	m      *Manager
	spec   Spec
	log    *slog.Logger
	redact func(string) string
	times  timings

	ctx  context.Context
	stop context.CancelCauseFunc
	done chan struct{} // closed when run is over
	door door          // of a server that connects to us

	turns    chan struct{} // holds who calls
	waiting  atomic.Int32
	timeouts atomic.Int32
	wanted   chan struct{} // a call waits for a connection; holds 1

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when session changes
	session *session      // nil while there is none that is ready
	catalog *catalog      // the newest; never nil
	status  Status

	// Of the goroutine of run alone:
	socket  Socket // null while a server that connects to us is not plugged in
	offered []tool.Tool
	// dangerous are the tools that the server has ever called destructive, and recalled
	// says that those of earlier lives are among them.
	dangerous []string
	recalled  bool
	knack     knack
	news      string // of what is wrong, that was logged last
	// farewell is the end of the session before; also of the goroutine that
	// connects, while run waits for that.
	farewell sync.WaitGroup
}

// knack is how the server was reached the last time, which is tried first.
type knack struct {
	transport string
	modern    bool
}

func newUpstream(m *Manager, spec Spec) *upstream {
	u := &upstream{
		m:       m,
		spec:    spec,
		log:     m.opt.Logger.With("upstream", spec.ID, "slug", spec.Slug),
		redact:  spec.Settings.redactor().Replace,
		times:   m.opt.timings(),
		done:    make(chan struct{}),
		turns:   make(chan struct{}, spec.Settings.concurrent()),
		wanted:  make(chan struct{}, 1),
		changed: make(chan struct{}),
		catalog: &catalog{},
		status:  Status{State: Connecting, Since: time.Now()},
	}
	u.ctx, u.stop = context.WithCancelCause(context.Background())
	if spec.DialsIn {
		u.door = newDoor()
		u.knack.transport = WebSocket
		u.status.State, u.status.Err = Waiting, about(sayNotYet, "")
	}
	return u
}

// tried is what came of trying to connect.
type tried struct {
	session *session
	catalog *catalog
	err     error
}

// run plugs the upstream in and keeps a connection until it is stopped.
func (u *upstream) run() {
	defer close(u.done)
	defer u.shut()
	if u.ctx.Err() != nil {
		return
	}
	u.m.metrics.join(u.spec.Slug)
	defer u.m.metrics.leave(u.spec.Slug)
	if u.spec.DialsIn {
		u.host()
		return
	}
	u.socket = u.m.opt.Plug(u.spec, u)
	defer u.socket.Unplug()

	pause := newPause(u.times.firstPause, u.times.longestPause)
	var away <-chan time.Time // when the tools are taken back
	for try := 0; ; try++ {
		if try > 0 {
			u.m.metrics.reconnects.WithLabelValues(u.spec.Slug).Inc()
		}
		t, ok := u.try(&away, u.connect)
		if !ok {
			return
		}
		err := t.err
		if err == nil {
			began := time.Now()
			u.begin(t)
			err = u.serve(t.session)
			if u.ctx.Err() != nil {
				return
			}
			if away = time.After(u.times.grace); time.Since(began) > steady {
				pause.reset()
			}
		}
		trouble := explain(err, u.redact)
		if pause.most = u.times.longestPause; trouble.Auth {
			pause.most = u.times.longestAuthPause
		}
		if !u.rest(trouble, pause.next(), &away) {
			return
		}
	}
}

// try connects once. It reports false if the upstream was stopped meanwhile.
func (u *upstream) try(away *<-chan time.Time, connect func() tried) (tried, bool) {
	u.setState(Connecting, nil, time.Time{})
	result := make(chan tried, 1)
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

// connect makes a connection and reads the list of tools.
func (u *upstream) connect() tried {
	s, how, err := connect(u.ctx, &u.spec, &u.m.opt, u.knack, u.log, u.redact)
	if err != nil {
		if refused(err) {
			u.knack = knack{} // it has become another server
		}
		u.keepLines(s)
		return tried{err: err}
	}
	u.knack = how
	ctx, cancel := context.WithTimeout(u.ctx, u.times.list)
	defer cancel()
	c, err := s.list(ctx, &u.spec.Settings)
	if err != nil {
		s.close()
		u.keepLines(s)
		return tried{err: err}
	}
	return tried{session: s, catalog: c}
}

// rest waits for the next try. A call that waits for the connection ends the
// rest early, unless nothing but the owner can help. It reports false if the
// upstream was stopped.
func (u *upstream) rest(t *Trouble, d time.Duration, away *<-chan time.Time) bool {
	state := Waiting
	if t.Lasting {
		state = Failed
	}
	level := slog.LevelDebug
	if news := t.Error(); news != u.news {
		level, u.news = slog.LevelInfo, news
	}
	u.setState(state, t, time.Now().Add(d))
	u.log.Log(u.ctx, level, "upstream: not connected", "state", state, "again", d.Round(time.Millisecond), "error", t.Error())
	wanted := u.wanted
	if t.Lasting || d <= u.times.firstPause {
		wanted = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-wanted:
			wanted = nil
			timer.Reset(u.times.firstPause / 2)
		case <-*away:
			*away = nil
			u.withdraw()
		case <-u.ctx.Done():
			return false
		}
	}
}

// begin publishes a new connection: its tools, its catalog and its state become visible
// together.
func (u *upstream) begin(t tried) {
	s := t.session
	u.timeouts.Store(0)
	u.news = ""
	u.wary(u.ctx, t.catalog)
	u.publish(t.catalog, s)
	u.log.Info("upstream: connected", "protocol", s.version, "transport", u.knack.transport, "tools", len(t.catalog.tools),
		"hidden", t.catalog.hidden, "skipped", t.catalog.skipped, "cut", t.catalog.cut)
}

// serve keeps a connection that has begun until it ends, and says why it did.
func (u *upstream) serve(s *session) error {
	u.m.metrics.connected.WithLabelValues(u.spec.Slug).Inc()
	err := u.tend(s)
	u.m.metrics.connected.WithLabelValues(u.spec.Slug).Dec()
	u.mu.Lock()
	u.useSession(nil)
	u.mu.Unlock()
	u.part(s)
	u.keepLines(s)
	return err
}

// part ends a session. One of a server that connects to us is ended aside: the
// far side may be gone without a word, and its successor is here already.
func (u *upstream) part(s *session) {
	if !u.spec.DialsIn {
		s.close()
		return
	}
	u.farewell.Wait() // there is at most one at a time
	u.farewell.Go(s.close)
}

// tend looks after a connection.
func (u *upstream) tend(s *session) error {
	health := time.NewTicker(u.times.healthEvery)
	defer health.Stop()
	list := time.NewTicker(u.times.listEvery)
	defer list.Stop()
	answers := s.modern // it has answered a question for a sign of life
	for {
		var err error
		select {
		case <-u.ctx.Done():
			return u.ctx.Err()
		case <-s.dead:
			return s.why
		case <-s.doubt:
			err = u.probe(s, &answers)
		case <-health.C:
			err = u.probe(s, &answers)
		case <-s.changed:
			if sleep(u.ctx, s.dead, u.times.coalesce) {
				select {
				case <-s.changed: // of the same change
				default:
				}
				u.refresh(s)
			}
		case <-list.C:
			if !s.tells || !s.listening.Load() {
				u.refresh(s)
			}
		}
		if err != nil {
			return err
		}
	}
}

// probe finds out whether the server is still there. One that never answered
// such a question may not know it, and proves nothing by its silence. Neither
// does one that has work, if its connection is looked after otherwise: many do
// one thing at a time.
func (u *upstream) probe(s *session, answers *bool) error {
	err := s.alive(u.ctx, u.times.health)
	switch {
	case err == nil:
		*answers = true
		return nil
	case u.ctx.Err() != nil:
		return u.ctx.Err()
	case s.ended():
		return s.why
	case errors.Is(err, context.DeadlineExceeded) && (!*answers || s.beats && len(u.turns) > 0):
		return nil
	}
	return err
}

// refresh reads the list of tools again. If that fails, the old one stays.
func (u *upstream) refresh(s *session) {
	ctx, cancel := context.WithTimeout(u.ctx, u.times.list)
	defer cancel()
	c, err := s.list(ctx, &u.spec.Settings)
	if err != nil {
		if u.ctx.Err() == nil {
			u.log.Info("upstream: the list of tools could not be read again", "error", u.redact(err.Error()))
			s.suspect()
		}
		return
	}
	u.wary(ctx, c)
	u.offer(c)
}

// offer tells the board what there is, if that is something new.
func (u *upstream) offer(c *catalog) { u.publish(c, nil) }

// publish makes a catalog the one that counts, and with it a session, unless that is nil.
// The board gets the tools while mu is held: whoever sees new tools there sees the status
// that belongs to them, and the other way round.
func (u *upstream) publish(c *catalog, s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keep(c)
	if s != nil {
		u.useSession(s)
	}
	if len(c.tools) == len(u.offered) && (len(c.tools) == 0 || reflect.DeepEqual(c.tools, u.offered)) {
		return
	}
	u.offered = c.tools
	u.socket.Offer(append([]tool.Tool(nil), c.tools...))
}

// keep remembers a catalog. The caller holds u.mu.
func (u *upstream) keep(c *catalog) {
	u.catalog = c
	u.status.Tools, u.status.Hidden, u.status.Skipped, u.status.Cut = len(c.tools), c.hidden, c.skipped, c.cut
}

// withdraw takes the tools back.
func (u *upstream) withdraw() {
	if !u.spec.DialsIn {
		u.offer(&catalog{})
		return
	}
	// Not only the tools: what is plugged in here hides what another instance has.
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keep(&catalog{})
	if u.socket != nil {
		u.socket.Unplug()
		u.socket, u.offered = nil, nil
	}
}

func (u *upstream) setState(state State, t *Trouble, next time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.status.State != state {
		u.status.State, u.status.Since = state, time.Now()
	}
	if u.status.NextTry = next; t != nil {
		u.status.Err = t
	}
}

// useSession makes a session the one that calls go by, or none. The caller holds u.mu.
func (u *upstream) useSession(s *session) {
	u.session = s
	close(u.changed)
	u.changed = make(chan struct{})
	if s == nil {
		return
	}
	st := &u.status
	st.State, st.Since, st.Err, st.NextTry, st.Stderr = Ready, time.Now(), nil, time.Time{}, nil
	st.Server, st.ServerVersion = u.redact(clip(s.server.Name, maxName)), u.redact(clip(s.server.Version, maxName))
	st.Protocol, st.Transport = s.version, u.knack.transport
}

// keepLines keeps what a command said at last.
func (u *upstream) keepLines(s *session) {
	if s == nil {
		return
	}
	if w, ok := s.wire.(*stdio); ok {
		u.mu.Lock()
		u.status.Stderr = w.lines()
		u.mu.Unlock()
	}
}

func (u *upstream) report() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	st := u.status
	if u.session != nil {
		if w, ok := u.session.wire.(*stdio); ok {
			st.Stderr = w.lines()
		}
	}
	return st
}
