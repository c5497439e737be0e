package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"patchbay/bench/served"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/ogg"
)

const (
	// warmup is the duration of conversations before the measurement.
	warmup = 5 * time.Second
	// clip is the duration of the sound that is played repeatedly. It is shorter than the server's
	// maximum.
	clip = 4 * time.Minute
)

// speechPackets are packets of speech without pauses.
func speechPackets() (packets [][]byte) {
	for _, p := range sim.GoodMorning() {
		if len(p) > 40 {
			packets = append(packets, p)
		}
	}
	return packets
}

// sound returns an Ogg Opus file of the given length.
func sound(length time.Duration) ([]byte, error) {
	var file bytes.Buffer
	w, err := ogg.NewWriter(&file, ogg.WriterOptions{Channels: 1, InputRate: wire.UplinkRate, Vendor: "bench"})
	for said := speechPackets(); err == nil && w.Length() < length; {
		for _, p := range said {
			if err = w.Write(p); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = w.Close()
	}
	return file.Bytes(), err
}

// serveSound serves a file on this machine, and returns its URL.
func serveSound(ctx context.Context, file []byte) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.Write(file) //nolint:errcheck // the client has left
	})}
	context.AfterFunc(ctx, func() { s.Close() })
	go s.Serve(l) //nolint:errcheck // ends with ctx
	return "http://" + l.Addr().String() + "/sound", nil
}

// measureBusy prints the cost of boards in conversations with sound in both directions.
func measureBusy(ctx context.Context, out io.Writer, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	file, err := sound(min(clip, o.long+warmup+10*time.Second))
	if err != nil {
		return err
	}
	address, err := serveSound(ctx, file)
	if err != nil {
		return err
	}
	s, err := served.Start(ctx, "xiaozhi.transport="+o.transport)
	if err != nil {
		return err
	}
	defer s.Stop()
	f := boot(ctx, s, 0, o.busy, wire.ModeRealtime)
	defer f.close()
	if f.failed > 0 {
		return f.why
	}
	before, err := s.Memory(ctx)
	if err != nil {
		return err
	}
	talking, stopTalking := context.WithCancel(ctx)
	defer stopTalking()
	client := callers(o.busy)
	errs := make([]error, o.busy)
	var wg sync.WaitGroup
	for i, b := range f.boards {
		wg.Go(func() {
			errs[i] = busy(talking, s, client, b, address, time.Duration(i)*wire.UplinkFrame*17/time.Duration(o.busy))
		})
	}
	_ = netx.Wait(ctx, warmup)
	cpu, own := s.CPU(), served.CPUOf(os.Getpid())
	was := f.total()
	profiled := make(chan error, 1)
	go func() {
		if o.profile == "" {
			profiled <- nil
		} else {
			profiled <- s.SaveProfile(ctx, fmt.Sprintf("profile?seconds=%d", max(1, int(o.long.Seconds()))), o.profile)
		}
	}()
	_ = netx.Wait(ctx, o.long)
	cpu, own = s.CPU()-cpu, served.CPUOf(os.Getpid())-own
	t := f.total()
	rss := s.RSS()
	after, err := s.Memory(ctx)
	if err != nil {
		return err
	}
	stopTalking()
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := <-profiled; err != nil {
		return err
	}
	_ = netx.Wait(ctx, time.Second) // playbacks and conversations are counted when they end
	late, err := statuses(ctx, s, client, f)
	if err != nil {
		return err
	}
	f.close()
	_ = netx.Wait(ctx, time.Second)
	n, err := s.Numbers(ctx)
	if err != nil {
		return err
	}
	boards := float64(o.busy)
	due := boards * o.long.Seconds() / wire.UplinkFrame.Seconds()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "boards that talk\t%d over %s for %v\n", o.busy, o.transport, o.long)
	fmt.Fprintf(w, "processor\t%.2f %% of a core each\t%.0f %% in all, the boards %.0f %%\n", share(cpu, o.long)/boards,
		share(cpu, o.long), share(own, o.long))
	fmt.Fprintf(w, "memory\t%.0f KiB heap each\t%.1f goroutines each, RSS %.0f MiB\n",
		float64(after.Heap-before.Heap)/boards/1024, float64(after.Goroutines-before.Goroutines)/boards, rss/(1<<20))
	fmt.Fprintf(w, "packets from boards\t%.1f %% of all\t%.0f dropped by the server, %.0f missing, %d not sent by the boards\n", 100*float64(t.Sent-was.Sent)/due,
		n[`patchbay_xiaozhi_packets_total{outcome="dropped",way="up"}`],
		n[`patchbay_xiaozhi_packets_total{outcome="missing",way="up"}`], t.SendDropped)
	fmt.Fprintf(w, "packets to boards\t%.1f %% of all\tdropped by the boards: %d as they did not speak, %d as they had no room, %d as they began to speak; %d times nothing to play\n",
		100*float64(t.Received-was.Received)/due, t.DroppedState, t.DroppedQueue, t.DroppedReset, t.Underruns)
	fmt.Fprintf(w, "between two packets\tp50 %v\tp99 %v, max %v, at the boards\n", t.Interval(.5), t.Interval(.99),
		t.Interval(1))
	fmt.Fprintf(w, "jitter at the boards\tp50 %v\tp99 %v, p99.9 %v\n", t.Jitter(.5), t.Jitter(.99), t.Jitter(.999))
	fmt.Fprintf(w, "lateness at the server\tp99 %.1f ms\tof the median board, %.1f ms of the worst; latest %.1f ms; %.0f packets by 20 ms or more, %.0f gaps\n",
		late.median, late.worst, late.latest, n["patchbay_xiaozhi_late_packets_total"],
		n["patchbay_xiaozhi_gaps_total"])
	for _, v := range t.Violations {
		fmt.Fprintf(w, "against the protocol\t%v\n", v)
	}
	return w.Flush()
}

// busy sends speech from a board and plays sound on it until ctx ends. It begins after a random
// time, so that the boards do not send in step.
func busy(ctx context.Context, s *served.Server, client *http.Client, b *sim.Board, sound string,
	after time.Duration) error {
	if netx.Wait(ctx, after) != nil {
		return nil
	}
	err := b.Press(ctx)
	_ = netx.Wait(ctx, time.Second) // the server learns of the conversation after the board
	var speaks sync.WaitGroup
	defer speaks.Wait()
	speaks.Go(func() {
		for said := speechPackets(); ctx.Err() == nil && b.Talk(ctx, said) == nil; {
		}
	})
	for err == nil && ctx.Err() == nil {
		_, err = call(ctx, s, client, b.MAC(), "play", `{"url":"`+sound+`"}`)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lateness are the server's measurements of sent packets, in milliseconds.
type lateness struct{ median, worst, latest float64 }

// statuses requests the statistics of all conversations from the server.
func statuses(ctx context.Context, s *served.Server, client *http.Client, f *fleet) (l lateness, err error) {
	var all []float64
	for _, b := range f.boards {
		text, err := call(ctx, s, client, b.MAC(), "status", "{}")
		if err != nil {
			return l, err
		}
		var r struct {
			Structured struct {
				Talk struct {
					Down struct {
						Latest float64 `json:"latest_ms"`
						P99    float64 `json:"jitter_p99_ms"`
					} `json:"to_board"`
				} `json:"conversation"`
			} `json:"structuredContent"`
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return l, err
		}
		down := r.Structured.Talk.Down
		all = append(all, down.P99)
		l.worst, l.latest = max(l.worst, down.P99), max(l.latest, down.Latest)
	}
	l.median = sim.Quantile(all, .5)
	return l, nil
}
