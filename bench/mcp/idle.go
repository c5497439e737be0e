package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// listening is a way in which a session receives notifications.
type listening struct {
	name string
	wire wire
	busy wire // revision of the busy callers
	open func(*worker, time.Duration) error
}

var listenings = []listening{
	{"HTTP+SSE", pipes, pipes, func(*worker, time.Duration) error { return nil }}, // it has a stream
	{"streamable + GET", sessions, sessions, (*worker).getNotices},
	{"subscriptions/listen", fresh, fresh, (*worker).subscribe},
}

// openers is the number of sessions that are opened at a time.
const openers = 16

// noticeTimeout is the maximum time for a notification to reach all sessions.
const noticeTimeout = 10 * time.Second

// measureIdle prints the cost of sessions that only listen, and the results of calls by others
// meanwhile.
func measureIdle(ctx context.Context, out io.Writer, o options) error {
	fmt.Fprintf(out, "%d sessions that only listen, %d that call as fast as they can for %v\n", o.idle, o.busy, o.span)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table,
		"sessions\tmemory each\tgoroutines each\topened/s\tcalls/s\tp50\tp99\tRSS\theard of a change\twithin\terrors\t")
	for _, l := range listenings {
		if wanted(l.name, o.only) {
			if err := l.measure(ctx, table, o); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
	}
	return table.Flush()
}

// measure measures one way of listening, on a server of its own.
func (l *listening) measure(ctx context.Context, out io.Writer, o options) error {
	server, err := startOwn(ctx, "patchbay")
	if err != nil {
		return err
	}
	defer server.stop()
	c := contender{name: l.name, server: "patchbay", wire: l.wire, at: server}
	if w, err := openWorker(c, 0, 0); err != nil { // excludes what is created once
		return err
	} else {
		w.close()
	}
	rss := server.rss()
	before, err := server.goroutines(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	idle, failed := l.openAll(c, o.idle, o.span+2*time.Minute)
	defer closeWorkers(idle)
	took := time.Since(start)
	after, err := server.goroutines(ctx)
	if err != nil {
		return err
	}
	grown := server.rss() - rss

	var calls result
	if o.busy > 0 {
		got, err := runLoad(ctx, contender{name: l.name, server: "patchbay", wire: l.busy, at: server}, o.busy, o.span,
			nil)
		if err != nil {
			return fmt.Errorf("the busy ones: %w", err)
		}
		calls = *got
	}
	total := server.rss()
	heard, last, err := awaitNotices(ctx, idle, server)
	if err != nil {
		return err
	}
	n := float64(max(len(idle), 1))
	fmt.Fprintf(out, "%s\t%.1f KiB\t%.1f\t%.0f\t%.0f\t%v\t%v\t%.0f MiB\t%d of %d\t%v\t%d\t\n", l.name, grown*1024/n,
		float64(after-before)/n, n/took.Seconds(),
		calls.rate, calls.at(.5), calls.at(.99), total, heard, o.idle, last.Round(time.Millisecond), failed)
	return nil
}

// openAll opens idle sessions and returns how many could not be opened.
func (l *listening) openAll(c contender, n int, span time.Duration) (open []*worker, failed int) {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range openers {
		wg.Go(func() {
			for int(next.Add(1)) <= n {
				w, err := openWorker(c, 0, span)
				if err == nil {
					err = l.open(w, span)
					w.link.close() // it is not needed any more
				}
				mu.Lock()
				if err == nil {
					open = append(open, w)
				} else if failed++; failed == 1 {
					fmt.Println("the first that could not be opened:", err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return open, failed
}

// awaitNotices changes the list of tools, and waits until all sessions have been notified.
func awaitNotices(ctx context.Context, idle []*worker, server *process) (heard int, last time.Duration, err error) {
	start := time.Now()
	var n, latest atomic.Int64
	var wg sync.WaitGroup
	for _, w := range idle {
		w.stream.conn.SetReadDeadline(start.Add(noticeTimeout)) //nolint:errcheck // TCP has it
		wg.Go(func() {
			for {
				_, data, err := w.stream.event()
				if err != nil {
					return
				}
				if bytes.Contains(data, []byte(`"notifications/tools/list_changed"`)) {
					n.Add(1)
					for took := int64(time.Since(start)); ; {
						if was := latest.Load(); took <= was || latest.CompareAndSwap(was, took) {
							return
						}
					}
				}
			}
		})
	}
	_, err = server.debug(ctx, "POST", "/offer")
	wg.Wait()
	return int(n.Load()), time.Duration(latest.Load()), err
}

// getNotices opens the stream of a session (MCP 2025-11-25, Streamable HTTP: GET).
func (w *worker) getNotices(span time.Duration) (err error) {
	if w.stream, err = dial(w.host, span); err != nil {
		return err
	}
	return w.stream.listen(fmt.Appendf(nil,
		"GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nMcp-Protocol-Version: %s\r\n\r\n",
		w.path, w.host, w.key, w.session, w.wire))
}

// subscribe subscribes to changes of the list of tools (MCP 2026-07-28, subscriptions/listen).
func (w *worker) subscribe(span time.Duration) (err error) {
	if w.stream, err = dial(w.host, span); err != nil {
		return err
	}
	msg := `{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
	request := fmt.Appendf(w.header("subscriptions/listen", ""), "%d\r\n\r\n%s", len(msg), msg)
	if err := w.stream.listen(request); err != nil {
		return err
	}
	_, data, err := w.stream.event()
	if err == nil && !bytes.Contains(data, []byte("notifications/subscriptions/acknowledged")) {
		err = fmt.Errorf("the first event is %.200s", data)
	}
	return err
}
