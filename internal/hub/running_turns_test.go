package hub_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// The rest of an answer that was cut off with the server is told at the asker's next turn, even if
// the next server ends before it has come.
func TestResumeCut(t *testing.T) {
	folder := t.TempDir()
	first := hubtest.New(t, hubtest.Options{Hub: hub.Options{Folder: folder}})
	begun := make(chan string, 1)
	answer := hubtest.Func(func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() != "count" {
			return emit(talk.Text("hello"))
		}
		if err := emit(talk.Event{Kind: talk.KindText, Text: "One, ", Mark: 1}); err != nil {
			return err
		}
		begun <- turn.ID
		<-ctx.Done()
		return ctx.Err()
	})
	bot := first.AddScript(t, nil, answer)
	asked := func(h *hub.Hub, ctx context.Context, text string) (string, error) {
		var said strings.Builder
		err := h.Answer(ctx, &talk.Turn{Bot: bot.Number, Channel: "test", Person: "p", Conversation: "c",
			Parts: []talk.Part{{Text: text}}}, func(e talk.Event) error {
			said.WriteString(e.Text)
			return nil
		})
		return said.String(), err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = asked(first.Hub, context.Background(), "count")
	}()
	turn := <-begun
	files, err := filepath.Glob(filepath.Join(folder, "turns.running", "*", turn+".json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	kept, err := os.ReadFile(files[0])
	must(t, err)
	first.Hub.Close()
	<-over
	// What a killed server leaves.
	killed := filepath.Join(folder, "turns.running", "killed")
	must(t, os.MkdirAll(killed, 0o700))
	must(t, os.WriteFile(filepath.Join(killed, "other-"+turn+".json"),
		[]byte(strings.ReplaceAll(string(kept), turn, "other-"+turn)), 0o600))
	again := first.Hub.Options
	again.Registerer = prometheus.NewRegistry()
	second, err := hub.New(again)
	must(t, err)
	if cut := second.ResumeCut(bot.Number, turn); cut == nil || cut.Mark != 1 {
		t.Errorf("of a server that has stopped, %+v", cut)
	}
	if second.ResumeCut(bot.Number+1, "other-"+turn) != nil {
		t.Error("another bot goes on with it")
	}
	cut := second.ResumeCut(bot.Number, "other-"+turn)
	if cut == nil || cut.Turn.Text() != "count" || cut.Turn.Person != "p" || cut.Mark != 1 {
		t.Fatalf("%+v", cut)
	}
	if second.ResumeCut(bot.Number, "other-"+turn) != nil {
		t.Error("it is resumed twice")
	}
	cut.Keep("two, ", 2)
	second.Close() // it has not ended yet
	again.Registerer = prometheus.NewRegistry()
	second, err = hub.New(again)
	must(t, err)
	defer second.Close()
	if cut = second.ResumeCut(bot.Number, "other-"+turn); cut == nil || cut.Mark != 2 {
		t.Fatalf("%+v", cut)
	}
	cut.Keep("three.", 3)
	cut.End(nil)
	tr, err := first.Store.Traces.ByTurn(t.Context(), "other-"+turn)
	if err != nil || tr.Outcome != "failed" || tr.Code != string(talk.Lost) || tr.Late == 0 {
		t.Errorf("%+v, %v", tr, err)
	}
	said, err := asked(second, t.Context(), "hi")
	if err != nil || !strings.Contains(said, "two, three.") || !strings.HasSuffix(said, "hello") {
		t.Errorf("%q, %v", said, err)
	}
}

// What was said while nobody listened is told at the next turn, although the server was killed
// then.
func TestKeptUntold(t *testing.T) {
	folder := t.TempDir()
	first := hubtest.New(t, hubtest.Options{Hub: hub.Options{Folder: folder}})
	goOn, said := make(chan struct{}), make(chan string, 1)
	bot := first.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() != "count" {
			return emit(talk.Text("hello"))
		}
		_ = emit(talk.Event{Kind: talk.KindText, Text: "One, ", Mark: 1})
		<-goOn
		_ = emit(talk.Event{Kind: talk.KindText, Text: "two.", Mark: 2})
		_ = emit(talk.Complete())
		said <- turn.ID
		<-ctx.Done()
		return ctx.Err()
	})
	asker, leave := context.WithCancel(t.Context())
	ask := func(h *hub.Hub, ctx context.Context, text string) (heard string, err error) {
		err = h.Answer(ctx, &talk.Turn{Bot: bot.Number, Channel: "test", Person: "p", Conversation: "c",
			Parts: []talk.Part{{Text: text}}}, func(e talk.Event) error {
			if heard += e.Text; e.Text == "One, " {
				leave()
			}
			return nil
		})
		return heard, err
	}
	if _, err := ask(first.Hub, asker, "count"); !errors.Is(err, talk.ErrDisconnected) {
		t.Error(err)
	}
	close(goOn)
	turn := <-said
	files, err := filepath.Glob(filepath.Join(folder, "turns.running", "*", turn+".json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	kept, err := os.ReadFile(files[0])
	must(t, err)
	first.Hub.Close()
	must(t, os.RemoveAll(filepath.Join(folder, "turns.running")))
	killed := filepath.Join(folder, "turns.running", "killed")
	must(t, os.MkdirAll(killed, 0o700))
	must(t, os.WriteFile(filepath.Join(killed, turn+".json"), append(kept, "\n{\"mark\":"...), 0o600))
	again := first.Hub.Options
	again.Registerer = prometheus.NewRegistry()
	second, err := hub.New(again)
	must(t, err)
	defer second.Close()
	if second.ResumeCut(bot.Number, turn) != nil {
		t.Error("a complete answer is waited for")
	}
	if heard, err := ask(second, t.Context(), "hi"); err != nil || !strings.Contains(heard, "two.") ||
		strings.Contains(heard, "One") {
		t.Errorf("%q, %v", heard, err)
	}
}

// What was heard of an answer before the server stopped stays in the history, and the rest follows
// as an exchange of its own: the bot sees both, each once.
func TestRestOfACutAnswer(t *testing.T) {
	folder := t.TempDir()
	first := hubtest.New(t, hubtest.Options{Hub: hub.Options{Folder: folder}})
	begun := make(chan string, 1)
	history := make(chan []talk.Message, 2)
	bot := first.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		history <- turn.History
		if turn.Text() != "count" {
			return emit(talk.Text("hello"))
		}
		if err := emit(talk.Event{Kind: talk.KindText, Text: "One, ", Mark: 1}); err != nil {
			return err
		}
		begun <- turn.ID
		<-ctx.Done()
		return ctx.Err()
	})
	ask := func(h *hub.Hub, text string) error {
		return h.Answer(context.Background(), &talk.Turn{Bot: bot.Number, Channel: "test", Person: "p",
			Conversation: "c", Parts: []talk.Part{{Text: text}}}, func(talk.Event) error { return nil })
	}
	over := make(chan error, 1)
	go func() { over <- ask(first.Hub, "count") }()
	turn := <-begun
	<-history
	first.Hub.Close()
	if err := <-over; err == nil {
		t.Error("the first answer ended well")
	}
	again := first.Hub.Options
	again.Registerer = prometheus.NewRegistry()
	second, err := hub.New(again)
	must(t, err)
	defer second.Close()
	cut := second.ResumeCut(bot.Number, turn)
	if cut == nil {
		t.Fatal("the answer is not resumed")
	}
	cut.Keep("two.", 2)
	cut.End(nil)
	must(t, ask(second, "hi"))
	var said []string
	for _, x := range <-history {
		said = append(said, fmt.Sprint(x.Role, ": ", x.Text))
	}
	if d := cmp.Diff([]string{"person: count", "bot: One, ", "bot: two."}, said); d != "" {
		t.Error(d)
	}
}

// The rest of an answer is taken by the instance that the bot has connected to since, and by no
// other one afterwards.
func TestCutOfAnotherInstance(t *testing.T) {
	url, db := bustest.Cluster(t, 1), store.Options{Folder: t.TempDir()}
	first := hubtest.New(t, hubtest.Options{DB: db, BusURL: url, Name: "first", Hub: hub.Options{Folder: t.TempDir()}})
	other := hubtest.New(t, hubtest.Options{DB: db, BusURL: url, Name: "other", Hub: hub.Options{Folder: t.TempDir()}})
	begun := make(chan string, 1)
	script := hubtest.Func(func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() != "count" {
			return emit(talk.Text("hello"))
		}
		if err := emit(talk.Event{Kind: talk.KindText, Text: "One, ", Mark: 1}); err != nil {
			return err
		}
		begun <- turn.ID
		<-ctx.Done()
		return ctx.Err()
	})
	bot := first.AddScript(t, nil, script)
	ask := func(h *hub.Hub, text string) (heard string, err error) {
		err = h.Answer(context.Background(), &talk.Turn{Bot: bot.Number, Channel: "test", Person: "p",
			Conversation: "c", Parts: []talk.Part{{Text: text}}}, func(e talk.Event) error {
			heard += e.Text
			return nil
		})
		return heard, err
	}
	over := make(chan error, 1)
	go func() {
		_, err := ask(first.Hub, "count")
		over <- err
	}()
	turn := <-begun
	first.Hub.Close()
	<-over
	again := first.Hub.Options
	again.Registerer = prometheus.NewRegistry()
	back, err := hub.New(again)
	must(t, err)
	defer back.Close()
	eventually(t, "the other instance knows this one", func() bool {
		return slices.Contains(other.Hub.Bus.Peers(), back.Bus.Instance)
	})
	if other.Hub.ResumeCut(bot.Number+1, turn) != nil {
		t.Error("another bot goes on with it")
	}
	cut := other.Hub.ResumeCut(bot.Number, turn)
	if cut == nil || cut.Mark != 1 {
		t.Fatalf("%+v", cut)
	}
	if back.ResumeCut(bot.Number, turn) != nil || other.Hub.ResumeCut(bot.Number, turn) != nil {
		t.Error("it is resumed twice")
	}
	cut.Keep("two.", 2)
	cut.End(nil)
	if heard, err := ask(back, "hi"); err != nil || !strings.Contains(heard, "two.") {
		t.Errorf("%q, %v", heard, err)
	}
}
