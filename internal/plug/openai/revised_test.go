package openai

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// TestRevisedQuestions asks before the person has finished, changes the question at random moments,
// and checks that the tools are called once for each question that was certain, and for no other.
func TestRevisedQuestions(t *testing.T) {
	questions := 200
	if os.Getenv("CHECK_ALL") != "" {
		questions = 1000
	}
	s := startServer(t)
	s.Answer = func(r *Request) Reply {
		last := r.Chat.Messages[len(r.Chat.Messages)-1]
		if strings.Contains(string(r.Body), `"tool_call_id"`) {
			return saying("Done.")
		}
		return calling(Call{Name: "a", Arguments: fmt.Sprintf(`{"q":%s}`, last.Content)})
	}
	box := echoBox("a")
	box.call = func(context.Context, string, string, func(tool.Progress)) (*tool.Result, error) {
		return tool.Text("ok"), nil
	}
	b := newRigWithToolbox(t, s, box, nil)
	var want []string
	var starts sync.WaitGroup
	for i := range questions {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		revisions := random.IntN(3)
		for n := range revisions + 1 {
			text, certain := fmt.Sprintf("question %d, version %d", i, n), n == revisions
			d := &pendingDecision{made: make(chan struct{})}
			turn := question(text)
			turn.Commit = d.wait
			ctx, cancel := context.WithCancelCause(t.Context())
			starts.Go(func() {
				defer cancel(nil)
				err := b.Answer(ctx, turn, func(talk.Event) error { return nil })
				if certain != (err == nil) {
					t.Errorf("%s: %v", text, err)
				}
			})
			pause := time.NewTimer(time.Duration(random.IntN(3000)) * time.Microsecond)
			<-pause.C
			switch {
			case certain:
				d.decide(nil)
				want = append(want, fmt.Sprintf(`a{"q":%q}`, text))
			case random.IntN(2) == 0:
				d.decide(talk.ErrRevised)
			default:
				cancel(talk.ErrRevised)
			}
		}
	}
	starts.Wait()
	slices.Sort(want)
	if got := box.called(); got != strings.Join(want, " ") {
		t.Errorf("called %s\nwant   %s", got, want)
	}
}

// pendingDecision is a [talk.Turn.Commit] that the test makes.
type pendingDecision struct {
	made chan struct{}
	err  error
}

func (d *pendingDecision) decide(err error) {
	d.err = err
	close(d.made)
}

func (d *pendingDecision) wait(ctx context.Context) error {
	select {
	case <-d.made:
		return d.err
	case <-ctx.Done():
		return errors.Join(talk.ErrRevised, context.Cause(ctx))
	}
}
