package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"patchbay/bench/served"
	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

const (
	// warmup is the duration of conversations before the measurement.
	warmup = 5 * time.Second
	// ramp is the time in which the boards begin to talk, and gap the longest pause between an
	// answer and the next question: they would talk in step otherwise.
	ramp = 4 * time.Second
	gap  = 300 * time.Millisecond
)

// leads are the waits after tts/start: boards drop packets that come before they have changed their
// state (xiaozhi-esp32 main/application.cc, Application::InitializeProtocol, OnIncomingAudio).
var leads = map[string]time.Duration{"websocket": 80 * time.Millisecond, "mqtt": 140 * time.Millisecond}

// bench is a server with boards, and the engines.
type bench struct {
	*served.Server
	engines *engines
	boards  []*sim.Board
	meter   *sim.Meter
	lead    time.Duration // from tts/start to the first packet, which boards need

	mu      sync.Mutex
	counts  bool // the measurement has begun
	samples map[string][]time.Duration
	answers int
	odd     int // answers without the figures of a turn
}

// start starts a server whose boards use the engines of a scene.
func start(ctx context.Context, o options, s scene, boards int) (*bench, error) {
	v, err := newVoice(ctx)
	if err != nil {
		return nil, err
	}
	b := &bench{samples: map[string][]time.Duration{}, meter: sim.NewMeter(),
		lead: leads[o.transport]}
	if b.engines, err = startEngines(s, v, o.format); err == nil {
		b.Server, err = served.Start(ctx, "xiaozhi.transport="+o.transport, "xiaozhi.silence=10m",
			"speech.url=funasr+ws://"+b.engines.URL, "speech.speak_url=http://"+b.engines.URL+"/v1",
			"speech.format="+o.format)
	}
	if err == nil {
		err = b.boot(ctx, boards)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	var wg sync.WaitGroup
	for _, board := range b.boards {
		wg.Go(board.Close)
	}
	wg.Wait()
	if b.Server != nil {
		b.Stop()
	}
	if b.engines != nil {
		b.engines.stop()
	}
	b.meter.Close()
}

// boot boots boards, and binds them to a bot that asks the model.
func (b *bench) boot(ctx context.Context, boards int) error {
	c := api.NewClient(b.URL, b.Key, i18n.English)
	c.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 1}
	_, err := api.AddBot.Call(ctx, c, control.NewBot{Name: "bench", Kind: "openai", Settings: control.SettingTexts{
		"base_url": "http://" + b.engines.URL + "/v1", "model": "m"}})
	if err != nil {
		return err
	}
	for i := range boards {
		board := sim.New(sim.Options{
			OTA: b.URL + xiaozhi.OTAPath, MAC: fmt.Sprintf("02:be:00:%02x:%02x:%02x", i>>16&0xff, i>>8&0xff, i&0xff),
			UUID: fmt.Sprintf("be000000-0000-4000-8000-%012x", i), Profile: sim.FW25, Dial: sim.DialFrom(i), Lang: "en-US",
			// The delay of a board's event loop does not concern the server.
			Latency: func() time.Duration { return 0 },
			Slack:   20 * time.Millisecond, Stalled: b.meter.Stalled,
		})
		b.boards = append(b.boards, board)
		if err := board.Boot(ctx); err != nil {
			return err
		}
		if _, err := api.ChangeDevice.Call(ctx, c, control.DeviceChange{Device: board.MAC(),
			Bot: new("bench")}); err != nil {
			return err
		}
		if _, err := api.ChangeDeviceVoice.Call(ctx, c, control.DeviceVoiceChange{Device: board.MAC(),
			Settings: control.SettingTexts{"silence": pause.String()}}); err != nil {
			return err
		}
	}
	return netx.Wait(ctx, 2*time.Second) // until the server knows the changes
}

// talk asks one question after the other with a board.
func (b *bench) talk(ctx context.Context, board *sim.Board, question [][]byte) error {
	if err := netx.Wait(ctx, rand.N(ramp)); err != nil {
		return nil
	}
	if err := board.Press(ctx); err != nil {
		return err
	}
	for {
		a, err := board.Ask(ctx, question)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", board.MAC(), err)
		}
		b.sample(a)
		if netx.Wait(ctx, rand.N(gap)) != nil {
			return nil
		}
	}
}

// measureTalk measures a scene with a number of boards.
func measureTalk(ctx context.Context, o options, s scene, boards int) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b, err := start(ctx, o, s, boards)
	if err != nil {
		return nil, err
	}
	defer b.close()
	question := speech(s.question)
	talking, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, boards)
	var wg sync.WaitGroup
	for i, board := range b.boards {
		wg.Go(func() { errs[i] = b.talk(talking, board, question) })
	}
	_ = netx.Wait(ctx, ramp+warmup)
	r, err := b.measure(ctx, o, s.name)
	stop()
	wg.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	b.report(r, s)
	return r, nil
}

// measureIdle measures boards that listen to nobody.
func measureIdle(ctx context.Context, o options) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b, err := start(ctx, o, idle, idle.boards)
	if err != nil {
		return nil, err
	}
	defer b.close()
	for _, board := range b.boards {
		if err := board.Press(ctx); err != nil {
			return nil, err
		}
	}
	_ = netx.Wait(ctx, warmup)
	r, err := b.measure(ctx, o, idle.name)
	if err == nil {
		r.judge(idle)
	}
	return r, err
}

// measure measures the server while boards do something.
func (b *bench) measure(ctx context.Context, o options, scene string) (*result, error) {
	b.count(true)
	before, err := b.Numbers(ctx)
	if err != nil {
		return nil, err
	}
	was := b.total()
	begun, cpu, own := time.Now(), b.CPU(), served.CPUOf(os.Getpid())
	profiled := make(chan error, 1)
	go func() {
		profiled <- b.SaveProfile(ctx, fmt.Sprintf("profile?seconds=%d", max(1, int(o.long.Seconds()))), o.profile)
	}()
	if err := netx.Wait(ctx, o.long); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	r := &result{Scene: scene, Boards: len(b.boards), Seconds: took.Seconds(), Server: cores(b.CPU()-cpu, took),
		Rest: cores(served.CPUOf(os.Getpid())-own, took), Memory: b.PeakRSS() / (1 << 20)}
	b.count(false)
	after, err := b.Numbers(ctx)
	if err != nil {
		return nil, err
	}
	r.read(before, after, was, b.total())
	return r, <-profiled
}

func cores(used, took time.Duration) float64 { return float64(used) / float64(took) }

func (b *bench) count(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts = on
}

// total sums up what the boards have seen.
func (b *bench) total() *sim.Total {
	t := &sim.Total{}
	for _, board := range b.boards {
		t.Add(board.Report())
	}
	return t
}
