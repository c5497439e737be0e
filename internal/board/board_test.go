package board_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestMain(m *testing.M) {
	switch os.Getenv("PATCHBAY_TEST_CHILD") {
	case "server":
		board.OtherServer(os.Args[1])
	case "caller":
		callUntilKilled(os.Args[1], os.Args[2])
	default:
		storetest.Main(m)
	}
}

var ctx = context.Background()

// ear collects what an asker hears.
type ear struct {
	mu     sync.Mutex
	events []talk.Event
	heard  chan struct{} // gets one for each event
}

func newEar() *ear { return &ear{heard: make(chan struct{}, 10_000)} }

func (e *ear) emit(ev talk.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, ev)
	e.heard <- struct{}{}
	return nil
}

// text is all that was said, notes in brackets.
func (e *ear) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, ev := range e.events {
		switch ev.Kind {
		case talk.KindText:
			b.WriteString(ev.Text)
		case talk.KindNote:
			b.WriteString("[" + strings.TrimSpace(ev.Text) + "]")
		case talk.KindCommand:
			b.WriteString("<" + ev.Command.Name + ">")
		case talk.KindSuggest:
			fmt.Fprintf(&b, "%v", ev.Suggest)
		}
	}
	return b.String()
}

func ask(bot store.Bot, text string) *talk.Turn {
	return &talk.Turn{
		Bot: bot.Number, Door: "test", Person: "wearer", Conversation: "c1", Lang: talk.English,
		Parts: []talk.Part{{Text: text}}, Commands: []string{talk.CommandTakePhoto},
	}
}

func wantCode(t *testing.T, err error, want talk.Code) {
	t.Helper()
	f, ok := errors.AsType[*talk.Failure](err)
	if !ok || f.Code != want {
		t.Fatalf("got %v, want a failure of code %s", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func say(words ...string) boardtest.Func {
	return func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		for _, w := range words {
			if err := emit(talk.Text(w)); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestAnAnswerIsStreamedTracedAndRemembered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := boardtest.New(t, boardtest.Options{DB: o})
		var seen []talk.Message
		bot := r.Script(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			seen = turn.History
			return say("one ", "two")(ctx, turn, emit)
		})
		e := newEar()
		turn := ask(bot, "first?")
		must(t, r.Board.Answer(ctx, turn, e.emit))
		if got := e.text(); got != "one two" {
			t.Fatalf("heard %q", got)
		}
		tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
		must(t, err)
		if tr.Outcome != "done" || tr.Pieces != 2 || tr.Bytes != 7 || tr.First <= 0 || tr.Total < tr.First || tr.Answer != "" {
			t.Fatalf("trace %+v", tr)
		}
		must(t, r.Board.Answer(ctx, ask(bot, "second?"), newEar().emit))
		want := []talk.Message{{Role: talk.RolePerson, Text: "first?"}, {Role: talk.RoleBot, Text: "one two"}}
		if !reflect.DeepEqual(seen, want) {
			t.Fatalf("the second question knew %+v", seen)
		}
		other := ask(bot, "third?")
		other.Person = "somebody else"
		must(t, r.Board.Answer(ctx, other, newEar().emit))
		if len(seen) != 0 {
			t.Fatalf("somebody else's history: %+v", seen)
		}
	})
}

func TestFailures(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Board: board.Options{FirstPiece: 80 * time.Millisecond, Idle: 80 * time.Millisecond}})
	hang := func(ctx context.Context, _ *talk.Turn, _ talk.Emit) error { <-ctx.Done(); return ctx.Err() }
	cases := map[string]struct {
		bot   boardtest.Func
		code  talk.Code
		heard string
	}{
		"says that it failed": {func(context.Context, *talk.Turn, talk.Emit) error { return talk.Fail(talk.BotFailed, "no", nil) }, talk.BotFailed, ""},
		"some other error":    {func(context.Context, *talk.Turn, talk.Emit) error { return errors.New("boom") }, talk.BotFailed, ""},
		"says nothing":        {say(), talk.NoAnswer, ""},
		"says empty things":   {say("", ""), talk.NoAnswer, ""},
		"hangs":               {hang, talk.TimedOut, ""},
		"hangs in mid-sentence": {func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			emit(talk.Text("half"))
			return hang(ctx, turn, emit)
		}, talk.TimedOut, "half"},
		"breaks in mid-sentence": {func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
			emit(talk.Text("half"))
			return errors.New("boom")
		}, talk.BotFailed, "half"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := newEar()
			turn := ask(r.Script(t, nil, c.bot), "?")
			wantCode(t, r.Board.Answer(ctx, turn, e.emit), c.code)
			if e.text() != c.heard {
				t.Fatalf("heard %q, want %q", e.text(), c.heard)
			}
			tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
			must(t, err)
			if tr.Outcome != "failed" || tr.Code != string(c.code) {
				t.Fatalf("trace %+v", tr)
			}
		})
	}
}

// A bot that is slow but not silent must not be cut, however long it takes.
func TestIdleIsMeasuredFromTheLastPiece(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Board: board.Options{FirstPiece: 200 * time.Millisecond, Idle: 200 * time.Millisecond}})
	bot := r.Script(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		for range 8 {
			<-time.After(60 * time.Millisecond)
			emit(talk.Text("x"))
		}
		return nil
	})
	e := newEar()
	must(t, r.Board.Answer(ctx, ask(bot, "?"), e.emit))
	if e.text() != "xxxxxxxx" {
		t.Fatalf("heard %q", e.text())
	}
}

func TestLateAnswerIsToldAtTheNextTurn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := boardtest.New(t, boardtest.Options{DB: o})
		release, ended := make(chan struct{}), make(chan struct{})
		bot := r.Script(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			if turn.Text() == "next" {
				return emit(talk.Text("now"))
			}
			emit(talk.Text("at "))
			<-release
			return emit(talk.Text("last"))
		})
		r.Board.OnLate("test", func(context.Context, store.Bot, board.Late) error {
			close(ended)
			return errors.New("no push here")
		})
		asking, hangUp := context.WithCancel(ctx)
		e := newEar()
		turn := ask(bot, "slow")
		done := make(chan error, 1)
		go func() { done <- r.Board.Answer(asking, turn, e.emit) }()
		<-e.heard
		hangUp()
		if err := <-done; !errors.Is(err, talk.ErrHungUp) {
			t.Fatalf("hanging up: %v", err)
		}
		close(release)
		<-ended
		tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
		must(t, err)
		if tr.Outcome != "hung_up" || tr.Late <= 0 {
			t.Fatalf("trace %+v", tr)
		}
		next := newEar()
		must(t, r.Board.Answer(ctx, ask(bot, "next"), next.emit))
		if got := next.text(); got != "[Your earlier question has an answer: at last]now" {
			t.Fatalf("heard %q", got)
		}
		again := newEar()
		must(t, r.Board.Answer(ctx, ask(bot, "next"), again.emit)) // joins the turn before, or is a new one
		later := newEar()
		turn3 := ask(bot, "next")
		turn3.Conversation = "c2"
		must(t, r.Board.Answer(ctx, turn3, later.emit))
		if got := later.text(); got != "now" {
			t.Fatalf("told twice: %q", got)
		}
	})
}

// A command must stay the first thing a device gets, so earlier answers come
// behind it.
func TestLateAnswerFollowsACommand(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	bot := r.Script(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		return emit(talk.Do(talk.Command{Name: talk.CommandTakePhoto}))
	})
	must(t, r.Store.Conversations.Keep(ctx, store.Exchange{Turn: "old", Bot: bot.Number, Person: "wearer", Conversation: "c0", At: time.Now(), Question: "q", Answer: "a", Unheard: true}))
	e := newEar()
	must(t, r.Board.Answer(ctx, ask(bot, "photo"), e.emit))
	if got := e.text(); got != "<take_photo>[Your earlier question has an answer: a]" {
		t.Fatalf("heard %q", got)
	}
}

func TestPushedAnswersAreNotToldAgain(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	pushed := make(chan string, 1)
	r.Board.OnLate("test", func(_ context.Context, _ store.Bot, l board.Late) error { pushed <- l.Answer; return nil })
	asking, hangUp := context.WithCancel(ctx)
	started, slow := make(chan struct{}), make(chan struct{})
	bot := r.Script(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		close(started)
		<-slow
		return emit(talk.Text("late"))
	})
	done := make(chan error, 1)
	go func() { done <- r.Board.Answer(asking, ask(bot, "slow"), newEar().emit) }()
	<-started
	hangUp()
	<-done
	close(slow)
	if l := <-pushed; l != "late" {
		t.Fatalf("pushed %q", l)
	}
	drain, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.Board.Drain(drain)
	late, err := r.Store.Conversations.Unheard(ctx, bot.Number, "wearer")
	must(t, err)
	if len(late) != 0 {
		t.Fatalf("pushed, but still to be told: %+v", late)
	}
}

func TestHangupCancelsWhereTheOwnerWantsThat(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	started, cause := make(chan struct{}), make(chan error, 1)
	bot := r.Script(t, map[string]string{"hangup": "cancel"}, func(ctx context.Context, _ *talk.Turn, _ talk.Emit) error {
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	asking, hangUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Board.Answer(asking, ask(bot, "?"), newEar().emit) }()
	<-started
	hangUp()
	<-done
	if err := <-cause; !errors.Is(err, talk.ErrHungUp) {
		t.Fatalf("the bot was stopped because of %v", err)
	}
}

// Whoever stops an answer stops the bot, which would go on if they had just left. What it
// had said by then is remembered, and nobody is told it later.
func TestAnAskerStopsTheBot(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	cause := make(chan error, 1)
	bot := r.Script(t, nil, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("once upon a time"))
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	asking, stop := context.WithCancelCause(ctx)
	e := newEar()
	turn := ask(bot, "a story")
	done := make(chan error, 1)
	go func() { done <- r.Board.Answer(asking, turn, e.emit) }()
	<-e.heard
	stop(board.ErrStopped)
	if err := <-done; !errors.Is(err, talk.ErrHungUp) {
		t.Errorf("the asker is told %v", err)
	}
	if err := <-cause; !errors.Is(err, board.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	drain, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.Board.Drain(drain)
	tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Outcome != "hung_up" || tr.Cause != board.ErrStopped.Error() {
		t.Errorf("the trace is %+v", tr)
	}
	kept, err := r.Store.Conversations.Last(ctx, bot.Number, turn.Person, turn.Conversation, 5)
	must(t, err)
	if len(kept) != 1 || kept[0].Answer != "once upon a time" || kept[0].Unheard {
		t.Errorf("kept: %+v", kept)
	}
}

func TestQueue(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	asked, release := make(chan string, 10), make(chan struct{})
	bot := r.Script(t, map[string]string{"concurrent": "1", "waiting": "2"}, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		asked <- turn.Text()
		select {
		case <-release:
		case <-ctx.Done():
		}
		return emit(talk.Text("done " + turn.Text()))
	})
	ears := map[string]*ear{}
	var wg sync.WaitGroup
	put := func(text string) {
		e := newEar()
		ears[text] = e
		wg.Go(func() {
			if err := r.Board.Answer(ctx, ask(bot, text), e.emit); err != nil {
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
	wantCode(t, r.Board.Answer(ctx, ask(bot, "d"), newEar().emit), talk.Busy)
	// Somebody who waits and goes away leaves the line, unasked.
	release <- struct{}{}
	if next := <-asked; next != "b" {
		t.Fatalf("%s was asked before b", next)
	}
	leaving, leave := context.WithCancel(ctx)
	quitter := newEar()
	gone := make(chan error, 1)
	go func() { gone <- r.Board.Answer(leaving, ask(bot, "quitter"), quitter.emit) }()
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

// A bot that hangs must not block those behind it for ever, and what it still
// says goes to nobody else.
func TestAHungBotGivesUpItsSeat(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Board: board.Options{FirstPiece: 50 * time.Millisecond, Idle: 50 * time.Millisecond}})
	hung := make(chan struct{})
	defer close(hung)
	bot := r.Script(t, map[string]string{"concurrent": "1", "waiting": "5", "first_piece": "10s"}, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() == "hang" {
			<-hung
			return nil
		}
		return emit(talk.Text("fine"))
	})
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	go r.Board.Answer(leaving, ask(bot, "hang"), newEar().emit)
	var e *ear
	for { // until the hanging turn has taken the seat
		e = newEar()
		turn := ask(bot, fmt.Sprint("next ", time.Now().UnixNano()))
		must(t, r.Board.Answer(ctx, turn, e.emit))
		if strings.HasPrefix(e.text(), "[") {
			break
		}
	}
	if got := e.text(); got != "[One before you, one moment…]fine" {
		t.Fatalf("heard %q", got)
	}
}

func TestARepeatedRequestJoinsTheRunningTurn(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	var asked sync.Map
	release := make(chan struct{})
	bot := r.Script(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		asked.Store(turn.ID, true)
		emit(talk.Text("first "))
		<-release
		emit(talk.Text("second "))
		return emit(talk.Do(talk.Command{Name: talk.CommandTakePhoto}))
	})
	again := func() *talk.Turn {
		turn := ask(bot, "?")
		turn.Request = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		return turn
	}
	one, two := newEar(), newEar()
	var wg sync.WaitGroup
	wg.Go(func() { r.Board.Answer(ctx, again(), one.emit) })
	<-one.heard
	wg.Go(func() { r.Board.Answer(ctx, again(), two.emit) })
	<-two.heard
	close(release)
	wg.Wait()
	three := newEar() // even when the turn has just ended
	must(t, r.Board.Answer(ctx, again(), three.emit))
	for i, e := range []*ear{one, two, three} {
		if got := e.text(); got != "first second <take_photo>" {
			t.Errorf("asker %d heard %q", i+1, got)
		}
	}
	n := 0
	asked.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("the bot was asked %d times", n)
	}
	different := ask(bot, "something else")
	if err := r.Board.Answer(ctx, different, newEar().emit); err != nil {
		t.Error(err)
	}
}

func TestUnknownCommandsAreDropped(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	bot := r.Script(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Do(talk.Command{Name: "format_disk"}))
		emit(talk.Suggest("1", "2", "3", "4"))
		return emit(talk.Do(talk.Command{Name: talk.CommandTakePhoto}))
	})
	e := newEar()
	must(t, r.Board.Answer(ctx, ask(bot, "?"), e.emit))
	if got := e.text(); got != "[1 2 3]<take_photo>" {
		t.Fatalf("heard %q", got)
	}
}

func TestDrain(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{})
	started := make(chan struct{})
	bot := r.Script(t, nil, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("so "))
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	e := newEar()
	turn := ask(bot, "?")
	done := make(chan error, 1)
	go func() { done <- r.Board.Answer(ctx, turn, e.emit) }()
	<-started
	limit, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	r.Board.Drain(limit)
	wantCode(t, <-done, talk.Lost)
	wantCode(t, r.Board.Answer(ctx, ask(bot, "too late"), e.emit), talk.Stopping)
	if _, err := r.Store.Traces.ByTurn(ctx, turn.ID); err != nil {
		t.Fatalf("the trace of the turn that was ended: %v", err)
	}
}

func TestTurnsAtATimeAreBounded(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Board: board.Options{Turns: 1}})
	started, release := make(chan struct{}), make(chan struct{})
	bot := r.Script(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() == "a" {
			close(started)
			<-release
		}
		return emit(talk.Text("ok"))
	})
	done := make(chan error, 1)
	go func() { done <- r.Board.Answer(ctx, ask(bot, "a"), newEar().emit) }()
	<-started
	wantCode(t, r.Board.Answer(ctx, ask(bot, "b"), newEar().emit), talk.Busy)
	close(release)
	must(t, <-done)
}

// Who asks a bot whose connection just broke is told that it is waited for.
func TestReconnectingIsTold(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Board: board.Options{Grace: time.Hour, Quiet: time.Millisecond}})
	bot := r.Add(t, "plugin", nil)
	r.Board.Attach(bot.Number, say("here"), board.Limits{})()
	done, e := make(chan error, 1), newEar()
	go func() { done <- r.Board.Answer(ctx, ask(bot, "there?"), e.emit) }()
	select {
	case <-e.heard:
	case err := <-done:
		t.Fatalf("%v before anything was told", err)
	}
	defer r.Board.Attach(bot.Number, say("back"), board.Limits{})()
	must(t, <-done)
	if want := "[" + talk.SayReconnecting.In(talk.English) + "]back"; e.text() != want {
		t.Errorf("heard %q, not %q", e.text(), want)
	}
}

func TestConnectedBots(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Board: board.Options{Grace: 300 * time.Millisecond}})
	bot := r.Add(t, "plugin", nil)
	wantCode(t, r.Board.Answer(ctx, ask(bot, "never seen"), newEar().emit), talk.Offline)
	if r.Board.Online(bot.Number) {
		t.Fatal("online before it was attached")
	}
	detach := r.Board.Attach(bot.Number, say("here"), board.Limits{Concurrent: 1, Waiting: 3})
	e := newEar()
	must(t, r.Board.Answer(ctx, ask(bot, "now"), e.emit))
	if e.text() != "here" || !r.Board.Online(bot.Number) {
		t.Fatalf("heard %q, online %t", e.text(), r.Board.Online(bot.Number))
	}
	detach()
	// Gone a moment ago: the asker waits, and is served when it comes back.
	done := make(chan error, 1)
	back := newEar()
	go func() { done <- r.Board.Answer(ctx, ask(bot, "back?"), back.emit) }()
	detach = r.Board.Attach(bot.Number, say("back"), board.Limits{})
	must(t, <-done)
	if back.text() != "back" {
		t.Fatalf("heard %q", back.text())
	}
	detach()
	seen, err := r.Store.Bots.ByNumber(ctx, bot.Number)
	must(t, err)
	if seen.Seen.IsZero() {
		t.Fatal("when it was last seen was not kept")
	}
}

func TestSettings(t *testing.T) {
	type kindSettings struct {
		Key  string         `json:"api_key" secret:"true"`
		Tags []string       `json:"tags"`
		N    *int           `json:"n"`
		Wait board.Duration `json:"wait"`
	}
	r := boardtest.New(t, boardtest.Options{Kinds: []board.Kind{{
		Name: "model", Settings: func() any { return new(kindSettings) },
		Build: func(store.Bot, any) (talk.Bot, error) { return say("hi"), nil },
	}}})
	b := r.Add(t, "model", map[string]string{"api_key": "sk-secret", "tags": "a, b", "n": "3", "wait": "90s", "shared": "true"})
	if strings.Contains(string(b.Settings), "sk-secret") {
		t.Fatalf("the secret is kept readable: %s", b.Settings)
	}
	var k kindSettings
	must(t, r.Registry.Settings(b, &k))
	if k.Key != "sk-secret" || len(k.Tags) != 2 || *k.N != 3 || time.Duration(k.Wait) != 90*time.Second {
		t.Fatalf("read back %+v", k)
	}
	shown, err := r.Registry.Shown(b)
	must(t, err)
	if s := string(shown["api_key"]); strings.Contains(s, "secret") || strings.Contains(s, "sealed") {
		t.Fatalf("shown: %s", s)
	}
	changed, err := r.Registry.Change(ctx, b.Number, board.Changes{Set: map[string]string{"n": "", "api_key": "sk-2"}})
	must(t, err)
	k = kindSettings{}
	must(t, r.Registry.Settings(changed.Bot, &k))
	if k.N != nil || k.Key != "sk-2" {
		t.Fatalf("after the change %+v", k)
	}
	for set, want := range map[string]string{
		"colour=red":   "no setting is called",
		"n=many":       "does not fit",
		"wait=soon":    "does not fit",
		"hangup=maybe": "hangup is finish or cancel",
		"shared=si":    "does not fit",
	} {
		name, text, _ := strings.Cut(set, "=")
		_, err := r.Registry.Change(ctx, b.Number, board.Changes{Set: map[string]string{name: text}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", set, err, want)
		}
	}
}
