// Command oauth measures how programs that sign in by OAuth are served: the page of consent, tokens
// at a fixed rate, and calls of a tool with an access token beside calls with a key. The server
// runs in this process.
//
//	go run ./bench/oauth [-rate 100] [-for 10s] [-grants 40] [-calls 4000] [-db sqlite,postgres]
//
// The budgets are 50 ms for the page, 10 ms for a token, and 5 % for a call.
package main

import (
	"context"
	"errors"
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

	"patchbay/internal/netx"
	"patchbay/internal/store/storetest"
)

type options struct {
	rate, grants, calls int
	lasts               time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	dbs := flag.String("db", "sqlite,postgres", "databases")
	flag.IntVar(&o.rate, "rate", 100, "tokens per second")
	flag.DurationVar(&o.lasts, "for", 10*time.Second, "how long tokens are fetched")
	flag.IntVar(&o.grants, "grants", 40, "programs that fetch them")
	flag.IntVar(&o.calls, "calls", 4000, "calls of a tool, half of them with a key")
	flag.Parse()
	for db := range strings.SplitSeq(*dbs, ",") {
		if err := run(ctx, db, o); err != nil {
			fmt.Fprintln(os.Stderr, "oauth:", err)
			os.Exit(1)
		}
	}
}

// run measures on a database.
func run(ctx context.Context, db string, o options) error {
	database := ""
	if db == "postgres" {
		address, end, err := storetest.Durable()
		if err != nil {
			return err
		}
		defer end()
		database = address("postgres")
	}
	s, err := start(ctx, database)
	if err != nil {
		return err
	}
	defer s.stop()
	pages, grants, err := s.letIn(ctx, o.grants)
	if err != nil {
		return err
	}
	tokens, err := s.refresh(ctx, grants, o)
	if err != nil {
		return err
	}
	byKey, byToken, err := s.call(ctx, grants[0].access, o.calls)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tn\tp50\tp99\tmost\n", db)
	for _, x := range []struct {
		name  string
		times []time.Duration
	}{{"page of consent", pages}, {fmt.Sprintf("token, %d/s", o.rate), tokens}, {"call with a key", byKey},
		{"call with a token", byToken}} {
		slices.Sort(x.times)
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", x.name, len(x.times), at(x.times, 50), at(x.times, 99), at(x.times, 100))
	}
	return w.Flush()
}

// at returns a percentile of sorted times.
func at(times []time.Duration, percent int) time.Duration {
	return times[min(len(times)*percent/100, len(times)-1)].Round(10 * time.Microsecond)
}

// refresh lets grants fetch tokens at a rate, each its next one, and returns how long each took
// since it was due.
func (s *server) refresh(ctx context.Context, grants []*grant, o options) ([]time.Duration, error) {
	var group sync.WaitGroup
	n := int(o.lasts.Seconds() * float64(o.rate))
	took, failed := make([]time.Duration, n), make([]error, n)
	begin := time.Now()
	for g, x := range grants {
		group.Go(func() {
			for i := g; i < n && ctx.Err() == nil; i += len(grants) {
				due := begin.Add(time.Duration(i) * time.Second / time.Duration(o.rate))
				if netx.Wait(ctx, time.Until(due)) != nil {
					return
				}
				failed[i] = s.token(ctx, x, "grant_type", "refresh_token", "refresh_token", x.refresh)
				took[i] = time.Since(due)
			}
		})
	}
	group.Wait()
	return took, errors.Join(append(failed, ctx.Err())...)
}

// call calls a tool by turns with a key and with an access token.
func (s *server) call(ctx context.Context, access string, calls int) (byKey, byToken []time.Duration, err error) {
	for i := range calls + 200 {
		secret := s.key
		if i%2 == 1 {
			secret = access
		}
		begin := time.Now()
		if err := s.callTool(ctx, secret); err != nil {
			return nil, nil, err
		}
		switch took := time.Since(begin); {
		case i < 200: // both are warm
		case i%2 == 1:
			byToken = append(byToken, took)
		default:
			byKey = append(byKey, took)
		}
	}
	return byKey, byToken, nil
}
