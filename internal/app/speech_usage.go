package app

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/voice/engine"
)

const (
	// usageBatch is how many sums are written at once, and maxUsage how many wait at most while the
	// database fails. Beyond that, what boards use is not counted.
	usageBatch = 200
	maxUsage   = 100_000
	// usageWait limits how long a question waits for what was used before. Without an answer, no
	// limit holds: people come first.
	usageWait = 300 * time.Millisecond
)

// speechUsage sums up what boards use of speech engines, and knows the limits. It is safe for
// concurrent use.
type speechUsage struct {
	table   store.SpeechUsage
	limits  config.Speech
	zone    *time.Location
	now     func() time.Time
	log     *slog.Logger
	metrics speechMetrics

	writing sync.Mutex // held while sums are written
	mu      sync.Mutex
	// sums are not written yet, and written are being written.
	sums, written map[store.SpeechUseKey]store.SpeechUse

	// limited is set once an engine has a limit of its own. Engines is then what each has used on
	// engineDay, on all instances as far as they have written it, without sums and written.
	limited   atomic.Bool
	engines   map[string]store.SpeechUse
	engineDay string
}

// The settings of an engine that limit what it does in a day.
const dailyMinutes, dailyCharacters = "daily_minutes", "daily_characters"

// dailyLimits are those of an engine: of what it hears, in nanoseconds, and of characters that it
// speaks. 0: none.
type dailyLimits struct{ heard, characters int64 }

func newSpeechUsage(b *Base, log *slog.Logger, metrics speechMetrics) *speechUsage {
	return &speechUsage{table: b.Store.SpeechUsage, limits: b.Config.Speech, zone: boardZone(b), now: time.Now,
		log: log, metrics: metrics, sums: map[store.SpeechUseKey]store.SpeechUse{}}
}

// day returns the day of a number of days before today.
func (s *speechUsage) day(before int) string {
	return s.now().In(s.zone).AddDate(0, 0, -before).Format(store.DayFormat)
}

// boardAccount is the [engine.Account] of a board.
type boardAccount struct {
	usage  *speechUsage
	owner  string
	device int64
}

// Used implements [engine.Account].
func (a boardAccount) Used(u engine.Use) {
	s := a.usage
	s.metrics.heard.WithLabelValues(u.Engine).Add(u.Heard.Seconds())
	s.metrics.characters.WithLabelValues(u.Engine).Add(float64(u.Characters))
	s.add(store.SpeechUseKey{Day: s.day(0), Owner: a.owner, Device: a.device, Engine: u.Engine},
		store.SpeechUse{Uses: 1, Heard: u.Heard, Characters: int64(u.Characters), Cost: u.Cost})
}

func (s *speechUsage) add(k store.SpeechUseKey, u store.SpeechUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sum, ok := s.sums[k]; ok || len(s.sums) < maxUsage {
		s.sums[k] = sum.Plus(u)
	}
}

// Refusal implements [engine.Account].
func (a boardAccount) Refusal(ctx context.Context) *engine.Error {
	name := a.reached(ctx)
	if name == "" {
		return nil
	}
	a.usage.metrics.refusals.WithLabelValues(name).Inc()
	a.usage.log.InfoContext(ctx, "a board was refused, because a limit of the day is reached", "limit", name,
		"device", a.device, "owner", a.owner)
	return engine.Errorf(engine.Spent, "%s is reached", name)
}

// reached returns the name of a setting whose limit is reached, or "".
func (a boardAccount) reached(ctx context.Context) string {
	l := &a.usage.limits
	if l.PersonMinutes+l.PersonCharacters+l.DeviceMinutes+l.DeviceCharacters == 0 {
		return ""
	}
	devices, err := a.usage.today(ctx, a.owner)
	if err != nil {
		a.usage.log.WarnContext(ctx, "whether a limit of speech is reached could not be found out", "error", err)
		return ""
	}
	var person store.SpeechUse
	for _, u := range devices {
		person = person.Plus(u)
	}
	device := devices[a.device]
	for _, limit := range []struct {
		name       string
		used, most int64
	}{
		{"speech.person_minutes", int64(person.Heard), int64(l.PersonMinutes) * int64(time.Minute)},
		{"speech.person_characters", person.Characters, int64(l.PersonCharacters)},
		{"speech.device_minutes", int64(device.Heard), int64(l.DeviceMinutes) * int64(time.Minute)},
		{"speech.device_characters", device.Characters, int64(l.DeviceCharacters)},
	} {
		if limit.most > 0 && limit.used >= limit.most {
			return limit.name
		}
	}
	return ""
}

// today returns what the devices of a person have used today, on all instances as far as they have
// written it.
func (s *speechUsage) today(ctx context.Context, owner string) (map[int64]store.SpeechUse, error) {
	ctx, cancel := context.WithTimeout(ctx, usageWait)
	defer cancel()
	day := s.day(0)
	// First what is not written: what is written meanwhile is rather counted twice than not at all.
	waiting := map[int64]store.SpeechUse{}
	s.mu.Lock()
	for _, sums := range []map[store.SpeechUseKey]store.SpeechUse{s.sums, s.written} {
		for k, u := range sums {
			if k.Day == day && k.Owner == owner {
				waiting[k.Device] = waiting[k.Device].Plus(u)
			}
		}
	}
	s.mu.Unlock()
	devices, err := s.table.OfDay(ctx, day, owner)
	for device, u := range waiting {
		devices[device] = devices[device].Plus(u)
	}
	return devices, err
}

// flush writes the sums. Those that cannot be written are tried again next time.
func (s *speechUsage) flush(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	s.written, s.sums = s.sums, map[store.SpeechUseKey]store.SpeechUse{}
	keys := slices.SortedFunc(maps.Keys(s.written), compareUse)
	s.mu.Unlock()
	var err error
	for batch := range slices.Chunk(keys, usageBatch) {
		uses := make([]store.SpeechUse, len(batch))
		for i, k := range batch {
			uses[i] = s.written[k]
		}
		if err == nil {
			err = s.table.Add(ctx, batch, uses)
		}
		if err != nil {
			for i, k := range batch {
				s.add(k, uses[i])
			}
		}
	}
	day := s.day(0)
	var engines map[string]store.SpeechUse
	if err == nil && s.limited.Load() {
		engines, err = s.table.EnginesOfDay(ctx, day)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if engines != nil {
		s.engines, s.engineDay = engines, day
	}
	s.written = nil
	return err
}

// spent returns an error of class [engine.Spent] if a limit of an engine is reached.
func (s *speechUsage) spent(e *speechEngine, stage string) *engine.Error {
	day := s.day(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	var used store.SpeechUse
	if s.engineDay == day {
		used = s.engines[e.row.Name]
	}
	for _, sums := range []map[store.SpeechUseKey]store.SpeechUse{s.sums, s.written} {
		for k, u := range sums {
			if k.Day == day && k.Engine == e.row.Name {
				used = used.Plus(u)
			}
		}
	}
	switch l := e.daily; {
	case stage == engine.StageListen && l.heard > 0 && int64(used.Heard) >= l.heard:
		return engine.Errorf(engine.Spent, "%s is reached", dailyMinutes)
	case stage == engine.StageSpeak && l.characters > 0 && used.Characters >= l.characters:
		return engine.Errorf(engine.Spent, "%s is reached", dailyCharacters)
	}
	return nil
}

func compareUse(a, b store.SpeechUseKey) int {
	return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Engine, b.Engine))
}

// finish writes the last sums, when boards have stopped.
func (s *speechUsage) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if err := s.flush(ctx); err != nil {
		s.log.Error("what was used of speech engines last was not written", "error", err)
	}
}

// last returns the sums of a number of days up to today.
func (s *speechUsage) last(ctx context.Context, days int) (u control.SpeechUsage, err error) {
	if err := s.flush(ctx); err != nil {
		return u, err
	}
	u.Since, u.Currency = s.day(days-1), s.limits.Currency
	u.SpeechSums, err = s.table.Since(ctx, u.Since)
	return u, err
}
