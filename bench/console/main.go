// Command console measures the response times of pages with a large amount of data: a running
// server with 1,000 voice boards, 100,000 knowledge points, turns and calls, all of one person,
// first with one browser that requests one page after the other, then with eight at once.
//
//	go run ./bench/console [-boards 1000] [-points 100000] [-turns 100000]
//	  [-db sqlite,postgres] [-visits 400] [-only /learn] [-json]
//
// The pages are those that links lead to from the menu, one of each kind. The last column is the
// ratio of the 99th percentile with one browser and the budget of 20 ms.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"patchbay/internal/store/storetest"
)

// budget is the maximum of a page's 99th percentile.
const budget = 20 * time.Millisecond

// together is the number of browsers in the second half.
const together = 8

type options struct {
	amount
	dbs    []string
	visits int
	only   string
	json   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func parse() (o options) {
	dbs := flag.String("db", "sqlite,postgres", "databases")
	flag.IntVar(&o.boards, "boards", 1000, "voice boards")
	flag.IntVar(&o.points, "points", 100_000, "knowledge points")
	flag.IntVar(&o.turns, "turns", 100_000, "turns, and as many calls of tools")
	flag.IntVar(&o.visits, "visits", 400, "visits of each page")
	flag.StringVar(&o.only, "only", "", "measure the pages whose addresses begin with this alone")
	flag.BoolVar(&o.json, "json", false, "one line of JSON for each page")
	flag.Parse()
	o.dbs = strings.Split(*dbs, ",")
	return o
}

func run(ctx context.Context, o options) error {
	for _, db := range o.dbs {
		url, stop := "", func() {}
		if db == "postgres" {
			address, end, err := storetest.Durable()
			if err != nil {
				return err
			}
			url, stop = address("postgres"), end
		}
		err := measure(ctx, o, db, url)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", db, err)
		}
	}
	return nil
}

// line is the result of a page.
type line struct {
	DB     string        `json:"db"`
	Page   string        `json:"page"`
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	Many50 time.Duration `json:"together_p50_ns"`
	Many99 time.Duration `json:"together_p99_ns"`
	Bytes  int           `json:"bytes"` // of a page
	PerSec float64       `json:"together_per_second"`
}

func measure(ctx context.Context, o options, db, url string) error {
	began := time.Now()
	s, err := start(ctx, url, o.amount)
	if err != nil {
		return err
	}
	defer s.stop()
	if !o.json {
		fmt.Printf("%s, %d boards, %d points, %d turns (filled in %s)\n", db, o.boards, o.points, o.turns,
			time.Since(began).Round(time.Second))
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !o.json {
		fmt.Fprintf(table, "page\tKB\tp50 ms\tp99 ms\t%d at once: p50 ms\tp99 ms\ta second\tof budget\t\n", together)
	}
	for _, page := range s.pages(ctx) {
		if !strings.HasPrefix(page, o.only) {
			continue
		}
		l := line{DB: db, Page: page}
		var alone, many []time.Duration
		if alone, l.Bytes, err = s.visit(ctx, page, warmup, 1); err == nil {
			alone, l.Bytes, err = s.visit(ctx, page, o.visits, 1)
		}
		if err != nil {
			return err
		}
		began := time.Now()
		if many, _, err = s.visit(ctx, page, o.visits, together); err != nil {
			return err
		}
		l.PerSec = float64(len(many)) / time.Since(began).Seconds()
		l.P50, l.P99, l.Many50, l.Many99 = at(alone, 50), at(alone, 99), at(many, 50), at(many, 99)
		if o.json {
			json.NewEncoder(os.Stdout).Encode(l) //nolint:errcheck // standard output
			continue
		}
		fmt.Fprintf(table, "%s\t%.1f\t%s\t%s\t%s\t%s\t%.0f\t%.0f %%\t\n", l.Page[:min(len(l.Page), 40)],
			float64(l.Bytes)/1024, ms(l.P50), ms(l.P99), ms(l.Many50), ms(l.Many99), l.PerSec,
			100*float64(l.P99)/float64(budget))
	}
	return table.Flush()
}

// warmup is the number of visits of a page that are not measured, because they prepare statements.
const warmup = 5

// visit requests a page the given number of times, with several browsers at once, and returns the
// durations and the size of the page.
func (s *server) visit(ctx context.Context, page string, times,
	browsers int) (took []time.Duration, size int, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range browsers {
		all.Go(func() {
			for range times / browsers {
				began := time.Now()
				text, failed := s.get(ctx, page)
				spent := time.Since(began)
				mu.Lock()
				took, size = append(took, spent), len(text)
				if failed != nil {
					err = failed
				}
				mu.Unlock()
				if failed != nil {
					return
				}
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took, size, err
}

// at returns a percentile.
func at(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }
