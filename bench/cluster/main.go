// Command cluster measures the cost of devices for an installation of three instances.
//
//	go run ./bench/cluster                              24,000 boards and 6,000 nodes
//	go run ./bench/cluster -boards 800 -nodes 200       a trial
//
// It starts three instances of the program, PostgreSQL and a NATS server, and connects idle voice
// boards over MQTT and OpenClaw nodes, which are distributed over the instances. Then it prints:
//
//   - memory: of a device that is only known, which is on every instance, and of one that is
//     connected, on all instances together;
//   - traffic without activity, and per connection: messages and bytes on the bus, as the NATS
//     server counts them, and transactions of PostgreSQL;
//   - the cost of approving one more board, for all instances;
//   - the time until all devices are back after one instance was restarted, after all were
//     restarted one after the other, and after one was killed, and how many connections were
//     refused meanwhile;
//   - calls of a board's tool at the instance that holds the board and at another instance, and a
//     bare request and response of the same size over the same NATS server.
//
// The devices are in two or more processes of their own, because each connection needs an open
// file, and the number of open files per process is limited (ulimit -n). Each device has an address
// of its own in 127.0.0.0/8, which works on Linux. There is no load balancer: as with one, a device
// connects to the instance that has the fewest of its process's devices, of those whose /readyz
// reports that they are ready.
//
// On a small machine everything shares the same processors, including PostgreSQL, NATS and the
// devices. Compare the processor times, which are printed for each of them.
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

// options are the options of the command line.
type options struct {
	boards, nodes int
	span          time.Duration
	calls         int
	restarts      bool
	json          bool
	keep          bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == clientsFlag {
		if err := clients(os.Stdin, os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, parse()); err != nil {
		stop()
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "cluster:", err)
	os.Exit(1)
}

func parse() (o options) {
	flag.IntVar(&o.boards, "boards", 24_000, "voice boards that are connected over MQTT, and silent")
	flag.IntVar(&o.nodes, "nodes", 6_000, "OpenClaw nodes that are connected, and silent")
	flag.DurationVar(&o.span, "d", 30*time.Second, "for how long the idle installation is measured")
	flag.IntVar(&o.calls, "calls", 2_000, "how many calls of each kind are measured, one after the other")
	flag.BoolVar(&o.restarts, "restarts", true, "restart instances, and measure until all devices are back")
	flag.BoolVar(&o.json, "json", false, "print what was measured as lines of JSON")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the logs")
	flag.Parse()
	return o
}

// row is the result of one measurement.
type row struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Note  string  `json:"note,omitempty"`
}

// print prints a row at once: the next one may take minutes.
func (o *options) print(what string, value float64, unit, note string, args ...any) {
	r := row{what, value, unit, fmt.Sprintf(note, args...)}
	if o.json {
		json.NewEncoder(os.Stdout).Encode(r) //nolint:errcheck // standard output
		return
	}
	fmt.Printf("%-44s %12.2f %-18s %s\n", r.What, r.Value, r.Unit, r.Note)
}

// measure runs the measurements one after the other.
func measure(ctx context.Context, o options) (err error) {
	t, err := openCluster(o)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.measureMemory(ctx); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if err := t.measureIdle(ctx); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	if o.calls > 0 {
		if err := t.measureCalls(ctx); err != nil {
			return fmt.Errorf("calls: %w", err)
		}
	}
	if o.restarts {
		if err := t.measureRestarts(ctx); err != nil {
			return fmt.Errorf("restarts: %w", err)
		}
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// share is the percentage of one processor that was used.
func share(used, span time.Duration) float64 { return 100 * float64(used) / float64(span) }
