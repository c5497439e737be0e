// Command boards measures the cost of voice boards for a server: of those that are only connected,
// and of those in a conversation.
//
//	go run ./bench/boards [-idle 10000] [-d 10s] [-calls 16]
//	go run ./bench/boards -busy 200 [-for 5m] [-transport websocket|mqtt]
//
// The server is a process of its own, wired like "patchbay serve --demo", with a folder of its own.
// The boards are simulated in this process, whose processor time is printed too: on a small machine
// both compete for the processors, so that a packet may be late because of the boards.
//
// With -busy there is sound in both directions all the time: each board sends speech in realtime
// mode without a pause, which the server parses packet by packet, and the server plays a long sound
// on it, fetched over HTTP and sent in 16.7 packets per second.
//
// Each board has an address of its own in 127.0.0.0/8, because a server limits the OTA requests of
// one address. That works on Linux. 10,000 boards need as many open files, here and in the server:
// see ulimit -n.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"patchbay/bench/served"
)

// options are the options of the command line.
type options struct {
	idle, busy int
	span       time.Duration // duration of the measurements with idle boards
	callers    int
	long       time.Duration // duration of the conversations
	transport  string
	profile    string
}

func main() {
	if is, err := served.Serve(); is {
		if err != nil {
			fail(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse()
	switch {
	case err != nil:
	case o.busy > 0:
		err = measureBusy(ctx, os.Stdout, o)
	default:
		err = measureIdle(ctx, os.Stdout, o)
	}
	if err != nil {
		stop()
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "boards:", err)
	os.Exit(1)
}

func parse() (o options, err error) {
	flag.IntVar(&o.idle, "idle", 10000, "boards that are connected over MQTT, and silent")
	flag.DurationVar(&o.span, "d", 10*time.Second, "with -idle: for how long the idle server and calls are measured")
	flag.IntVar(&o.callers, "calls", 16, "with -idle: how many call tools of boards at the same time")
	flag.IntVar(&o.busy, "busy", 0, "boards that talk, instead of idle ones")
	flag.DurationVar(&o.long, "for", time.Minute, "with -busy: for how long")
	flag.StringVar(&o.transport, "transport", "websocket", "with -busy: websocket or mqtt")
	flag.StringVar(&o.profile, "profile", "",
		"file for a profile of the server: of its memory with -idle, of its processor time with -busy")
	flag.Parse()
	if o.transport != "websocket" && o.transport != "mqtt" {
		return o, fmt.Errorf("-transport: %q is neither websocket nor mqtt", o.transport)
	}
	return o, filesFor(max(o.idle, o.busy))
}

// spareFiles is the number of open files of a process besides its boards.
const spareFiles = 200

// filesFor returns an error if the limit of open files is too low for the boards.
func filesFor(boards int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if need := uint64(boards + boards/10 + spareFiles); l.Cur < need { // set by Go to l.Max
		return fmt.Errorf("%d boards need %d open files, and %d are allowed; try: ulimit -n %d", boards, need, l.Cur,
			need)
	}
	return nil
}
