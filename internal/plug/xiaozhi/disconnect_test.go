package xiaozhi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/account"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
	"patchbay/internal/voice"
)

// stuck is a transport whose Audio blocks for ever.
type stuck struct {
	mute
	began chan struct{}
	free  chan struct{}
	once  sync.Once
}

func (s *stuck) Audio([]byte, time.Duration) error {
	s.once.Do(func() { close(s.began) })
	<-s.free
	return nil
}

// Ending a conversation after the board has disconnected waits neither for active playback nor for
// a concurrent end.
func TestEndDoesNotWait(t *testing.T) {
	b := alone(t, nil)
	ch := &stuck{began: make(chan struct{}), free: make(chan struct{})}
	_, c := talking(t, b, ch)
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = c.Speak(context.Background(), c.Generation(), voice.Packets(sim.GoodMorning()))
	})
	<-ch.began
	ends := make(chan struct{})
	all.Go(func() { c.end(errSilenceTimeout, true); close(ends) })
	for !c.ending.Load() {
		select {
		case <-ends:
			t.Fatal("it ended while something was said")
		default:
		}
	}
	began := time.Now()
	c.end(errBoardDisconnected, false)
	if took := time.Since(began); took > abortTimeout/2 {
		t.Errorf("it took %s", took)
	}
	<-ends
	if took := time.Since(began); took > abortTimeout/2 {
		t.Errorf("who waited was told after %s", took)
	}
	close(ch.free)
	all.Wait()
	if b.conversation() != nil {
		t.Error("the conversation is left")
	}
}

// A conversation that was never attached to the board is not counted as ended.
func TestTooLate(t *testing.T) {
	reg := prometheus.NewRegistry()
	h, err := NewBoards(Options{Logger: slog.New(slog.DiscardHandler), Registerer: reg,
		PublicURL: "http://board.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	b := &Board{boards: h, number: 1, mac: mac(1), toolset: emptyToolset}
	b.ctx, b.cancel = context.WithCancelCause(h.ctx)
	old, c := talking(t, b, &mute{})
	next, _ := talking(t, b, &mute{})
	if c.ctx.Err() == nil {
		t.Error("the conversation of the old connection goes on")
	}
	late := newConversation(b, b.device, "late", store.TransportSocket, usualHello, b.output(), &mute{})
	if b.attachConversation(old, late) {
		t.Error("a conversation begins on an old connection")
	}
	late.end(errReconnected, false)
	if n := testutil.ToFloat64(h.metrics.conversations); n != 1 {
		t.Errorf("%v conversations", n)
	}
	b.detach(old, errReconnected)
	if b.connection() != next || b.conversation() == nil {
		t.Error("the end of the old connection ended the new one")
	}
	b.detach(next, errBoardDisconnected)
	if b.connection() != nil || b.conversation() != nil || testutil.ToFloat64(h.metrics.conversations) != 0 {
		t.Error("something is left")
	}
	// The connection that was made later wins, whichever is attached first.
	early := b.newConnection(store.TransportSocket, quiet{}.RemoteAddr(), serverURL{}, nil, nil)
	newest := b.newConnection(store.TransportSocket, quiet{}.RemoteAddr(), serverURL{}, nil, nil)
	if !b.attach(newest) || b.attach(early) || b.connection() != newest || early.ctx.Err() == nil {
		t.Error("an older connection replaced a newer one")
	}
	b.detach(newest, errBoardDisconnected)
	b.removed = true
	if l := b.newConnection(store.TransportSocket, quiet{}.RemoteAddr(), serverURL{}, nil, nil); b.attach(l) {
		t.Error("a removed board connects")
	}
	b.removed = false
	h.Drain(t.Context())
	if l := b.newConnection(store.TransportSocket, quiet{}.RemoteAddr(), serverURL{}, nil, nil); b.attach(l) {
		t.Error("a board connects to a server that stops")
	}
}

// After Close, an MQTT transport sends nothing to the board.
func TestPostIsOver(t *testing.T) {
	ch := &strict{}
	srv, err := udp.Listen("127.0.0.1:0", udp.Options{PublicHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	session, err := srv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	p := &mqttTransport{mqttSession: &mqttSession{conn: strictMQTTConn{ch}}, audio: session, sessionID: "s"}
	p.Close(true)
	if err := p.Text([]byte(`{"type":"tts","state":"stop"}`)); err == nil {
		t.Error("an old conversation speaks on")
	}
}

// Keep-alive and goodbye work after a silence longer than writeTimeout.
func TestPingAfterSilence(t *testing.T) {
	s, far := sockets(t, wire.FramingBare)
	if err := s.Text([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := far.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(writeTimeout + 100*time.Millisecond)
	<-timer.C
	done := make(chan error, 1)
	go func() { _, _, err := far.Read(t.Context()); done <- err }()
	s.Close(false)
	if err := <-done; websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the board was not told: %v", err)
	}
}

// newManyBoards makes a server with approved boards of ada's.
func newManyBoards(t testing.TB, boards int) (*hubtest.Rig, *Boards, []store.Device) {
	t.Helper()
	r := hubtest.New(t, hubtest.Options{})
	h, err := NewBoards(Options{Accounts: r.Accounts, Store: r.Store, Hub: r.Hub, Logger: slog.New(slog.DiscardHandler),
		PublicURL: "http://board.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	var all []store.Device
	for i := range boards {
		all = append(all, settled(t, r, i))
	}
	if err := h.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, h, all
}

// settled makes an approved device.
func settled(t testing.TB, r *hubtest.Rig, i int) store.Device {
	t.Helper()
	ctx := context.Background()
	d, code, err := r.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: Kind, Hardware: mac(i),
		Client: "11111111-1111-4111-8111-111111111111", Version: "2.4.2"})
	if err == nil {
		d, err = r.Accounts.ApproveByCode(ctx, account.NewDevice{Person: r.Person.ID, Code: code,
			Name: fmt.Sprintf("board %d", i)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Boards are approved, renamed, revoked and removed while they connect and are listed; in the end
// the state matches the database.
func TestDecisionsAtOnce(t *testing.T) {
	r, h, all := newManyBoards(t, 4)
	ctx := t.Context()
	var work sync.WaitGroup
	for i, d := range all {
		work.Go(func() {
			for round := range 25 {
				login := r.Accounts.MQTTLogin(d, "")
				_, err := h.AuthenticateMQTT(ctx, mqtt.ConnectInfo{ClientID: login.ClientID, Username: login.Username,
					Password: login.Password})
				if x := h.NewMQTTSession(quiet{id: d.Hardware, asked: make(chan []byte, 100)}); err == nil && x != nil {
					x.Message([]byte(`{"type":"listen","state":"start"}`))
					x.Closed(nil)
				}
				switch round % 5 {
				case 1:
					err = r.Store.Devices.Rename(ctx, d.Number, fmt.Sprintf("other %d %d", i, round))
				case 2:
					if err = r.Store.Devices.Revoke(ctx, d.Number); err == nil {
						d, err = r.Store.Devices.ByNumber(ctx, d.Number)
					}
				case 3:
					_, err = h.find(d.Number).setAudio(ctx, toolArgs{SampleRate: 16000, Frame: 20 + 20*(round%2)})
				case 4:
					if err = r.Store.Devices.Remove(ctx, d.Number); err == nil {
						d = settled(t, r, i)
						_, err = h.admit(ctx, d)
					}
				}
				if err != nil {
					t.Error(i, round, err)
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	var looking sync.WaitGroup
	for range 2 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := h.Refresh(ctx); err != nil {
					t.Error(err)
				}
				for _, b := range h.list() {
					b.Status(ctx)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	looking.Wait()
	if err := h.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	now, err := r.Store.Devices.Page(ctx, 0, 100)
	if err != nil || len(now) != len(h.list()) {
		t.Fatalf("%d devices, %d boards, %v", len(now), len(h.list()), err)
	}
	for _, d := range now {
		b := h.find(d.Number)
		if b == nil || h.byMAC[d.Hardware] != b {
			t.Errorf("%s is not plugged in", d.Name)
			continue
		}
		slim := withoutFeatures(d)
		if !sameDevice(&b.device, &slim) {
			t.Errorf("%+v, and the database has %+v", b.device, d)
		}
		if o, held, _ := r.Hub.FindProvider(ProviderID(d.Number)); o.Title != d.Name || o.Slug != slugOf(d) || held {
			t.Errorf("%+v, held %t, for %s", o, held, d.Name)
		}
	}
}

// A device read before it was changed, revoked or removed has no effect: the board keeps its
// connection, or stays refused.
func TestStaleRead(t *testing.T) {
	r, h, all := newManyBoards(t, 2)
	ctx := t.Context()
	old, removed := all[0], all[1]
	for _, err := range []error{
		r.Store.Devices.Revoke(ctx, old.Number), r.Store.Devices.Rename(ctx, old.Number, "kitchen"),
		r.Store.Devices.Remove(ctx, removed.Number), h.Refresh(ctx),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b := h.find(old.Number)
	l := b.newConnection(store.TransportMQTT, quiet{}.RemoteAddr(), serverURL{}, nil,
		func(why error) { t.Errorf("cut: %v", why) })
	if !b.attach(l) {
		t.Fatal("it does not connect")
	}
	for _, d := range all {
		if _, err := h.admit(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	if h.find(removed.Number) != nil {
		t.Error("a removed board is plugged in")
	}
	if o, held, _ := r.Hub.FindProvider(ProviderID(old.Number)); o.Slug != "kitchen" || !held ||
		b.device.SecretVersion != old.SecretVersion+1 {
		t.Errorf("%+v, held %t, %+v", o, held, b.device)
	}
	b.detach(l, errBoardDisconnected)
}

// A queued restart is carried out once, although the board disconnects at once.
func TestLaterOnce(t *testing.T) {
	r, h, all := newManyBoards(t, 1)
	ctx := t.Context()
	b := h.find(all[0].Number)
	for _, c := range []tool.Call{{Tool: ToolReboot, Args: json.RawMessage(`{"later":true}`)},
		{Tool: ToolShow, Args: json.RawMessage(`{"text":"x","later":true}`)}} {
		if _, err := b.Call(ctx, &c); err != nil {
			t.Fatal(err)
		}
	}
	told := 0
	for range 3 {
		var l *connection
		l = b.newConnection(store.TransportMQTT, quiet{}.RemoteAddr(), serverURL{}, func(text []byte) error {
			if m, err := wire.Parse(text); err == nil && m.Type == wire.TypeSystem {
				told++
				l.cancel(errBoardDisconnected) // the board restarts
			}
			return nil
		}, func(error) {})
		if !b.attach(l) {
			t.Fatal("it does not connect")
		}
		b.deliver()
		b.detach(l, errBoardDisconnected)
	}
	items, err := r.Store.Outbox.For(ctx, b.number, time.Now())
	if err != nil || told != 1 || len(items) != 0 {
		t.Errorf("restarted %d times, %d wait, %v", told, len(items), err)
	}
}

// Recordings end when the board is removed, and do not loop after a conversation has ended.
func TestRecordingEnds(t *testing.T) {
	r, h, all := newManyBoards(t, 1)
	ctx := t.Context()
	b := h.find(all[0].Number)
	if _, err := b.Call(ctx, &tool.Call{Tool: ToolAudio, Args: json.RawMessage(`{"action":"start"}`)}); err != nil {
		t.Fatal(err)
	}
	rec := b.rec
	l, c := talking(t, b, &mute{})
	listening := make(chan error, 1)
	go func() { listening <- h.ListenOgg(context.WithoutCancel(ctx), b.number, tool.Caller{}, discard{}) }()
	c.cancel(errGoodbye) // ending, but still attached
	waited, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if next, err := b.awaitConversation(waited); err == nil {
		t.Errorf("%s has ended, and is waited for no more", next.id)
	}
	c.end(errGoodbye, false)
	b.detach(l, errBoardDisconnected)
	if err := r.Store.Devices.Remove(ctx, b.number); err != nil {
		t.Fatal(err)
	}
	if err := h.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	<-rec.done
	if err := <-listening; err != nil {
		t.Error(err)
	}
}

// Texts for owners have no network errors and no repetitions, and never call a connected board
// asleep.
func TestWordsForOwners(t *testing.T) {
	b := alone(t, nil)
	l, c := talking(t, b, &mute{})
	c.end(errors.Join(errBoardDisconnected, errors.New("failed to get reader: failed to read frame header: EOF")),
		false)
	if b.lastStats == nil || b.lastStats.Ended != "the board is gone" {
		t.Errorf("its last conversation is %+v", b.lastStats)
	}
	_, err := b.queueForLater(t.Context(), &tool.Call{Tool: ToolPlay}, toolArgs{Sound: make([]byte, maxLaterBytes)})
	if e := tool.AsError(err); e == nil || strings.Contains(e.Told, "asleep") ||
		!strings.Contains(e.Told, "is connected") {
		t.Errorf("a long sound for a board that is connected: %v", err)
	}
	b.detach(l, errBoardDisconnected)
	if _, err = b.queueForLater(t.Context(), &tool.Call{Tool: ToolPlay},
		toolArgs{Sound: make([]byte, maxLaterBytes)}); !strings.Contains(tool.AsError(err).Told, "asleep") {
		t.Errorf("a long sound for a board that sleeps: %v", err)
	}
	for how, use := range map[string]func(){
		"by its owner": func() { b.via, b.device.Transport, b.boards.Transport = "", store.TransportMQTT, "" },
		"by default":   func() { b.via, b.device.Transport, b.boards.Transport = "", "", store.TransportMQTT },
		"as it was":    func() { b.via, b.device.Transport, b.boards.Transport = store.TransportMQTT, "", "" },
	} {
		use()
		told := []string{b.offlineError("").Told, b.offlineReason()}
		if s := strings.Join(told, " "); strings.Contains(s, "asleep") || strings.Contains(s, "MQTT") ||
			!strings.Contains(told[0], "call again") {
			t.Errorf("of a board on MQTT %s is said: %q", how, told)
		}
	}
	if _, err = l.remote.Refresh(t.Context()); err == nil || strings.Count(err.Error(), "gone") != 1 {
		t.Errorf("a question after the end: %v", err)
	}
}
