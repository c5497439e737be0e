package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/netx"
)

// settle is the duration of the load before the measurement.
const settle = 300 * time.Millisecond

// result is the result of one server in one round.
type result struct {
	delays []time.Duration // sorted
	rate   float64         // calls per second
	cpu    float64         // of the server, µs per call
	rss    float64         // of the server, MiB
}

func (r *result) at(part float64) time.Duration {
	if len(r.delays) == 0 {
		return 0
	}
	return r.delays[min(int(part*float64(len(r.delays))), len(r.delays)-1)].Round(time.Microsecond)
}

// runLoad makes clients call as fast as they get responses. An unexpected response is an error.
// profile, if not nil, is called when the measurement begins.
func runLoad(ctx context.Context, c contender, clients int, span time.Duration,
	profile func(time.Duration) error) (*result, error) {
	workers, err := openWorkers(c, clients, settle+span)
	defer closeWorkers(workers)
	if err != nil {
		return nil, err
	}
	delays := make([][]time.Duration, clients)
	errs := make([]error, clients)
	var measuring, stop atomic.Bool
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() { delays[i], errs[i] = w.work(&measuring, &stop) })
	}
	_ = netx.Wait(ctx, settle)
	profiled := make(chan error, 1)
	go func() {
		if profile == nil {
			profiled <- nil
		} else {
			profiled <- profile(span)
		}
	}()
	before, start := c.at.cpu(), time.Now()
	measuring.Store(true)
	_ = netx.Wait(ctx, span)
	measuring.Store(false)
	took, used := time.Since(start), c.at.cpu()-before
	r := &result{rss: c.at.rss()}
	stop.Store(true)
	wg.Wait()
	for i := range workers {
		if errs[i] != nil {
			return nil, errs[i]
		}
		r.delays = append(r.delays, delays[i]...)
	}
	if len(r.delays) == 0 {
		return nil, fmt.Errorf("nothing was answered within %v", span)
	}
	slices.Sort(r.delays)
	r.rate = float64(len(r.delays)) / took.Seconds()
	r.cpu = float64(used.Microseconds()) / float64(len(r.delays))
	return r, <-profiled
}

// work calls until stop is set, and returns the durations of calls that ended during the
// measurement.
func (w *worker) work(measuring, stop *atomic.Bool) ([]time.Duration, error) {
	delays := make([]time.Duration, 0, 1<<14)
	for !stop.Load() {
		start := time.Now()
		if err := w.call(); err != nil {
			return nil, err
		}
		if measuring.Load() {
			delays = append(delays, time.Since(start))
		}
	}
	return delays, nil
}

// openWorkers opens the sessions of a round.
func openWorkers(c contender, clients int, span time.Duration) ([]*worker, error) {
	var workers []*worker
	for i := range clients {
		w, err := openWorker(c, i, span)
		if err != nil {
			return workers, err
		}
		workers = append(workers, w)
	}
	return workers, nil
}

func closeWorkers(workers []*worker) {
	for _, w := range workers {
		w.close()
	}
}
