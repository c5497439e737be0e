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

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
	"patchbay/internal/voice/opus"
)

// testServer is a server for boards, with a hub that has bots.
type testServer struct {
	t testing.TB
	*hubtest.Rig
	boards *xiaozhi.Boards
	home   *xiaozhi.Discovery
	mqtt   *mqtt.Server
	http   *httptest.Server
	log    *log
	reg    *prometheus.Registry
	bot    store.Bot
}

// testServerOptions change the default test server.
type testServerOptions struct {
	boards  func(*xiaozhi.Options)
	home    func(*xiaozhi.DiscoveryOptions)
	rig     hubtest.Options
	mqtt    bool
	framing wire.Framing
}

func newTestServer(t testing.TB, o testServerOptions) *testServer {
	t.Helper()
	h := &testServer{t: t, Rig: hubtest.New(t, o.rig), log: &log{}}
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.bot = h.Add(t, "script", nil)
	encoders := opus.NewEncoderPool(8)
	audio, err := udp.Listen("127.0.0.1:0", udp.Options{Logger: logger})
	must(t, err)
	mux := http.NewServeMux()
	h.http = httptest.NewServer(mux)
	_, port, err := net.SplitHostPort(h.http.Listener.Addr().String())
	must(t, err)
	reg := prometheus.NewRegistry()
	h.reg = reg
	bo := xiaozhi.Options{
		Accounts: h.Accounts, Store: h.Store, Hub: h.Hub, Logger: logger, Registerer: reg, Voice: xiaozhi.EchoVoice{},
		Encoders: encoders,
		Fetch: func(ctx context.Context, url string) (*http.Response, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return nil, err
			}
			return http.DefaultClient.Do(r)
		},
		Audio: audio, Port: port, SilenceTimeout: 5 * time.Minute, WakeWords: []string{"你好小智"},
	}
	if o.boards != nil {
		o.boards(&bo)
	}
	h.boards, err = xiaozhi.NewBoards(bo)
	must(t, err)
	must(t, h.boards.Refresh(ctx))
	photos := xiaozhi.NewPhotos(xiaozhi.PhotosOptions{Accounts: h.Accounts, Logger: logger, Registerer: reg,
		Describe: h.boards.DescribePhoto})
	do := xiaozhi.DiscoveryOptions{Accounts: h.Accounts, Logger: logger, Registerer: reg, AutoOwner: h.Person.ID,
		AutoBot: h.bot.Number, Framing: o.framing}
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
	h.mqtt = mqtt.New(mqtt.Options{Auth: h.boards.AuthenticateMQTT,
		NewSession: func(c *mqtt.Conn) mqtt.Session { return h.boards.NewMQTTSession(c) }, Logger: logger})
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- h.mqtt.Serve(serving, line, nil) }()
	pages := xiaozhi.Origins{xiaozhi.AnyOrigin}
	mux.Handle(xiaozhi.OTAPath, pages.Handler(h.home))
	mux.Handle(xiaozhi.SocketPath, pages.Handler(http.HandlerFunc(h.boards.ServeSocket)))
	mux.Handle(xiaozhi.VisionPath, pages.Handler(photos))
	mux.HandleFunc("GET /media/{token}", h.Hub.ServeMedia)
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
func (h *testServer) device(o sim.Options) *sim.Board {
	o.OTA = h.http.URL + xiaozhi.OTAPath
	o.Scale = 0.01
	if o.Slack == 0 {
		o.Slack = 20 * time.Second // for busy machines
	}
	meter := sim.NewMeter()
	h.t.Cleanup(meter.Close)
	o.Stalled = meter.Stalled
	b := sim.New(o)
	h.t.Cleanup(b.Close)
	return b
}

// call calls a tool of a board as its owner.
func (h *testServer) call(ctx context.Context, mac, name, args string) (*tool.Result, error) {
	h.t.Helper()
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, mac)
	if err != nil {
		return nil, err
	}
	_, _, tools := h.Hub.FindProvider(xiaozhi.ProviderID(d.Number))
	for _, o := range tools {
		if o.Tool.Name == name {
			rules := hub.Rules{Dangerous: []string{"*"}}.String()
			return h.Hub.Call(ctx, hub.Access{Caller: tool.Caller{Person: d.Owner, Channel: "mcp"}, Rules: rules},
				o.Name, &tool.Call{Args: json.RawMessage(args)})
		}
	}
	return nil, fmt.Errorf("%s has no tool %s", mac, name)
}

// limit returns a context that ends a test that hangs.
func limit(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// clean fails a test if a board observed a violation.
func clean(t testing.TB, b *sim.Board) {
	t.Helper()
	for _, v := range b.Report().Violations {
		t.Errorf("%s: %v", b.MAC(), v)
	}
}

// All firmware versions observe no violation, on every transport and in every mode. All talk at the
// same time, since most of the time is waiting.
func TestConversations(t *testing.T) {
	ctx := limit(t, 90*time.Second)
	var all sync.WaitGroup
	for _, carrier := range []string{"bare", "timed", "short", "mqtt"} {
		h := newTestServer(t, testServerOptions{
			framing: map[string]wire.Framing{"timed": wire.FramingTimed, "short": wire.FramingShort}[carrier],
			mqtt:    carrier == "mqtt",
			boards:  func(o *xiaozhi.Options) { o.SilenceTimeout, o.ButtonTimeout = 3*time.Second, 3*time.Second },
		})
		stranger := h.device(sim.Options{})
		must(t, stranger.Boot(ctx))
		for _, p := range sim.Profiles() {
			for _, mode := range []string{wire.ModeAuto, wire.ModeManual, wire.ModeRealtime} {
				b := h.device(sim.Options{Profile: p, Mode: mode, Steady: true, KeepAudio: true})
				all.Go(func() {
					if err := converse(ctx, h, b, mode == wire.ModeManual); err != nil {
						t.Errorf("%s, %s, %s: %v", p.Name, carrier, mode, err)
					}
					for _, v := range b.Report().Violations {
						t.Errorf("%s, %s, %s: %v", p.Name, carrier, mode, v)
					}
				})
			}
		}
	}
	all.Wait()
}

// converse asks two questions, interrupts an answer, calls a tool meanwhile, and then waits for the
// silence timeout.
func converse(ctx context.Context, h *testServer, b *sim.Board, button bool) error {
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
		heard := strings.Contains(a.Transcript, "0.7") || strings.Contains(a.Transcript, "0.8") // a packet more
		if a.Packets < 20 || !heard || len(a.Sentences) != 1 {
			return fmt.Errorf("the answer: heard %q, %d packets, %q", a.Transcript, a.Packets, a.Sentences)
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

// interrupt asks a question and interrupts the answer.
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
