package control

import (
	"cmp"
	"context"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

const (
	// settled is the time after a span when all its turns have ended and are stored. Its counts
	// are cached from then on.
	settled = 30 * time.Minute
	// daysMost limits the people whose counts are cached.
	daysMost = 500
	// sampleEvery is the interval at which connected devices are counted, and samplesMost the
	// number of counts that are kept: a day.
	sampleEvery = time.Minute
	samplesMost = 24 * 60
)

// Ranges of statistics.
const (
	RangeDay   = "day"   // 24 hours
	RangeWeek  = "week"  // 28 times six hours
	RangeMonth = "month" // 30 days
)

// statsSpan returns the number of spans in a range, and how long each is.
func statsSpan(of string) (n int, length time.Duration, err error) {
	switch of {
	case "", RangeDay:
		return 24, time.Hour, nil
	case RangeWeek:
		return 28, 6 * time.Hour, nil
	case RangeMonth:
		return 30, 24 * time.Hour, nil
	}
	return 0, 0, problem.New(problem.Invalid, msgStatsRange, of)
}

const msgStatsRange = i18n.Message("range is %s; choose day, week or month")

// Span has the counts of an hour, six hours or a day.
type Span struct {
	At           time.Time `json:"at"` // beginning
	Done         int64     `json:"done"`
	Failed       int64     `json:"failed"`
	Disconnected int64     `json:"disconnected"`
	// Pieces is the number of turns with a first piece. Half is the median of its delay, and Most
	// the 95th percentile.
	Pieces int64         `json:"with_pieces"`
	Half   time.Duration `json:"first_p50"`
	Most   time.Duration `json:"first_p95"`
	Calls  int64         `json:"calls_wrong"` // without a good result
}

// Turns returns the number of turns.
func (h *Span) Turns() int64 { return h.Done + h.Failed + h.Disconnected }

// Sample is the number of connected devices at a time.
type Sample struct {
	At        time.Time `json:"at"`
	Connected int       `json:"connected"`
}

// Stats has the counts of a range up to now.
type Stats struct {
	Range   string `json:"range"`
	Seconds int    `json:"span_seconds"` // length of a span
	Spans   []Span `json:"spans"`        // oldest first; the last one has not ended
	// Devices has a count per minute of the last day since this server started, oldest first.
	Devices []Sample `json:"devices"`
}

// StatsQuery selects counts.
type StatsQuery struct {
	User  string `query:"user"`  // a name; admins may name others
	Range string `query:"range"` // day, week or month; empty: day
}

// Stats counts turns of the caller's bots, their calls, and their devices, in days of UTC.
func (s *Service) Stats(ctx context.Context, c Caller, in StatsQuery) (Stats, error) {
	return s.StatsIn(ctx, c, in, time.UTC)
}

// StatsIn is [Service.Stats] in days of a time zone, as it is now.
func (s *Service) StatsIn(ctx context.Context, c Caller, in StatsQuery, zone *time.Location) (out Stats, err error) {
	n, length, err := statsSpan(in.Range)
	if err != nil {
		return out, err
	}
	owner, err := s.recordsOwner(ctx, c, in.User)
	if err != nil {
		return out, err
	}
	now := time.Now()
	_, offset := now.In(zone).Zone()
	ahead := time.Duration(offset) * time.Second
	first := now.UTC().Add(ahead).Truncate(length).Add(-ahead - time.Duration(n-1)*length)
	out = Stats{Range: cmp.Or(in.Range, RangeDay), Seconds: int(length / time.Second)}
	if out.Spans, err = s.spans(ctx, owner, first, n, length, now); err != nil {
		return Stats{}, err
	}
	out.Devices = s.samples.get(owner, now.UTC(), s.Hub.HeldCounts())
	return out, nil
}

// spans returns the counts of spans from a time on. Those that are settled are counted once.
func (s *Service) spans(ctx context.Context, owner string, first time.Time, n int, length time.Duration,
	now time.Time) ([]Span, error) {
	known := s.days.of(owner, length)
	spans := make([]Span, n)
	from := 0
	for i := range spans {
		spans[i].At = first.Add(time.Duration(i) * length)
		if h, ok := known[spans[i].At.Unix()]; ok && from == i {
			spans[i], from = h, i+1
		}
	}
	if err := s.count(ctx, owner, spans[from:], length); err != nil {
		return nil, err
	}
	keep := map[int64]Span{}
	for _, h := range spans {
		if now.Sub(h.At) > length+settled {
			keep[h.At.Unix()] = h
		}
	}
	s.days.keep(owner, length, keep)
	return spans, nil
}

// count counts spans.
func (s *Service) count(ctx context.Context, owner string, spans []Span, length time.Duration) error {
	if len(spans) == 0 {
		return nil
	}
	db, from, until := s.Hub.Store, spans[0].At, spans[len(spans)-1].At.Add(length)
	counts, err := db.Traces.Counts(ctx, owner, from, until, length)
	if err != nil {
		return err
	}
	for _, n := range counts {
		switch h := &spans[n.Span]; n.Outcome {
		case "done":
			h.Done += n.Turns
		case "failed":
			h.Failed += n.Turns
		default:
			h.Disconnected += n.Turns
		}
	}
	latencies, err := db.Traces.Latencies(ctx, owner, from, until, length)
	if err != nil {
		return err
	}
	for _, l := range latencies {
		h := &spans[l.Span]
		h.Pieces, h.Half, h.Most = l.Turns, l.Median, l.P95
	}
	wrongs, err := db.Calls.CountFailed(ctx, owner, from, until, length)
	for _, n := range wrongs {
		spans[n.Span].Calls = n.Count
	}
	return err
}

// days caches counted spans, by person and length.
type days struct {
	mu    sync.Mutex
	spans map[string]map[time.Duration]map[int64]Span // the innermost maps are not changed
}

func (d *days) of(owner string, length time.Duration) map[int64]Span {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spans[owner][length]
}

func (d *days) keep(owner string, length time.Duration, spans map[int64]Span) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.spans) >= daysMost || d.spans == nil {
		d.spans = map[string]map[time.Duration]map[int64]Span{}
	}
	if d.spans[owner] == nil {
		d.spans[owner] = map[time.Duration]map[int64]Span{}
	}
	d.spans[owner][length] = spans
}

// forget drops the cached counts of a person, and of everybody.
func (d *days) forget(owner string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.spans, owner)
	delete(d.spans, "")
}

// samples has the numbers of connected devices, by person, per minute.
type samples struct {
	mu   sync.Mutex
	at   []time.Time // oldest first
	each []map[string]int
}

func (a *samples) add(at time.Time, connected map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.at) >= samplesMost {
		n := copy(a.at, a.at[1:])
		copy(a.each, a.each[1:])
		a.at, a.each = a.at[:n], a.each[:n]
	}
	a.at, a.each = append(a.at, at), append(a.each, connected)
}

// get returns the samples of one person, and the current number; of everybody for an empty person.
func (a *samples) get(owner string, now time.Time, held map[string]int) []Sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Sample, len(a.at), len(a.at)+1)
	for i, connected := range a.each {
		out[i] = sampleOf(owner, a.at[i], connected)
	}
	return append(out, sampleOf(owner, now, held))
}

func sampleOf(owner string, at time.Time, connected map[string]int) Sample {
	if owner != "" {
		return Sample{At: at, Connected: connected[owner]}
	}
	x := Sample{At: at}
	for _, n := range connected {
		x.Connected += n
	}
	return x
}

// Count counts connected devices once a minute, until ctx ends.
func (s *Service) Count(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.samples.add(time.Now().UTC(), s.Hub.HeldCounts())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
