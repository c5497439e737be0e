package chat_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/console/chat"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// storyteller returns a bot that says the words it receives until the channel closes. cause
// receives why it was stopped, if it was.
func storyteller() (f hubtest.Func, words chan string, cause chan error) {
	words, cause = make(chan string), make(chan error, 1)
	return func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		for {
			select {
			case word, more := <-words:
				if !more {
					return nil
				}
				if err := emit(talk.Text(word)); err != nil {
					return err
				}
			case <-ctx.Done():
				cause <- context.Cause(ctx)
				return ctx.Err()
			}
		}
	}, words, cause
}

// asking sends a question, and returns a channel with the final page.
func asking(t *testing.T, r *consoletest.Rig, b *consoletest.Browser, path, conversation,
	text string) <-chan consoletest.Page {
	t.Helper()
	came := make(chan consoletest.Page, 1)
	go func() {
		came <- send(t, r, b, path, true, map[string]string{"c": conversation, "text": text}, nil)
	}()
	return came
}

// The Stop button stops the bot.
func TestStop(t *testing.T) {
	r := newRig(t)
	f, words, cause := storyteller()
	bot := r.AddScript(t, nil, f)
	ada := r.SignedInAs(r.Person)
	came := asking(t, r, ada, at(bot), "one", "a story")
	words <- "once upon a time"
	if p := r.SignedInAs(r.Bob).DoHX(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNotFound {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	for _, path := range []string{"another", "", strings.Repeat("x", 65)} {
		if p := ada.DoHX(http.MethodPost, at(bot)+"/stop", "c",
			path); (p.Status == http.StatusOK) != (path == "another") {
			t.Errorf("%d: %s", p.Status, p.Text)
		}
	}
	select {
	case <-cause:
		t.Fatal("somebody else, or another conversation's Stop, stopped it")
	default:
	}
	if p := ada.DoHX(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNoContent {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := <-came; !p.Contains("once upon a time", "Stopped.") {
		t.Error(p.Text)
	}
	if err := <-cause; !errors.Is(err, talk.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	// Without an answer in progress there is nothing to stop.
	if p := ada.DoHX(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusOK ||
		!p.Contains(`hx-target="#doing"`, `hx-target="#following"`) {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := ada.Post(at(bot)+"/stop", "c", "one"); p.Path != at(bot)+"?c=one" || !p.Contains("once upon a time") {
		t.Errorf("%s: %s", p.Path, p.Text)
	}
}

// observedPart returns the path of the updates of answers in progress.
func observedPart(t *testing.T, p consoletest.Page) string {
	t.Helper()
	found := regexp.MustCompile(`hx-sse:connect="([^"]*/chat/live[^"]*)"`).FindStringSubmatch(p.Text)
	if found == nil {
		t.Fatalf("the page follows nothing: %s", p.Text)
	}
	return html.UnescapeString(found[1])
}

// A page that is opened while the bot answers shows the question, the answer so far and what comes,
// and can stop it, also without the conversation's name.
func TestOpenedInTheMiddle(t *testing.T) {
	r := newRig(t)
	f, words, _ := storyteller()
	bot := r.AddScript(t, nil, f)
	ada := r.SignedInAs(r.Person)
	came := asking(t, r, ada, at(bot), "one", "<a story>")
	words <- "once "
	words <- "<upon> "
	var p consoletest.Page
	for p = ada.Get(at(bot)); !p.Contains("&lt;upon&gt;"); p = ada.Get(at(bot)) { // it is on its way
	}
	if !p.Contains("&lt;a story&gt;", "once &lt;upon&gt;", `aria-busy="true"`, "Stop", `value="one"`) {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := ada.Get(at(bot) + "?c=two"); p.Contains("a story") || p.Contains("aria-busy") || p.Contains("Stop") {
		t.Errorf("another conversation: %s", p.Text)
	}
	live := observedPart(t, p)
	if p := r.SignedInAs(r.Bob).Get(live); p.Status != http.StatusNotFound {
		t.Errorf("bob hears: %d", p.Status)
	}
	heard := make(chan consoletest.Page, 2)
	for range 2 {
		go func() { heard <- r.SignedInAs(r.Person).Get(live) }()
	}
	words <- "a time"
	close(words)
	for range 2 {
		if p := <-heard; !p.Contains("once ", "&lt;upon&gt;", "a time", `hx-target="#following"`) ||
			strings.Contains(lastBubble(p), "aria-busy") || !strings.Contains(lastBubble(p),
			"once &lt;upon&gt; a time") || !strings.Contains(lastBubble(p), `name="text" value="&lt;a story&gt;"`) {
			t.Errorf("heard: %s", p.Text)
		}
	}
	<-came
	// A request after the end still gets the whole answer, and only the person's own.
	if p := ada.Get(live); !p.Contains("once &lt;upon&gt; a time") || strings.Contains(lastBubble(p), "aria-busy") {
		t.Errorf("heard later: %s", p.Text)
	}
	bobs, _, err := r.Registry.Add(t.Context(), hub.NewBot{Owner: r.Bob.ID, Name: "bob's", Kind: "script"})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.SignedInAs(r.Bob).Get(at(bobs) + "/live?" + live[strings.Index(live, "?")+1:]); p.Contains("once") {
		t.Errorf("bob hears what ada was told: %s", p.Text)
	}
	if p := ada.Get(at(bot)); p.Contains("aria-busy") || p.Contains("chat/live") ||
		!p.Contains("once &lt;upon&gt; a time") {
		t.Errorf("in the end: %s", p.Text)
	}
	for _, query := range []string{"", "?c=one&turn=1&turn=2&turn=3&turn=4&turn=5"} {
		if p := ada.Get(at(bot) + "/live" + query); p.Status != http.StatusNotFound {
			t.Errorf("%s: %d", query, p.Status)
		}
	}

	// The browser that asked has disconnected: Stop still stops the bot.
	f, words, cause := storyteller()
	bot = r.AddScript(t, nil, f)
	asked, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	turn, err := r.Control.Turn(asked, control.Caller{Person: r.Person.ID, Program: control.ChannelConsole},
		control.Question{Bot: fmt.Sprint(bot.Number), Text: "another", Conversation: "one"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(gone)
		r.Hub.Answer(asked, turn, func(talk.Event) error { return nil }) //nolint:errcheck // the caller disconnects
	}()
	words <- "so"
	leave()
	<-gone
	p = ada.Get(at(bot))
	if !p.Contains("another", "aria-busy", "Stop") {
		t.Fatalf("%s", p.Text)
	}
	go func() { heard <- r.SignedInAs(r.Person).Get(observedPart(t, p)) }()
	if p := ada.DoHX(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNoContent {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if err := <-cause; !errors.Is(err, talk.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	if p := <-heard; !strings.Contains(lastBubble(p), "so") || !strings.Contains(lastBubble(p), "Stopped.") {
		t.Errorf("heard: %s", p.Text)
	}
}

// lastBubble returns the latest state of the answer.
func lastBubble(p consoletest.Page) string {
	return p.Text[max(0, strings.LastIndex(p.Text, `hx-target="#said-`)):]
}

// An answer of another instance is visible at this one too, and can be stopped here.
func TestTwoInstances(t *testing.T) {
	db := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	at1 := func(name, url string) *consoletest.Rig {
		return consoletest.New(t, consoletest.Options{Options: hubtest.Options{DB: db, BusURL: url, Name: name}},
			func(*consoletest.Rig) []page.Route { return chat.Routes() })
	}
	here, there := at1("here", urls[0]), at1("there", urls[1])
	// instances announce themselves with heartbeats
	for tick := time.NewTicker(5 * time.Millisecond); len(here.Hub.Bus.Peers()) == 0; {
		<-tick.C
	}
	f, words, cause := storyteller()
	bot := there.AddScript(t, nil, f)
	came := asking(t, there, there.SignedInAs(there.Person), at(bot), "one", "a story")
	words <- "once"
	ada := here.SignedInAs(here.Person)
	p := ada.Get(at(bot))
	if !p.Contains("a story", `aria-busy="true"`, "Being answered…", "Stop", `value="one"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	heard := make(chan consoletest.Page, 1)
	go func() { heard <- here.SignedInAs(here.Person).Get(observedPart(t, p)) }()
	if p := ada.DoHX(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusNoContent {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if err := <-cause; !errors.Is(err, talk.ErrStopped) {
		t.Errorf("the bot was stopped because of %v", err)
	}
	if p := <-came; !p.Contains("once", "Stopped.") {
		t.Errorf("where it was asked: %s", p.Text)
	}
	if p := <-heard; !strings.Contains(lastBubble(p), "once") || !strings.Contains(lastBubble(p), "Stopped.") {
		t.Errorf("where it was stopped: %s", p.Text)
	}
	if p := ada.Get(at(bot)); p.Contains("aria-busy") || !p.Contains("once") {
		t.Errorf("in the end: %s", p.Text)
	}

	// An instance that sends heartbeats but no events may go on; the page says so.
	there.Hub.Close()
	if p := ada.DoHX(http.MethodPost, at(bot)+"/stop", "c", "one"); p.Status != http.StatusServiceUnavailable ||
		!p.Contains("Another server did not respond") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}

// An answer that came late is shown when the page is opened again, but only once.
func TestLateAnswers(t *testing.T) {
	r := newRig(t)
	bot := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text("now"))
	})
	late := func(turn string) {
		if err := r.Store.Conversations.Save(t.Context(), store.Exchange{Turn: turn, Bot: bot.Number,
			Person: "console:" + r.Person.ID, Conversation: "one", Question: "then?", Answer: "at " + turn,
			Undelivered: true}); err != nil {
			t.Fatal(err)
		}
	}
	ada := r.SignedInAs(r.Person)
	late("last")
	if p := ada.Get(at(bot)); !p.Contains("at last") {
		t.Error(p.Text)
	}
	if p := send(t, r, ada, at(bot), true, map[string]string{"c": "two", "text": "and"}, nil); p.Contains("at last") {
		t.Error("told twice")
	}
	late("length")
	if p := send(t, r, ada, at(bot), true, map[string]string{"c": "two", "text": "now?"},
		nil); !p.Contains("Your earlier question has an answer:", "at length") {
		t.Error(p.Text)
	}
}
