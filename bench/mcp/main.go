// Command mcp measures calls of a tool that returns its text, at several MCP servers: a plain
// net/http handler that only parses, validates and answers the same JSON, the official Go SDK,
// mcp-go, and this project's endpoints as in production, with keys, rules, an audit log on the
// disk, metrics and request ids.
//
//	go run ./bench/mcp [-c 1,16,64] [-rounds 5] [-d 1.5s] [-only patchbay] [-json]
//	go run ./bench/mcp -idle 2000 [-busy 200] [-d 10s]
//
// Each server is a process of its own, and each round measures every server once, in random order,
// since the speed of a machine drifts. The last column compares a server with the plain handler of
// the same round (median of the rounds). Each client is a plain connection with a session of its
// own. Every response is compared with the expected one; a server with wrong responses is reported
// and left out.
//
// With -idle it opens sessions that only listen, in each of the three ways of MCP, while other
// clients call tools. At the end every idle session must be notified of a new tool.
//
// mcp-go is built from test/peers/mcpgo; start the benchmark at the top of the repository.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are the options of the command line.
type options struct {
	clients  []int
	rounds   int
	span     time.Duration
	only     []string
	json     bool
	profiles string
	idle     int
	busy     int
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == serveFlag {
		if err := serve(os.Args[2]); err != nil {
			fail(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse()
	if err == nil && o.idle > 0 {
		err = measureIdle(ctx, os.Stdout, o)
	} else if err == nil {
		err = measureCalls(ctx, os.Stdout, o)
	}
	if err != nil {
		stop()
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mcp:", err)
	os.Exit(1)
}

func parse() (o options, err error) {
	clients := flag.String("c", "1,16,64", "clients at a time, separated by commas")
	only := flag.String("only", "",
		"measure only servers whose names contain one of these, separated by commas; the plain handler is always measured")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; each measures every server once")
	flag.DurationVar(&o.span, "d", 1500*time.Millisecond, "time that one server is measured in a round")
	flag.BoolVar(&o.json, "json", false, "print every single measurement, as lines of JSON")
	flag.StringVar(&o.profiles, "profiles", "", "folder for CPU and memory profiles of the last round")
	flag.IntVar(&o.idle, "idle", 0, "sessions that only listen; more than 2,300 are more than one key may have")
	flag.IntVar(&o.busy, "busy", 200, "with -idle: sessions that call a tool meanwhile")
	flag.Parse()
	for _, field := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return o, fmt.Errorf("-c: %q is no number of clients", field)
		}
		o.clients = append(o.clients, n)
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	return o, nil
}

// contender is a server and a revision of the protocol.
type contender struct {
	name   string
	server string // its name for serve
	wire   wire
	at     *process
}

// plainName is the name of the server that the others are compared with.
const plainName = "net/http"

var contenders = []contender{
	{name: plainName, server: "plain", wire: bare},
	{name: "net/http 2026-07-28", server: "plain", wire: fresh},
	{name: "go-sdk sessions", server: "sdk", wire: sessions},
	{name: "go-sdk 2026-07-28", server: "sdk-stateless", wire: fresh},
	{name: "mcp-go sessions", server: "mcp-go", wire: sessions},
	{name: "mcp-go 2026-07-28", server: "mcp-go", wire: fresh},
	{name: "patchbay sessions", server: "patchbay", wire: sessions},
	{name: "patchbay 2026-07-28", server: "patchbay", wire: fresh},
	{name: "patchbay HTTP+SSE", server: "patchbay", wire: pipes},
}

// row is one measurement.
type row struct {
	Server  string        `json:"server"`
	Clients int           `json:"clients"`
	Round   int           `json:"round"`
	Rate    float64       `json:"calls_per_second"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	CPU     float64       `json:"server_cpu_us_per_call"`
	RSS     float64       `json:"server_rss_mib"`
	Part    float64       `json:"part_of_plain"`
}

// measureCalls prints the table of all servers.
func measureCalls(ctx context.Context, out io.Writer, o options) error {
	fleet, err := startAll(ctx, o.only)
	if err != nil {
		return err
	}
	defer fleet.stop()
	broken := map[string]bool{}
	var rows []row
	for _, n := range o.clients {
		for round := range o.rounds {
			some, err := measureRound(ctx, o, fleet, n, round, broken)
			if err != nil {
				return err
			}
			rows = append(rows, some...)
		}
	}
	if o.json {
		lines := json.NewEncoder(out)
		for _, r := range rows {
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(out, "a tool that says its text back; %d rounds of %v\n", o.rounds, o.span)
	return printRows(out, rows, o.clients)
}

// measureRound measures every server once, in random order.
func measureRound(ctx context.Context, o options, fleet *fleet, clients, round int,
	broken map[string]bool) ([]row, error) {
	var rows []row
	plain := 0.0
	for _, i := range rand.Perm(len(fleet.contenders)) {
		c := fleet.contenders[i]
		if broken[c.name] {
			continue
		}
		var profile func(time.Duration) error
		if round == o.rounds-1 {
			profile = profilesOf(ctx, c, o.profiles, clients)
		}
		got, err := runLoad(ctx, c, clients, o.span, profile)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			broken[c.name] = true
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", c.name, err)
			continue
		}
		if c.name == plainName {
			plain = got.rate
		}
		rows = append(rows, row{Server: c.name, Clients: clients, Round: round, Rate: got.rate, P50: got.at(.5),
			P99: got.at(.99), CPU: got.cpu, RSS: got.rss})
	}
	if plain == 0 {
		return nil, fmt.Errorf("the plain handler could not be measured")
	}
	for i := range rows {
		rows[i].Part = rows[i].Rate / plain
	}
	return rows, nil
}

// printRows prints the results of the rounds.
func printRows(out io.Writer, rows []row, clients []int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "clients\tserver\tcalls/s (best)\tp50\tp99\tCPU a call\tRSS\tof plain (rounds)\t")
	for _, n := range clients {
		for _, c := range contenders {
			mine := slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
				return r.Server != c.name ||
					r.Clients != n
			})
			if len(mine) == 0 {
				continue
			}
			rates, parts := column(mine, func(r row) float64 { return r.Rate }), column(mine,
				func(r row) float64 { return r.Part })
			fmt.Fprintf(table, "%d\t%s\t%.0f (%.0f)\t%v\t%v\t%.0f µs\t%.0f MiB\t%.0f %% (%.0f–%.0f)\t\n", n, c.name,
				middle(rates), rates[len(rates)-1],
				middle(column(mine, func(r row) time.Duration { return r.P50 })),
				middle(column(mine, func(r row) time.Duration { return r.P99 })),
				middle(column(mine, func(r row) float64 { return r.CPU })),
				middle(column(mine, func(r row) float64 { return r.RSS })),
				100*middle(parts), 100*parts[0], 100*parts[len(parts)-1])
		}
	}
	return table.Flush()
}

// column returns one field of all rows, sorted.
func column[T cmp.Ordered](rows []row, field func(row) T) []T {
	var out []T
	for _, r := range rows {
		out = append(out, field(r))
	}
	slices.Sort(out)
	return out
}

func middle[T any](sorted []T) T { return sorted[len(sorted)/2] }
