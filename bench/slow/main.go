// Command slow measures the response times of a server's endpoints while thousands of connections
// send their bodies as slowly as possible.
//
//	go run ./bench/slow [-senders 5000] [-for 20s] [-gap 20ms] [-json]
//
// The server is that of "patchbay serve --demo", in this process, which also holds the senders.
// Each of them posts to an endpoint, one in ten with a valid key, announces 100 KB, sends a byte
// per second, and reconnects when it is disconnected. Meanwhile one client after the other requests
// the other endpoints. A bare net/http handler, which reads bodies with the same limits and answers
// "ok", shows what the machine itself needs. Both are measured without the senders too.
//
// Each sender has an address of its own in 127.0.0.0/8, which works on Linux. It needs two open
// files; if fewer are allowed (ulimit -n), there are fewer senders, which the first line reports.
// The exit status is 1 if the 99th percentile of an endpoint of the server exceeds the budget of 50
// ms with the senders, and does not without them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
)

// budget is the maximum of an endpoint's 99th percentile.
const budget = 50 * time.Millisecond

type options struct {
	senders   int
	span, gap time.Duration
	json      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.IntVar(&o.senders, "senders", 5000, "connections that send slowly")
	flag.DurationVar(&o.span, "for", 20*time.Second,
		"how long the endpoints are measured, each time; senders are thrown out after 10 s")
	flag.DurationVar(&o.gap, "gap", 20*time.Millisecond, "pause between two requests to an endpoint")
	flag.BoolVar(&o.json, "json", false, "one line of JSON for each endpoint")
	flag.Parse()
	within, err := run(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "slow:", err)
	case !within:
		fmt.Fprintln(os.Stderr, "slow: an endpoint takes longer than", budget)
	default:
		return
	}
	stop()
	os.Exit(1)
}

// spareFiles is the number of open files of the process besides the senders.
const spareFiles = 500

// affordable is the possible number of senders: this process holds both ends of each.
func affordable(senders int) (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil { // Go sets it to l.Max
		return 0, err
	}
	most := (int(min(l.Cur, 1<<30)) - spareFiles) / 2
	if most <= 0 {
		return 0, fmt.Errorf("%d open files are too few", l.Cur)
	}
	return min(senders, most), nil
}

// line is the result of an endpoint.
type line struct {
	Server   string        `json:"server"`
	Endpoint string        `json:"endpoint"`
	Senders  int           `json:"senders"`
	Came     float64       `json:"came_per_second"` // reconnects of senders
	Asked    int           `json:"requests"`
	P50      time.Duration `json:"p50_ns"`
	P99      time.Duration `json:"p99_ns"`
	Max      time.Duration `json:"max_ns"`
}

func run(ctx context.Context, o options) (within bool, err error) {
	senders, err := affordable(o.senders)
	if err != nil {
		return false, err
	}
	if !o.json {
		fmt.Printf("%d slow senders (%d were wanted), a request every %v at each endpoint for %v\n", senders, o.senders,
			o.gap, o.span)
	}
	bare, err := startBare()
	if err != nil {
		return false, err
	}
	defer bare.stop()
	whole, err := startWhole(ctx)
	if err != nil {
		return false, err
	}
	defer whole.stop()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !o.json {
		fmt.Fprintln(table, "server\tdoor\tsenders\tcome a second\trequests\tp50 ms\tp99 ms\tmax ms\t")
	}
	within = true
	alone := map[string]time.Duration{} // 99th percentile of an endpoint without senders
	for _, n := range []int{0, senders} {
		for _, t := range []*target{bare, whole} {
			lines, err := t.measure(ctx, n, o)
			if err != nil {
				return false, fmt.Errorf("%s, %d senders: %w", t.name, n, err)
			}
			for _, l := range lines {
				if n == 0 {
					alone[l.Server+l.Endpoint] = l.P99
				}
				within = within && (t == bare || l.P99 <= max(budget, alone[l.Server+l.Endpoint]))
				if o.json {
					json.NewEncoder(os.Stdout).Encode(l) //nolint:errcheck // standard output
					continue
				}
				fmt.Fprintf(table, "%s\t%s\t%d\t%.0f\t%d\t%s\t%s\t%s\t\n", l.Server, l.Endpoint, l.Senders, l.Came,
					l.Asked, ms(l.P50), ms(l.P99), ms(l.Max))
			}
		}
	}
	return within, table.Flush()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }
