// Command chaos runs three instances with PostgreSQL and three NATS servers under load, and
// injects faults one after the other:
//
//	go run ./test/chaos                          10 faults, about 5 minutes
//	go run ./test/chaos -faults 45 -seed 7       a long run
//	go run ./test/chaos -only "bus *" -faults 3  only some kinds
//	go run ./test/chaos -list                    the kinds of faults
//
// The load asks questions, calls tools and adds knowledge points, and records the answers.
// Everything acknowledged must be in the database at the end, once, and nothing may have been done
// twice. A line per fault reports the outcomes of the operations during it, how long anybody waited
// for the first words and for the end, and how long it took until every instance did everything
// again.
//
// The exit code is 1 if something acknowledged is missing, something was done twice, or an
// instance did not recover.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are the command-line options.
type options struct {
	seed    uint64
	faults  int
	only    string
	pace    time.Duration
	workers int
	keep    bool
	words   bool
}

func main() {
	var o options
	list := false
	flag.Uint64Var(&o.seed, "seed", 1, "which faults come in which order, and what they hit")
	flag.IntVar(&o.faults, "faults", 10, "how many faults")
	flag.StringVar(&o.only, "only", "*", "only kinds of faults that fit this `PATTERN`")
	flag.DurationVar(&o.pace, "pace", 100*time.Millisecond, "pause of each worker between two operations")
	flag.IntVar(&o.workers, "workers", 16, "how many operations run at a time")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with logs and data")
	flag.BoolVar(&o.words, "words", false, "tell what was heard instead of answers and results")
	flag.BoolVar(&list, "list", false, "list the kinds of faults")
	flag.Parse()
	if list {
		for _, f := range kinds {
			fmt.Printf("%-28s %s\n", f.name, f.about)
		}
		return
	}
	if _, err := path.Match(o.only, ""); err != nil || flag.NArg() > 0 || o.faults < 0 || o.workers < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	good, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || !good {
		stop()
		os.Exit(1)
	}
}

// run runs the test and reports whether it found no fault.
func run(ctx context.Context, o options) (good bool, err error) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t, err := openCluster(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if o.keep || !good {
			fmt.Println("logs and data are in", t.dir)
			t.close(false)
		} else {
			t.close(true)
		}
	}()
	l := newLoad(t, o)
	if err := l.warm(ctx); err != nil {
		return false, fmt.Errorf("before the first fault: %w", err)
	}
	l.start(ctx)
	defer l.stop()

	plan := planFaults(o)
	began := time.Now()
	good = true
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tat\tfor\tdone\tin words\tbroken off\ttold after\tlongest\tnormal after")
	w.Flush() //nolint:errcheck // standard output
	for _, f := range plan {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		line, err := l.runFault(ctx, f)
		if err != nil {
			good = false
			line.normal = "NOT: " + err.Error()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", f, short(time.Since(began)), short(line.lasted),
			line.done, line.refused, line.broken, short(line.told), short(line.longest.took), line.normal)
		w.Flush() //nolint:errcheck // standard output
		if o.words {
			fmt.Printf("         longest: %s, after %s: %s %.160s\n", line.longest.kind, short(line.longest.took),
				line.longest.outcome, line.longest.words)
			for _, text := range l.logLines(line.first) {
				fmt.Println("       ", text)
			}
		}
	}
	l.stop()
	v, err := l.verify(ctx)
	if err != nil {
		return false, err
	}
	v.print(os.Stdout, time.Since(began))
	return good && v.good(), nil
}

func short(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }
