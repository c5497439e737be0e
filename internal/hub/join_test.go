package hub_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// tapClock is a clock that tests set.
type tapClock struct{ at atomic.Int64 }

func (c *tapClock) now() time.Time       { return time.UnixMilli(c.at.Load()) }
func (c *tapClock) pass(d time.Duration) { c.at.Add(d.Milliseconds()) }
func (c *tapClock) options() hubtest.Options {
	return hubtest.Options{Hub: hub.Options{Now: c.now}}
}

// TestRepeatedRequests checks which repeated words are the same request and which are a new one.
func TestRepeatedRequests(t *testing.T) {
	var clock tapClock
	clock.at.Store(time.Now().UnixMilli())
	r := hubtest.New(t, clock.options())
	var asked int
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		asked++
		return emit(talk.Text(fmt.Sprint("answer ", asked)))
	})
	type tap struct {
		after         time.Duration
		text, request string
		person        string
		metadata      string
	}
	for name, c := range map[string]struct {
		taps []tap
		want string // the numbers of the answers
	}{
		"the same words later": {[]tap{{text: "on"}, {after: 700 * time.Millisecond, text: "on"}},
			"12"},
		"another turn between": {[]tap{{text: "on", request: "a"},
			{after: 100 * time.Millisecond, text: "off", request: "b"},
			{after: 100 * time.Millisecond, text: "on", request: "a"}}, "123"},
		"the same bytes at once": {[]tap{{text: "on"}, {after: 200 * time.Millisecond, text: "on"}},
			"11"},
		"other metadata at once": {[]tap{{text: "on", metadata: `1`},
			{after: 200 * time.Millisecond, text: "on", metadata: `2`}}, "12"},
		"two named requests at once": {[]tap{{text: "on", request: "a"},
			{after: 200 * time.Millisecond, text: "on", request: "b"}}, "12"},
		"one named request": {[]tap{{text: "on", request: "a"},
			{after: 1900 * time.Millisecond, text: "on", request: "a"}}, "11"},
		"one named request with other words": {[]tap{{text: "on", request: "a"},
			{after: 100 * time.Millisecond, text: "off", request: "a"}}, "12"},
		"one named request, long after": {[]tap{{text: "on", request: "a"},
			{after: time.Minute, text: "on", request: "a"}}, "12"},
		"nobody in particular": {[]tap{{text: "on", person: "-"}, {text: "on", person: "-"}}, "12"},
		"nobody in particular, a named request": {[]tap{{text: "on", person: "-", request: "a"},
			{text: "on", person: "-", request: "a"}}, "11"},
		"somebody else": {[]tap{{text: "on"}, {text: "on", person: "other"}, {text: "on"}},
			"121"},
		"the same request again and again": {[]tap{{text: "on", request: "a"}, {text: "on", request: "a"},
			{text: "on", request: "a"}}, "111"},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			clock.pass(time.Hour)
			got := ""
			for i, tap := range c.taps {
				clock.pass(tap.after)
				turn := ask(bot, tap.text)
				turn.Conversation, turn.Request, turn.Metadata = name, tap.request, []byte(tap.metadata)
				switch tap.person {
				case "":
				case "-":
					turn.Person, turn.Conversation = "", ""
				default:
					turn.Person = tap.person
				}
				e := newRecorder()
				must(t, r.Hub.Answer(ctx, turn, e.emit))
				if len(e.text()) != len("answer 1") {
					t.Fatalf("tap %d heard %q", i, e.text())
				}
				got += e.text()[len("answer "):]
			}
			if got != c.want {
				t.Errorf("heard answers %s, want %s", got, c.want)
			}
		})
	}
}

// TestABrokenConnectionIsTakenUpAgain checks that a request that the network repeats after a broken
// connection gets the answer from its beginning. The bot is asked once, and the answer is not
// delivered again later.
func TestABrokenConnectionIsTakenUpAgain(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	var asked atomic.Int32
	release := make(chan struct{})
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() != "slow" {
			return emit(talk.Text("now"))
		}
		asked.Add(1)
		emit(talk.Text("at "))
		<-release
		return emit(talk.Text("last"))
	})
	pushed := make(chan string, 1)
	r.Hub.OnLate("test", func(_ context.Context, _ store.Bot, l hub.Late) error { pushed <- l.Answer; return nil })
	asking, hangUp := context.WithCancel(ctx)
	first, second := newRecorder(), newRecorder()
	done := make(chan error, 1)
	turn := ask(bot, "slow")
	go func() { done <- r.Hub.Answer(asking, turn, first.emit) }()
	<-first.heard
	hangUp()
	if err := <-done; !errors.Is(err, talk.ErrDisconnected) {
		t.Fatalf("hanging up: %v", err)
	}
	go func() { done <- r.Hub.Answer(ctx, ask(bot, "slow"), second.emit) }()
	<-second.heard
	close(release)
	must(t, <-done)
	if second.text() != "at last" || asked.Load() != 1 {
		t.Fatalf("heard %q, and the bot was asked %d times", second.text(), asked.Load())
	}
	tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
	must(t, err)
	if tr.Outcome != "disconnected" || tr.Late <= 0 || tr.Cause == "" {
		t.Errorf("trace %+v", tr)
	}
	next := newRecorder()
	must(t, r.Hub.Answer(ctx, ask(bot, "next"), next.emit))
	if next.text() != "now" {
		t.Errorf("told again: %q", next.text())
	}
	select {
	case text := <-pushed:
		t.Errorf("pushed %q", text)
	default:
	}
	last, err := r.Store.Conversations.Last(ctx, bot.Number, "wearer", "c1", 10)
	must(t, err)
	if len(last) != 2 || last[0].Answer != "at last" || last[0].Undelivered {
		t.Errorf("the conversation is %+v", last)
	}
}

// TestABrokenConnectionInTheQueue checks that a repeated request is queued anew if its connection
// broke before the bot was asked: its first place in the queue is released.
func TestABrokenConnectionInTheQueue(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	started, release := make(chan struct{}), make(chan struct{})
	bot := r.AddScript(t, map[string]string{"concurrent": "1", "waiting": "1"},
		func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			if turn.Text() == "first" {
				close(started)
				<-release
			}
			return emit(talk.Text(turn.Text()))
		})
	var wg sync.WaitGroup
	before := ask(bot, "first")
	before.Person = "other"
	wg.Go(func() { r.Hub.Answer(ctx, before, newRecorder().emit) })
	<-started
	line, again := newRecorder(), newRecorder()
	asking, hangUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Hub.Answer(asking, ask(bot, "waits"), line.emit) }()
	<-line.heard
	hangUp()
	<-done
	wg.Go(func() {
		if err := r.Hub.Answer(ctx, ask(bot, "waits"), again.emit); err != nil {
			t.Error(err)
		}
	})
	<-again.heard // it is queued
	close(release)
	wg.Wait()
	if got := again.text(); got != "[One before you, one moment…]waits" &&
		got != "[One before you, one moment…][One before you, one moment…]waits" {
		t.Errorf("heard %q", got)
	}
}
