package xiaozhi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
	"patchbay/internal/voice/opus"
)

// house is a server for boards, with a board of bots behind it.
type house struct {
	t testing.TB
	*boardtest.Rig
	boards *xiaozhi.Boards
	home   *xiaozhi.Discovery
	mqtt   *mqtt.Server
	http   *httptest.Server
	log    *log
	bot    store.Bot
}

// houseOptions say how it differs from the usual one.
type houseOptions struct {
	boards  func(*xiaozhi.Options)
	home    func(*xiaozhi.DiscoveryOptions)
	rig     boardtest.Options
	mqtt    bool
	framing wire.Framing
}

func newHouse(t testing.TB, o houseOptions) *house {
	t.Helper()
	h := &house{t: t, Rig: boardtest.New(t, o.rig), log: &log{}}
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.bot = h.Add(t, "script", nil)
	encoders := opus.NewEncoders(8)
	audio, err := udp.Listen("127.0.0.1:0", udp.Options{Logger: logger})
	must(t, err)
	mux := http.NewServeMux()
	h.http = httptest.NewServer(mux)
	_, port, err := net.SplitHostPort(h.http.Listener.Addr().String())
	must(t, err)
	reg := prometheus.NewRegistry()
	bo := xiaozhi.Options{
		Accounts: h.Accounts, Store: h.Store, Hub: h.Board, Logger: logger, Registerer: reg, Voice: xiaozhi.Repeat{}, Encoders: encoders,
		Fetch: func(ctx context.Context, url string) (*http.Response, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return nil, err
			}
			return http.DefaultClient.Do(r)
		},
		Audio: audio, Port: port, Silence: 20 * time.Second, WakeWords: []string{"你好小智"},
	}
	if o.boards != nil {
		o.boards(&bo)
	}
	h.boards, err = xiaozhi.NewBoards(bo)
	must(t, err)
	must(t, h.boards.Refresh(ctx))
	photos := xiaozhi.NewPhotos(xiaozhi.PhotosOptions{Accounts: h.Accounts, Logger: logger, Registerer: reg, Taken: h.boards.Taken})
	do := xiaozhi.DiscoveryOptions{Accounts: h.Accounts, Logger: logger, Registerer: reg, Auto: h.Person.ID, AutoBot: h.bot.Number, Framing: o.framing}
	line, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if o.mqtt {
		do.Transport = store.TransportMQTT
	}
	_, mqttPort, err := net.SplitHostPort(line.Addr().String())
	must(t, err)
	do.MQTT = ":" + mqttPort
	if o.home != nil {
		o.home(&do)
	}
	h.home, err = xiaozhi.NewDiscovery(do)
	must(t, err)
	h.mqtt = mqtt.New(mqtt.Options{Auth: h.boards.AdmitMQTT, Connected: func(c *mqtt.Conn) mqtt.Session { return h.boards.ConnectedMQTT(c) }, Logger: logger})
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- h.mqtt.Serve(serving, line, nil) }()
	mux.Handle(xiaozhi.HomePath, h.home)
	mux.HandleFunc(xiaozhi.SocketPath, h.boards.ServeSocket)
	mux.Handle(xiaozhi.VisionPath, photos)
	mux.HandleFunc("GET /media/{token}", h.Board.ServeMedia)
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		h.boards.Close()
		limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.mqtt.Shutdown(limit); err != nil {
			t.Error(err)
		}
		audio.Close()
		h.http.Close()
		if err := encoders.Close(limit); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(h.log.String())
		}
	})
	return h
}

// device makes a simulated board.
func (h *house) device(o sim.Options) *sim.Board {
	o.OTA = h.http.URL + xiaozhi.HomePath
	o.Scale = 0.01
	if o.Slack == 0 {
		o.Slack = 20 * time.Second // the machine may be busy
	}
	meter := sim.NewMeter()
	h.t.Cleanup(meter.Close)
	o.Held = meter.Held
	b := sim.New(o)
	h.t.Cleanup(b.Close)
	return b
}

// call calls a tool of the board with a MAC address as its owner does.
func (h *house) call(ctx context.Context, mac, name, args string) (*tool.Result, error) {
	h.t.Helper()
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, mac)
	if err != nil {
		return nil, err
	}
	_, _, tools := h.Board.Plugged(xiaozhi.OutletOf(d.Number))
	for _, o := range tools {
		if o.Tool.Name == name {
			rules := board.Rules{Dangerous: []string{"*"}}.String()
			return h.Board.Call(ctx, board.Access{Caller: tool.Caller{Person: d.Owner, Door: "mcp"}, Rules: rules}, o.Name, &tool.Call{Args: json.RawMessage(args)})
		}
	}
	return nil, fmt.Errorf("%s has no tool %s", mac, name)
}

// limit ends a test that hangs.
func limit(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// clean fails a test if a board saw its server do something wrong.
func clean(t testing.TB, b *sim.Board) {
	t.Helper()
	for _, v := range b.Report().Violations {
		t.Errorf("%s: %v", b.MAC(), v)
	}
}

// Every firmware, on every transport and in every mode, finds nothing to complain of.
// All talk at the same time: most of it is waiting.
func TestConversations(t *testing.T) {
	ctx := limit(t, 90*time.Second)
	var all sync.WaitGroup
	for _, way := range []string{"bare", "timed", "short", "mqtt"} {
		h := newHouse(t, houseOptions{
			framing: map[string]wire.Framing{"timed": wire.FramingTimed, "short": wire.FramingShort}[way], mqtt: way == "mqtt",
			boards: func(o *xiaozhi.Options) { o.Silence, o.Linger = 3*time.Second, 3*time.Second },
		})
		stranger := h.device(sim.Options{})
		must(t, stranger.Boot(ctx))
		for _, p := range sim.Profiles() {
			for _, mode := range []string{wire.ModeAuto, wire.ModeManual, wire.ModeRealtime} {
				b := h.device(sim.Options{Profile: p, Mode: mode, Steady: true, KeepAudio: true})
				all.Go(func() {
					if err := converse(ctx, h, b, mode == wire.ModeManual); err != nil {
						t.Errorf("%s, %s, %s: %v", p.Name, way, mode, err)
					}
					for _, v := range b.Report().Violations {
						t.Errorf("%s, %s, %s: %v", p.Name, way, mode, v)
					}
				})
			}
		}
	}
	all.Wait()
}

// converse is two questions, somebody who interrupts, a tool in the middle of it, and
// then nothing until the server has had enough.
func converse(ctx context.Context, h *house, b *sim.Board, button bool) error {
	if err := b.Boot(ctx); err != nil {
		return err
	}
	if err := b.Probe(ctx); err != nil {
		return err
	}
	for range 2 {
		a, err := b.Ask(ctx, sim.GoodMorning())
		if err != nil {
			return err
		}
		if a.Packets < 20 || !strings.Contains(a.Heard, "0.9") || len(a.Sentences) != 1 {
			return fmt.Errorf("the answer: heard %q, %d packets, %q", a.Heard, a.Packets, a.Sentences)
		}
	}
	if err := interrupt(ctx, b, button); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	if _, err := h.call(ctx, b.MAC(), "self.audio_speaker.set_volume", `{"volume":30}`); err != nil {
		return fmt.Errorf("set the volume: %w", err)
	}
	if v := b.Volume(); v != 30 {
		return fmt.Errorf("the volume is %d", v)
	}
	_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle && v.SessionID == "" })
	return err
}

// interrupt asks something, and does not wait for the end of the answer.
func interrupt(ctx context.Context, b *sim.Board, button bool) (err error) {
	if button {
		err = b.Hold(ctx)
	}
	if err == nil {
		err = b.Talk(ctx, sim.GoodMorning())
	}
	if err == nil && button {
		err = b.Release(ctx)
	}
	if err == nil {
		_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking })
	}
	if err == nil {
		err = b.Abort(ctx)
	}
	if err == nil {
		_, err = b.Await(ctx, func(v sim.View) bool { return v.State != sim.Speaking })
	}
	return err
}
