package app

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/plug/learn"
	boards "patchbay/internal/plug/xiaozhi/sim"
)

// Somebody reviews with a voice board, which then sleeps. When the point comes again, ten minutes
// later by the clock of the test, the board says so within 15 s, and the answer counts.
func TestStepsAreHeardOnBoards(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	b := newBilling(t)
	// Notices are of no use after some minutes, which boards compare with the real time.
	b.today.Store(time.Now().Unix())
	b.flags["xiaozhi.transport"] = "mqtt"
	b.flags["xiaozhi.mqtt"], b.flags["xiaozhi.audio"] = pebbletest.FreeAddress(t), "127.0.0.1:0"
	var mu sync.Mutex
	says := []string{"quiz me", "Paris", "quiz me"}
	b.provider.Transcript = func([]int16) string {
		mu.Lock()
		defer mu.Unlock()
		said := says[0]
		says = says[min(1, len(says)-1):]
		return said
	}
	heard := make(chan string, 1)
	b.start()
	board := b.boardWith(ctx, boards.Options{Profile: boards.FW25}, func(e boards.Event) {
		if e.Kind == boards.EventNotification {
			heard <- e.Text
		}
	})
	points := learn.New(learn.Options{Store: b.base.Store, Zone: time.UTC,
		Now: func() time.Time { return time.Unix(b.today.Load(), 0) }})
	_, err := points.Create(ctx, b.owner.ID, []learn.Draft{{Question: "Capital of France?", Answer: "Paris"}})
	must(t, err)
	ask := func(want string) {
		t.Helper()
		a, err := board.Ask(ctx, question(t))
		must(t, err)
		if !strings.Contains(strings.Join(a.Sentences, " "), want) {
			t.Fatalf("the board said %q, want %q", a.Sentences, want)
		}
	}
	ask("Capital of France?")
	ask("All done!")
	must(t, board.Press(ctx)) // ends the conversation
	_, err = board.Await(ctx, func(v boards.View) bool { return v.SessionID == "" && v.State == boards.Idle })
	must(t, err)
	b.today.Add(9 * 60)
	select {
	case text := <-heard:
		t.Fatalf("heard early: %s", text)
	default:
	}
	b.today.Add(61)
	due := time.Now()
	select {
	case text := <-heard:
		if !strings.Contains(text, "Capital of France?") {
			t.Errorf("heard: %s", text)
		}
		t.Logf("heard after %v", time.Since(due).Round(time.Millisecond))
	case <-ctx.Done():
		t.Fatal("nothing was heard")
	}
	ask("Capital of France?")
	if r := board.Report(); len(r.Violations) > 0 {
		t.Errorf("violations: %v", r.Violations)
	}
}
