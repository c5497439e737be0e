package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
)

// speechFresh is how often an instance looks for speech engines that were changed on another one.
const speechFresh = time.Second

// speech has the speech engines: those of the configuration, and then those of the database in
// their order. An engine stays the same value while its settings do, and so does what is known of
// its state. It is safe for concurrent use.
type speech struct {
	base    *Base
	log     *slog.Logger
	metrics speechMetrics
	usage   *speechUsage
	fixed   []*speechEngine // of the configuration, with addresses: they are tried first
	local   []*speechEngine // of the configuration, programs on this machine: tried last

	mu      sync.Mutex // held while engines are read
	version int64
	rows    []*speechEngine
	links   atomic.Pointer[[]engine.Link] // of the engines that are in use
}

// speechEngine is an engine with its state.
type speechEngine struct {
	row   store.SpeechEngine // its number is 0 if it is of the configuration
	where string
	link  engine.Link
	daily dailyLimits
	err   error // its settings cannot be read
	state speechState
}

// newSpeech opens the engines. Their addresses are those of administrators, so any is allowed.
func newSpeech(ctx context.Context, b *Base, log *slog.Logger, metrics speechMetrics) (*speech, error) {
	s := &speech{base: b, log: log, metrics: metrics, usage: newSpeechUsage(b, log, metrics), version: -1}
	links, err := configuredEngines(b.Config.Speech, s.options())
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		e := &speechEngine{row: store.SpeechEngine{Name: l.Name, Enabled: true}, link: l,
			where: whereOfAddress(addressOf(b.Config.Speech, l.Name))}
		s.watch(e)
		if isProgram(l.Name) {
			s.local = append(s.local, e)
		} else {
			s.fixed = append(s.fixed, e)
		}
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s, s.usage.flush(ctx) // which reads what was used today
}

func (s *speech) options() engine.Options { return engine.Options{Logger: s.log} }

// configuredEngines returns the engines of the configuration, named by their settings.
func configuredEngines(c config.Speech, o engine.Options) (links []engine.Link, err error) {
	add := func(name string, settings engines.Settings) {
		if settings.Address == "" || err != nil {
			return
		}
		settings.ListenModel, settings.SpeakModel, settings.Voice, settings.Format =
			c.ListenModel, c.SpeakModel, c.Voice, c.Format
		e, openErr := engines.Open(settings, o)
		if openErr != nil {
			err = fmt.Errorf("%s: %w", name, openErr)
			return
		}
		links = append(links, engine.Link{Name: name, Engine: e, Spell: spelling(e)})
	}
	add("speech.url", engines.Settings{Address: c.URL, Key: c.Key, NoSpeaking: c.SpeakURL != ""})
	add("speech.speak_url", engines.Settings{Address: c.SpeakURL, Key: c.SpeakKey, NoListening: true})
	if err != nil {
		return nil, err
	}
	local, err := programs(c, o)
	return append(links, local...), err
}

func addressOf(c config.Speech, name string) string {
	switch name {
	case "speech.url":
		return c.URL
	case "speech.speak_url":
		return c.SpeakURL
	case "speech.listen_command":
		return c.ListenCommand[0]
	}
	return c.SpeakCommand[0]
}

// watch has an engine report to its state, the metrics and the log.
func (s *speech) watch(e *speechEngine) {
	e.link.Circuit = new(engine.Circuit)
	if e.daily != (dailyLimits{}) {
		e.link.Spent = func(stage string) *engine.Error { return s.usage.spent(e, stage) }
		s.usage.limited.Store(true)
	}
	e.link.OnResult = func(stage string, took time.Duration) {
		e.state.succeeded(stage, took)
		s.metrics.seconds.WithLabelValues(e.link.Name, stage).Observe(took.Seconds())
	}
	e.link.OnFailure = func(stage string, err *engine.Error) {
		e.state.failed(err)
		s.metrics.failures.WithLabelValues(e.link.Name, stage, string(err.Class)).Inc()
		s.log.Warn("a speech engine failed", "engine", e.link.Name, "stage", stage, "error", err,
			"retry_after", err.RetryAfter.Round(time.Second))
	}
}

// Run takes up changes of other instances and of the command line, and writes what was used, until
// ctx ends. It then closes the connections that wait for their next use.
func (s *speech) Run(ctx context.Context) error {
	defer s.close()
	tick := time.NewTicker(speechFresh)
	defer tick.Stop()
	for {
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("whether speech engines have changed could not be found out", "error", err)
		}
		if err := s.usage.flush(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("what was used of speech engines could not be written yet", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// close closes the connections of all engines that wait for their next use.
func (s *speech) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Concat(s.fixed, s.rows, s.local) {
		e.link.Close()
	}
}

// refresh reads the engines of the database if they have changed.
func (s *speech) refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, err := s.base.Store.SpeechVersion(ctx)
	if err != nil || version == s.version {
		return err
	}
	list, err := s.base.Store.SpeechEngines.All(ctx)
	if err != nil {
		return err
	}
	rows := make([]*speechEngine, len(list))
	for i, row := range list {
		at := slices.IndexFunc(s.rows, func(e *speechEngine) bool {
			return e.row.Number == row.Number && e.row.Version == row.Version
		})
		if at >= 0 {
			rows[i] = s.rows[at]
			continue
		}
		rows[i] = s.open(row)
		if err := rows[i].err; err != nil { // one invalid engine must not affect the others
			s.log.Error("the settings of a speech engine cannot be read", "engine", row.Name, "error", err)
		}
	}
	before := s.rows
	s.version, s.rows = version, rows
	var links []engine.Link
	for _, e := range slices.Concat(s.fixed, rows, s.local) {
		if e.row.Enabled && e.err == nil {
			links = append(links, e.link)
		}
	}
	s.links.Store(&links)
	for _, e := range before {
		if !slices.Contains(rows, e) {
			e.link.Close() // boards that use it yet open connections of their own
		}
	}
	return nil
}

// open opens an engine of the database.
func (s *speech) open(row store.SpeechEngine) *speechEngine {
	e := &speechEngine{row: row, link: engine.Link{Name: row.Name,
		Version: fmt.Sprintf("%d.%d", row.Number, row.Version)}}
	values, err := s.unseal(row)
	if err == nil {
		e.where = values.where()
		e.link.Engine, e.err = values.open(row.Use, s.options())
		e.link.Slots, e.link.Spell = values.slots(), values.spell(e.link.Engine)
		c := values.common()
		e.link.Price = c.Price
		e.daily = dailyLimits{int64(c.DailyMinutes) * int64(time.Minute), int64(c.DailyCharacters)}
	} else {
		e.err = err
	}
	s.watch(e)
	return e
}

// chain returns the engines for a question of a board.
func (s *speech) chain(d store.Device) *engine.Chain {
	return &engine.Chain{Links: *s.links.Load(), Account: boardAccount{s.usage, d.Owner, d.Number}}
}

// find returns an engine by its number, or a configured one by its name.
func (s *speech) find(row store.SpeechEngine) *speechEngine {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Concat(s.fixed, s.rows, s.local) {
		if e.row.Number == row.Number && (row.Number != 0 || e.row.Name == row.Name) {
			return e
		}
	}
	return nil
}

// voice returns who answers people who talk to a board.
func (v *voiceBoards) voice(c *config.Config) xiaozhi.Voice {
	switch c.XiaoZhi.Voice {
	case "off":
		return nil
	case "repeat":
		return xiaozhi.EchoVoice{}
	}
	return xiaozhi.Duplex{Otherwise: answering{v.speech, xiaozhi.Dialogue{Engines: v.speech.chain}}}
}

// answering has the board's bot answer, or the board repeat what it hears while there are no speech
// engines.
type answering struct {
	speech *speech
	xiaozhi.Dialogue
}

// Converse implements [xiaozhi.Voice].
func (a answering) Converse(ctx context.Context, c *xiaozhi.Conversation) {
	if len(*a.speech.links.Load()) == 0 {
		xiaozhi.EchoVoice{Instead: true}.Converse(ctx, c)
		return
	}
	a.Dialogue.Converse(ctx, c)
}

// checkSpeech checks the speech engines.
func (e *examination) checkSpeech(ctx context.Context) {
	links, err := configuredEngines(e.settings.Speech, engine.Options{})
	if err != nil {
		e.Error(engines.CheckName.With("speech.url"), err, engines.AdviceAddress.With("speech.url"))
		return
	}
	for _, l := range links {
		advice := engines.AdviceAddress
		if isProgram(l.Name) {
			advice = engines.AdviceProgram
		}
		engines.Check(ctx, e.Report, l.Name, advice, l.Engine)
	}
}

// checkSpeechEngines checks the speech engines in the database that are in use.
func (e *examination) checkSpeechEngines(ctx context.Context) {
	s, err := newSpeech(ctx, e.base, e.log, newSpeechMetrics(nil))
	if err != nil {
		return // checkSpeech has told
	}
	defer s.close()
	for _, x := range s.rows {
		switch {
		case !x.row.Enabled:
		case x.err != nil:
			e.Error(engines.CheckName.With(x.row.Name), x.err, engines.AdviceEngine.With(x.row.Name))
		case x.spent() != "":
			e.Warn(engines.CheckName.With(x.row.Name), msgEngineSpent.With(x.spent()),
				engines.AdviceEngine.With(x.row.Name))
		default:
			engines.Check(ctx, e.Report, x.row.Name, engines.AdviceEngine, x.link.Engine)
		}
	}
	e.checkTalk(ctx, s)
}

// speechActions are the operations on speech engines for people.
func (s *speech) actions() control.VoiceActions {
	return control.VoiceActions{Kinds: s.kinds, All: s.all, Draft: s.draft, Shown: s.shown,
		Texts: s.texts, Health: s.health, Where: s.where, Check: s.check, Say: s.say, Hear: s.hear,
		Wyoming: s.wyoming, Usage: s.usage.last, Mute: s.mute, Refresh: s.refresh}
}
