// Package hub registers bots and tool providers and routes every turn and every
// call: it finds the bot, queues the turn, streams the answer, enforces the limits
// and records the outcome.
//
// Turns: a channel calls [Hub.Answer], which makes a run. The run's work goroutine
// asks the target, which is a slot of this instance (queue.go) or of another one
// (remote_turn.go). Each event passes through the run (run.go) to the askers that
// still listen. When the bot ends, one transaction commits the trace and the
// exchange, and only then is the asker told that the answer is complete. Others who
// open the conversation meanwhile can observe the turn and stop the bot, from any
// instance (active.go).
//
// Calls: a channel or a bot calls [Hub.Call] (call.go) with a name from its [View]
// (view.go) of the catalog (catalog.go). The hub checks the rules (rules.go), the
// rate and the arguments (schema.go), passes the call to its provider and writes the
// call record (audit.go) by way of a file (journal.go).
package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/bus"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tracing"
)

// Options configures a [Hub].
type Options struct {
	Store      *store.DB
	Registry   *Registry
	Bus        *bus.Bus
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// Folder holds call records until they are committed, so that calls need not wait
	// for the commit. Several servers can share one folder. If it is empty, calls of
	// tools that are not read-only wait.
	Folder string

	// Installation identifies the installation: all its instances have the same value,
	// and no other installation has it.
	Installation string

	FirstPieceTimeout time.Duration // maximum wait for the first piece of an answer; 0: 55 s
	IdleTimeout       time.Duration // maximum wait for each further piece; 0: 60 s
	LateTimeout       time.Duration // how long a bot may continue when nobody waits; 0: 10 min
	ReconnectGrace    time.Duration // how long to wait for a bot that just disconnected; 0: 45 s
	ReconnectNotice   time.Duration // how much of that passes before the person hears of it; 0: 5 s
	ReminderInterval  time.Duration // how often somebody who waits is told so; 0: 8 s, for no silence of 10 s
	MaxTurns          int           // concurrent turns on this instance; 0: 2,000
	HistoryLength     int           // earlier exchanges that a bot gets; 0: 20
	MediaTTL          time.Duration // how long a bot can fetch a picture; 0: 1 h
	MaxCalls          int           // concurrent tool calls on this instance; 0: 2,000
	CallRate          int           // calls per minute for keys without their own rate; 0: no limit
	ApprovalWait      time.Duration // how long a call waits for its approval; 0: 50 s
	// KeepContent keeps questions and answers in traces, unless the bot's
	// owner decided otherwise.
	KeepContent bool
	// KeepArgs keeps the arguments of all calls in their call records.
	KeepArgs bool
	// Tracer traces turns and calls; nil: nothing is traced.
	Tracer *tracing.Tracer
	// Now gives the arrival time of turns, to detect repeated requests; nil: time.Now.
	Now func() time.Time
}

// Hub registers bots and tool providers and routes every turn and every call.
// It is safe for concurrent use.
type Hub struct {
	Options
	presence     *presence
	epochs       *epochs
	catalog      *catalog
	catalogSync  *catalogSync
	audit        *audit
	turnJournal  *turnJournal
	runningTurns *runningTurns
	notices      *notices
	approvals    *approvals
	activeTurns  *activeTurns
	allRuns      runSet
	rates        *rates
	metrics      metrics
	restricted   atomic.Pointer[restricted]
	records      records

	ctx       context.Context // ends when the hub must stop at once
	cancel    context.CancelCauseFunc
	turnSlots chan struct{} // one element per running turn
	work      sync.WaitGroup
	callSlots chan struct{} // one element per running call
	callsLeft int           // calls that go on after they were given up; requires mu
	calling   sync.WaitGroup
	providers sync.WaitGroup // calls of providers that may go on after they were given up
	drained   chan struct{}  // closed when the hub begins to stop
	// refreshing counts the goroutines that poll for changed rules, and follow providers, until
	// Close.
	refreshing     sync.WaitGroup
	watches        *watches
	refreshMu      sync.Mutex // held while polling
	onToolsChanged func(context.Context) error
	closing        sync.Once

	mu            sync.Mutex
	draining      bool
	runs          map[runKey]*run // the newest run per key; a repeated request can join it
	built         map[int64]builtBot
	push          map[string]Push
	interceptions []interception
}

type builtBot struct {
	version int64
	slot    *slot
}

// ErrStopping is the cancellation cause of turns that still run when the process must stop.
var ErrStopping = errors.New("the server is stopping")

// joinWindow is how long after the end of a turn, or after its connection broke, the same
// request can join it.
const joinWindow = 2 * time.Second

// subscribeTimeout bounds the wait until the bus has the subscriptions of a new hub. A hub
// that New has returned gets everything published from then on.
const subscribeTimeout = 10 * time.Second

// New makes a hub and subscribes it to the bus. Close stops it.
func New(o Options) (*Hub, error) {
	o.FirstPieceTimeout = orDefault(o.FirstPieceTimeout, 55*time.Second)
	o.IdleTimeout = orDefault(o.IdleTimeout, 60*time.Second)
	o.LateTimeout = orDefault(o.LateTimeout, 10*time.Minute)
	o.ReconnectGrace = orDefault(o.ReconnectGrace, 45*time.Second)
	o.ReconnectNotice = orDefault(o.ReconnectNotice, 5*time.Second)
	o.ReminderInterval = orDefault(o.ReminderInterval, 8*time.Second)
	o.ApprovalWait = orDefault(o.ApprovalWait, approvalWait)
	o.MediaTTL = orDefault(o.MediaTTL, time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxTurns == 0 {
		o.MaxTurns = 2000
	}
	if o.HistoryLength == 0 {
		o.HistoryLength = 20
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = 2000
	}
	places := make(chan struct{}, o.MaxTurns)
	h := &Hub{
		Options:   o,
		metrics:   newMetrics(o.Registerer, func() float64 { return float64(len(places)) }),
		turnSlots: places,
		callSlots: make(chan struct{}, o.MaxCalls),
		epochs:    new(epochs),
		rates:     &rates{perMinute: o.CallRate, buckets: map[rateKey]*bucket{}},
		runs:      map[runKey]*run{},
		built:     map[int64]builtBot{},
		push:      map[string]Push{},
		drained:   make(chan struct{}),
	}
	h.catalog = newCatalog(o.Logger, o.Installation, h.epochs)
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	var err error
	if h.presence, err = newPresence(h); err != nil {
		h.cancel(nil)
		return nil, err
	}
	if h.catalogSync, err = newCatalogSync(h); err != nil {
		h.cancel(nil)
		return nil, err
	}
	if h.notices, err = newNotices(h); err != nil {
		h.cancel(nil)
		return nil, err
	}
	if h.approvals, err = newApprovals(h); err != nil {
		h.cancel(nil)
		return nil, err
	}
	h.turnJournal = newTurnJournal(h.Store, o.Folder, o.Logger)
	h.runningTurns = openRunningTurns(o.Folder, o.Logger, h.turnJournal.saveCut) // others may ask for them
	if h.activeTurns, err = newActiveTurns(h); err != nil {
		h.cancel(nil)
		h.runningTurns.close()
		return nil, err
	}
	if err = h.Bus.FlushTimeout(subscribeTimeout); err != nil {
		h.cancel(nil)
		h.runningTurns.close()
		return nil, fmt.Errorf("tell the bus what is listened to: %w", err)
	}
	h.Bus.RequestAnnouncements()
	h.audit = newAudit(o.Folder, o.Logger, h.saveCalls)
	h.watches = newWatches(h)
	h.refreshing.Go(h.watches.run)
	return h, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Drain rejects new turns and waits for the running turns and calls until ctx ends.
// It then cancels those that still run and waits for them.
func (h *Hub) Drain(ctx context.Context) {
	h.mu.Lock()
	if !h.draining {
		h.draining = true
		close(h.drained)
	}
	h.mu.Unlock()
	h.catalogSync.draining.Store(true)
	done := make(chan struct{})
	h.presence.withdraw()
	go func() {
		h.work.Wait()
		h.calling.Wait()
		h.presence.jobs.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		h.cancel(ErrStopping)
		<-done
	}
}

// Close cancels all running turns and calls (after Drain none are left) and stops the hub.
// Closing again does nothing.
func (h *Hub) Close() {
	h.closing.Do(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		h.Drain(ended)
		h.cancel(ErrStopping)
		h.waitForProviders()
		h.refreshing.Wait()
		h.catalogSync.close()
		h.notices.close()
		h.approvals.close()
		h.activeTurns.close()
		h.audit.close()
		h.turnJournal.close()
		h.runningTurns.close()
		h.presence.close()
	})
}

// providersWait is how long Close waits for providers that do not end with their context.
const providersWait = 5 * time.Second

// waitForProviders waits for providers whose calls were given up, but not for ever: one that never
// ends must not keep the rest from being stored.
func (h *Hub) waitForProviders() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.providers.Wait()
	}()
	select {
	case <-done:
	case <-time.After(providersWait):
		h.Logger.Error("a provider does not end, and is left behind")
	}
}

// Push delivers a late answer to a person outside any turn. It returns an error
// if it could not.
type Push func(ctx context.Context, b store.Bot, l Late) error

// Late is an answer that arrived after its asker had disconnected.
type Late struct {
	Turn   *talk.Turn
	Answer string
}

// OnLate sets how late answers to turns of one channel are delivered. Answers that are
// not delivered are added to the person's next turn.
func (h *Hub) OnLate(channel string, p Push) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.push[channel] = p
}

// Interceptor returns what answers a turn in place of its bot, or nil if the bot answers.
// It is called once for each turn that starts, from several goroutines, and the asker
// waits for it. The context is the turn's own.
type Interceptor func(ctx context.Context, bot store.Bot, turn *talk.Turn) talk.Bot

// interception is an interceptor of a hub and the kind that its answers are traced under.
type interception struct {
	kind string
	find Interceptor
}

// Intercept adds an interceptor, which may answer in a bot's place; the first that answers does.
// All must be added before the first turn.
//
// An intercepted answer does not wait for the bot and works while the bot is offline. It
// is traced under the given kind and is not part of the bot's conversation: it is not
// saved as an exchange, not delivered later if the asker has disconnected, and does not
// carry late answers, which wait until the bot itself is asked again.
func (h *Hub) Intercept(kind string, look Interceptor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.interceptions = append(h.interceptions, interception{kind, look})
}

// findInterceptor returns what answers a turn in its bot's place, or nil.
func (h *Hub) findInterceptor(ctx context.Context, bot store.Bot, turn *talk.Turn) (kind string, who talk.Bot) {
	if turn.Spoken != nil { // what is said is not known yet
		return "", nil
	}
	h.mu.Lock()
	list := h.interceptions
	h.mu.Unlock()
	for _, i := range list {
		if who := i.find(ctx, bot, turn); who != nil {
			return i.kind, who
		}
	}
	return "", nil
}

// Answer sends a turn to its bot and passes the events of the answer to emit, one at a
// time. It does not call emit after it has returned. It fills in the History of the turn,
// and its ID if that is empty.
//
// It returns nil when the answer is complete, a *[talk.Failure] when it is not,
// and [talk.ErrDisconnected] when ctx ended or emit failed. The cause of ctx
// matters: see [talk.ErrStopped], which the error also wraps if [Hub.StopTurns] stopped the
// answer. In every case the outcome has been recorded before Answer returns.
//
// A request that the network delivers twice joins its turn and gets the same answer, unless
// another turn of the conversation came between; see [talk.Delivery.Repeats].
func (h *Hub) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	arrived := h.Now()
	if turn.ID == "" {
		turn.ID = uuid.Must(uuid.NewV7()).String()
	}
	d := talk.NewDelivery(turn, arrived)
	c, err := h.newTurnContext(ctx, turn)
	for err == nil {
		l := newListener(emit)
		var r *run
		var mine bool
		if r, mine, err = h.startOrJoin(ctx, turn, d, c, l); err != nil || !mine && !r.join(l) {
			continue
		}
		heard := r.listen(ctx, l)
		if mine {
			return heard
		}
		if !errors.Is(heard, errNotAsked) && !errors.Is(heard, talk.ErrRevised) {
			if heard == nil {
				r.markDelivered()
			}
			return heard
		}
	}
	if ctx.Err() != nil {
		return talk.ErrDisconnected
	}
	f := talk.AsFailure(err)
	h.metrics.refused.WithLabelValues(turn.Channel, string(f.Code)).Inc()
	h.Logger.WarnContext(ctx, "a turn was not begun", "channel", turn.Channel, "bot", turn.Bot, "cause", f.Error())
	return f
}

// turnContext is what the hub knows about a turn before it asks the bot.
type turnContext struct {
	bot    store.Bot
	common Common
	late   []store.Exchange // earlier answers to deliver with this one
}

// newTurnContext loads the bot, its settings and the late answers of a turn, and fills in
// the history of the turn.
func (h *Hub) newTurnContext(ctx context.Context, turn *talk.Turn) (c turnContext, err error) {
	if c.bot, err = h.Store.Bots.ByNumber(ctx, turn.Bot); err != nil {
		return c, talk.Fail(talk.Internal, "", err)
	}
	if err := h.Registry.Settings(c.bot, &c.common); err != nil {
		return c, talk.Fail(talk.Internal, "", err)
	}
	if f := h.admit(ctx, c.bot, turn); f != nil {
		return c, f
	}
	if turn.Person == "" {
		return c, nil
	}
	turn.History = nil
	limited, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	err = h.loadHistory(limited, turn, &c)
	switch {
	case err != nil && ctx.Err() == nil && store.IsAway(err):
		// The bot may manage without history: better than asking the person to retry later.
		h.Logger.WarnContext(ctx, "a question is asked without what was said before it", "bot", turn.Bot, "error", err)
		return c, nil
	case err != nil:
		return c, talk.Fail(talk.Internal, "", err)
	}
	return c, nil
}

// unasked stands for the question before what a bot said unasked.
const unasked = "…"

// historyTimeout bounds the time for loading the history of a conversation.
const historyTimeout = 2 * time.Second

// loadHistory loads the undelivered answers and the last exchanges of a conversation.
func (h *Hub) loadHistory(ctx context.Context, turn *talk.Turn, c *turnContext) error {
	late, err := h.Store.Conversations.Undelivered(ctx, turn.Bot, turn.Person)
	if err != nil {
		return err
	}
	before, err := h.Store.Conversations.Last(ctx, turn.Bot, turn.Person, turn.Conversation, h.HistoryLength)
	if err != nil {
		return err
	}
	c.late = late
	for _, e := range before {
		// Where the bot spoke unasked there is no question. A conversation that begins so has a
		// mark in its place, since models take no answer before a question.
		if e.Question == "" && len(turn.History) == 0 {
			e.Question = unasked
		}
		if e.Question != "" {
			turn.History = append(turn.History, talk.Message{Role: talk.RolePerson, Text: e.Question})
		}
		turn.History = append(turn.History, talk.Message{Role: talk.RoleBot, Text: e.Answer})
	}
	return nil
}

// target returns the slot of a bot on this instance or on another one. It waits for a bot
// that was connected a moment ago, and calls onWait once if that takes a while.
func (h *Hub) target(ctx context.Context, bot store.Bot, c Common, onWait func()) (target, error) {
	k, err := h.Registry.Kind(bot.Kind)
	if err != nil {
		return nil, talk.Fail(talk.Internal, "", err)
	}
	if k.Inbound {
		return h.presence.find(ctx, bot, onWait)
	}
	h.mu.Lock()
	have, ok := h.built[bot.Number]
	h.mu.Unlock()
	if ok && have.version == bot.Version {
		return have.slot, nil
	}
	made, err := h.Registry.build(bot, k)
	if err != nil {
		return nil, talk.Fail(talk.BotFailed, "", err)
	}
	s := h.newSlot(made, k.Limits, c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if have, ok := h.built[bot.Number]; ok && have.version == bot.Version {
		return have.slot, nil // another turn built it first; a bot has one queue
	}
	h.built[bot.Number] = builtBot{bot.Version, s}
	return s, nil
}

func (h *Hub) newSlot(bot talk.Bot, l Limits, c Common) *slot {
	if c.Concurrent > 0 {
		l.Concurrent = c.Concurrent
	}
	if c.Waiting > 0 {
		l.Waiting = c.Waiting
	}
	return &slot{bot: bot, tracer: h.Tracer, limits: l, stopOnDisconnect: c.OnDisconnect == "cancel",
		idleTimeout: orDefault(time.Duration(c.Idle), h.IdleTimeout)}
}
