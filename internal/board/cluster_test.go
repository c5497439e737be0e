package board_test

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

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// two makes two instances on one PostgreSQL database and a cluster of three
// NATS servers.
func two(t *testing.T, o board.Options) (here, there *boardtest.Rig) {
	t.Helper()
	db := storetest.Postgres(t)
	url := bustest.Cluster(t, 3)
	urls := strings.Split(url, ",")
	here = boardtest.New(t, boardtest.Options{DB: db, BusURL: urls[0], Name: "here", Board: o})
	there = boardtest.New(t, boardtest.Options{DB: db, BusURL: urls[1], Name: "there", Board: o})
	return here, there
}

// await waits until something is true, which takes a message on the bus.
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
	here, there := two(t, board.Options{Grace: time.Millisecond})
	bot := here.Add(t, "plugin", nil)
	wantCode(t, here.Board.Answer(ctx, ask(bot, "nobody there"), newEar().emit), talk.Offline)

	picture := bytes.Repeat([]byte("x"), 3<<20) // more than the bus takes in one message
	detach := there.Board.Attach(bot.Number, boardtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if im := turn.Images(); len(im) > 0 && !bytes.Equal(im[0].Data, picture) {
			return errors.New("another picture arrived")
		}
		for i := range 200 {
			emit(talk.Text(fmt.Sprint(i, " ")))
		}
		emit(talk.Do(talk.Command{Name: talk.CommandTakePhoto}))
		return emit(talk.Suggest(turn.Text(), fmt.Sprint(len(turn.History))))
	}), board.Limits{Concurrent: 1, Waiting: 3})
	await(t, "the other instance knows of the bot", func() bool { return here.Board.Online(bot.Number) })

	e := newEar()
	turn := ask(bot, "hello")
	turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/png", Data: picture}})
	must(t, here.Board.Answer(ctx, turn, e.emit))
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
	await(t, "the bot is gone", func() bool { return !here.Board.Online(bot.Number) })
	wantCode(t, here.Board.Answer(ctx, ask(bot, "gone"), newEar().emit), talk.Offline)
}

// The newer of two connections takes the turns, and the older steps in when it
// is gone.
func TestTheNewerConnectionWins(t *testing.T) {
	here, there := two(t, board.Options{Grace: time.Second})
	bot := here.Add(t, "plugin", nil)
	defer here.Board.Attach(bot.Number, say("older"), board.Limits{})()
	e := newEar()
	must(t, here.Board.Answer(ctx, ask(bot, "1"), e.emit))
	if e.text() != "older" {
		t.Fatalf("heard %q", e.text())
	}
	began := time.Now().UnixMilli()
	await(t, "the clock has moved on", func() bool { return time.Now().UnixMilli() > began })
	detach := there.Board.Attach(bot.Number, say("newer"), board.Limits{})
	who := func(r *boardtest.Rig) string {
		e := newEar()
		must(t, r.Board.Answer(ctx, ask(bot, fmt.Sprint(time.Now().UnixNano())), e.emit))
		return e.text()
	}
	await(t, "the older steps back", func() bool { return who(here) == "newer" })
	if got := who(there); got != "newer" {
		t.Fatalf("there, %s answered", got)
	}
	detach()
	await(t, "the older steps in", func() bool { return who(there) == "older" })
}

func TestOrdersAreQueuedWhereTheBotIs(t *testing.T) {
	here, there := two(t, board.Options{})
	bot := here.Add(t, "plugin", nil)
	var mu sync.Mutex
	running, most := 0, 0
	defer there.Board.Attach(bot.Number, boardtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() { mu.Lock(); running--; mu.Unlock() }()
		return emit(talk.Text("ok " + turn.Text()))
	}), board.Limits{Concurrent: 1, Waiting: 20})()
	await(t, "the other instance knows of the bot", func() bool { return here.Board.Online(bot.Number) })
	var wg sync.WaitGroup
	for i := range 16 {
		rig := []*boardtest.Rig{here, there}[i%2]
		wg.Go(func() {
			e := newEar()
			if err := rig.Board.Answer(ctx, ask(bot, fmt.Sprint(i)), e.emit); err != nil || !strings.HasSuffix(e.text(), fmt.Sprint("ok ", i)) {
				t.Errorf("turn %d: %v, %q", i, err, e.text())
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d turns at a time on a connection for one", most)
	}
}

func TestHangingUpCrossesTheBus(t *testing.T) {
	here, there := two(t, board.Options{})
	bot := here.Add(t, "plugin", map[string]string{"hangup": "cancel"})
	started, cause := make(chan struct{}), make(chan error, 1)
	defer there.Board.Attach(bot.Number, boardtest.Func(func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("so"))
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	}), board.Limits{Concurrent: 1})()
	await(t, "the other instance knows of the bot", func() bool { return here.Board.Online(bot.Number) })
	asking, hangUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- here.Board.Answer(asking, ask(bot, "?"), newEar().emit) }()
	<-started
	hangUp()
	if err := <-done; !errors.Is(err, talk.ErrHungUp) {
		t.Fatal(err)
	}
	if err := <-cause; !errors.Is(err, talk.ErrHungUp) {
		t.Fatalf("the bot was stopped because of %v", err)
	}
}

// When the holder stops in an orderly way, the asker is told at once.
func TestAStoppingHolder(t *testing.T) {
	here, there := two(t, board.Options{})
	bot := here.Add(t, "plugin", nil)
	started := make(chan struct{})
	there.Board.Attach(bot.Number, boardtest.Func(func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("so"))
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}), board.Limits{})
	await(t, "the other instance knows of the bot", func() bool { return here.Board.Online(bot.Number) })
	done := make(chan error, 1)
	e := newEar()
	go func() { done <- here.Board.Answer(ctx, ask(bot, "?"), e.emit) }()
	<-started
	there.Board.Close()
	wantCode(t, <-done, talk.Lost)
	if e.text() != "so" {
		t.Fatalf("heard %q", e.text())
	}
}

// A bot that is unplugged at one instance is cut off at the other.
func TestUnplugReachesEveryInstance(t *testing.T) {
	here, there := two(t, board.Options{})
	bot := there.Add(t, "plugin", nil)
	var cut atomic.Int64
	there.Board.OnUnplug(func(bot int64) { cut.Store(bot) })
	here.Board.Unplug(bot.Number)
	await(t, "the other instance hears of it", func() bool {
		if cut.Load() == bot.Number {
			return true
		}
		here.Board.Unplug(bot.Number) // the servers may not have known of the listener yet
		return false
	})
}
