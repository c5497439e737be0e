package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"patchbay/bench/served"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

const (
	// booters is the number of boards that boot at a time.
	booters = 64
	// toolsTimeout is the maximum time for the server to request the tools of all boards.
	toolsTimeout = 2 * time.Minute
	// maxHellos is the number of boards that begin a conversation, to measure the delay of the
	// hello.
	maxHellos = 300
)

// newBoard returns a board that reacts at once: the delay of a real board's event loop does not
// concern the server.
func newBoard(s *served.Server, number int, mode string) *sim.Board {
	return sim.New(sim.Options{
		OTA: s.URL + xiaozhi.OTAPath, MAC: fmt.Sprintf("02:be:00:%02x:%02x:%02x", number>>16&0xff, number>>8&0xff,
			number&0xff), UUID: fmt.Sprintf("be000000-0000-4000-8000-%012x", number), Mode: mode,
		Profile: sim.FW25, Dial: sim.DialFrom(number), Latency: func() time.Duration { return 0 },
		Slack: time.Minute, // lateness is measured here, and is no violation
	})
}

// fleet holds boards that were booted.
type fleet struct {
	boards []*sim.Board
	took   time.Duration // time to boot all of them
	failed int
	why    error // error of the first one that failed
}

// boot creates boards and boots them.
func boot(ctx context.Context, s *served.Server, first, n int, mode string) *fleet {
	f := &fleet{}
	for i := range n {
		f.boards = append(f.boards, newBoard(s, first+i, mode))
	}
	f.turnOn(ctx)
	return f
}

// turnOn boots all boards, or reboots them.
func (f *fleet) turnOn(ctx context.Context) {
	start := time.Now()
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range booters {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(len(f.boards)) && ctx.Err() == nil; i = next.Add(1) {
				if err := f.boards[i-1].Boot(ctx); err != nil {
					mu.Lock()
					if f.failed++; f.why == nil {
						f.why = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	f.took = time.Since(start)
}

func (f *fleet) close() {
	var wg sync.WaitGroup
	for _, b := range f.boards {
		wg.Go(b.Close)
	}
	wg.Wait()
}

// total sums up the statistics of the boards.
func (f *fleet) total() *sim.Total {
	t := &sim.Total{}
	for _, b := range f.boards {
		t.Add(b.Report())
	}
	return t
}

// measureIdle prints the cost of boards that are only connected.
func measureIdle(ctx context.Context, out io.Writer, o options) error {
	s, err := served.Start(ctx, "xiaozhi.transport=mqtt")
	if err != nil {
		return err
	}
	defer s.Stop()
	warm := boot(ctx, s, 1<<20, 10, "") // excludes what is created once
	defer warm.close()
	if warm.failed > 0 {
		return warm.why
	}
	if err := warm.awaitTools(ctx); err != nil {
		return err
	}
	client := callers(o.callers)
	if _, err := call(ctx, s, client, warm.boards[0].MAC(), "self.audio_speaker.set_volume",
		`{"volume":10}`); err != nil {
		return err
	}
	before, err := s.Memory(ctx)
	if err != nil {
		return err
	}
	rss := s.RSS()
	cpu, own := s.CPU(), served.CPUOf(os.Getpid())
	f := boot(ctx, s, 0, o.idle, "")
	defer f.close()
	if f.failed > 0 {
		return fmt.Errorf("%d boards could not be turned on; the first: %w", f.failed, f.why)
	}
	if err := f.awaitTools(ctx); err != nil {
		return err
	}
	cpu, own = s.CPU()-cpu, served.CPUOf(os.Getpid())-own
	peak := s.RSS()
	after, err := s.Memory(ctx)
	if err != nil {
		return err
	}
	n := float64(len(f.boards))
	t := f.total()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "boards on MQTT\t%d\t%d at a time are turned on\n", len(f.boards), booters)
	fmt.Fprintf(w, "new ones\t%.0f a second\tcall home p50 %v, p99 %v; the server used %.2f ms each, the boards %.2f ms\n", n/f.took.Seconds(),
		short(sim.Quantile(t.OTATimes, .5)), short(sim.Quantile(t.OTATimes, .99)), millis(cpu)/n, millis(own)/n)
	fmt.Fprintf(w, "memory each\t%.1f KiB RSS\t%.1f KiB heap, %.1f KiB stacks, %.1f goroutines; RSS was %.0f MiB before garbage collection\n", (s.RSS()-rss)/n/1024,
		(float64(after.Heap)-float64(before.Heap))/n/1024, (float64(after.Stacks)-float64(before.Stacks))/n/1024,
		float64(after.Goroutines-before.Goroutines)/n, peak/(1<<20))
	w.Flush() //nolint:errcheck // standard output
	if err := s.SaveProfile(ctx, "heap", o.profile); err != nil {
		return err
	}
	cpu, own = s.CPU(), served.CPUOf(os.Getpid())
	f.turnOn(ctx)
	if f.failed > 0 {
		return fmt.Errorf("%d boards could not be turned on again; the first: %w", f.failed, f.why)
	}
	_ = netx.Wait(ctx, 2*time.Second) // the server requests their tools
	t = f.total()
	fmt.Fprintf(w, "known ones\t%.0f a second\tcall home p50 %v, p99 %v; the server used %.2f ms each, the boards %.2f ms\n", n/f.took.Seconds(),
		short(sim.Quantile(t.OTATimes, .5)), short(sim.Quantile(t.OTATimes, .99)), millis(s.CPU()-cpu)/n,
		millis(served.CPUOf(os.Getpid())-own)/n)
	w.Flush() //nolint:errcheck // standard output
	cpu, own = s.CPU(), served.CPUOf(os.Getpid())
	_ = netx.Wait(ctx, o.span)
	fmt.Fprintf(w, "while idle\t%.2f %% of a core\tthe boards %.2f %%\n", share(s.CPU()-cpu, o.span),
		share(served.CPUOf(os.Getpid())-own, o.span))
	w.Flush() //nolint:errcheck // standard output
	hellos, err := f.hellos(ctx)
	if err != nil {
		return fmt.Errorf("conversations: %w", err)
	}
	fmt.Fprintf(w, "hello\tp50 %v\tp99 %v\n", short(sim.Quantile(hellos, .5)), short(sim.Quantile(hellos, .99)))
	w.Flush() //nolint:errcheck // standard output
	if o.profile != "" {
		go s.SaveProfile(ctx, fmt.Sprintf("profile?seconds=%d", max(1, int(o.span.Seconds()))), o.profile+".calls") //nolint:errcheck // profiles are optional
	}
	cpu, own = s.CPU(), served.CPUOf(os.Getpid())
	calls, err := f.calls(ctx, s, o)
	if err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	c := float64(max(1, len(calls)))
	fmt.Fprintf(w, "calls of boards' tools\tp50 %v\tp99 %v, %d at a time, %.0f a second; the server used %.2f ms each, the boards %.2f ms\n", short(sim.Quantile(calls, .5)),
		short(sim.Quantile(calls, .99)), o.callers, c/o.span.Seconds(), millis(s.CPU()-cpu)/c,
		millis(served.CPUOf(os.Getpid())-own)/c)
	for _, v := range f.total().Violations {
		fmt.Fprintf(w, "against the protocol\t%v\n", v)
	}
	return w.Flush()
}

// awaitTools waits until the server has requested the tools of all boards.
func (f *fleet) awaitTools(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, toolsTimeout)
	defer cancel()
	for _, b := range f.boards {
		for r := b.Report(); r.Lists == 0 || r.Initializes == 0; r = b.Report() {
			if netx.Wait(ctx, 10*time.Millisecond) != nil {
				return fmt.Errorf("a board was not asked for its tools within %v (%s)", toolsTimeout, b.MAC())
			}
		}
	}
	_ = netx.Wait(ctx, time.Second) // for the last responses
	return ctx.Err()
}

// hellos begins conversations on boards, and returns the delays of the hellos.
func (f *fleet) hellos(ctx context.Context) (took []time.Duration, err error) {
	for range min(maxHellos, len(f.boards)) {
		b := f.boards[rand.IntN(len(f.boards))]
		if err := b.Press(ctx); err != nil {
			return nil, err
		}
		took = append(took, b.Report().Hello)
		if err := b.Press(ctx); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// calls calls tools of random boards, and returns the durations.
func (f *fleet) calls(ctx context.Context, s *served.Server, o options) ([]time.Duration, error) {
	client := callers(o.callers)
	until := time.Now().Add(o.span)
	took, errs := make([][]time.Duration, o.callers), make([]error, o.callers)
	var wg sync.WaitGroup
	for i := range o.callers {
		wg.Go(func() {
			for time.Now().Before(until) && errs[i] == nil {
				b := f.boards[rand.IntN(len(f.boards))]
				begin := time.Now()
				_, errs[i] = call(ctx, s, client, b.MAC(), "self.audio_speaker.set_volume",
					fmt.Sprintf(`{"volume":%d}`, rand.IntN(100)))
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	wg.Wait()
	var all []time.Duration
	for _, some := range took {
		all = append(all, some...)
	}
	return all, errors.Join(errs...)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// share is the percentage of one processor that was used.
func share(used, span time.Duration) float64 { return 100 * float64(used) / float64(span) }

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
