package bot

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// testTimeout limits each wait of a test.
const testTimeout = 5 * time.Minute

// said returns a turn of a person.
func said(person, text string) *talk.Turn {
	return &talk.Turn{
		ID: uuid.Must(uuid.NewV7()).String(), Bot: 1, Channel: "cli", Person: person,
		Conversation: "c", Lang: i18n.English,
		Parts: []talk.Part{{Text: text}},
	}
}

// asked is a turn whose answer is in progress.
type asked struct {
	t      *testing.T
	cancel context.CancelFunc
	over   chan struct{}
	err    error

	mu     sync.Mutex
	events []talk.Event
	came   chan struct{}
	refuse error // result of emit
}

// begin passes a turn to a bot.
func begin(t *testing.T, b talk.Bot, turn *talk.Turn) *asked {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &asked{t: t, cancel: cancel, over: make(chan struct{}), came: make(chan struct{})}
	go func() {
		defer close(a.over)
		a.err = b.Answer(ctx, turn, a.emit)
	}()
	t.Cleanup(func() {
		cancel()
		<-a.over
	})
	return a
}

func (a *asked) emit(e talk.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		return a.refuse
	}
	a.events = append(a.events, e)
	close(a.came)
	a.came = make(chan struct{})
	return nil
}

// text returns the answer so far.
func (a *asked) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, e := range a.events {
		if e.Kind == talk.KindText {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

func (a *asked) notes() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e.Kind == talk.KindNote {
			n++
		}
	}
	return n
}

// await waits until the answer contains a text.
func (a *asked) await(text string) {
	a.t.Helper()
	late := time.After(testTimeout)
	for {
		a.mu.Lock()
		came := a.came
		a.mu.Unlock()
		if strings.Contains(a.text(), text) {
			return
		}
		select {
		case <-came:
		case <-a.over:
			if !strings.Contains(a.text(), text) {
				a.t.Fatalf("it ended with %q, %v before %q", a.text(), a.err, text)
			}
		case <-late:
			a.t.Fatalf("no %q came, only %q", text, a.text())
		}
	}
}

// end waits for the end of the answer, and returns its error.
func (a *asked) end() error {
	a.t.Helper()
	select {
	case <-a.over:
	case <-time.After(testTimeout):
		a.t.Fatalf("the answer does not end; so far: %q", a.text())
	}
	return a.err
}
