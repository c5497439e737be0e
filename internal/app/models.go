package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/plug/openai"
	"patchbay/internal/store"
	"patchbay/internal/toolbox"
)

const (
	// lookAfter is how long a result is considered current. Open pages refresh every two seconds,
	// and the second refresh shows what the first one started, so that an open page shows within
	// ten seconds that a model is down.
	lookAfter = 5 * time.Second
	// lookRarely is the longest interval between two probes of a failing model, so that a page that
	// was left open does not keep probing a server.
	lookRarely = time.Minute
	// lookLimit is the timeout of a probe.
	lookLimit = 5 * time.Second
	// lookers is the number of concurrent probes.
	lookers = 16
	// lookQueue bounds the queue of probes. When it is full, the next page refresh requests the
	// probe again.
	lookQueue = 256
	// noteLimit is how long an ended turn may wait for its result to be stored.
	noteLimit = 5 * time.Second
)

// models tracks the state of the models behind bots, by the results of turns, and by probes while
// somebody looks at it. It stores the state with the bots, so that all instances and restarts share
// it. Probes check the connection without asking the model anything.
type models struct {
	base              *Base
	log               *slog.Logger
	anywhere, guarded http.RoundTripper
	queue             chan store.Bot
	found             sync.Map // number → probeResult, for every bot seen
}

// probeResult is when this instance last learned a bot's state, and with which settings.
type probeResult struct {
	version int64
	at      time.Time
}

func newModels(b *Base, log *slog.Logger) *models {
	return &models{
		base: b, log: log, queue: make(chan store.Bot, lookQueue),
		anywhere: openai.NewClient().Transport, guarded: openai.NewGuardedClient(b.dialGuarded).Transport,
	}
}

// build creates a bot that a model answers. It may reach the addresses that its owner may reach.
func (m *models) build(b store.Bot, s openai.Settings, box toolbox.Tools) (*openai.Bot, error) {
	trusted := func(ctx context.Context) bool { return m.base.trusts(ctx, b.Owner) }
	return openai.New(s, openai.Options{
		Client:  &http.Client{Transport: ownersTransport{m.anywhere, m.guarded, trusted}},
		Trusted: trusted, Logger: m.log.With("bot", b.Number), Tracer: m.base.tracer, Toolbox: box,
		OnEnd: func(ctx context.Context, p openai.Problem) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
			defer cancel()
			m.record(ctx, b, func(was store.ModelState) store.ModelState { return probeAfterTurn(was, p) })
		},
	})
}

// health returns the known state of a bot. It requests a probe if the state is not recent.
func (m *models) health(b store.Bot) control.Health {
	m.scheduleProbe(b)
	switch state := current(b).State; state {
	case "":
		return control.Health{State: control.BotUnasked}
	case store.ModelReady:
		return control.Health{State: control.BotReady}
	default:
		return control.Health{State: control.BotFailing, Problem: openai.Problem(state).Text(),
			FailingSince: b.Model.Since}
	}
}

// current returns the state of a model with the current settings of its bot.
func current(b store.Bot) store.ModelState {
	if b.Model.Version == b.Version {
		return b.Model
	}
	return store.ModelState{Version: b.Version}
}

// scheduleProbe queues a probe of a bot, unless its state is recent.
func (m *models) scheduleProbe(b store.Bot) {
	now := time.Now()
	last, ok := m.found.Load(b.Number)
	if ok && last.(probeResult).version == b.Version && now.Sub(last.(probeResult).at) < pause(b, now) {
		return
	}
	select {
	case m.queue <- b:
		m.found.Store(b.Number, probeResult{b.Version, now})
	default:
	}
}

// pause returns how long a state is considered recent. For a failing model it grows with the
// duration of the failure.
func pause(b store.Bot, now time.Time) time.Duration {
	if s := current(b); s.State != "" && s.State != store.ModelReady {
		return min(max(now.Sub(s.Since)/2, lookAfter), lookRarely)
	}
	return lookAfter
}

// Run probes all models once, and then those that scheduleProbe queues, until ctx ends.
func (m *models) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for range lookers {
		all.Go(func() {
			for {
				select {
				case b := <-m.queue:
					m.probe(ctx, b)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for last := int64(0); ; {
		list, err := m.base.Store.Bots.After(ctx, "", last, lookQueue)
		if err != nil || len(list) == 0 {
			if err != nil && ctx.Err() == nil { // opening a page queues them
				m.log.WarnContext(ctx, "which models there are could not be found out", "error", err)
			}
			return nil
		}
		last = list[len(list)-1].Number
		for _, b := range list {
			if b.Kind != modelKind {
				continue
			}
			select {
			case m.queue <- b:
				m.found.Store(b.Number, probeResult{b.Version, time.Now()})
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// probe checks the connection to a model.
func (m *models) probe(ctx context.Context, b store.Bot) {
	var s openai.Settings
	if err := m.base.Registry.Settings(b, &s); err != nil {
		return // a turn returns the error
	}
	bot, err := m.build(b, s, nil)
	if err != nil {
		return
	}
	defer bot.Close()
	limit, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	p, proven := bot.Probe(limit)
	if ctx.Err() == nil {
		m.record(ctx, b, func(was store.ModelState) store.ModelState { return probeAgain(was, p, proven) })
	}
}

// record stores the state of a bot, unless its settings have changed since it was built. The next
// state depends on the previous one, which is read again if another instance wrote in between.
func (m *models) record(ctx context.Context, b store.Bot, next func(was store.ModelState) store.ModelState) {
	m.found.Store(b.Number, probeResult{b.Version, time.Now()})
	const tries = 3 // after that another instance has newer results
	for range tries {
		row, err := m.base.Store.Bots.ByNumber(ctx, b.Number)
		if err == nil && row.Version == b.Version {
			was := current(row)
			now := next(was)
			if now == was {
				return
			}
			if now.State != was.State {
				now.Since = time.Now()
			}
			var done bool
			if done, err = m.base.Store.Bots.SetModel(ctx, row, now); err == nil && !done {
				continue
			}
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
			m.log.WarnContext(ctx, "how a model is could not be kept", "bot", b.Number, "error", err)
		}
		return
	}
}

// probeAfterTurn returns the state of a model after a turn.
func probeAfterTurn(was store.ModelState, p openai.Problem) store.ModelState {
	was.State, was.Asked = store.ModelReady, true
	if p != "" {
		was.State = string(p)
	}
	return was
}

// probeAgain returns the state of a model after a probe. A working connection clears connection
// errors and the results of earlier probes, but not the errors of turns, because an account without
// credit may still list models.
func probeAgain(was store.ModelState, p openai.Problem, proven bool) store.ModelState {
	trouble := was.State != "" && was.State != store.ModelReady
	switch {
	case trouble && was.Asked && !openai.Problem(was.State).IsConnectivity():
	case p != "":
		was.State, was.Asked = string(p), was.Asked && was.State == string(p)
	case proven && was.State != store.ModelReady:
		was.State, was.Asked = store.ModelReady, false
	case trouble:
		was.State, was.Asked = "", false
	}
	return was
}
