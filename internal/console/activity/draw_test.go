package activity

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

var update = flag.Bool("update", false, "write what is drawn into testdata")

// A turn is drawn to scale as a tree: the wait in the queue, the bot with its requests to a model
// and its calls, or the time to the first piece and the answer, what came after the client had
// disconnected, and the stages of speech.
func TestTrace(t *testing.T) {
	at := time.Date(2026, 3, 23, 14, 5, 9, 0, time.UTC)
	call := func(tool string, from, took time.Duration) control.Call {
		return control.Call{Call: store.Call{Tool: tool, At: at.Add(from), Took: took}}
	}
	for name, d := range map[string]control.TurnDetail{
		"tools": {
			TurnRow: control.TurnRow{Trace: store.Trace{At: at, Queue: 200 * time.Millisecond,
				First: 1800 * time.Millisecond, Total: 4 * time.Second, Outcome: "done"}},
			Calls: []control.Call{call("home_get_temperature", 400*time.Millisecond, 300*time.Millisecond),
				call("home_<set>_a_lamp_with_a_very_long_name", 3*time.Second, 0)},
		},
		"spoken": {TurnRow: control.TurnRow{Trace: store.Trace{At: at, First: 400 * time.Millisecond,
			Total: 6 * time.Second, Outcome: "disconnected", Voice: &store.VoiceTimes{
				SpeechEnded: at.Add(-200 * time.Millisecond), Commit: 300, Transcript: 450, FirstText: 600,
				FirstSentence: 700, FirstSound: 950, Interrupted: 4000}}}},
		"late": {TurnRow: control.TurnRow{Trace: store.Trace{At: at, Total: 55 * time.Second, Late: 90 * time.Second,
			Outcome: "failed"}}},
		"ongoing": { // the asker left in the queue, and the bot goes on
			TurnRow: control.TurnRow{Trace: store.Trace{At: at, Queue: time.Second, Total: time.Second,
				Outcome: "disconnected"}},
			Calls: []control.Call{call("light", 1500*time.Millisecond, 70*time.Millisecond)},
		},
		"models": {
			TurnRow: control.TurnRow{Trace: store.Trace{At: at, First: 2500 * time.Millisecond, Total: 3 * time.Second,
				Outcome: "done", Models: []store.ModelUse{
					{Model: "qwen", From: 10, First: 400, Took: 600, Input: 1200, Output: 30},
					{Model: "qwen", From: 700, Took: 300, Failed: true},
					{Model: "<b>", From: 2000, First: 500, Took: 1000}}}},
			Calls: []control.Call{call("light", 620*time.Millisecond, 70*time.Millisecond)},
		},
	} {
		var b bytes.Buffer
		v := &page.Visit{Lang: i18n.English}
		if err := spans(v, newTrace(v, d)).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(b.String(), "><", ">\n<") + "\n"
		file := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is drawn as\n%s\nnot\n%s", name, got, want)
		}
	}
}

// Bars stack up to the height of the plot, and lines break where there is no data.
func TestCharts(t *testing.T) {
	v := &page.Visit{Lang: i18n.English}
	hours := make([]control.Span, 4)
	hours[1] = control.Span{Done: 6, Disconnected: 1, Failed: 3, Pieces: 7, Half: time.Second, Most: 4 * time.Second,
		Calls: 2}
	hours[2] = control.Span{Done: 5, Pieces: 5, Half: 2 * time.Second, Most: 2 * time.Second}
	b := turnsChart(v, control.Stats{Range: control.RangeDay, Spans: hours})
	if b.most != 10 || !strings.Contains(b.told, "15 turns, of which 4") {
		t.Errorf("%+v", b)
	}
	var heights []string
	for i := range hours {
		for _, r := range b.blocks(i) {
			heights = append(heights, r.x+" "+r.y+"+"+r.height)
		}
	}
	if got := strings.Join(heights, ", "); got != "26.88% 76+84, 26.88% 62+14, 26.88% 20+42, 51.88% 90+70" {
		t.Errorf("blocks at %s", got)
	}
	if got := steps(hours, 4*time.Second, func(h *control.Span) time.Duration { return h.Most }); got != "M1 0H2V50H3" {
		t.Errorf("the line is %s", got)
	}
	if e := errorsChart(v, control.Stats{Range: control.RangeDay, Spans: hours}); e.most != 5 || !strings.Contains(e.told, "3 turns failed, and 2 calls") {
		t.Errorf("%+v", e)
	}
	now := time.Date(2026, 3, 23, 14, 0, 0, 0, time.UTC)
	var s control.Stats
	for i, n := range []int{0, 2, 2, 1} {
		s.Devices = append(s.Devices, control.Sample{At: now.Add(time.Duration(i-4) * time.Minute), Connected: n})
	}
	d := newDeviceCurve(s, now)
	if d.line != "M1436 100H1437V0H1439V50H1440" || d.now != 1 || d.most != 2 || !d.partial {
		t.Errorf("%+v", d)
	}
	if d := newDeviceCurve(control.Stats{}, now); !d.since.IsZero() || d.line != "" {
		t.Errorf("%+v", d)
	}
}
