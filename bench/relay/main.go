// Command relay measures what a relay adds between clients and homes, beside a bare TCP proxy
// (io.Copy both ways) between the same ends.
//
//	go run ./bench/relay [-for 5s] [-homes 1000] [-each 10] [-json]
//
// Relay and proxy are processes of their own; clients and homes are in this one. Latency is that of
// 64 bytes there and back over an open connection, one at a time; throughput is that of one stream
// and of 8, in one direction. Then the homes connect, each gets its connections of clients, and the
// memory of the relay is read. Each connection takes two open files of the relay; if fewer are
// allowed (ulimit -n), there are fewer connections for each home, and the budget is for those.
//
// The exit status is 1 if the relay adds more than 1 ms to the 99th percentile, passes less than 80
// % of the proxy's bytes, or needs more than 500 MB for 10,000 connections of 1,000 homes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The budgets.
const (
	addedBudget  = time.Millisecond
	shareBudget  = 0.8
	memoryBudget = 500 << 20 // for fullSize connections
	fullSize     = 10_000
)

type options struct {
	homes, each int
	span        time.Duration
	json        bool
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == childFlag {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.IntVar(&o.homes, "homes", 1000, "homes that are connected")
	flag.IntVar(&o.each, "each", 10, "connections of clients to each home")
	flag.DurationVar(&o.span, "for", 5*time.Second, "how long each thing is measured")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	flag.Parse()
	r, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		stop()
		os.Exit(1)
	}
	r.print(o.json)
	if missed := r.missed(); missed != "" {
		fmt.Fprintln(os.Stderr, "relay:", missed)
		stop()
		os.Exit(1)
	}
}

// result is what was measured. Times are in microseconds, rates in bytes per second.
type result struct {
	ProxyP50, ProxyP99, RelayP50, RelayP99 float64
	ProxyOne, RelayOne, ProxyMany          float64
	RelayMany                              float64
	Homes, Connections                     int
	Memory                                 int64 // resident, in bytes
	SetupP50, SetupP99                     float64
}

func (r result) missed() string {
	budget := int64(memoryBudget) * int64(r.Connections) / fullSize
	switch {
	case r.RelayP99-r.ProxyP99 > float64(addedBudget.Microseconds()):
		return fmt.Sprintf("it adds %.0f µs at the 99th percentile", r.RelayP99-r.ProxyP99)
	case r.RelayOne < shareBudget*r.ProxyOne, r.RelayMany < shareBudget*r.ProxyMany:
		return "it passes too little"
	case r.Memory > budget:
		return fmt.Sprintf("it needs %d MB, more than %d", r.Memory>>20, budget>>20)
	}
	return ""
}

func (r result) print(asJSON bool) {
	if asJSON {
		json.NewEncoder(os.Stdout).Encode(r) //nolint:errcheck // the reader may be gone
		return
	}
	fmt.Printf("there and back   proxy p50 %.0f p99 %.0f µs   relay p50 %.0f p99 %.0f µs\n", r.ProxyP50, r.ProxyP99,
		r.RelayP50, r.RelayP99)
	fmt.Printf("one stream       proxy %.2f GB/s   relay %.2f GB/s   %.0f %%\n", r.ProxyOne/1e9, r.RelayOne/1e9,
		100*r.RelayOne/r.ProxyOne)
	fmt.Printf("eight streams    proxy %.2f GB/s   relay %.2f GB/s   %.0f %%\n", r.ProxyMany/1e9, r.RelayMany/1e9,
		100*r.RelayMany/r.ProxyMany)
	fmt.Printf("new connection   hello to first byte p50 %.0f p99 %.0f µs\n", r.SetupP50, r.SetupP99)
	fmt.Printf("memory           %d homes, %d connections: %d MB\n", r.Homes, r.Connections, r.Memory>>20)
}
