package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// observed is an observer of a turn.
type observed struct {
	*recorder
	end chan error
}

// observe observes a turn.
func observe(r *hubtest.Rig, t hub.ConversationRef, turn string) observed {
	f := observed{newRecorder(), make(chan error, 1)}
	go func() {
		f.end <- r.Hub.Observe(ctx, t, turn, func(events []talk.Event) error {
			for _, e := range events {
				f.emit(e) //nolint:errcheck // it never fails
			}
			return nil
		})
	}()
	return f
}

// spoken returns a bot that emits the given events until words is closed. If the bot is stopped,
// cause gets the reason.
func spoken() (f hubtest.Func, words chan talk.Event, cause chan error) {
	words, cause = make(chan talk.Event), make(chan error, 1)
	return func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		for {
			select {
			case e, more := <-words:
				if !more {
					return nil
				}
				if err := emit(e); err != nil {
					return err
				}
			case <-ctx.Done():
				cause <- context.Cause(ctx)
				return ctx.Err()
			}
		}
	}, words, cause
}

// answering starts a turn, and returns a channel for its result.
func answering(r *hubtest.Rig, turn *talk.Turn, asking context.Context) chan error { //nolint:revive // one of two contexts
	end := make(chan error, 1)
	turn.ID = "turn-" + turn.Text()
	go func() { end <- r.Hub.Answer(asking, turn, newRecorder().emit) }()
	return end
}

// waitActive waits until a conversation has n active turns.
func waitActive(t *testing.T, r *hubtest.Rig, about hub.ConversationRef, n int) (list []hub.ActiveTurn) {
	t.Helper()
	await(t, "as many turns are being answered", func() bool {
		list = r.Hub.ActiveTurns(ctx, about)
		return len(list) == n
	})
	return list
}

// TestObserve checks that an observer of an active turn gets the earlier and the new events, also
// after the asker has left, and the end of the turn.
func TestObserve(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := hubtest.New(t, hubtest.Options{DB: o})
		f, words, _ := spoken()
		bot := r.AddScript(t, nil, f)
		turn := ask(bot, "a story")
		turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/png", Data: []byte("x")}})
		asking, leave := context.WithCancel(ctx)
		asked := answering(r, turn, asking)
		words <- talk.Text("once ")
		words <- talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto})
		words <- talk.Text("upon ")
		words <- talk.Note("let me think")
		mine := hub.ConversationRef{Bot: bot.Number, Person: "wearer", Conversation: "c1"}
		list := waitActive(t, r, mine, 1)
		if o := list[0]; o.Turn != turn.ID || o.Conversation != "c1" || o.Question != "a story\n[picture]" ||
			o.At.IsZero() || len(o.Events) < 3 {
			t.Errorf("%+v", o)
		}
		for _, other := range []hub.ConversationRef{{Bot: bot.Number, Person: "wearer", Conversation: "c2"},
			{Bot: bot.Number, Person: "another"}, {Bot: bot.Number + 1, Person: "wearer"}} {
			if list := r.Hub.ActiveTurns(ctx, other); len(list) != 0 {
				t.Errorf("%+v has %+v", other, list)
			}
			if err := r.Hub.Observe(ctx, other, turn.ID, func([]talk.Event) error { return nil }); !errors.Is(err,
				hub.ErrNotActive) {
				t.Errorf("%+v follows: %v", other, err)
			}
		}
		first := observe(r, mine, turn.ID)
		<-first.heard
		leave()
		if err := <-asked; !errors.Is(err, talk.ErrDisconnected) {
			t.Fatal(err)
		}
		waitActive(t, r, mine, 1)
		words <- talk.Text("a time")
		second := observe(r, hub.ConversationRef{Bot: bot.Number, Person: "wearer"}, turn.ID)
		<-second.heard
		close(words)
		for _, f := range []observed{first, second} {
			if err := <-f.end; err != nil || strings.ReplaceAll(f.text(), "[let me think]",
				"") != "once <take_photo>upon a time" {
				t.Errorf("%v, %q", err, f.text())
			}
		}
		// A turn that is no longer listed is saved; a recently ended one can still be observed.
		if list := r.Hub.ActiveTurns(ctx, mine); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		if e, err := r.Store.Conversations.ByTurn(ctx, turn.ID); err != nil || e.Answer != "once upon a time" ||
			!e.Undelivered {
			t.Errorf("%+v %v", e, err)
		}
		late := observe(r, mine, turn.ID)
		if err := <-late.end; err != nil || !strings.HasPrefix(late.text(), "once <take_photo>upon a time") {
			t.Errorf("%v, %q", err, late.text())
		}
	})
}

// TestStoppedByObserver checks that an observer can stop the bot: the bot stops, the asker gets a
// note, and the partial answer is saved, whether the asker is still there or not.
func TestStoppedByObserver(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := hubtest.New(t, hubtest.Options{DB: o})
		for _, left := range []bool{false, true} {
			f, words, cause := spoken()
			bot := r.AddScript(t, nil, f)
			turn := ask(bot, fmt.Sprint("left ", left))
			asking, leave := context.WithCancel(ctx)
			asked := answering(r, turn, asking)
			words <- talk.Text("once")
			mine := hub.ConversationRef{Bot: bot.Number, Person: "wearer", Conversation: "c1"}
			onlooker := observe(r, mine, turn.ID)
			<-onlooker.heard
			if left {
				leave()
				if err := <-asked; !errors.Is(err, talk.ErrDisconnected) || errors.Is(err, talk.ErrStopped) {
					t.Fatal(err)
				}
			}
			if out := r.Hub.StopTurns(ctx, hub.ConversationRef{Bot: bot.Number,
				Person: "wearer", Conversation: "c2"}); out != (hub.StopResult{}) {
				t.Errorf("%+v", out)
			}
			if out := r.Hub.StopTurns(ctx, mine); out != (hub.StopResult{Turns: 1}) {
				t.Errorf("%+v", out)
			}
			if err := <-cause; !errors.Is(err, talk.ErrStopped) {
				t.Errorf("the bot was stopped because of %v", err)
			}
			if !left {
				if err := <-asked; !errors.Is(err, talk.ErrDisconnected) || !errors.Is(err, talk.ErrStopped) {
					t.Errorf("the asker is told %v", err)
				}
			}
			if err := <-onlooker.end; !errors.Is(err, talk.ErrStopped) || onlooker.text() != "once" {
				t.Errorf("who looks on is told %v, %q", err, onlooker.text())
			}
			e, err := r.Store.Conversations.ByTurn(ctx, turn.ID)
			if err != nil || e.Answer != "once" || e.Undelivered {
				t.Errorf("kept %+v, %v", e, err)
			}
			tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
			if err != nil || tr.Outcome != "disconnected" || tr.Cause != talk.ErrStopped.Error() || tr.Code != "" {
				t.Errorf("the trace is %+v, %v", tr, err)
			}
			leave()
		}
	})
}

// TestStoppingTakesNoLongerThanItMay checks that StopTurns reports a bot that does not stop.
func TestStoppingTakesNoLongerThanItMay(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	began, enough := make(chan struct{}), make(chan struct{})
	bot := r.AddScript(t, nil, func(context.Context, *talk.Turn, talk.Emit) error {
		close(began)
		<-enough
		return nil
	})
	asked := answering(r, ask(bot, "?"), ctx)
	<-began
	since := time.Now()
	if out := r.Hub.StopTurns(ctx, hub.ConversationRef{Bot: bot.Number,
		Person: "wearer"}); out != (hub.StopResult{Turns: 1, Pending: true}) || time.Since(since) > 10*time.Second {
		t.Errorf("%+v after %v", out, time.Since(since))
	}
	close(enough)
	if err := <-asked; !errors.Is(err, talk.ErrStopped) {
		t.Error(err)
	}
}

// TestObserveFromAnotherInstance checks that turns of another instance can be observed and stopped.
func TestObserveFromAnotherInstance(t *testing.T) {
	here, there := newPair(t, hub.Options{})
	await(t, "the instances know each other", func() bool {
		return len(here.Hub.Bus.Peers()) == 1 &&
			len(there.Hub.Bus.Peers()) == 1
	})
	f, words, _ := spoken()
	bot := there.AddScript(t, nil, f)
	mine := hub.ConversationRef{Bot: bot.Number, Person: "wearer", Conversation: "c1"}

	turn := ask(bot, "a story")
	asked := answering(there, turn, ctx)
	long := strings.Repeat("长", 100_000) // more than fits into a report
	words <- talk.Text("once ")
	words <- talk.Note("let me think")
	words <- talk.Text(long)
	if list := waitActive(t, here, mine, 1); list[0].Turn != turn.ID || list[0].Question != "a story" ||
		list[0].Events != nil {
		t.Errorf("%+v", list)
	}
	if list := here.Hub.ActiveTurns(ctx, hub.ConversationRef{Bot: bot.Number, Person: "another"}); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	onlooker := observe(here, mine, turn.ID)
	<-onlooker.heard
	words <- talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto})
	words <- talk.Text("end")
	close(words)
	must(t, <-asked)
	if err := <-onlooker.end; err != nil || strings.ReplaceAll(onlooker.text(), "[let me think]", "") != "once "+long+
		"<take_photo>end" {
		t.Errorf("%v, %d bytes", err, len(onlooker.text()))
	}

	f, words, cause := spoken()
	bot = there.AddScript(t, nil, f)
	mine.Bot = bot.Number
	turn = ask(bot, "another")
	asked = answering(there, turn, ctx)
	words <- talk.Text("so")
	waitActive(t, here, mine, 1)
	onlooker = observe(here, mine, turn.ID)
	<-onlooker.heard
	if out := here.Hub.StopTurns(ctx, mine); out != (hub.StopResult{Turns: 1}) {
		t.Errorf("%+v", out)
	}
	if err := <-cause; !errors.Is(err, talk.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	if err := <-asked; !errors.Is(err, talk.ErrStopped) {
		t.Errorf("the asker is told %v", err)
	}
	if err := <-onlooker.end; !errors.Is(err, talk.ErrStopped) || onlooker.text() != "so" {
		t.Errorf("who looks on is told %v, %q", err, onlooker.text())
	}
	if out := here.Hub.StopTurns(ctx, mine); out != (hub.StopResult{}) {
		t.Errorf("with nothing to stop: %+v", out)
	}

	// Active turns of an instance that is lost are lost with it.
	f, words, _ = spoken()
	bot = there.AddScript(t, nil, f)
	mine.Bot = bot.Number
	turn = ask(bot, "a third")
	answering(there, turn, ctx)
	words <- talk.Text("so")
	waitActive(t, here, mine, 1)
	onlooker = observe(here, mine, turn.ID)
	<-onlooker.heard
	there.Hub.Bus.Abort()
	if err := <-onlooker.end; !errors.Is(err, hub.ErrNotActive) {
		t.Errorf("who looks on is told %v", err)
	}
}

// TestStoppingAsksEverybody checks that StopTurns reports an instance that does not confirm.
func TestStoppingAsksEverybody(t *testing.T) {
	here, there := newPair(t, hub.Options{})
	await(t, "the instances know each other", func() bool { return len(here.Hub.Bus.Peers()) == 1 })
	there.Hub.Close() // its bus still sends heartbeats
	if out := here.Hub.StopTurns(ctx, hub.ConversationRef{Bot: 1,
		Person: "wearer"}); out != (hub.StopResult{Unconfirmed: true}) {
		t.Errorf("%+v", out)
	}
}

// TestSplitImages checks the placeholders for images in the history.
func TestSplitImages(t *testing.T) {
	for question, want := range map[string]struct {
		text     string
		pictures int
	}{
		"hi":                         {"hi", 0},
		"hi\n[picture]":              {"hi", 1},
		"[picture]":                  {"", 1},
		"a\nb\n[picture]\n[图片]":      {"a\nb", 2},
		"[picture] of a cat":         {"[picture] of a cat", 0},
		"":                           {"", 0},
		"[picture]\nis what I typed": {"[picture]\nis what I typed", 0},
	} {
		if text, n := hub.SplitImages(question); text != want.text || n != want.pictures {
			t.Errorf("%q: %q, %d", question, text, n)
		}
	}
}
