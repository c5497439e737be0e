// Command invoke measures node.invoke of OpenClaw gateways: an operator calls a command of a node
// through a gateway, each over a WebSocket of its own.
//
//	go run ./bench/invoke [-c 1,32] [-rounds 5] [-d 2s] [-peer] [-json]
//	go run ./bench/invoke -idle 5000 [-d 10s]
//
// It compares this program ("patchbay serve", built for it, with its database on the disk) with a
// bare hop, which forwards the messages of both clients without parsing them, and with -peer with a
// real OpenClaw gateway. One command has effects, and one only reads; the result has 64 bytes of
// text, and every response is compared with the expected one.
//
// Each gateway is a process of its own, and each round measures every one once, in random order,
// since the speed of a machine drifts. The last column compares a gateway with the bare hop of the
// same round (median of the rounds). The operator and the node are in this process; they write at
// once when no more data is buffered, and so does the bare hop. The processor time of the clients
// is printed too, because on a small machine the gateway lacks it.
//
// With -idle it connects paired and approved nodes that send nothing, and prints the cost of each;
// then an operator calls commands of random nodes. 5,000 nodes need as many open files, here and in
// the server: see ulimit -n.
//
// OpenClaw is installed with "npm ci" in test/peers/openclaw. Start the benchmark at the top of the
// repository.
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
	at      []int
	rounds  int
	span    time.Duration
	peer    bool
	json    bool
	only    string
	profile string
	program string
	idle    int
}

// The commands that are called.
const (
	acting  = "mcp.tools.call"
	reading = "mcp.tools.list"
)

var commands = []string{acting, reading}

func main() {
	if len(os.Args) > 2 && os.Args[1] == serveFlag {
		if err := serve(os.Args[2], os.Args[3:]); err != nil {
			fail(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse()
	switch {
	case err != nil:
	case o.idle > 0:
		err = measureIdle(ctx, os.Stdout, o)
	default:
		err = measureCalls(ctx, os.Stdout, o)
	}
	if err != nil {
		stop()
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "invoke:", err)
	os.Exit(1)
}

func parse() (o options, err error) {
	at := flag.String("c", "1,32", "calls at a time, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; each measures every gateway once")
	flag.DurationVar(&o.span, "d", 2*time.Second,
		"time that one gateway is measured in a round; with -idle, that the idle server and the calls are")
	flag.BoolVar(&o.peer, "peer", false, "measure a real OpenClaw gateway, too")
	flag.StringVar(&o.only, "only", "",
		"measure only gateways and commands whose names contain this; the bare hop is always measured")
	flag.BoolVar(&o.json, "json", false, "print every single measurement, as lines of JSON")
	flag.StringVar(&o.profile, "profile", "",
		"file for a profile of Patchbay: of its processor in the last round, of its memory with -idle")
	flag.StringVar(&o.program, "program", "", "the patchbay that is measured; without it, it is built")
	flag.IntVar(&o.idle, "idle", 0, "nodes that are connected and say nothing")
	flag.Parse()
	for _, field := range strings.Split(*at, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return o, fmt.Errorf("-c: %q is no number of calls", field)
		}
		o.at = append(o.at, n)
	}
	return o, filesFor(o.idle)
}

// spareFiles is the number of open files of a process besides its nodes.
const spareFiles = 300

// filesFor returns an error if the limit of open files is too low for the nodes.
func filesFor(nodes int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if need := uint64(nodes + spareFiles); l.Cur < need { // Go sets the soft limit to l.Max
		return fmt.Errorf("%d nodes need %d open files, and %d are allowed; try: ulimit -n %d", nodes, need, l.Cur,
			need)
	}
	return nil
}

// contender is a gateway and a command that is called through it.
type contender struct {
	name    string
	command string
	at      *process
}

// bareName is the name of the gateway that the others are compared with.
const bareName = "bare hop"

// row is one measurement.
type row struct {
	Gateway string        `json:"gateway"`
	Command string        `json:"command,omitempty"`
	At      int           `json:"at_a_time"`
	Round   int           `json:"round"`
	Rate    float64       `json:"calls_per_second"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	CPU     float64       `json:"gateway_cpu_us_per_call"`
	Own     float64       `json:"clients_cpu_us_per_call"`
	RSS     float64       `json:"gateway_rss_mib"`
	Part    float64       `json:"part_of_bare"`
}

// measureCalls prints the table of all gateways.
func measureCalls(ctx context.Context, out io.Writer, o options) error {
	f, err := startAll(ctx, o)
	if err != nil {
		return err
	}
	defer f.stop()
	var rows []row
	for _, at := range o.at {
		for round := range o.rounds {
			some, err := measureRound(ctx, o, f.contenders, at, round)
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
	fmt.Fprintf(out, "node.invoke with %d bytes of result; %d rounds of %v\n", resultBytes, o.rounds, o.span)
	return printRows(out, rows, o.at, f.contenders)
}

// measureRound measures every gateway once, in random order.
func measureRound(ctx context.Context, o options, contenders []contender, at, round int) ([]row, error) {
	var rows []row
	bare := 0.0
	for _, i := range rand.Perm(len(contenders)) {
		c := &contenders[i]
		profile := ""
		if round == o.rounds-1 && o.profile != "" && c.at.Debug != "" {
			profile = fmt.Sprintf("%s.%s.%d", o.profile, c.command, at)
		}
		r, err := measure(ctx, c, at, o.span, profile)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.name, c.command, err)
		}
		if r.Round = round; c.name == bareName {
			bare = r.Rate
		}
		rows = append(rows, *r)
	}
	for i := range rows {
		rows[i].Part = rows[i].Rate / bare
	}
	return rows, nil
}

// settle is the duration of the load before the measurement.
const settle = 300 * time.Millisecond

// measure calls a command as fast as it is answered.
func measure(ctx context.Context, c *contender, at int, span time.Duration, profile string) (*row, error) {
	p, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer p.close()
	defer context.AfterFunc(ctx, p.operator.close)()
	p.limit(time.Now().Add(settle + span + patience))
	if _, err := p.calls.run(at, time.Now().Add(settle)); err != nil {
		return nil, err
	}
	profiled := make(chan error, 1)
	go func() {
		profiled <- c.at.saveProfile(ctx, fmt.Sprintf("profile?seconds=%d", max(1, int(span.Seconds()))), profile)
	}()
	cpu, own, start := c.at.cpu(), cpuOf(os.Getpid()), time.Now()
	took, err := p.calls.run(at, start.Add(span))
	if err != nil {
		return nil, err
	}
	real := time.Since(start)
	n := float64(len(took))
	r := &row{
		Gateway: c.name, Command: c.command, At: at, Rate: n / real.Seconds(), CPU: micros(c.at.cpu()-cpu) / n,
		Own: micros(cpuOf(os.Getpid())-own) / n, RSS: c.at.rss(),
		P50: quantile(took, .5), P99: quantile(took, .99),
	}
	return r, <-profiled
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// quantile sorts times and returns a quantile.
func quantile(times []time.Duration, part float64) time.Duration {
	slices.Sort(times)
	return times[min(int(part*float64(len(times))), len(times)-1)].Round(time.Microsecond)
}

// printRows prints the results of the rounds.
func printRows(out io.Writer, rows []row, at []int, contenders []contender) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table,
		"at a time\tgateway\tcommand\tcalls/s (best)\tp50\tp99\tCPU a call\tclients' CPU\tRSS\tof bare hop (rounds)\t")
	for _, n := range at {
		for _, c := range contenders {
			mine := slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
				return r.Gateway != c.name ||
					r.Command != c.command || r.At != n
			})
			rates, parts := column(mine, func(r row) float64 { return r.Rate }), column(mine,
				func(r row) float64 { return r.Part })
			fmt.Fprintf(table, "%d\t%s\t%s\t%.0f (%.0f)\t%v\t%v\t%.0f µs\t%.0f µs\t%.0f MiB\t%.0f %% (%.0f–%.0f)\t\n",
				n, c.name, c.command, middle(rates), rates[len(rates)-1],
				middle(column(mine, func(r row) time.Duration { return r.P50 })),
				middle(column(mine, func(r row) time.Duration { return r.P99 })),
				middle(column(mine, func(r row) float64 { return r.CPU })),
				middle(column(mine, func(r row) float64 { return r.Own })),
				middle(column(mine, func(r row) float64 { return r.RSS })), 100*middle(parts), 100*parts[0],
				100*parts[len(parts)-1])
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
