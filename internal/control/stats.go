package control

import (
	"context"
	"sync"
	"time"
)

const (
	// hoursShown is the number of hours in charts.
	hoursShown = 24
	// settled is the time after an hour when all its turns have ended and are stored. Its counts
	// are cached from then on.
	settled = 30 * time.Minute
	// daysMost limits the people whose counts are cached.
	daysMost = 500
	// sampleEvery is the interval at which connected devices are counted, and samplesMost the
	// number of counts that are kept: a day.
	sampleEvery = time.Minute
	samplesMost = 24 * 60
)

// Hour has the counts of one hour.
type Hour struct {
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
func (h *Hour) Turns() int64 { return h.Done + h.Failed + h.Disconnected }

// Sample is the number of connected devices at a time.
type Sample struct {
	At        time.Time `json:"at"`
	Connected int       `json:"connected"`
}

// Stats has the counts of the last day.
type Stats struct {
	Hours []Hour `json:"hours"` // oldest first; the last one has not ended
	// Devices has a count per minute since this server started, oldest first.
	Devices []Sample `json:"devices"`
}

// StatsQuery selects counts.
type StatsQuery struct {
	User string `query:"user"` // a name; admins may name others
}

// Stats counts the last day: turns of the caller's bots, their calls, and their devices.
func (s *Service) Stats(ctx context.Context, c Caller, in StatsQuery) (Stats, error) {
	owner, err := s.recordsOwner(ctx, c, in.User)
	if err != nil {
		return Stats{}, err
	}
	now := time.Now()
	hours, err := s.hours(ctx, owner, now)
	if err != nil {
		return Stats{}, err
	}
	return Stats{hours, s.samples.get(owner, time.Now().UTC(), s.Hub.HeldCounts())}, nil
}

// hours returns the last day. Hours that are settled are counted once.
func (s *Service) hours(ctx context.Context, owner string, now time.Time) ([]Hour, error) {
	first := now.UTC().Truncate(time.Hour).Add(-(hoursShown - 1) * time.Hour)
	known := s.days.of(owner)
	hours := make([]Hour, hoursShown)
	from := 0
	for i := range hours {
		hours[i].At = first.Add(time.Duration(i) * time.Hour)
		if h, ok := known[hours[i].At.Unix()]; ok && from == i {
			hours[i], from = h, i+1
		}
	}
	if err := s.count(ctx, owner, hours[from:]); err != nil {
		return nil, err
	}
	keep := map[int64]Hour{}
	for _, h := range hours {
		if now.Sub(h.At) > time.Hour+settled {
			keep[h.At.Unix()] = h
		}
	}
	s.days.keep(owner, keep)
	return hours, nil
}

// count counts hours.
func (s *Service) count(ctx context.Context, owner string, hours []Hour) error {
	if len(hours) == 0 {
		return nil
	}
	db, from, until := s.Hub.Store, hours[0].At, hours[len(hours)-1].At.Add(time.Hour)
	counts, err := db.Traces.Counts(ctx, owner, from, until, time.Hour)
	if err != nil {
		return err
	}
	for _, n := range counts {
		switch h := &hours[n.Span]; n.Outcome {
		case "done":
			h.Done += n.Turns
		case "failed":
			h.Failed += n.Turns
		default:
			h.Disconnected += n.Turns
		}
	}
	latencies, err := db.Traces.Latencies(ctx, owner, from, until, time.Hour)
	if err != nil {
		return err
	}
	for _, l := range latencies {
		h := &hours[l.Span]
		h.Pieces, h.Half, h.Most = l.Turns, l.Median, l.P95
	}
	wrongs, err := db.Calls.CountFailed(ctx, owner, from, until, time.Hour)
	for _, n := range wrongs {
		hours[n.Span].Calls = n.Count
	}
	return err
}

// days caches counted hours, by person.
type days struct {
	mu    sync.Mutex
	hours map[string]map[int64]Hour // the inner maps are not changed
}

func (d *days) of(owner string) map[int64]Hour {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hours[owner]
}

func (d *days) keep(owner string, hours map[int64]Hour) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.hours) >= daysMost || d.hours == nil {
		d.hours = map[string]map[int64]Hour{}
	}
	d.hours[owner] = hours
}

// forget drops the cached counts of a person, and of everybody.
func (d *days) forget(owner string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hours, owner)
	delete(d.hours, "")
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
