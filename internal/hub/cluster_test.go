package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// newPair returns two instances on one PostgreSQL database and a cluster of three NATS servers.
func newPair(t *testing.T, o hub.Options) (here, there *hubtest.Rig) {
	t.Helper()
	db := storetest.Postgres(t)
	url := bustest.Cluster(t, 3)
	urls := strings.Split(url, ",")
	here = hubtest.New(t, hubtest.Options{DB: db, BusURL: urls[0], Name: "here", Hub: o})
	there = hubtest.New(t, hubtest.Options{DB: db, BusURL: urls[1], Name: "there", Hub: o})
	return here, there
}

// await waits until a condition is true that depends on messages of the bus.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen that %s", what)
		}
		<-tick.C
	}
}

func TestABotOnAnotherInstance(t *testing.T) {
	here, there := newPair(t, hub.Options{ReconnectGrace: time.Millisecond})
	bot := here.Add(t, "plugin", nil)
	wantCode(t, here.Hub.Answer(ctx, ask(bot, "nobody there"), newRecorder().emit), talk.Offline)

	picture := bytes.Repeat([]byte("x"), 3<<20) // more than fits into one message of the bus
	detach := there.Hub.AttachBot(bot.Number, hubtest.Func(func(_ context.Context, turn *talk.Turn,
		emit talk.Emit) error {
		if im := turn.Images(); len(im) > 0 && !bytes.Equal(im[0].Data, picture) {
			return errors.New("another picture arrived")
		}
		for i := range 200 {
			emit(talk.Text(fmt.Sprint(i, " ")))
		}
		emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
		return emit(talk.Suggest(turn.Text(), fmt.Sprint(len(turn.History))))
	}), hub.Limits{Concurrent: 1, Waiting: 3})
	await(t, "the other instance knows of the bot", func() bool { return here.Hub.IsOnline(bot.Number) })

	e := newRecorder()
	turn := ask(bot, "hello")
	turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/png", Data: picture}})
	must(t, here.Hub.Answer(ctx, turn, e.emit))
	var want strings.Builder
	for i := range 200 {
		fmt.Fprint(&want, i, " ")
	}
	want.WriteString("<take_photo>[hello 0]")
	if e.text() != want.String() {
		t.Fatalf("heard %q", e.text())
	}
	tr, err := there.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Pieces != 202 || tr.Outcome != "done" {
		t.Fatalf("trace %+v", tr)
	}
	detach()
	await(t, "the bot is gone", func() bool { return !here.Hub.IsOnline(bot.Number) })
	wantCode(t, here.Hub.Answer(ctx, ask(bot, "gone"), newRecorder().emit), talk.Offline)
}

// TestTheNewerConnectionWins checks that the newer of two connections takes the turns, and that the
// older one takes over when the newer one is closed.
func TestTheNewerConnectionWins(t *testing.T) {
	here, there := newPair(t, hub.Options{ReconnectGrace: time.Second})
	bot := here.Add(t, "plugin", nil)
	defer here.Hub.AttachBot(bot.Number, say("older"), hub.Limits{})()
	e := newRecorder()
	must(t, here.Hub.Answer(ctx, ask(bot, "1"), e.emit))
	if e.text() != "older" {
		t.Fatalf("heard %q", e.text())
	}
	began := time.Now().UnixMilli()
	await(t, "the clock has moved on", func() bool { return time.Now().UnixMilli() > began })
	detach := there.Hub.AttachBot(bot.Number, say("newer"), hub.Limits{})
	who := func(r *hubtest.Rig) string {
		e := newRecorder()
		must(t, r.Hub.Answer(ctx, ask(bot, fmt.Sprint(time.Now().UnixNano())), e.emit))
		return e.text()
	}
	await(t, "the older steps back", func() bool { return who(here) == "newer" })
	if got := who(there); got != "newer" {
		t.Fatalf("there, %s answered", got)
	}
	detach()
	await(t, "the older steps in", func() bool { return who(there) == "older" })
}

func TestTurnRequestsAreQueuedWhereTheBotIs(t *testing.T) {
	here, there := newPair(t, hub.Options{})
	bot := here.Add(t, "plugin", nil)
	var mu sync.Mutex
	running, most := 0, 0
	defer there.Hub.AttachBot(bot.Number, hubtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() { mu.Lock(); running--; mu.Unlock() }()
		return emit(talk.Text("ok " + turn.Text()))
	}), hub.Limits{Concurrent: 1, Waiting: 20})()
	await(t, "the other instance knows of the bot", func() bool { return here.Hub.IsOnline(bot.Number) })
	var wg sync.WaitGroup
	for i := range 16 {
		rig := []*hubtest.Rig{here, there}[i%2]
		wg.Go(func() {
			e := newRecorder()
			if err := rig.Hub.Answer(ctx, ask(bot, fmt.Sprint(i)), e.emit); err != nil ||
				!strings.HasSuffix(e.text(), fmt.Sprint("ok ", i)) {
				t.Errorf("turn %d: %v, %q", i, err, e.text())
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d turns at a time on a connection for one", most)
	}
}

func TestDisconnectCrossesTheBus(t *testing.T) {
	here, there := newPair(t, hub.Options{})
	bot := here.Add(t, "plugin", map[string]string{"hangup": "cancel"})
	started, cause := make(chan struct{}), make(chan error, 1)
	defer there.Hub.AttachBot(bot.Number, hubtest.Func(func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("so"))
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	}), hub.Limits{Concurrent: 1})()
	await(t, "the other instance knows of the bot", func() bool { return here.Hub.IsOnline(bot.Number) })
	asking, hangUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- here.Hub.Answer(asking, ask(bot, "?"), newRecorder().emit) }()
	<-started
	hangUp()
	if err := <-done; !errors.Is(err, talk.ErrDisconnected) {
		t.Fatal(err)
	}
	if err := <-cause; !errors.Is(err, talk.ErrDisconnected) {
		t.Fatalf("the bot was stopped because of %v", err)
	}
}

// TestAStoppingHolder checks that the asker gets an error at once when the holder stops in order.
func TestAStoppingHolder(t *testing.T) {
	here, there := newPair(t, hub.Options{})
	bot := here.Add(t, "plugin", nil)
	started := make(chan struct{})
	there.Hub.AttachBot(bot.Number, hubtest.Func(func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("so"))
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}), hub.Limits{})
	await(t, "the other instance knows of the bot", func() bool { return here.Hub.IsOnline(bot.Number) })
	done := make(chan error, 1)
	e := newRecorder()
	go func() { done <- here.Hub.Answer(ctx, ask(bot, "?"), e.emit) }()
	<-started
	there.Hub.Close()
	wantCode(t, <-done, talk.Lost)
	if e.text() != "so" {
		t.Fatalf("heard %q", e.text())
	}
}

// TestDisconnectBotReachesEveryInstance checks that a bot that is disconnected at one instance
// loses its connection to another.
func TestDisconnectBotReachesEveryInstance(t *testing.T) {
	here, there := newPair(t, hub.Options{})
	bot := there.Add(t, "plugin", nil)
	var cut atomic.Int64
	there.Hub.OnDisconnectBot(func(bot int64) { cut.Store(bot) })
	here.Hub.DisconnectBot(bot.Number)
	await(t, "the other instance hears of it", func() bool {
		if cut.Load() == bot.Number {
			return true
		}
		here.Hub.DisconnectBot(bot.Number) // in case the subscription was late
		return false
	})
}
