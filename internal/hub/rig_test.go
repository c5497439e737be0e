package hub_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestMain(m *testing.M) {
	switch os.Getenv("PATCHBAY_TEST_CHILD") {
	case "server":
		hub.RunOtherServer(os.Args[1])
	case "caller":
		callUntilKilled(os.Args[1], os.Args[2])
	default:
		storetest.Main(m)
	}
}

var ctx = context.Background()

// recorder collects the events of an asker.
type recorder struct {
	mu     sync.Mutex
	events []talk.Event
	heard  chan struct{} // gets an element for each event
}

func newRecorder() *recorder { return &recorder{heard: make(chan struct{}, 10_000)} }

func (e *recorder) emit(ev talk.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, ev)
	e.heard <- struct{}{}
	return nil
}

// text returns the text of all events, with notes in brackets.
func (e *recorder) text() string {
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
		Bot: bot.Number, Channel: "test", Person: "wearer", Conversation: "c1", Lang: i18n.English,
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

func say(words ...string) hubtest.Func {
	return func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		for _, w := range words {
			if err := emit(talk.Text(w)); err != nil {
				return err
			}
		}
		return nil
	}
}
