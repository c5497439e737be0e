// Package board is where bots and providers of tools are plugged in, and through
// which every turn and every call goes: it finds the bot, queues for it, streams
// the answer, minds the limits, and writes down what happened.
//
// A turn's way: a door calls [Board.Answer], which makes a run. The run's work
// goroutine asks the target, a seat of this instance (queue.go) or one of
// another (remote.go). Each event passes through the run (run.go) to the askers
// that still listen. When the bot ends, the trace and the exchange are committed
// in one piece, and only then is the asker told that the answer is complete.
// Whoever opens the conversation meanwhile looks on, and can stop the bot, at any
// instance (ongoing.go).
//
// A call's way: a door, or a bot, calls [Board.Call] (call.go) with a name from
// its [View] (view.go) of the catalog (catalog.go). The board checks the rules (rules.go),
// the rate and the arguments (schema.go), hands the call to its provider, and
// writes the audit row (audit.go), by way of a file (journal.go).
package board

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/bus"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Options make a board.
type Options struct {
	Store      *store.DB
	Registry   *Registry
	Bus        *bus.Bus
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// Folder is where rows of the audit trail are kept until they are committed, so
	// that calls need not wait for that. Servers can share one. Empty: calls of tools
	// that do something wait.
	Folder string

	// Installation is the same for all instances of an installation, and of no
	// other.
	Installation string

	FirstPiece time.Duration // how long an asker waits for the first piece; 0: 55 s
	Idle       time.Duration // … and for each next one; 0: 60 s
	Late       time.Duration // how long a bot may go on when nobody waits; 0: 10 min
	Grace      time.Duration // how long a bot that was just connected is waited for; 0: 45 s
	Quiet      time.Duration // after how much of that the person is told; 0: 5 s
	Turns      int           // turns at a time, on this instance; 0: 2,000
	History    int           // how many earlier exchanges a bot is told; 0: 20
	MediaLife  time.Duration // how long a picture can be fetched by a bot; 0: 1 h
	Calls      int           // calls of tools at a time, on this instance; 0: 2,000
	CallRate   int           // calls a minute of a key that has no rate of its own; 0: any number
	// KeepContent keeps questions and answers in traces, unless a bot's owner
	// decided otherwise.
	KeepContent bool
	// KeepArgs keeps the arguments of all calls in the audit trail.
	KeepArgs bool
	// Now tells when turns arrive, to recognise repeated requests; nil: the real clock.
	Now func() time.Time
}

// Board is the board. It is safe for concurrent use.
type Board struct {
	Options
	presence *presence
	epochs   *epochs
	catalog  *catalog
	far      *exchanger
	audit    *audit
	ends     *ends
	notices  *notices
	courses  *courses
	turns    turns
	rates    *rates
	metrics  metrics
	records  records

	ctx     context.Context // ends when the board must stop at once
	cancel  context.CancelCauseFunc
	places  chan struct{} // one per turn at a time
	work    sync.WaitGroup
	calls   chan struct{} // one per call at a time
	calling sync.WaitGroup
	// refreshing looks for changed rules until the board is closed.
	refreshing sync.WaitGroup
	freshness  sync.Mutex // held by who looks for them
	onTools    func(context.Context) error
	closing    sync.Once

	mu       sync.Mutex
	draining bool
	runs     map[conversationKey]*run // the newest of each, which the same request can join
	built    map[int64]built
	push     map[string]Push
	between  between
}

type built struct {
	version int64
	seat    *seat
}

// ErrStopping ends what still runs when the process must stop.
var ErrStopping = errors.New("the server is stopping")

// ErrStopped is the cause of the context of an asker who wants no more of the answer. The
// bot is stopped then, also if it is to finish when askers just leave, and what it has
// said is what it has said.
var ErrStopped = errors.New("the asker stopped the answer")

// joinWindow is how long after the end of a turn, or after its connection broke, the same
// request can join it.
const joinWindow = 2 * time.Second

// heardWait bounds the wait until the bus knows what a new board listens to: one that
// is made hears everything that is told from then on.
const heardWait = 10 * time.Second

// New makes a board. Close stops it.
func New(o Options) (*Board, error) {
	o.FirstPiece = orDefault(o.FirstPiece, 55*time.Second)
	o.Idle = orDefault(o.Idle, 60*time.Second)
	o.Late = orDefault(o.Late, 10*time.Minute)
	o.Grace = orDefault(o.Grace, 45*time.Second)
	o.Quiet = orDefault(o.Quiet, 5*time.Second)
	o.MediaLife = orDefault(o.MediaLife, time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Turns == 0 {
		o.Turns = 2000
	}
	if o.History == 0 {
		o.History = 20
	}
	if o.Calls == 0 {
		o.Calls = 2000
	}
	places := make(chan struct{}, o.Turns)
	b := &Board{
		Options: o,
		metrics: newMetrics(o.Registerer, func() float64 { return float64(len(places)) }),
		places:  places,
		calls:   make(chan struct{}, o.Calls),
		epochs:  new(epochs),
		rates:   &rates{perMinute: o.CallRate, each: map[payer]*bucket{}},
		runs:    map[conversationKey]*run{},
		built:   map[int64]built{},
		push:    map[string]Push{},
	}
	b.catalog = newCatalog(o.Logger, o.Installation, b.epochs)
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	var err error
	if b.presence, err = newPresence(b); err != nil {
		b.cancel(nil)
		return nil, err
	}
	if b.far, err = newExchanger(b); err != nil {
		b.cancel(nil)
		return nil, err
	}
	if b.notices, err = newNotices(b); err != nil {
		b.cancel(nil)
		return nil, err
	}
	if b.courses, err = newCourses(b); err != nil {
		b.cancel(nil)
		return nil, err
	}
	if err = b.Bus.FlushTimeout(heardWait); err != nil {
		b.cancel(nil)
		return nil, fmt.Errorf("tell the bus what is listened to: %w", err)
	}
	b.Bus.Hello()
	b.ends = newEnds(b.Store, o.Folder, o.Logger)
	b.audit = newAudit(o.Folder, o.Logger, b.keepCalls)
	return b, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Drain lets no new turn in and waits for the running ones, until ctx ends.
// Then those that still run are ended.
func (b *Board) Drain(ctx context.Context) {
	b.mu.Lock()
	b.draining = true
	b.mu.Unlock()
	b.far.leaving.Store(true)
	done := make(chan struct{})
	b.presence.withdraw()
	go func() {
		b.work.Wait()
		b.calling.Wait()
		b.presence.jobs.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		b.cancel(ErrStopping)
		<-done
	}
}

// Close ends everything at once; after Drain nothing is left to end. Closing
// again does nothing.
func (b *Board) Close() {
	b.closing.Do(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		b.Drain(ended)
		b.cancel(ErrStopping)
		b.refreshing.Wait()
		b.far.close()
		b.notices.close()
		b.courses.close()
		b.audit.close()
		b.ends.close()
		b.presence.close()
	})
}

// Push delivers a late answer to a person outside any turn. It returns an error
// if it could not.
type Push func(ctx context.Context, b store.Bot, l Late) error

// Late is an answer that came when its asker had gone.
type Late struct {
	Turn   *talk.Turn
	Answer string
}

// OnLate sets how late answers to turns of one door are delivered. What is not
// delivered is told at the person's next turn.
func (b *Board) OnLate(door string, p Push) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.push[door] = p
}

// Interposed looks whether somebody else than its bot answers a turn, and returns
// who; nil: the bot does. It is asked once for each turn that is begun, by many
// turns at a time, and keeps the asker waiting. The context is the turn's own.
type Interposed func(ctx context.Context, bot store.Bot, turn *talk.Turn) talk.Bot

// between is who may step between an asker and a bot.
type between struct {
	kind string
	look Interposed
}

// Interpose sets who may answer in a bot's place. It is called once, before the
// first turn.
//
// What they answer does not wait for the bot, and comes while it is offline. It is
// traced under the given kind, and is no part of the bot's conversation: it is not
// kept as an exchange, not told later if the asker has gone, and tells no late
// answers, which wait until the bot itself is asked again.
func (b *Board) Interpose(kind string, look Interposed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.between = between{kind, look}
}

// interposed finds who answers a turn in its bot's place, if anybody does.
func (b *Board) interposed(ctx context.Context, bot store.Bot, turn *talk.Turn) (kind string, who talk.Bot) {
	b.mu.Lock()
	between := b.between
	b.mu.Unlock()
	if between.look == nil {
		return "", nil
	}
	return between.kind, between.look(ctx, bot, turn)
}

// Answer puts a turn to its bot and hands the pieces of the answer to emit, one
// at a time; after Answer has returned, emit is not called any more. A turn
// without an ID is given one, and its History is filled in.
//
// It returns nil when the answer is complete, a *[talk.Failure] when it is not,
// and [talk.ErrHungUp] when ctx ended or emit failed. How ctx ended matters; see
// [ErrStopped], which the error has in it too if [Board.Stop] stopped the answer. Whatever
// it returns, what happened has been written down by then.
//
// A request that the network delivers again joins its turn and gets the same answer, unless
// another turn of the conversation came between; see [talk.Delivery.Repeats].
func (b *Board) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	arrived := b.Now()
	if turn.ID == "" {
		turn.ID = uuid.Must(uuid.NewV7()).String()
	}
	d := talk.Delivered(turn, arrived)
	c, err := b.look(ctx, turn)
	for err == nil {
		l := newListener(emit)
		var r *run
		var mine bool
		if r, mine, err = b.enter(turn, d, c, l); err != nil || !mine && !r.join(l) {
			continue
		}
		heard := r.listen(ctx, l)
		if mine {
			return heard
		}
		if !errors.Is(heard, errNotAsked) {
			if heard == nil {
				r.heardAfterAll()
			}
			return heard
		}
	}
	if ctx.Err() != nil {
		return talk.ErrHungUp
	}
	f := talk.AsFailure(err)
	b.metrics.refused.WithLabelValues(turn.Door, string(f.Code)).Inc()
	b.Logger.WarnContext(ctx, "a turn was not begun", "door", turn.Door, "bot", turn.Bot, "cause", f.Error())
	return f
}

// circumstances are what the board knows about a turn before the bot is asked.
type circumstances struct {
	bot    store.Bot
	common Common
	late   []store.Exchange // earlier answers to be told with this one
}

// look finds the circumstances of a turn, and fills in its history.
func (b *Board) look(ctx context.Context, turn *talk.Turn) (c circumstances, err error) {
	if c.bot, err = b.Store.Bots.ByNumber(ctx, turn.Bot); err != nil {
		return c, talk.Fail(talk.Internal, "", err)
	}
	if err := b.Registry.Settings(c.bot, &c.common); err != nil {
		return c, talk.Fail(talk.Internal, "", err)
	}
	if turn.Person == "" {
		return c, nil
	}
	turn.History = nil
	limited, cancel := context.WithTimeout(ctx, historyLimit)
	defer cancel()
	err = b.recollect(limited, turn, &c)
	switch {
	case err != nil && ctx.Err() == nil && store.IsAway(err):
		// The bot may do without, and the person is not told to come back later.
		b.Logger.WarnContext(ctx, "a question is asked without what was said before it", "bot", turn.Bot, "error", err)
		return c, nil
	case err != nil:
		return c, talk.Fail(talk.Internal, "", err)
	}
	return c, nil
}

// historyLimit bounds the wait for what was said before.
const historyLimit = 2 * time.Second

// recollect finds what was said before in the conversation of a turn.
func (b *Board) recollect(ctx context.Context, turn *talk.Turn, c *circumstances) error {
	late, err := b.Store.Conversations.Unheard(ctx, turn.Bot, turn.Person)
	if err != nil {
		return err
	}
	before, err := b.Store.Conversations.Last(ctx, turn.Bot, turn.Person, turn.Conversation, b.History)
	if err != nil {
		return err
	}
	c.late = late
	for _, e := range before {
		turn.History = append(turn.History, talk.Message{Role: talk.RolePerson, Text: e.Question}, talk.Message{Role: talk.RoleBot, Text: e.Answer})
	}
	return nil
}

// target finds where a bot is: here, or on another instance. A bot that was
// connected a moment ago is waited for; waits is called once if that takes a while.
func (b *Board) target(ctx context.Context, bot store.Bot, c Common, waits func()) (target, error) {
	k, err := b.Registry.kind(bot.Kind)
	if err != nil {
		return nil, talk.Fail(talk.Internal, "", err)
	}
	if k.Connects {
		return b.presence.find(ctx, bot, waits)
	}
	b.mu.Lock()
	have, ok := b.built[bot.Number]
	b.mu.Unlock()
	if ok && have.version == bot.Version {
		return have.seat, nil
	}
	made, err := b.Registry.build(bot, k)
	if err != nil {
		return nil, talk.Fail(talk.BotFailed, "", err)
	}
	s := b.newSeat(made, k.Limits, c)
	b.mu.Lock()
	defer b.mu.Unlock()
	if have, ok := b.built[bot.Number]; ok && have.version == bot.Version {
		return have.seat, nil // somebody else was faster; one queue is enough
	}
	b.built[bot.Number] = built{bot.Version, s}
	return s, nil
}

func (b *Board) newSeat(bot talk.Bot, l Limits, c Common) *seat {
	if c.Concurrent > 0 {
		l.Concurrent = c.Concurrent
	}
	if c.Waiting > 0 {
		l.Waiting = c.Waiting
	}
	return &seat{bot: bot, limits: l, stop: c.Hangup == "cancel", idle: orDefault(time.Duration(c.Idle), b.Idle)}
}

// keepPictures stores a turn's pictures for bots that cannot be handed the
// bytes: those on another instance, and those that fetch them by address.
func (b *Board) keepPictures(ctx context.Context, turn *talk.Turn) error {
	for _, im := range turn.Images() {
		if im.Media != "" || len(im.Data) == 0 {
			continue
		}
		token := seal.Token(16)
		now := time.Now()
		if err := b.Store.Media.Add(ctx, seal.Hash(token), store.Picture{MIME: im.MIME, Data: im.Data, Expires: now.Add(b.MediaLife)}, now); err != nil {
			return err
		}
		im.Media = token
	}
	return nil
}

// loadPictures gets the bytes of pictures that came from another instance.
func (b *Board) loadPictures(ctx context.Context, turn *talk.Turn) error {
	for _, im := range turn.Images() {
		if len(im.Data) > 0 || im.Media == "" {
			continue
		}
		p, err := b.Store.Media.Get(ctx, seal.Hash(im.Media), time.Now())
		if err != nil {
			return err
		}
		im.Data = p.Data
	}
	return nil
}
