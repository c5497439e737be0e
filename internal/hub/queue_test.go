package hub_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/talk"
)

func TestQueue(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	asked, release := make(chan string, 10), make(chan struct{})
	bot := r.AddScript(t, map[string]string{"concurrent": "1", "waiting": "2"},
		func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			asked <- turn.Text()
			select {
			case <-release:
			case <-ctx.Done():
			}
			return emit(talk.Text("done " + turn.Text()))
		})
	ears := map[string]*recorder{}
	var wg sync.WaitGroup
	put := func(text string) {
		e := newRecorder()
		ears[text] = e
		wg.Go(func() {
			if err := r.Hub.Answer(ctx, ask(bot, text), e.emit); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
	put("a")
	<-asked
	put("b")
	<-ears["b"].heard
	put("c")
	<-ears["c"].heard
	wantCode(t, r.Hub.Answer(ctx, ask(bot, "d"), newRecorder().emit), talk.Busy)
	// An asker that leaves while it waits leaves the queue; the bot is not asked.
	release <- struct{}{}
	if next := <-asked; next != "b" {
		t.Fatalf("%s was asked before b", next)
	}
	leaving, leave := context.WithCancel(ctx)
	quitter := newRecorder()
	gone := make(chan error, 1)
	go func() { gone <- r.Hub.Answer(leaving, ask(bot, "quitter"), quitter.emit) }()
	<-quitter.heard
	leave()
	<-gone
	close(release)
	wg.Wait()
	if got := ears["b"].text(); got != "[One before you, one moment…]done b" {
		t.Errorf("b heard %q", got)
	}
	if got := ears["c"].text(); got != "[2 before you, one moment…]done c" {
		t.Errorf("c heard %q", got)
	}
	if next := <-asked; next != "c" {
		t.Fatalf("%s was asked instead of c", next)
	}
	select {
	case next := <-asked:
		t.Fatalf("%s was asked though it had left", next)
	default:
	}
}

// TestHungBotReleasesItsSlot checks that a bot that hangs does not block the queue, and that its
// later events go to no other asker.
func TestHungBotReleasesItsSlot(t *testing.T) {
	t.Run("silent", func(t *testing.T) { testHungBot(t, 50*time.Millisecond, false) })
	t.Run("says so", func(t *testing.T) { testHungBot(t, time.Hour, true) })
}

func testHungBot(t *testing.T, idle time.Duration, says bool) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{FirstPieceTimeout: 50 * time.Millisecond,
		IdleTimeout: idle}})
	waiting := make(chan struct{}) // closed when a turn waits behind the one that hangs
	once := sync.OnceFunc(func() { close(waiting) })
	stalled := make(chan struct{})
	defer close(stalled)
	bot := r.AddScript(t, map[string]string{"concurrent": "1", "waiting": "5", "first_piece": "10s"},
		func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			if turn.Text() == "hang" {
				<-waiting
				if says {
					emit(talk.Stalled())
				}
				<-stalled
				return nil
			}
			return emit(talk.Text("fine"))
		})
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	go r.Hub.Answer(leaving, ask(bot, "hang"), newRecorder().emit)
	var e *recorder
	for { // until the hanging turn has taken the slot
		e = newRecorder()
		turn := ask(bot, fmt.Sprint("next ", time.Now().UnixNano()))
		must(t, r.Hub.Answer(ctx, turn, func(event talk.Event) error {
			if event.Kind == talk.KindNote {
				once()
			}
			return e.emit(event)
		}))
		if strings.HasPrefix(e.text(), "[") {
			break
		}
	}
	if got := e.text(); got != "[One before you, one moment…]fine" {
		t.Fatalf("heard %q", got)
	}
}

func TestDrain(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	started := make(chan struct{})
	bot := r.AddScript(t, nil, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("so "))
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	e := newRecorder()
	turn := ask(bot, "?")
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(ctx, turn, e.emit) }()
	<-started
	limit, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	r.Hub.Drain(limit)
	wantCode(t, <-done, talk.Lost)
	wantCode(t, r.Hub.Answer(ctx, ask(bot, "too late"), e.emit), talk.Stopping)
	if _, err := r.Store.Traces.ByTurn(ctx, turn.ID); err != nil {
		t.Fatalf("the trace of the turn that was ended: %v", err)
	}
}

func TestTurnsAtATimeAreBounded(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{MaxTurns: 1}})
	started, release := make(chan struct{}), make(chan struct{})
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() == "a" {
			close(started)
			<-release
		}
		return emit(talk.Text("ok"))
	})
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(ctx, ask(bot, "a"), newRecorder().emit) }()
	<-started
	wantCode(t, r.Hub.Answer(ctx, ask(bot, "b"), newRecorder().emit), talk.Busy)
	close(release)
	must(t, <-done)
}
