package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
)

// patience is how long a test waits for something that must happen.
const patience = 20 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// startServer starts a chat API with a script.
func startServer(t testing.TB, script ...openaitest.Reply) *openaitest.Server {
	t.Helper()
	s, err := openaitest.Start(script...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// rig is a bot with what its tests look at.
type rig struct {
	*Bot
	log *logBuffer
	// pauses are the delays before retries. They take no time.
	pauses []time.Duration
}

// newRig returns a bot for the server at url. change may modify its settings.
func newRig(t testing.TB, url string, change func(*Settings)) *rig {
	t.Helper()
	s := Settings{BaseURL: url, Model: "test-model", APIKey: "sk-secret-0123456789"}
	if change != nil {
		change(&s)
	}
	r := &rig{log: &logBuffer{}}
	b, err := New(s, Options{Logger: slog.New(slog.NewTextHandler(r.log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.jitter = netx.Jitter{}
	b.sleep = func(ctx context.Context, d time.Duration) error {
		r.pauses = append(r.pauses, d)
		return ctx.Err()
	}
	r.Bot = b
	return r
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// recordedEvents collects events.
type recordedEvents struct{ events []talk.Event }

func (h *recordedEvents) emit(e talk.Event) error {
	h.events = append(h.events, e)
	return nil
}

func (h *recordedEvents) text() string {
	var b strings.Builder
	for _, e := range h.events {
		if e.Kind == talk.KindText {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// String returns the events in short form: text in quotes, commands with their arguments, notes in
// parentheses.
func (h *recordedEvents) String() string {
	var out []string
	for _, e := range h.events {
		switch e.Kind {
		case talk.KindText:
			out = append(out, `"`+e.Text+`"`)
		case talk.KindCommand:
			args, _ := json.Marshal(e.Command.Args)
			out = append(out, e.Command.Name+string(args))
		case talk.KindSuggest:
			out = append(out, "suggest["+strings.Join(e.Suggest, "|")+"]")
		case talk.KindNote:
			out = append(out, "("+strings.TrimSuffix(e.Text, "\n")+")")
		}
	}
	return strings.Join(out, " ")
}

// allCommands are the commands of the glasses.
var allCommands = []string{talk.CommandTakePhoto, talk.CommandNavigate, talk.CommandCalendar, talk.CommandLeave}

func question(text string) *talk.Turn {
	return &talk.Turn{ID: "turn-1", Bot: 1, Channel: "cli", Lang: i18n.English, Parts: []talk.Part{{Text: text}}}
}

func commanding(text string) *talk.Turn {
	turn := question(text)
	turn.Commands = slices.Clone(allCommands)
	return turn
}

// ask answers a turn within the test's patience.
func (r *rig) ask(t testing.TB, turn *talk.Turn) (*recordedEvents, error) {
	t.Helper()
	h := &recordedEvents{}
	err := r.Answer(testContext(t), turn, h.emit)
	return h, err
}

func (r *rig) mustAsk(t testing.TB, turn *talk.Turn) *recordedEvents {
	t.Helper()
	h, err := r.ask(t, turn)
	if err != nil {
		t.Fatalf("answer: %v", err)
	}
	return h
}

// failure returns the failure in err, and ends the test if there is none.
func failure(t testing.TB, err error) *talk.Failure {
	t.Helper()
	f, ok := errors.AsType[*talk.Failure](err)
	if !ok {
		t.Fatalf("got %v, want a failure", err)
	}
	return f
}

func await(t testing.TB, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}
