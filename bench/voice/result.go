package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
)

// The stages of an answer. The server's own time is what is spent neither in the pause, nor in an
// engine, nor in the wait that boards need after tts/start.
const (
	stageCommit = "speech ends → question complete"
	stageStart  = "question complete → tts/start"
	stageText   = "question complete → transcript"
	stageToken  = "question complete → first token"
	stageClause = "first clause → speaker has it"
	stageSound  = "speaker's first sound → board has it"
	stageAll    = "speech ends → first sound"
	stageOwn    = "of that, the server's own"
)

var stages = []string{stageCommit, stageStart, stageText, stageToken, stageClause, stageSound, stageAll, stageOwn}

// sample adds the stages of an answer.
func (b *bench) sample(a sim.Answer) {
	t := b.engines.turn(numberIn(a.Transcript))
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.counts {
		return
	}
	first := a.SpokenAt.Add(a.FirstAudio)
	if slices.ContainsFunc([]time.Time{a.SpokenAt, a.StartedAt, t.ended, t.heard, t.token, t.clause, t.written,
		t.sound}, time.Time.IsZero) {
		b.odd++
		return
	}
	b.answers++
	for stage, took := range map[string]time.Duration{
		stageCommit: t.ended.Sub(a.SpokenAt), stageStart: a.StartedAt.Sub(t.ended), stageText: t.heard.Sub(t.ended),
		stageToken: t.token.Sub(t.ended), stageClause: t.written.Sub(later(t.clause, t.heard)),
		stageSound: first.Sub(t.sound), stageAll: a.FirstAudio,
		stageOwn: a.FirstAudio - pause - t.others(a.StartedAt, b.lead),
	} {
		b.samples[stage] = append(b.samples[stage], took)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// others returns how long the answer waited for the engines, and for the board, which was started
// and needs a lead after that.
func (t *turn) others(started time.Time, lead time.Duration) (sum time.Duration) {
	done := t.ended
	for _, work := range [][2]time.Time{{t.ended, t.heard}, {t.asked, t.clause}, {t.written, t.sound},
		{started, started.Add(lead)}} {
		if begun := later(work[0], done); work[1].After(begun) {
			sum += work[1].Sub(begun)
			done = work[1]
		}
	}
	return sum
}

// result is what was measured in a scene.
type result struct {
	Scene    string            `json:"scene"`
	Boards   int               `json:"boards"`
	Seconds  float64           `json:"seconds"`
	Answers  int               `json:"answers,omitempty"`
	Odd      int               `json:"odd,omitempty"` // answers whose stages are not known
	Stages   map[string]stage  `json:"stages,omitempty"`
	Missed   []string          `json:"missed,omitempty"` // budgets
	Server   float64           `json:"server_cores"`
	Rest     float64           `json:"rest_cores"` // of the boards and the engines
	Memory   float64           `json:"memory_mib"` // most
	Up       int               `json:"packets_up"`
	Down     int               `json:"packets_down"`
	Late     int               `json:"packets_late"` // by 20 ms or more, at the server
	Gaps     int               `json:"gaps"`         // at the server
	Underrun int               `json:"underruns"`    // at the boards
	Dropped  int               `json:"dropped"`      // by the boards
	Jitter   map[string]millis `json:"jitter_ms,omitempty"`
	Against  []string          `json:"against_the_protocol,omitempty"`
}

// stage are the quantiles of a stage.
type stage struct {
	P50 millis `json:"p50_ms"`
	P95 millis `json:"p95_ms"`
	P99 millis `json:"p99_ms"`
}

// millis is a duration in milliseconds.
type millis float64

func inMillis(d time.Duration) millis { return millis(d.Round(100*time.Microsecond)) / 1e6 }

// read takes over the counters of the server and of the boards.
func (r *result) read(before, after map[string]float64, was, now *sim.Total) {
	r.Late = int(after["patchbay_xiaozhi_late_packets_total"] - before["patchbay_xiaozhi_late_packets_total"])
	r.Gaps = int(after["patchbay_xiaozhi_gaps_total"] - before["patchbay_xiaozhi_gaps_total"])
	r.Up, r.Down = now.Sent-was.Sent, now.Received-was.Received
	r.Underrun = now.Underruns - was.Underruns
	r.Dropped = now.DroppedState + now.DroppedQueue + now.DroppedReset - was.DroppedState - was.DroppedQueue -
		was.DroppedReset
	if r.Down > 0 {
		r.Jitter = map[string]millis{"p50": inMillis(now.Jitter(.5)), "p99": inMillis(now.Jitter(.99)),
			"p99.9": inMillis(now.Jitter(.999))}
	}
	for _, v := range now.Violations {
		r.Against = append(r.Against, v.String())
	}
}

// report computes the stages, and compares them with the budgets.
func (b *bench) report(r *result, s scene) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Answers, r.Odd, r.Stages = b.answers, b.odd, map[string]stage{}
	for name, took := range b.samples {
		r.Stages[name] = stage{inMillis(sim.Quantile(took, .5)), inMillis(sim.Quantile(took, .95)),
			inMillis(sim.Quantile(took, .99))}
	}
	tightest := map[string]budget{}
	for _, limit := range s.budgets {
		if was, known := tightest[limit.stage]; limit.boards >= r.Boards && (!known || limit.most < was.most) {
			tightest[limit.stage] = limit
		}
	}
	for name, limit := range tightest {
		if got := sim.Quantile(b.samples[name], limit.part); got > limit.most {
			r.Missed = append(r.Missed, fmt.Sprintf("%s: %v of %v (p%.0f)", name, got.Round(time.Millisecond), limit.most,
				100*limit.part))
		}
	}
	slices.Sort(r.Missed)
	r.judge(s)
}

// judge compares what the server used, and what boards got, with the limits of the scene.
func (r *result) judge(s scene) {
	miss := func(missed bool, format string, args ...any) {
		if missed {
			r.Missed = append(r.Missed, fmt.Sprintf(format, args...))
		}
	}
	miss(s.cores > 0 && r.Server > s.cores, "the server uses %.2f of %.1f cores", r.Server, s.cores)
	miss(s.memory > 0 && r.Memory > s.memory, "the server uses %.0f of %.0f MiB", r.Memory, s.memory)
	if s.steady {
		miss(r.Underrun+r.Dropped > 0, "boards had nothing to play %d times, and dropped %d packets", r.Underrun, r.Dropped)
		miss(float64(r.Late) > mostLate*float64(r.Down), "%d of %d packets are late", r.Late, r.Down)
	}
}

// document is everything that was measured.
type document struct {
	Transport string     `json:"transport"`
	Format    string     `json:"format"`
	Results   []*result  `json:"results"`
	Table     []tableRow `json:"table,omitempty"`
}

// add adds a result, and prints it unless JSON is asked for.
func (d *document) add(out io.Writer, o options, r *result) {
	d.Results = append(d.Results, r)
	if !o.json {
		r.print(out)
	}
}

func (r *result) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d boards, %.0f s, %d answers\n", r.Scene, r.Boards, r.Seconds, r.Answers)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if r.Answers > 0 {
		fmt.Fprintln(w, "ms\tp50\tp95\tp99\t")
	}
	for _, name := range stages {
		if s, measured := r.Stages[name]; measured {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t\n", name, s.P50, s.P95, s.P99)
		}
	}
	w.Flush() //nolint:errcheck // standard output
	fmt.Fprintf(out, "  the server: %.2f cores, %.0f MiB at most; the boards and the engines: %.2f cores\n", r.Server,
		r.Memory, r.Rest)
	fmt.Fprintf(out, "  packets: %d from boards, %d to boards, %d of them late by 20 ms, %d gaps\n", r.Up, r.Down, r.Late,
		r.Gaps)
	fmt.Fprintf(out, "  at the boards: %d times nothing to play, %d packets dropped", r.Underrun, r.Dropped)
	for _, part := range slices.Sorted(maps.Keys(r.Jitter)) {
		fmt.Fprintf(out, ", jitter %s %.0f ms", part, r.Jitter[part])
	}
	fmt.Fprintln(out)
	for _, list := range [][]string{r.Missed, r.Against} {
		for _, text := range list {
			fmt.Fprintln(out, "  !", text)
		}
	}
	if r.Odd > 0 {
		fmt.Fprintf(out, "  ! %d answers whose stages are not known\n", r.Odd)
	}
	fmt.Fprintln(out)
}
