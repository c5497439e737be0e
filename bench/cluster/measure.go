package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/netx"
	"patchbay/test/built"
)

// measureMemory measures the memory of the installation without devices, with all devices known,
// and with all of them connected.
func (t *cluster) measureMemory(ctx context.Context) error {
	if err := t.start(ctx); err != nil {
		return err
	}
	empty, err := t.memory(ctx)
	if err != nil {
		return err
	}
	t.print("an instance that knows nobody", empty.rss/instances/(1<<20), "MiB RSS",
		"%.0f goroutines", empty.goroutines/instances)
	for _, n := range t.inst {
		if err := n.Signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	for _, n := range t.inst {
		n.Await(time.Minute)
	}
	began := time.Now()
	if err := t.fill(ctx); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	filled := time.Since(began)
	began = time.Now()
	if err := t.start(ctx); err != nil {
		return err
	}
	started := time.Since(began) / instances
	known, err := t.memory(ctx)
	if err != nil {
		return err
	}
	devices := float64(t.boards + t.nodes)
	t.print("a device that is known, on each instance", (known.rss-empty.rss)/instances/devices/1024, "KiB RSS",
		"%.1f KiB live; filled in %.0f s",
		(known.live-empty.live)/instances/devices/1024, filled.Seconds())
	t.print("start of an instance that knows all", started.Seconds(), "s", "")
	was, err := t.usage(ctx)
	if err != nil {
		return err
	}
	began = time.Now()
	if t.fleet, err = startFleet(ctx, t); err != nil {
		return err
	}
	if err := t.awaitAll(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	now, err := t.usage(ctx)
	if err != nil {
		return err
	}
	u := now.since(was)
	t.print("first connection of all", took.Seconds(), "s", "%.0f a second; %d refused, %d broken, %d unreached",
		devices/took.Seconds(), u.Refused, u.Broken, u.Unreached)
	t.print("  processor of the servers", millis(u.servers)/devices, "ms each",
		"PostgreSQL %.2f, NATS %.2f, devices %.2f", millis(u.tables)/devices, millis(u.own)/devices,
		millis(u.clients)/devices)
	t.print("  on the bus", u.in/devices, "messages each", "%.2f out, %.0f bytes in, %.0f bytes out", u.out/devices,
		u.bytesIn/devices, u.bytesOut/devices)
	t.print("  PostgreSQL", u.commits/devices, "transactions each",
		"those that only read, too; %.0f bytes of WAL", u.wal/devices)
	connected, err := t.memory(ctx)
	if err != nil {
		return err
	}
	t.print("a device that is connected, in addition", (connected.rss-known.rss)/devices/1024, "KiB RSS",
		"%.1f KiB live, %.2f goroutines; over all instances", (connected.live-known.live)/devices/1024,
		(connected.goroutines-known.goroutines)/devices)
	t.print("an instance with all that", connected.rss/instances/(1<<20), "MiB RSS",
		"%.0f MiB live", connected.live/instances/(1<<20))
	return nil
}

// measureIdle measures what is used without activity, and the additional cost of a change.
func (t *cluster) measureIdle(ctx context.Context) error {
	was, err := t.usage(ctx)
	if err != nil {
		return err
	}
	_ = netx.Wait(ctx, t.span)
	now, err := t.usage(ctx)
	if err != nil {
		return err
	}
	u, span := now.since(was), now.at.Sub(was.at)
	s := span.Seconds()
	t.print("idle: processor of an instance", share(u.servers, span)/instances, "% of a core",
		"PostgreSQL %.2f, NATS %.2f, devices %.2f", share(u.tables, span), share(u.own, span), share(u.clients, span))
	t.print("idle: on the bus", u.in/s, "messages/s in", "%.1f out, %.1f KB/s in, %.1f KB/s out", u.out/s,
		u.bytesIn/s/1000, u.bytesOut/s/1000)
	t.print("idle: PostgreSQL", u.commits/s, "transactions/s", "%.1f KB/s of WAL", u.wal/s/1000)
	each := func(d time.Duration) time.Duration { return time.Duration(float64(d) / s) }
	return t.measureApprovals(ctx, usage{servers: each(u.servers), tables: each(u.tables), commits: u.commits / s})
}

const (
	// approvals is the number of boards that are approved, one each approveEvery, to measure the
	// cost of a change that every instance has to apply.
	approvals    = 5
	approveEvery = 3 * time.Second
)

// measureApprovals approves boards while all others are connected. idle is the usage per second
// without that.
func (t *cluster) measureApprovals(ctx context.Context, idle usage) error {
	base, err := t.openBase(ctx)
	if err != nil {
		return err
	}
	defer base.Close()
	ada, err := base.Store.People.ByName(ctx, "ada")
	if err != nil {
		return err
	}
	// With the first approval, each instance reads once what boards have reported to other
	// instances when they booted.
	if err := addBoard(ctx, base, t.boards, ada.ID); err != nil {
		return err
	}
	_ = netx.Wait(ctx, t.span)
	was, err := t.usage(ctx)
	if err != nil {
		return err
	}
	for i := range approvals {
		if err := addBoard(ctx, base, t.boards+1+i, ada.ID); err != nil {
			return err
		}
		_ = netx.Wait(ctx, approveEvery)
	}
	now, err := t.usage(ctx)
	if err != nil {
		return err
	}
	u, s := now.since(was), now.at.Sub(was.at).Seconds()
	more := func(used, idle time.Duration) float64 { return (millis(used) - millis(idle)*s) / approvals }
	t.print("an approval: processor of each instance", more(u.servers, idle.servers)/instances, "ms",
		"PostgreSQL %.0f ms, %.0f transactions, in all", more(u.tables, idle.tables),
		(u.commits-idle.commits*s)/approvals)
	return nil
}

const (
	// bareBytes is the approximate size of a call and its end on the bus.
	bareBytes = 512
	// callPatience is the time in which a first call may fail, because the server has to get the
	// tools.
	callPatience = time.Minute
)

// measureCalls calls boards at their instance and at another one, and the bare echo, in turns.
func (t *cluster) measureCalls(ctx context.Context) error {
	conn, err := nats.Connect(t.bus.ClientURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	bare := func(int) error {
		_, err := conn.RequestWithContext(ctx, echoSubject, bytes.Repeat([]byte{'x'}, bareBytes))
		return err
	}
	client := &http.Client{Timeout: time.Minute}
	at := func(off int) func(i int) error {
		return func(i int) error {
			board := i % pinned
			return t.call(ctx, client, t.inst[(board+off)%instances], board)
		}
	}
	kinds := []func(i int) error{at(0), at(1), bare}
	for i := range pinned * instances { // creates connections, and loads the tools
		for end := time.Now().Add(callPatience); ; _ = netx.Wait(ctx, 100*time.Millisecond) {
			err := at(i / pinned)(i)
			if err == nil {
				break
			}
			if time.Now().After(end) || ctx.Err() != nil {
				return err
			}
		}
	}
	was, err := t.usage(ctx)
	if err != nil {
		return err
	}
	took := make([][]time.Duration, len(kinds))
	for i := range t.calls {
		for k, do := range kinds {
			began := time.Now()
			if err := do(i); err != nil {
				return err
			}
			took[k] = append(took[k], time.Since(began))
		}
	}
	for k, what := range []string{"a call at the board's instance", "the same at another instance",
		"a bare request over NATS"} {
		slices.Sort(took[k])
		t.print(what, millis(quantile(took[k], .5)), "ms p50",
			"%.2f ms p99; %d calls, one at a time", millis(quantile(took[k], .99)), t.calls)
	}
	now, err := t.usage(ctx)
	if err != nil {
		return err
	}
	u, calls := now.since(was), 2*float64(t.calls)
	t.print("a call: PostgreSQL", u.wal/calls, "bytes of WAL",
		"%.2f transactions, what is done while idle included", u.commits/calls)
	p50 := func(k int) time.Duration { return quantile(took[k], .5) }
	t.print("what the other instance adds to NATS", millis(p50(1)-p50(0)-p50(2)), "ms p50", "")
	return nil
}

func quantile(sorted []time.Duration, part float64) time.Duration {
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// call calls a tool of a board at an instance.
func (t *cluster) call(ctx context.Context, client *http.Client, n *built.Instance, board int) error {
	mac, _ := boardID(board)
	url := "http://" + n.Address + "/api/v1/devices/" + mac + "/tools/self.audio_speaker.set_volume/call"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"arguments":{"volume":50}}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+t.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"result"`))) {
		err = fmt.Errorf("the board %s at %s: %s: %.300s", mac, n.Name, res.Status, text)
	}
	return err
}

// measureRestarts stops instances, and waits until all devices are back.
func (t *cluster) measureRestarts(ctx context.Context) error {
	if err := t.measureBack(ctx, "an instance is restarted", syscall.SIGTERM, t.inst[1]); err != nil {
		return err
	}
	if err := t.measureBack(ctx, "all are, one after the other", syscall.SIGTERM, t.inst[:]...); err != nil {
		return err
	}
	return t.measureBack(ctx, "an instance is killed", syscall.SIGKILL, t.inst[1])
}

// measureBack stops instances, restarts each at once, and waits for all devices each time.
func (t *cluster) measureBack(ctx context.Context, what string, how syscall.Signal, which ...*built.Instance) error {
	was, err := t.usage(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	var down []string
	for _, n := range which {
		begin := time.Now()
		if err := n.Signal(how); err != nil {
			return err
		}
		n.Await(2 * time.Minute)
		ended := time.Since(begin)
		if err := n.Start(); err != nil {
			return err
		}
		if err := n.Ready(ctx); err != nil {
			return err
		}
		ready := time.Since(begin)
		if err := t.awaitAll(ctx); err != nil {
			return err
		}
		down = append(down, fmt.Sprintf("%.1f/%.1f/%.1f", ended.Seconds(), ready.Seconds(),
			time.Since(begin).Seconds()))
	}
	now, err := t.usage(ctx)
	if err != nil {
		return err
	}
	u := now.since(was)
	t.print(what+": all are back after", time.Since(began).Seconds(), "s",
		"ended/ready/back %s s; %d refused, %d broken, %d unreached, %d connections; bus %.1f MB in, %.1f MB out; %.0f transactions",
		strings.Join(down, ", "), u.Refused, u.Broken, u.Unreached, u.Connects, u.bytesIn/1e6, u.bytesOut/1e6,
		u.commits)
	return nil
}
