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
)

const (
	// lookAfter is how long what was found of a model is believed. Open pages look every two
	// seconds, and at the second time see what the first has set going: whoever has one open
	// learns within ten seconds that a model has gone.
	lookAfter = 5 * time.Second
	// lookRarely is the longest pause between two looks at a model that stays in trouble,
	// so that nobody's server is knocked at for ever by a page that was left open.
	lookRarely = time.Minute
	// lookLimit bounds a look: a server that is silent for so long cannot be reached.
	lookLimit = 5 * time.Second
	// lookers is how many models are looked at, at a time.
	lookers = 16
	// lookQueue bounds how many wait for that. When it is full, the next who opens a page
	// asks again.
	lookQueue = 256
	// noteLimit bounds how long an answer may wait until it is noted that it has ended.
	noteLimit = 5 * time.Second
)

// models finds out how the models behind bots are, and keeps it with the bots, so that all
// instances know and a restart forgets nothing: by how questions end, and by looks at the
// connection while somebody wants to know. Looks ask no model anything.
type models struct {
	base              *Base
	log               *slog.Logger
	anywhere, guarded http.RoundTripper
	queue             chan store.Bot
	found             sync.Map // number → finding; one for each bot that there was
}

// finding is when something was last found out on this instance, with which settings.
type finding struct {
	version int64
	at      time.Time
}

func newModels(b *Base, log *slog.Logger) *models {
	return &models{
		base: b, log: log, queue: make(chan store.Bot, lookQueue),
		anywhere: openai.NewClient().Transport, guarded: openai.NewGuardedClient(b.dialGuarded).Transport,
	}
}

// build makes a bot that a model answers. It reaches what its owner may reach.
func (m *models) build(b store.Bot, s openai.Settings, box openai.Toolbox) (*openai.Bot, error) {
	trusted := func(ctx context.Context) bool { return m.base.trusts(ctx, b.Owner) }
	return openai.New(s, openai.Options{
		Client:  &http.Client{Transport: ownersTransport{m.anywhere, m.guarded, trusted}},
		Trusted: trusted, Logger: m.log.With("bot", b.Number), Toolbox: box,
		Ended: func(ctx context.Context, p openai.Problem) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
			defer cancel()
			m.note(ctx, b, func(was store.ModelState) store.ModelState { return afterQuestion(was, p) })
		},
	})
}

// health is how a bot is, as far as is known. Who wants to know has the bot looked at, if
// nothing was found out lately.
func (m *models) health(b store.Bot) control.Health {
	m.want(b)
	switch state := current(b).State; state {
	case "":
		return control.Health{State: control.BotUnasked}
	case store.ModelReady:
		return control.Health{State: control.BotReady}
	default:
		return control.Health{State: control.BotTrouble, Trouble: openai.Problem(state).Words(), TroubleSince: b.Model.Since}
	}
}

// current is what is known of a model with the settings that its bot has now.
func current(b store.Bot) store.ModelState {
	if b.Model.Version == b.Version {
		return b.Model
	}
	return store.ModelState{Version: b.Version}
}

// want has a bot looked at, unless something was found out lately.
func (m *models) want(b store.Bot) {
	now := time.Now()
	last, ok := m.found.Load(b.Number)
	if ok && last.(finding).version == b.Version && now.Sub(last.(finding).at) < pause(b, now) {
		return
	}
	select {
	case m.queue <- b:
		m.found.Store(b.Number, finding{b.Version, now})
	default:
	}
}

// pause is how long what was found is believed. It grows with how long a trouble lasts.
func pause(b store.Bot, now time.Time) time.Duration {
	if s := current(b); s.State != "" && s.State != store.ModelReady {
		return min(max(now.Sub(s.Since)/2, lookAfter), lookRarely)
	}
	return lookAfter
}

// Run looks at all models once, and then at those that somebody wants to know of, until
// ctx ends.
func (m *models) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for range lookers {
		all.Go(func() {
			for {
				select {
				case b := <-m.queue:
					m.look(ctx, b)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for last := int64(0); ; {
		list, err := m.base.Store.Bots.After(ctx, "", last, lookQueue)
		if err != nil || len(list) == 0 {
			if err != nil && ctx.Err() == nil { // whoever opens a page has them looked at
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
				m.found.Store(b.Number, finding{b.Version, time.Now()})
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// look looks at the connection to a model.
func (m *models) look(ctx context.Context, b store.Bot) {
	var s openai.Settings
	if err := m.base.Registry.Settings(b, &s); err != nil {
		return // who asks it is told
	}
	bot, err := m.build(b, s, nil)
	if err != nil {
		return
	}
	defer bot.Close()
	limit, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	p, proven := bot.Look(limit)
	if ctx.Err() == nil {
		m.note(ctx, b, func(was store.ModelState) store.ModelState { return afterLook(was, p, proven) })
	}
}

// note keeps what was found out about a bot with the settings that it was built with. How
// the bot was before decides what follows, so it is read, and read again if somebody else
// was faster.
func (m *models) note(ctx context.Context, b store.Bot, next func(was store.ModelState) store.ModelState) {
	m.found.Store(b.Number, finding{b.Version, time.Now()})
	const tries = 3 // then somebody else knows better
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

// afterQuestion is how a model is after a question.
func afterQuestion(was store.ModelState, p openai.Problem) store.ModelState {
	was.State, was.Asked = store.ModelReady, true
	if p != "" {
		was.State = string(p)
	}
	return was
}

// afterLook is how a model is after a look. That there is a connection ends a trouble of the
// connection and what an earlier look has found, and nothing that a question has found: an
// account without credit can well list models.
func afterLook(was store.ModelState, p openai.Problem, proven bool) store.ModelState {
	trouble := was.State != "" && was.State != store.ModelReady
	switch {
	case trouble && was.Asked && !openai.Problem(was.State).OfConnection():
	case p != "":
		was.State, was.Asked = string(p), was.Asked && was.State == string(p)
	case proven && was.State != store.ModelReady:
		was.State, was.Asked = store.ModelReady, false
	case trouble:
		was.State, was.Asked = "", false
	}
	return was
}
