// Command voice measures the voice loop: boards ask aloud, and a recogniser, a model and a speaker
// with fixed delays answer, so that what remains is the server's own share.
//
//	go run ./bench/voice [-scenes own,early,late,load,idle,table] [-boards 1,10,100] [-json]
//	go run ./bench/voice -scenes load -for 10m [-format pcm] [-transport mqtt] [-profile cpu.out]
//
// The scenes are:
//
//	own    the engines answer at once
//	early  they take as long as good ones do, and the bot is asked before the person has finished
//	late   the same, but the recogniser tells nothing before the end, so that the bot cannot be
//	load   100 boards talk all the time: questions of 3 s, answers of 5 s
//	idle   300 boards listen, and nobody says anything
//	table  how well the end of speech is found with noises behind it
//
// The server is a process of its own. The boards and the engines are simulated in this one, whose
// processor time is printed too: on a small machine both compete for the processors, so figures
// with 100 boards are upper bounds. Figures over their budget are marked with an exclamation mark,
// and the exit status is 1 then.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"patchbay/bench/served"
)

// options are the options of the command line.
type options struct {
	scenes    []string
	boards    []int
	long      time.Duration // of each measurement
	transport string
	format    string // of the speech: opus or pcm
	profile   string
	json      bool
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
	if err == nil {
		err = run(ctx, os.Stdout, o)
	}
	if err != nil {
		stop()
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "voice:", err)
	os.Exit(1)
}

func parse() (o options, err error) {
	list := flag.String("scenes", "own,early,late,load,idle,table", "what is measured")
	boards := flag.String("boards", "1,10,100", "how many boards talk in the scenes own, early and late")
	flag.DurationVar(&o.long, "for", time.Minute, "for how long each scene is measured")
	flag.StringVar(&o.transport, "transport", "websocket", "websocket or mqtt")
	flag.StringVar(&o.format, "format", "opus", "format of the engine's speech: opus, or pcm that the server encodes")
	flag.StringVar(&o.profile, "profile", "", "file for a profile of the server's processor time in the last scene")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	flag.Parse()
	if o.transport != "websocket" && o.transport != "mqtt" {
		return o, fmt.Errorf("-transport: %q is neither websocket nor mqtt", o.transport)
	}
	if o.format != "opus" && o.format != "pcm" {
		return o, fmt.Errorf("-format: %q is neither opus nor pcm", o.format)
	}
	for text := range strings.SplitSeq(*boards, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-boards: %q is not a number of boards", text)
		}
		o.boards = append(o.boards, n)
	}
	o.scenes = strings.Split(*list, ",")
	for _, name := range o.scenes {
		if !slices.Contains([]string{"idle", "table"}, name) && !slices.ContainsFunc(scenes, named(name)) {
			return o, fmt.Errorf("-scenes: there is no scene %q", name)
		}
	}
	return o, nil
}

// run measures the scenes.
func run(ctx context.Context, out io.Writer, o options) error {
	all := document{Transport: o.transport, Format: o.format}
	for _, name := range o.scenes {
		switch i := slices.IndexFunc(scenes, named(name)); {
		case name == "table":
			rows, err := measureTable(ctx)
			if err != nil {
				return err
			}
			if all.Table = rows; !o.json {
				printTable(out, rows)
			}
		case name == "idle":
			r, err := measureIdle(ctx, o)
			if err != nil {
				return err
			}
			all.add(out, o, r)
		default:
			for _, n := range scenes[i].boardsOr(o.boards) {
				r, err := measureTalk(ctx, o, scenes[i], n)
				if err != nil {
					return err
				}
				all.add(out, o, r)
			}
		}
	}
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(all); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(all.Results, func(r *result) bool { return len(r.Missed) > 0 }) {
		return errMissed
	}
	return nil
}

// errMissed means that a figure is over its budget. It is printed with the others.
var errMissed = errors.New("a budget is missed")
