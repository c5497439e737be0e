package hub_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/talk"
)

// The rest of an answer that was cut off with the server is told at the asker's next turn.
func TestResumeCut(t *testing.T) {
	folder := t.TempDir()
	first := hubtest.New(t, hubtest.Options{Hub: hub.Options{Folder: folder}})
	begun := make(chan string, 1)
	answer := hubtest.Func(func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() != "count" {
			return emit(talk.Text("hello"))
		}
		if err := emit(talk.Text("One, ")); err != nil {
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
	if left, err := filepath.Glob(filepath.Join(folder, "turns.running", "*")); err != nil || len(left) != 0 {
		t.Errorf("a server that stops leaves %v, %v", left, err)
	}
	// What a killed server leaves.
	killed := filepath.Join(folder, "turns.running", "killed")
	must(t, os.MkdirAll(killed, 0o700))
	must(t, os.WriteFile(filepath.Join(killed, "other-"+turn+".json"),
		[]byte(strings.ReplaceAll(string(kept), turn, "other-"+turn)), 0o600))
	again := first.Hub.Options
	again.Registerer = prometheus.NewRegistry()
	second, err := hub.New(again)
	must(t, err)
	defer second.Close()
	if asked, finish := second.ResumeCut(bot.Number+1, "other-"+turn); asked != nil || finish != nil {
		t.Error("another bot goes on with it")
	}
	resumed, finish := second.ResumeCut(bot.Number, "other-"+turn)
	if resumed == nil || resumed.Text() != "count" || resumed.Person != "p" {
		t.Fatalf("%+v", resumed)
	}
	finish("two, three.", nil)
	if again, _ := second.ResumeCut(bot.Number, "other-"+turn); again != nil {
		t.Error("it is resumed twice")
	}
	tr, err := first.Store.Traces.ByTurn(t.Context(), "other-"+turn)
	if err != nil || tr.Outcome != "failed" || tr.Code != string(talk.Lost) || tr.Late == 0 {
		t.Errorf("%+v, %v", tr, err)
	}
	said, err := asked(second, t.Context(), "hi")
	if err != nil || !strings.Contains(said, "two, three.") || !strings.HasSuffix(said, "hello") {
		t.Errorf("%q, %v", said, err)
	}
}
