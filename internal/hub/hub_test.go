package hub_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestAnAnswerIsStreamedTracedAndRemembered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := hubtest.New(t, hubtest.Options{DB: o})
		var seen []talk.Message
		bot := r.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			seen = turn.History
			turn.UsesModel(talk.ModelUse{Model: "m", Took: 3 * time.Millisecond, First: 2 * time.Millisecond, Input: 7, Output: 4})
			return say("one ", "two")(ctx, turn, emit)
		})
		e := newRecorder()
		turn := ask(bot, "first?")
		must(t, r.Hub.Answer(ctx, turn, e.emit))
		if got := e.text(); got != "one two" {
			t.Fatalf("heard %q", got)
		}
		tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
		must(t, err)
		if tr.Outcome != "done" || tr.Pieces != 2 || tr.Bytes != 7 || tr.First <= 0 || tr.Total < tr.First ||
			tr.Answer != "" {
			t.Fatalf("trace %+v", tr)
		}
		if len(tr.Models) != 1 || tr.Models[0].Model != "m" || tr.Models[0].Took != 3 || tr.Models[0].First != 2 {
			t.Fatalf("requests to the model: %+v", tr.Models)
		}
		if in, out := tr.Tokens(); in != 7 || out != 4 {
			t.Fatalf("tokens: %d, %d", in, out)
		}
		must(t, r.Hub.Answer(ctx, ask(bot, "second?"), newRecorder().emit))
		want := []talk.Message{{Role: talk.RolePerson, Text: "first?"}, {Role: talk.RoleBot, Text: "one two"}}
		if !reflect.DeepEqual(seen, want) {
			t.Fatalf("the second question knew %+v", seen)
		}
		other := ask(bot, "third?")
		other.Person = "somebody else"
		must(t, r.Hub.Answer(ctx, other, newRecorder().emit))
		if len(seen) != 0 {
			t.Fatalf("somebody else's history: %+v", seen)
		}
	})
}

func TestFailures(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{FirstPieceTimeout: 80 * time.Millisecond,
		IdleTimeout: 80 * time.Millisecond}})
	hang := func(ctx context.Context, _ *talk.Turn, _ talk.Emit) error { <-ctx.Done(); return ctx.Err() }
	cases := map[string]struct {
		bot   hubtest.Func
		code  talk.Code
		heard string
	}{
		"says that it failed": {func(context.Context, *talk.Turn,
			talk.Emit) error {
			return talk.Fail(talk.BotFailed, "no", nil)
		}, talk.BotFailed, ""},
		"some other error": {func(context.Context, *talk.Turn, talk.Emit) error { return errors.New("boom") },
			talk.BotFailed, ""},
		"says nothing":      {say(), talk.NoAnswer, ""},
		"says empty things": {say("", ""), talk.NoAnswer, ""},
		"hangs":             {hang, talk.TimedOut, ""},
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
			e := newRecorder()
			turn := ask(r.AddScript(t, nil, c.bot), "?")
			wantCode(t, r.Hub.Answer(ctx, turn, e.emit), c.code)
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

// TestIdleIsMeasuredFromTheLastPiece checks that a slow bot that keeps emitting is not stopped,
// however long it takes.
func TestIdleIsMeasuredFromTheLastPiece(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{FirstPieceTimeout: 200 * time.Millisecond,
		IdleTimeout: 200 * time.Millisecond}})
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		for range 8 {
			<-time.After(60 * time.Millisecond)
			emit(talk.Text("x"))
		}
		return nil
	})
	e := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(bot, "?"), e.emit))
	if e.text() != "xxxxxxxx" {
		t.Fatalf("heard %q", e.text())
	}
}

func TestLateAnswerIsToldAtTheNextTurn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := hubtest.New(t, hubtest.Options{DB: o})
		release, ended := make(chan struct{}), make(chan struct{})
		bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			if turn.Text() == "next" {
				return emit(talk.Text("now"))
			}
			emit(talk.Text("at "))
			<-release
			return emit(talk.Text("last"))
		})
		r.Hub.OnLate("test", func(context.Context, store.Bot, hub.Late) error {
			close(ended)
			return errors.New("no push here")
		})
		asking, hangUp := context.WithCancel(ctx)
		e := newRecorder()
		turn := ask(bot, "slow")
		done := make(chan error, 1)
		go func() { done <- r.Hub.Answer(asking, turn, e.emit) }()
		<-e.heard
		hangUp()
		if err := <-done; !errors.Is(err, talk.ErrDisconnected) {
			t.Fatalf("hanging up: %v", err)
		}
		close(release)
		<-ended
		tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
		must(t, err)
		if tr.Outcome != "disconnected" || tr.Late <= 0 {
			t.Fatalf("trace %+v", tr)
		}
		next := newRecorder()
		must(t, r.Hub.Answer(ctx, ask(bot, "next"), next.emit))
		if got := next.text(); got != "[Your earlier question has an answer: at last]now" {
			t.Fatalf("heard %q", got)
		}
		again := newRecorder()
		must(t, r.Hub.Answer(ctx, ask(bot, "next"), again.emit)) // joins the turn before, or is new
		later := newRecorder()
		turn3 := ask(bot, "next")
		turn3.Conversation = "c2"
		must(t, r.Hub.Answer(ctx, turn3, later.emit))
		if got := later.text(); got != "now" {
			t.Fatalf("told twice: %q", got)
		}
	})
}

// TestLateAnswerFollowsACommand checks that a late answer follows a command: a device has to get
// the command first.
func TestLateAnswerFollowsACommand(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		return emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
	})
	must(t, r.Store.Conversations.Save(ctx, store.Exchange{Turn: "old", Bot: bot.Number,
		Person: "wearer", Conversation: "c0", At: time.Now(), Question: "q", Answer: "a", Undelivered: true}))
	e := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(bot, "photo"), e.emit))
	if got := e.text(); got != "<take_photo>[Your earlier question has an answer: a]" {
		t.Fatalf("heard %q", got)
	}
}

func TestPushedAnswersAreNotToldAgain(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	pushed := make(chan string, 1)
	r.Hub.OnLate("test", func(_ context.Context, _ store.Bot, l hub.Late) error { pushed <- l.Answer; return nil })
	asking, hangUp := context.WithCancel(ctx)
	started, slow := make(chan struct{}), make(chan struct{})
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		close(started)
		<-slow
		return emit(talk.Text("late"))
	})
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(asking, ask(bot, "slow"), newRecorder().emit) }()
	<-started
	hangUp()
	<-done
	close(slow)
	if l := <-pushed; l != "late" {
		t.Fatalf("pushed %q", l)
	}
	drain, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.Hub.Drain(drain)
	late, err := r.Store.Conversations.Undelivered(ctx, bot.Number, "wearer")
	must(t, err)
	if len(late) != 0 {
		t.Fatalf("pushed, but still to be told: %+v", late)
	}
}

func TestDisconnectCancelsIfConfigured(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	started, cause := make(chan struct{}), make(chan error, 1)
	bot := r.AddScript(t, map[string]string{"hangup": "cancel"},
		func(ctx context.Context, _ *talk.Turn, _ talk.Emit) error {
			close(started)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		})
	asking, hangUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(asking, ask(bot, "?"), newRecorder().emit) }()
	<-started
	hangUp()
	<-done
	if err := <-cause; !errors.Is(err, talk.ErrDisconnected) {
		t.Fatalf("the bot was stopped because of %v", err)
	}
}

// TestAnAskerStopsTheBot checks that the bot stops when the asker stops the answer; it would
// continue if the asker had only left. The partial answer is saved, and is not delivered later.
func TestAnAskerStopsTheBot(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	cause := make(chan error, 1)
	bot := r.AddScript(t, nil, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.Text("once upon a time"))
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	asking, stop := context.WithCancelCause(ctx)
	e := newRecorder()
	turn := ask(bot, "a story")
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(asking, turn, e.emit) }()
	<-e.heard
	stop(talk.ErrStopped)
	if err := <-done; !errors.Is(err, talk.ErrDisconnected) {
		t.Errorf("the asker is told %v", err)
	}
	if err := <-cause; !errors.Is(err, talk.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	drain, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.Hub.Drain(drain)
	tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Outcome != "disconnected" || tr.Cause != talk.ErrStopped.Error() {
		t.Errorf("the trace is %+v", tr)
	}
	kept, err := r.Store.Conversations.Last(ctx, bot.Number, turn.Person, turn.Conversation, 5)
	must(t, err)
	if len(kept) != 1 || kept[0].Answer != "once upon a time" || kept[0].Undelivered {
		t.Errorf("kept: %+v", kept)
	}
}

func TestARepeatedRequestJoinsTheRunningTurn(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	var asked sync.Map
	release := make(chan struct{})
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		asked.Store(turn.ID, true)
		emit(talk.Text("first "))
		<-release
		emit(talk.Text("second "))
		return emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
	})
	again := func() *talk.Turn {
		turn := ask(bot, "?")
		turn.Request = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		return turn
	}
	one, two := newRecorder(), newRecorder()
	var wg sync.WaitGroup
	wg.Go(func() { r.Hub.Answer(ctx, again(), one.emit) })
	<-one.heard
	wg.Go(func() { r.Hub.Answer(ctx, again(), two.emit) })
	<-two.heard
	close(release)
	wg.Wait()
	three := newRecorder() // even if the turn has just ended
	must(t, r.Hub.Answer(ctx, again(), three.emit))
	for i, e := range []*recorder{one, two, three} {
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
	if err := r.Hub.Answer(ctx, different, newRecorder().emit); err != nil {
		t.Error(err)
	}
}

func TestUnknownCommandsAreDropped(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		emit(talk.DoCommand(talk.Command{Name: "format_disk"}))
		emit(talk.Suggest("1", "2", "3", "4"))
		return emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
	})
	e := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(bot, "?"), e.emit))
	if got := e.text(); got != "[1 2 3]<take_photo>" {
		t.Fatalf("heard %q", got)
	}
}

// TestReconnectingIsTold checks that the asker of a bot whose connection has just broken gets a
// note that the hub waits for it.
func TestReconnectingIsTold(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{ReconnectGrace: time.Hour, ReconnectNotice: time.Millisecond}})
	bot := r.Add(t, "plugin", nil)
	r.Hub.AttachBot(bot.Number, say("here"), hub.Limits{})()
	done, e := make(chan error, 1), newRecorder()
	go func() { done <- r.Hub.Answer(ctx, ask(bot, "there?"), e.emit) }()
	select {
	case <-e.heard:
	case err := <-done:
		t.Fatalf("%v before anything was told", err)
	}
	defer r.Hub.AttachBot(bot.Number, say("back"), hub.Limits{})()
	must(t, <-done)
	if want := "[" + talk.MsgReconnecting.In(i18n.English) + "]back"; e.text() != want {
		t.Errorf("heard %q, not %q", e.text(), want)
	}
}

func TestConnectedBots(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{ReconnectGrace: 300 * time.Millisecond}})
	bot := r.Add(t, "plugin", nil)
	wantCode(t, r.Hub.Answer(ctx, ask(bot, "never seen"), newRecorder().emit), talk.Offline)
	if r.Hub.IsOnline(bot.Number) {
		t.Fatal("online before it was attached")
	}
	detach := r.Hub.AttachBot(bot.Number, say("here"), hub.Limits{Concurrent: 1, Waiting: 3})
	e := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(bot, "now"), e.emit))
	if e.text() != "here" || !r.Hub.IsOnline(bot.Number) {
		t.Fatalf("heard %q, online %t", e.text(), r.Hub.IsOnline(bot.Number))
	}
	detach()
	// The bot disconnected a moment ago: the asker waits, and gets an answer when it reconnects.
	done := make(chan error, 1)
	back := newRecorder()
	go func() { done <- r.Hub.Answer(ctx, ask(bot, "back?"), back.emit) }()
	detach = r.Hub.AttachBot(bot.Number, say("back"), hub.Limits{})
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
		Key  string            `json:"api_key" secret:"true"`
		Tags []string          `json:"tags"`
		N    *int              `json:"n"`
		Wait settings.Duration `json:"wait"`
	}
	r := hubtest.New(t, hubtest.Options{Kinds: []hub.Kind{{
		Name: "model", Settings: func() any { return new(kindSettings) },
		Build: func(store.Bot, any) (talk.Bot, error) { return say("hi"), nil },
	}}})
	b := r.Add(t, "model", map[string]string{"api_key": "sk-secret", "tags": "a, b", "n": "3", "wait": "90s",
		"shared": "true"})
	if strings.Contains(string(b.Settings), "sk-secret") {
		t.Fatalf("the secret is kept readable: %s", b.Settings)
	}
	var k kindSettings
	must(t, r.Registry.Settings(b, &k))
	if k.Key != "sk-secret" || len(k.Tags) != 2 || *k.N != 3 || time.Duration(k.Wait) != 90*time.Second {
		t.Fatalf("read back %+v", k)
	}
	shown, err := r.Registry.MaskedSettings(b)
	must(t, err)
	if s := string(shown["api_key"]); strings.Contains(s, "secret") || strings.Contains(s, "sealed") {
		t.Fatalf("shown: %s", s)
	}
	changed, err := r.Registry.Change(ctx, b.Number, hub.Changes{Set: map[string]string{"n": "", "api_key": "sk-2"}})
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
		_, err := r.Registry.Change(ctx, b.Number, hub.Changes{Set: map[string]string{name: text}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", set, err, want)
		}
	}
}
