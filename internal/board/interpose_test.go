package board_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// besides answers turns that begin with "!" in place of whichever bot is asked.
func besides(who talk.Bot) board.Interposed {
	return func(_ context.Context, _ store.Bot, turn *talk.Turn) talk.Bot {
		if strings.HasPrefix(turn.Text(), "!") {
			return who
		}
		return nil
	}
}

func TestSomebodyElseAnswers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := boardtest.New(t, boardtest.Options{DB: o, Board: board.Options{KeepContent: true}})
		r.Board.Interpose("other", besides(say("other ", "words")))
		var seen []talk.Message
		bot := r.Script(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			seen = turn.History
			return say("bot")(ctx, turn, emit)
		})
		must(t, r.Board.Answer(ctx, ask(bot, "first"), newEar().emit))
		e := newEar()
		turn := ask(bot, "!review")
		must(t, r.Board.Answer(ctx, turn, e.emit))
		if got := e.text(); got != "other words" {
			t.Fatalf("heard %q", got)
		}
		tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
		must(t, err)
		if tr.Kind != "other" || tr.Owner != bot.Owner || tr.Bot != bot.Number || tr.Outcome != "done" || tr.Pieces != 2 || tr.Answer != "other words" {
			t.Fatalf("trace %+v", tr)
		}
		must(t, r.Board.Answer(ctx, ask(bot, "second"), newEar().emit))
		if len(seen) != 2 || seen[0].Text != "first" {
			t.Fatalf("the bot's conversation: %+v", seen)
		}
	})
}

// Whoever answers in its place neither needs the bot nor waits for it.
func TestSomebodyElseAnswersWithoutTheBot(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Board: board.Options{Grace: time.Minute}})
	r.Board.Interpose("other", besides(say("here")))
	offline := r.Add(t, "plugin", nil)
	e := newEar()
	must(t, r.Board.Answer(ctx, ask(offline, "!review"), e.emit))
	if e.text() != "here" {
		t.Fatalf("heard %q", e.text())
	}

	started, release := make(chan struct{}), make(chan struct{})
	busy := r.Script(t, map[string]string{"concurrent": "1", "waiting": "1"}, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		close(started)
		<-release
		return emit(talk.Text("done"))
	})
	done := make(chan error, 1)
	go func() { done <- r.Board.Answer(ctx, ask(busy, "slow"), newEar().emit) }()
	<-started
	e = newEar()
	must(t, r.Board.Answer(ctx, ask(busy, "!review"), e.emit))
	if e.text() != "here" {
		t.Fatalf("heard %q", e.text())
	}
	close(release)
	must(t, <-done)
}

// A late answer is the bot's to tell: it is neither told in between, nor lost.
func TestLateAnswersWaitForTheBot(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	bot := r.Script(t, nil, say("bot"))
	command := boardtest.Func(func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		return emit(talk.Do(talk.Command{Name: talk.CommandTakePhoto}))
	})
	must(t, r.Store.Conversations.Keep(ctx, store.Exchange{Turn: "old", Bot: bot.Number, Person: "wearer", Conversation: "c0", At: time.Now(), Question: "q", Answer: "a", Unheard: true}))
	for name, who := range map[string]talk.Bot{"!words": say("here"), "!command": command} {
		r.Board.Interpose("other", besides(who))
		e := newEar()
		must(t, r.Board.Answer(ctx, ask(bot, name), e.emit))
		if strings.Contains(e.text(), "earlier question") {
			t.Fatalf("heard %q", e.text())
		}
	}
	e := newEar()
	must(t, r.Board.Answer(ctx, ask(bot, "and now?"), e.emit))
	if got := e.text(); got != "[Your earlier question has an answer: a]bot" {
		t.Fatalf("heard %q", got)
	}
}

// What nobody heard of an answer in the bot's place is not told later, and not
// pushed: by then it says nothing to anybody.
func TestAnInterposedAnswerIsNeverLate(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	r.Board.OnLate("test", func(_ context.Context, _ store.Bot, l board.Late) error {
		t.Errorf("pushed %q", l.Answer)
		return nil
	})
	started, release := make(chan struct{}), make(chan struct{})
	r.Board.Interpose("other", besides(boardtest.Func(func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		close(started)
		<-release
		return emit(talk.Text("unheard"))
	})))
	bot := r.Script(t, nil, say("bot"))
	asking, hangUp := context.WithCancel(ctx)
	turn := ask(bot, "!review")
	done := make(chan error, 1)
	go func() { done <- r.Board.Answer(asking, turn, newEar().emit) }()
	<-started
	hangUp()
	if err := <-done; !errors.Is(err, talk.ErrHungUp) {
		t.Fatalf("hanging up: %v", err)
	}
	close(release)
	drain, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.Board.Drain(drain)
	tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Kind != "other" || tr.Outcome != "hung_up" || tr.Late <= 0 {
		t.Fatalf("trace %+v", tr)
	}
	late, err := r.Store.Conversations.Unheard(ctx, bot.Number, "wearer")
	must(t, err)
	kept, err := r.Store.Conversations.Last(ctx, bot.Number, "wearer", "c1", 10)
	must(t, err)
	if len(late) != 0 || len(kept) != 0 {
		t.Fatalf("kept: %+v, to be told: %+v", kept, late)
	}
}

func TestAnInterposedAnswerFailsInWords(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	bot := r.Script(t, nil, say("bot"))
	r.Board.Interpose("other", besides(boardtest.Func(func(context.Context, *talk.Turn, talk.Emit) error {
		return talk.Fail(talk.Internal, "", errors.New("the disk is full"))
	})))
	turn := ask(bot, "!review")
	wantCode(t, r.Board.Answer(ctx, turn, newEar().emit), talk.Internal)
	tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Outcome != "failed" || tr.Kind != "other" || !strings.Contains(tr.Cause, "disk is full") {
		t.Fatalf("trace %+v", tr)
	}
}

// A request that the network repeats is answered once, whoever answers.
func TestARepeatedRequestJoinsAnInterposedAnswer(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	n := 0
	r.Board.Interpose("other", besides(boardtest.Func(func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		n++
		return emit(talk.Text("once"))
	})))
	bot := r.Script(t, nil, say("bot"))
	for range 2 {
		e := newEar()
		turn := ask(bot, "!Paris")
		turn.Request = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		must(t, r.Board.Answer(ctx, turn, e.emit))
		if e.text() != "once" {
			t.Fatalf("heard %q", e.text())
		}
	}
	if n != 1 {
		t.Fatalf("it was answered %d times", n)
	}
}
