package cli

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/control"
	"patchbay/internal/plug/openai/openaitest"
)

// The list, the details and doctor show the state of a model that the server knows.
func TestStateOfModels(t *testing.T) {
	model, err := openaitest.Start(openaitest.Reply{Status: 402})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	model.Models, model.Key = []string{"m"}, "sk-right"
	d := withParrot(t)
	d.ok("bot", "add", "--name", "gone", "--kind", "openai", "--set", "base_url=http://127.0.0.1:1/v1", "--set",
		"model=m")
	d.ok("bot", "add", "--name", "broke", "--kind", "openai", "--set", "base_url="+model.URL, "--set", "model=m",
		"--set", "api_key=sk-right")
	d.serve()
	tick, limit := time.NewTicker(100*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for known := false; !known; {
		var rows []botRow
		d.json(&rows, "bot", "list")
		known = len(rows) == 3 && rows[1].State == control.BotFailing && rows[2].State == control.BotReady
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("the bots are %+v", rows)
		}
	}
	for _, args := range [][]string{{"bot", "list"}, {"bot", "show", "gone"}} {
		if got := d.ok(args...); !strings.Contains(got, "failing since") ||
			!strings.Contains(got, "cannot be reached") {
			t.Errorf("%v says\n%s", args, got)
		}
	}
	d.failing(exitFailed, "", []string{"ask", "broke", "hello"}, "credit")
	if got := d.ok("bot", "show", "broke"); !strings.Contains(got, "failing since") ||
		!strings.Contains(got, "credit") {
		t.Errorf("it says\n%s", got)
	}
	all := d.examine(exitFailed)
	want(t, all, "bot 2 (gone)", check.Fail, "cannot be reached")
	want(t, all, "bot 3 (broke)", check.Warn, "credit")
}
