package hub_test

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// decision is a [talk.Turn.Commit] that the test makes.
type decision struct {
	made chan struct{}
	err  error
}

func newDecision() *decision { return &decision{made: make(chan struct{})} }

func (d *decision) make(err error) {
	d.err = err
	close(d.made)
}

func (d *decision) wait(ctx context.Context) error {
	select {
	case <-d.made:
		return d.err
	default:
	}
	select {
	case <-d.made:
		return d.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// scripted is a kind of bot that is asked before the question is certain.
func scripted(f *hubtest.Func) hub.Kind {
	return hub.Kind{Name: "quick", Speculative: true, Build: func(store.Bot, any) (talk.Bot, error) {
		return hubtest.Func(func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			return (*f)(ctx, turn, emit)
		}), nil
	}}
}

// decided makes a decision, and gone ends the asker's wait for one.
func decided(err error) func(*decision, context.CancelCauseFunc) {
	return func(d *decision, _ context.CancelCauseFunc) { d.make(err) }
}

func gone(cause error) func(*decision, context.CancelCauseFunc) {
	return func(_ *decision, cancel context.CancelCauseFunc) { cancel(cause) }
}

// TestUncertainQuestion has bots asked before the question is certain, and checks what remains of
// it when it is, and when it is not.
func TestUncertainQuestion(t *testing.T) {
	var script hubtest.Func
	r := hubtest.New(t, hubtest.Options{Kinds: []hub.Kind{scripted(&script)}})
	quick := r.Add(t, "quick", nil)
	var asked atomic.Int32
	slow := r.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		asked.Add(1)
		return say("slow")(ctx, turn, emit)
	})
	for name, c := range map[string]struct {
		bot    store.Bot
		answer string // before the decision
		revise func(*decision, context.CancelCauseFunc)
		want   string
	}{
		"it is certain":           {quick, "early", decided(nil), "early<take_photo>"},
		"another question":        {quick, "early", decided(talk.ErrRevised), "early"},
		"the asker gives up":      {quick, "early", gone(talk.ErrRevised), "early"},
		"the asker is gone":       {quick, "early", gone(nil), "early"},
		"a bot that waits":        {slow, "", decided(nil), "slow"},
		"a bot that is not asked": {slow, "", decided(talk.ErrRevised), ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			script = func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
				if err := emit(talk.Text("early")); err != nil {
					return err
				}
				return emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
			}
			d, e, turn := newDecision(), newRecorder(), ask(c.bot, name)
			turn.Conversation, turn.Commit = name, d.wait
			within, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			answered := make(chan error, 1)
			go func() { answered <- r.Hub.Answer(within, turn, e.emit) }()
			if c.answer != "" {
				<-e.heard
			}
			if got := e.text(); got != c.answer || asked.Load() != 0 {
				t.Errorf("before the decision %q, asked %d times", got, asked.Load())
			}
			if list := r.Hub.ActiveTurns(ctx, hub.ConversationRef{Bot: turn.Bot, Person: turn.Person,
				Conversation: name}); len(list) != 0 {
				t.Errorf("the turn is listed: %v", list)
			}
			c.revise(d, cancel)
			err, certain := <-answered, d.err == nil && within.Err() == nil
			if certain != (err == nil) || !certain && !errors.Is(err, talk.ErrRevised) {
				t.Errorf("the error is %v", err)
			}
			if got := e.text(); got != c.want {
				t.Errorf("heard %q, want %q", got, c.want)
			}
			_, err = r.Store.Traces.ByTurn(ctx, turn.ID)
			history, historyErr := r.Store.Conversations.Last(ctx, turn.Bot, turn.Person, name, 5)
			must(t, historyErr)
			if certain != (err == nil) || certain != (len(history) == 1) {
				t.Errorf("certain: %t, trace: %v, history: %+v", certain, err, history)
			}
			if turn.Commit = nil; r.Hub.Answer(ctx, turn, newRecorder().emit) != nil {
				t.Error("the same question cannot be asked again")
			}
		})
	}
}

// TestHeard checks that history keeps what was played, and that the asker who stops an answer waits
// until it does.
func TestHeard(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	endless := false
	bot := r.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if err := emit(talk.Text("One. Two. Three.")); err != nil || !endless {
			return err
		}
		<-ctx.Done()
		_ = netx.Wait(context.WithoutCancel(ctx), 50*time.Millisecond) // it takes its time to stop
		return ctx.Err()
	})
	ask := func(text string, heard func() (string, bool), cause error) {
		t.Helper()
		turn, e := ask(bot, text), newRecorder()
		turn.Heard = heard
		within, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if cause != nil {
			go func() {
				<-e.heard
				cancel(cause)
			}()
		}
		if err := r.Hub.Answer(within, turn, e.emit); (err == nil) != (cause == nil) {
			t.Errorf("%s: %v", text, err)
		}
	}
	ask("all", func() (string, bool) { return "", true }, nil)
	ask("a part", func() (string, bool) { return "One. Two.", false }, nil)
	ask("nothing", func() (string, bool) { return "", false }, nil)
	endless = true
	ask("stopped", func() (string, bool) { return "One.", false }, talk.ErrStopped)
	history, err := r.Store.Conversations.Last(ctx, bot.Number, "wearer", "c1", 9)
	must(t, err)
	var got []string
	for _, x := range history {
		got = append(got, x.Question+": "+x.Answer)
	}
	want := []string{"all: One. Two. Three.", "a part: One. Two. (unfinished)", "stopped: One. (unfinished)"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("history %q", got)
	}
}

// TestInterruptedPlayback stops an answer that is complete and still played: it is no late answer.
func TestInterruptedPlayback(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	bot := r.AddScript(t, nil, say("One. Two."))
	turn := ask(bot, "long")
	within, cancel := context.WithCancelCause(ctx)
	turn.Heard = func() (string, bool) {
		cancel(talk.ErrStopped)
		_ = netx.Wait(ctx, 20*time.Millisecond) // the asker leaves meanwhile
		return "One.", false
	}
	if err := r.Hub.Answer(within, turn, newRecorder().emit); !errors.Is(err, talk.ErrDisconnected) {
		t.Error(err)
	}
	history, err := r.Store.Conversations.Last(ctx, bot.Number, "wearer", "c1", 9)
	must(t, err)
	if len(history) != 1 || history[0].Answer != "One. (unfinished)" || history[0].Undelivered {
		t.Errorf("history %+v", history)
	}
	e := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(bot, "next"), e.emit))
	if got := e.text(); got != "One. Two." {
		t.Errorf("then heard %q", got)
	}
}
