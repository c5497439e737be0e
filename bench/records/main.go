// Command records measures filtered lists of a large number of turns and calls, and the delay of
// writes while old rows are deleted.
//
//	go run ./bench/records [-calls 1000000] [-turns 400000] [-db sqlite,postgres] [-data folder]
//
// The rows are the worst case for filters: the matching rows are few, and among the oldest. Then
// all rows are deleted because of their age, while turns and calls are written. At the end it
// prints the sizes of SQLite's files.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

type options struct {
	calls, turns int
	dbs          []string
	data         string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	dbs := flag.String("db", "sqlite,postgres", "databases")
	flag.IntVar(&o.calls, "calls", 1_000_000, "rows of calls")
	flag.IntVar(&o.turns, "turns", 400_000, "rows of turns")
	flag.StringVar(&o.data, "data", "", "folder for SQLite; empty: a temporary one")
	flag.Parse()
	o.dbs = strings.Split(*dbs, ",")
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "records:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	for _, name := range o.dbs {
		at := store.Options{Folder: o.data}
		if at.Folder == "" {
			var err error
			if at.Folder, err = os.MkdirTemp("", "records-"); err != nil {
				return err
			}
			defer os.RemoveAll(at.Folder)
		}
		if name == "postgres" {
			url, stop, err := storetest.Durable()
			if err != nil {
				return err
			}
			defer stop()
			at.URL = url("postgres")
		}
		if err := measure(ctx, o, at); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func measure(ctx context.Context, o options, at store.Options) error {
	db, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	defer db.Close()
	began := time.Now()
	if err := fill(ctx, db, o); err != nil {
		return err
	}
	fmt.Printf("%s: %d calls and %d turns written in %.0f s\n", db.Dialect(), o.calls, o.turns,
		time.Since(began).Seconds())
	if err := lists(ctx, db); err != nil {
		return err
	}
	return deletion(ctx, db, at)
}

// person is the id of the owner of the rows.
const person = "0199a1b2-0000-7000-8000-00000000000a"

// begin is the time of the first row; there is one row per second.
var begin = time.Now().Add(-30 * 24 * time.Hour)

func call(i int) store.Call {
	c := store.Call{
		ID: fmt.Sprintf("0199a1b2-%012d", i), At: begin.Add(time.Duration(i) * time.Second), Person: person,
		Key:     "0199a1b2-0000-7000-8000-000000000001",
		Channel: "mcp", Program: "claude", Provider: "learn",
		Tool: []string{"list_due_reviews", "home_set_lamp", "record"}[i%3], Instance: "here",
		Took: time.Millisecond, Bytes: 812, Outcome: "done", Address: "192.0.2.17",
	}
	switch {
	case i < 3:
		c.Outcome, c.Tool = "failed", "garage_door"
	case i%5 == 0:
		c.Outcome, c.Code = "refused", "offline"
	}
	return c
}

func turn(i int) store.Trace {
	t := store.Trace{
		Turn: fmt.Sprintf("0199a1b3-%012d", i), Bot: 1, Owner: person,
		Kind: "echo", Channel: "lingzhu", Person: "wearer", Conversation: "c", Instance: "here",
		At: begin.Add(time.Duration(i) * time.Second), First: 300 * time.Millisecond, Total: 2 * time.Second,
		Pieces: 12, Bytes: 400, Outcome: "done",
	}
	switch {
	case i < 3:
		t.Outcome, t.Channel = "failed", "console"
	case i%5 == 0:
		t.Outcome = "disconnected"
	}
	return t
}

func fill(ctx context.Context, db *store.DB, o options) error {
	if err := db.People.Add(ctx, store.Person{ID: person, Name: "ada", Created: begin}); err != nil {
		return err
	}
	for i := 0; i < o.calls; i += 3200 {
		var some []store.Call
		for n := i; n < min(i+3200, o.calls); n++ {
			some = append(some, call(n))
		}
		if err := db.Calls.Add(ctx, some); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	errs := make(chan error, 128)
	for w := range 128 { // that many share a commit
		all.Go(func() {
			for i := w; i < o.turns; i += 128 {
				if err := db.Traces.Finish(ctx, turn(i), nil); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// lists measures the first page of each filter.
func lists(ctx context.Context, db *store.DB) error {
	for _, f := range []struct {
		name string
		f    store.TraceFilter
	}{
		{"turns", store.TraceFilter{}},
		{"turns, outcome=failed", store.TraceFilter{Outcome: "failed"}},
		{"turns, outcome=wrong", store.TraceFilter{Outcome: store.Wrong}},
		{"turns, channel=console", store.TraceFilter{Channel: "console"}},
		{"turns, channel=lingzhu", store.TraceFilter{Channel: "lingzhu"}},
		{"turns, channel=console, outcome=failed", store.TraceFilter{Channel: "console", Outcome: "failed"}},
		{"turns of a bot without any", store.TraceFilter{Bot: 7}},
		{"turns of a bot, outcome=failed", store.TraceFilter{Bot: 1, Outcome: "failed"}},
	} {
		f.f.Owner = person
		if err := times(f.name, func() (int, error) {
			rows, err := db.Traces.Find(ctx, f.f, 51)
			return len(rows), err
		}); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		f    store.CallFilter
	}{
		{"calls", store.CallFilter{}},
		{"calls, outcome=failed", store.CallFilter{Outcome: "failed"}},
		{"calls, outcome=wrong", store.CallFilter{Outcome: store.Wrong}},
		{"calls, tool=garage_door", store.CallFilter{Tool: "garage_door"}},
		{"calls, tool=garage_*", store.CallFilter{Tool: "garage_*"}},
		{"calls, tool=*e*", store.CallFilter{Tool: "*e*"}},
		{"calls, tool=none", store.CallFilter{Tool: "none"}},
		{"calls, tool=garage_door, outcome=failed", store.CallFilter{Tool: "garage_door", Outcome: "failed"}},
		{"calls, tool=record, outcome=failed", store.CallFilter{Tool: "record", Outcome: "failed"}},
		{"calls, tool=garage_door, outcome=refused", store.CallFilter{Tool: "garage_door", Outcome: "refused"}},
		{"calls, tool=garage_*, outcome=wrong", store.CallFilter{Tool: "garage_*", Outcome: store.Wrong}},
		{"calls of a bot without any", store.CallFilter{Bot: 7}},
	} {
		f.f.Person = person
		if err := times(f.name, func() (int, error) {
			rows, err := db.Calls.Find(ctx, f.f, 51)
			return len(rows), err
		}); err != nil {
			return err
		}
	}
	return nil
}

func times(name string, do func() (int, error)) error {
	var took []time.Duration
	rows := 0
	for range 10 {
		began := time.Now()
		n, err := do()
		if err != nil {
			return err
		}
		took, rows = append(took, time.Since(began)), n
	}
	slices.Sort(took)
	fmt.Printf("  %-45s %3d rows  half in %8.2f ms, all in %8.2f ms\n", name, rows, ms(took[5]), ms(took[9]))
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// alone is the duration of writes before anything is deleted, for comparison.
const alone = 5 * time.Second

// deletion deletes all rows while others are written.
func deletion(ctx context.Context, db *store.DB, at store.Options) error {
	before, old := sizes(at), time.Now()
	w := &writers{db: db, log: filepath.Join(at.Folder, store.FileName+"-wal")}
	if err := w.during("alone", func() error { time.Sleep(alone); return nil }); err != nil {
		return err
	}
	began := time.Now()
	if err := w.during("meanwhile", func() error {
		n, err := db.Purge(ctx, store.Limits{Traces: old, Exchanges: old, Calls: old, Now: old})
		fmt.Printf("  %d rows deleted in %.1f s\n", n, time.Since(began).Seconds())
		return err
	}); err != nil {
		return err
	}
	if at.URL == "" {
		time.Sleep(5 * time.Second) // the write-ahead log is checkpointed
		fmt.Printf("  files: %s before, %s after; the log was %.0f MiB at most\n", before, sizes(at),
			float64(w.largest)/(1<<20))
	}
	return nil
}

// writers write turns and calls.
type writers struct {
	db      *store.DB
	log     string
	number  int
	largest int64 // size of the write-ahead log
}

// during writes while do runs, and prints the duration of the writes.
func (w *writers) during(when string, do func() error) error {
	done, failed := make(chan struct{}), make(chan error, 2)
	var work sync.WaitGroup
	var waits [2][]time.Duration
	from := w.number
	for who, write := range []func(at time.Time, i int) error{w.turn, w.calls} {
		work.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(2 * time.Millisecond):
				}
				began := time.Now()
				if err := write(began, from+i); err != nil {
					failed <- err
					return
				}
				waits[who] = append(waits[who], time.Since(began))
			}
		})
	}
	err := do()
	close(done)
	work.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	for who, what := range []string{"a turn", "ten calls"} {
		t := waits[who]
		w.number = max(w.number, from+len(t))
		slices.Sort(t)
		fmt.Printf("  %-9s %-9s %5d times, half in %.1f ms, 99 of 100 in %.1f ms, all in %.1f ms\n", when, what, len(t),
			ms(t[len(t)/2]), ms(t[len(t)*99/100]), ms(t[len(t)-1]))
	}
	return err
}

// later is the number of the first row that is written by writers.
const later = 100_000_000

func (w *writers) turn(at time.Time, i int) error {
	if info, err := os.Stat(w.log); err == nil {
		w.largest = max(w.largest, info.Size())
	}
	t := turn(later + i)
	t.At = at
	return w.db.Traces.Finish(context.Background(), t, nil)
}

func (w *writers) calls(at time.Time, i int) error {
	var some []store.Call
	for n := range 10 {
		c := call(later + i*10 + n)
		c.At = at
		some = append(some, c)
	}
	return w.db.Calls.Add(context.Background(), some)
}

func sizes(at store.Options) string {
	out := ""
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(filepath.Join(at.Folder, store.FileName+suffix)); err == nil {
			out += fmt.Sprintf("%s %.0f MiB ", strings.TrimPrefix(suffix, "-"), float64(info.Size())/(1<<20))
		}
	}
	return strings.TrimSpace(out)
}
