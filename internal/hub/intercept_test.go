package hub_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// interceptWith returns an interceptor that answers turns that begin with "!".
func interceptWith(who talk.Bot) hub.Interceptor {
	return func(_ context.Context, _ store.Bot, turn *talk.Turn) talk.Bot {
		if strings.HasPrefix(turn.Text(), "!") {
			return who
		}
		return nil
	}
}

func TestSomebodyElseAnswers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := hubtest.New(t, hubtest.Options{DB: o, Hub: hub.Options{KeepContent: true}})
		r.Hub.Intercept("other", interceptWith(say("other ", "words")))
		var seen []talk.Message
		bot := r.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			seen = turn.History
			return say("bot")(ctx, turn, emit)
		})
		must(t, r.Hub.Answer(ctx, ask(bot, "first"), newRecorder().emit))
		e := newRecorder()
		turn := ask(bot, "!review")
		must(t, r.Hub.Answer(ctx, turn, e.emit))
		if got := e.text(); got != "other words" {
			t.Fatalf("heard %q", got)
		}
		tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
		must(t, err)
		if tr.Kind != "other" || tr.Owner != bot.Owner || tr.Bot != bot.Number || tr.Outcome != "done" ||
			tr.Pieces != 2 || tr.Answer != "other words" {
			t.Fatalf("trace %+v", tr)
		}
		must(t, r.Hub.Answer(ctx, ask(bot, "second"), newRecorder().emit))
		if len(seen) != 2 || seen[0].Text != "first" {
			t.Fatalf("the bot's conversation: %+v", seen)
		}
	})
}

// TestSomebodyElseAnswersWithoutTheBot checks that an interceptor neither needs the bot nor waits
// for it.
func TestSomebodyElseAnswersWithoutTheBot(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{ReconnectGrace: time.Minute}})
	r.Hub.Intercept("other", interceptWith(say("here")))
	offline := r.Add(t, "plugin", nil)
	e := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(offline, "!review"), e.emit))
	if e.text() != "here" {
		t.Fatalf("heard %q", e.text())
	}

	started, release := make(chan struct{}), make(chan struct{})
	busy := r.AddScript(t, map[string]string{"concurrent": "1", "waiting": "1"},
		func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
			close(started)
			<-release
			return emit(talk.Text("done"))
		})
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(ctx, ask(busy, "slow"), newRecorder().emit) }()
	<-started
	e = newRecorder()
	must(t, r.Hub.Answer(ctx, ask(busy, "!review"), e.emit))
	if e.text() != "here" {
		t.Fatalf("heard %q", e.text())
	}
	close(release)
	must(t, <-done)
}

// TestLateAnswersWaitForTheBot checks that a late answer of the bot is not delivered with an
// interceptor's answer, and is not lost.
func TestLateAnswersWaitForTheBot(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	bot := r.AddScript(t, nil, say("bot"))
	command := hubtest.Func(func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		return emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
	})
	must(t, r.Store.Conversations.Save(ctx, store.Exchange{Turn: "old", Bot: bot.Number,
		Person: "wearer", Conversation: "c0", At: time.Now(), Question: "q", Answer: "a", Undelivered: true}))
	for name, who := range map[string]talk.Bot{"!words": say("here"), "!command": command} {
		r.Hub.Intercept("other", interceptWith(who))
		e := newRecorder()
		must(t, r.Hub.Answer(ctx, ask(bot, name), e.emit))
		if strings.Contains(e.text(), "earlier question") {
			t.Fatalf("heard %q", e.text())
		}
	}
	e := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(bot, "and now?"), e.emit))
	if got := e.text(); got != "[Your earlier question has an answer: a]bot" {
		t.Fatalf("heard %q", got)
	}
}

// TestInterceptedAnswerIsNeverLate checks that an undelivered answer of an interceptor is neither
// delivered later nor pushed, because it is obsolete by then.
func TestInterceptedAnswerIsNeverLate(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	r.Hub.OnLate("test", func(_ context.Context, _ store.Bot, l hub.Late) error {
		t.Errorf("pushed %q", l.Answer)
		return nil
	})
	started, release := make(chan struct{}), make(chan struct{})
	r.Hub.Intercept("other", interceptWith(hubtest.Func(func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		close(started)
		<-release
		return emit(talk.Text("unheard"))
	})))
	bot := r.AddScript(t, nil, say("bot"))
	asking, hangUp := context.WithCancel(ctx)
	turn := ask(bot, "!review")
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(asking, turn, newRecorder().emit) }()
	<-started
	hangUp()
	if err := <-done; !errors.Is(err, talk.ErrDisconnected) {
		t.Fatalf("hanging up: %v", err)
	}
	close(release)
	drain, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.Hub.Drain(drain)
	tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Kind != "other" || tr.Outcome != "disconnected" || tr.Late <= 0 {
		t.Fatalf("trace %+v", tr)
	}
	late, err := r.Store.Conversations.Undelivered(ctx, bot.Number, "wearer")
	must(t, err)
	kept, err := r.Store.Conversations.Last(ctx, bot.Number, "wearer", "c1", 10)
	must(t, err)
	if len(late) != 0 || len(kept) != 0 {
		t.Fatalf("kept: %+v, to be told: %+v", kept, late)
	}
}

func TestInterceptedAnswerFailure(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	bot := r.AddScript(t, nil, say("bot"))
	r.Hub.Intercept("other", interceptWith(hubtest.Func(func(context.Context, *talk.Turn, talk.Emit) error {
		return talk.Fail(talk.Internal, "", errors.New("the disk is full"))
	})))
	turn := ask(bot, "!review")
	wantCode(t, r.Hub.Answer(ctx, turn, newRecorder().emit), talk.Internal)
	tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Outcome != "failed" || tr.Kind != "other" || !strings.Contains(tr.Cause, "disk is full") {
		t.Fatalf("trace %+v", tr)
	}
}

// TestRepeatedRequestJoinsInterceptedAnswer checks that a request that the network repeats is
// answered once, also by an interceptor.
func TestRepeatedRequestJoinsInterceptedAnswer(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	n := 0
	r.Hub.Intercept("other", interceptWith(hubtest.Func(func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		n++
		return emit(talk.Text("once"))
	})))
	bot := r.AddScript(t, nil, say("bot"))
	for range 2 {
		e := newRecorder()
		turn := ask(bot, "!Paris")
		turn.Request = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		must(t, r.Hub.Answer(ctx, turn, e.emit))
		if e.text() != "once" {
			t.Fatalf("heard %q", e.text())
		}
	}
	if n != 1 {
		t.Fatalf("it was answered %d times", n)
	}
}
