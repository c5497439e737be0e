package xiaozhi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
)

// hears is a recogniser of one question.
func hears(text string) func(int, time.Duration, bool) string {
	return func(int, time.Duration, bool) string { return text }
}

// TestPauseInAnswer checks that what a bot has written is spoken when it pauses, and that late
// answers are spoken like others.
func TestPauseInAnswer(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	heard := make(chan struct{})
	r := newLoopRig(ctx, t, wire.ModeAuto, streaming(10*time.Millisecond, hears("How is the weather?")),
		func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
			for _, e := range []talk.Event{talk.Note("**Earlier**: https://example.org/a"), talk.Text("One moment. It")} {
				if err := emit(e); err != nil {
					return err
				}
			}
			select {
			case <-heard:
			case <-ctx.Done():
			}
			return emit(talk.Text(" rains."))
		})
	must(t, r.board.Press(ctx))
	must(t, r.board.Talk(ctx, spoken(t)))
	_, err := r.board.Await(ctx, func(v sim.View) bool { return strings.HasPrefix(v.Displayed, "One moment.") })
	must(t, err)
	close(heard)
	_, err = r.board.Await(ctx, func(v sim.View) bool { return v.Answers == 1 })
	must(t, err)
	want := []string{"Earlier: example.org", "One moment.", "It rains."}
	if diff := cmp.Diff(want, r.board.LastAnswer().Sentences); diff != "" {
		t.Error(diff)
	}
	r.wantHistory(ctx, []string{"How is the weather? → One moment. It rains."})
	clean(t, r.board)
}
