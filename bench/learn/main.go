// Command learn measures the tools of Learn with a large number of knowledge points, at the MCP
// endpoint: a running server with keys, rules, audit and a database, and one client that calls over
// HTTP, one call after the other.
//
//	go run ./bench/learn [-points 1000,10000,100000] [-db sqlite,postgres] [-calls 200]
//	  [-only next_review,submit_review] [-json] [-data DIR] [-postgres URL]
//
// The points are in Chinese and English, in ten decks, with tags; two thirds have been reviewed,
// and some hundred are due. The tools are called in turn, each -calls times, with different
// arguments. The row "floor" is a bare HTTP handler that reads a dozen points by their keys in one
// transaction on the same database: what the machine itself takes, and how much longer now and
// then. The column "first ms" is the slowest of the calls before the measured ones, which prepare
// statements. The last column is the ratio of the 99th percentile and the budget of 10 ms.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"patchbay/internal/store/storetest"
)

// budget is the maximum of a tool's 99th percentile, with 100,000 points.
const budget = 10 * time.Millisecond

type options struct {
	points []int
	dbs    []string
	calls  int
	only   []string
	json   bool
	data   string
	url    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse()
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "learn:", err)
		os.Exit(1)
	}
}

func parse() (o options, err error) {
	points := flag.String("points", "1000,10000,100000", "numbers of points")
	dbs := flag.String("db", "sqlite,postgres", "databases")
	flag.IntVar(&o.calls, "calls", 200, "calls of each tool")
	only := flag.String("only", "", "measure these tools alone")
	flag.StringVar(&o.data, "data", "",
		"keep the SQLite database in this folder, and use it again if it is there; one number of points only")
	flag.StringVar(&o.url, "postgres", "",
		"use this PostgreSQL database, empty or of an earlier run with the same -data, and keep it")
	flag.BoolVar(&o.json, "json", false, "one line of JSON for each tool")
	flag.Parse()
	o.dbs = strings.Split(*dbs, ",")
	if o.url != "" {
		o.dbs = []string{"postgres"}
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, text := range strings.Split(*points, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 100 {
			return o, fmt.Errorf("-points %q: give numbers from 100", text)
		}
		o.points = append(o.points, n)
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	for _, db := range o.dbs {
		url, stop := func(string) string { return "" }, func() {}
		switch {
		case o.url != "":
			url = func(string) string { return o.url }
		case db == "postgres":
			var err error
			if url, stop, err = storetest.Durable(); err != nil {
				return err
			}
		}
		err := func() error {
			defer stop()
			for i, n := range o.points {
				name := "postgres"
				if i > 0 && db == "postgres" {
					name = "learn_" + strconv.Itoa(i)
					if err := runPostgres(ctx, url("postgres"), "CREATE DATABASE "+name); err != nil {
						return err
					}
				}
				if err := measure(ctx, o, db, url(name), n); err != nil {
					return fmt.Errorf("%s, %d points: %w", db, n, err)
				}
			}
			return nil
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// line is the result of a tool.
type line struct {
	DB     string        `json:"db"`
	Points int           `json:"points"`
	Tool   string        `json:"tool"`
	First  time.Duration `json:"first_ns"` // the slowest call of the warm-up
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	Max    time.Duration `json:"max_ns"`
	Bytes  int           `json:"bytes"` // of a response, on average
}

func measure(ctx context.Context, o options, db, url string, n int) error {
	began := time.Now()
	s, err := start(ctx, url, o.data, n)
	if err != nil {
		return err
	}
	defer s.stop()
	if !o.json {
		fmt.Printf("%s, %d points (filled in %s)\n", db, n, time.Since(began).Round(time.Millisecond))
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !o.json {
		fmt.Fprintln(table, "tool\tfirst ms\tp50 ms\tp99 ms\tmax ms\tKB\tof budget\t")
	}
	for _, t := range s.story() {
		if o.only != nil && t.tool != floorName && !slices.Contains(o.only, t.tool) {
			continue
		}
		if db == "postgres" { // what it does by itself in the minutes after many changes
			if err := runPostgres(ctx, url, "VACUUM ANALYZE", "CHECKPOINT"); err != nil {
				return err
			}
		}
		l := line{DB: db, Points: n, Tool: t.tool}
		times := make([]time.Duration, 0, o.calls)
		for i := range o.calls + warmup {
			if p := t.prepare; p != nil {
				if _, _, err := s.call(ctx, p.tool, p.args(i)); err != nil {
					return fmt.Errorf("%s: %w", p.tool, err)
				}
			}
			took, size, err := s.run(ctx, &t, i)
			if err != nil {
				return fmt.Errorf("%s: %w", t.tool, err)
			}
			if i < warmup {
				l.First = max(l.First, took)
				continue
			}
			times = append(times, took)
			l.Bytes += size
		}
		slices.Sort(times)
		l.P50, l.P99, l.Max, l.Bytes = times[len(times)/2], times[len(times)*99/100], times[len(times)-1],
			l.Bytes/len(times)
		if o.json {
			json.NewEncoder(os.Stdout).Encode(l) //nolint:errcheck // standard output
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.1f\t%.0f %%\t\n", l.Tool, ms(l.First), ms(l.P50), ms(l.P99),
			ms(l.Max), float64(l.Bytes)/1024, 100*float64(l.P99)/float64(budget))
	}
	return table.Flush()
}

// warmup is the number of calls of a tool that are not measured, because they prepare statements.
const warmup = 5

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }
