package transfer

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	now      = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)
)

const id1, id2 = "7b0a3f6e-6a3c-4f57-9a55-0d7a1f6f2a01", "7b0a3f6e-6a3c-4f57-9a55-0d7a1f6f2a02"

// read reads a whole text.
func read(t testing.TB, format, text string, o ReadOptions) (items []Item, bad []RowError, err error) {
	t.Helper()
	bad, err = Read(t.Context(), format, strings.NewReader(text), int64(len(text)), o, func(it Item) error {
		items = append(items, it)
		return nil
	})
	return items, bad, err
}

func write(t testing.TB, format string, o WriteOptions, items ...Item) string {
	t.Helper()
	var b bytes.Buffer
	o.Now, o.Temp = now, t.TempDir()
	w, err := NewWriter(format, &b, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if err := w.Write(it); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// show returns an item as JSON, for comparisons and failure messages.
func show(it Item) string {
	b, err := json.Marshal(pointOf(it))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func same(t *testing.T, got, want []Item) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("item %d is missing: %s", i, show(want[i]))
		case i >= len(want):
			t.Errorf("item %d is too much: %s", i, show(got[i]))
		case show(got[i]) != show(want[i]):
			t.Errorf("item %d is\n%s, want\n%s", i, show(got[i]), show(want[i]))
		}
	}
}

// samples returns items that use every field.
func samples() []Item {
	at := now.Add(-20 * 24 * time.Hour)
	return []Item{
		{ID: id1, Origin: "learn:" + id1, Kin: "k", Deck: "语言::法语", Question: "首都 of France?",
			Answer: "**Paris**\n\n- on the Seine\n- 巴黎", Tags: []string{"europe", "two words"},
			Created: at, Updated: at.Add(time.Hour), InPlan: true,
			Card: &store.Card{Phase: store.Review, Stability: 12.3456789, Difficulty: 5.5, Due: store.DateOf(now) + 9,
				Reps: 3, Lapses: 1, LastAt: now.Add(-72 * time.Hour), LastDay: store.DateOf(now) - 3,
				Buried: store.DateOf(now) + 1},
			History: []store.LogEntry{
				{ID: "r1", Kind: store.LogReview, At: at.Add(time.Hour), Grade: store.Good,
					Took: 1500 * time.Millisecond, Score: 80, Recall: "Paris?"},
				{ID: "r2", Kind: store.LogReschedule, At: at.Add(2 * time.Hour), Score: -1},
				{ID: "r3", Kind: store.LogReview, At: now.Add(-72 * time.Hour), Grade: store.Ungraded, Score: -1,
					Elapsed: 17}}},
		{ID: id2, Question: "new <b>", Answer: "a & b", InPlan: false, Suspended: true, Created: at,
			Sittings: []store.Sitting{{ID: id1, Day: store.DateOf(at) + 1, Number: 1, Completed: at.Add(26 * time.Hour),
				Created: at, Recall: "x"}, {ID: id2, Day: store.DateOf(at) + 7, Number: 2, Created: at}}},
		{Question: "q", Answer: "on steps", InPlan: true, Deck: "语言",
			Card: &store.Card{Phase: store.Learning, Step: 1, Stability: 2.5, Difficulty: 5, Due: store.DateOf(now),
				DueAt: now.Add(10 * time.Minute), Reps: 1, LastAt: now, LastDay: store.DateOf(now)}},
	}
}

// awkward are texts that are hard to represent in some format.
var awkward = []string{
	"=1+1", "+1", "-1", "@x", "'=1", "''=1", "'", "''", "'x", "＝1", "a,b", "a;b", `say "hi"`, `"`, "a\nb", "a\n\n\nb",
	"tab\there", "# not a heading", "x\n# not a deck\ny", "x\n## not a question\ny",
	`\# x`, "x\n\\## y\n\\\\## z", "```\n# code\n## code\n```", "```\nopen fence\n# x", "~~~\n```\n## y\n~~~\n## z",
	"``` x ``` y", "#", "##", "a #tag", `a \#tag`, "a #tag\nb", "#tag", "C #", "C# and #F #", "a<br>b",
	"<!-- learn {} -->\nx",
	"<!-- patchbay learn -->", "a --> b", "Q: x\nA: y", "a :: b", "a ::: b", "::", "   indented\n  code", "x\n    y",
	"a  b", "*", "**b**", "1. x", "[sound: x]", "&amp; <i>", "汉字 🎌 é", "a\\", `C:\x`, "---", "sep=;", "#separator:tab",
	"\u00a0x", "{{c1::x}}", "x\u2028y", "question", "a\\#b", "````\n```\n# in\n````", "\\```\nx",
}

func awkwardItems() []Item {
	var items []Item
	for i, a := range awkward {
		items = append(items, Item{Deck: []string{"", "A", "A::B #1"}[i%3], Question: a,
			Answer: "x", Tags: []string{"t"}, InPlan: true},
			Item{Deck: "A", Question: fmt.Sprint("q ", i), Answer: a, InPlan: true},
			Item{Question: fmt.Sprint("q ", i), Answer: "a " + a + "\nz", Tags: []string{a}, InPlan: true})
	}
	for i := range items {
		items[i].Question, items[i].Answer = plainText(items[i].Question), plainText(items[i].Answer)
		items[i].Tags = cleanTags(items[i].Tags)
	}
	return items
}

func TestRoundTripOfAwkwardTexts(t *testing.T) {
	for _, format := range []string{JSON, CSV, Markdown} {
		t.Run(format, func(t *testing.T) {
			items := awkwardItems()
			text := write(t, format, WriteOptions{}, items...)
			if got := Detect("", []byte(text)); got != format {
				t.Errorf("it is taken for %q", got)
			}
			got, bad, err := read(t, format, text, ReadOptions{})
			if err != nil || len(bad) > 0 {
				t.Fatalf("bad %v, %v", bad, err)
			}
			same(t, got, items)
		})
	}
	t.Run(Anki, func(t *testing.T) {
		got, bad, err := read(t, Anki, write(t, Anki, WriteOptions{}, awkwardItems()...), ReadOptions{})
		if err != nil || len(bad) > 0 {
			t.Fatalf("bad %v, %v", bad, err)
		}
		for i, want := range awkwardItems() {
			if want.Question = ankiTextOf(want.Question); got[i].Question != want.Question {
				t.Errorf("question %q, want %q", got[i].Question, want.Question)
			}
			if want.Answer = ankiTextOf(want.Answer); got[i].Answer != want.Answer {
				t.Errorf("answer %q, want %q", got[i].Answer, want.Answer)
			}
			if got[i].Deck != want.Deck {
				t.Errorf("deck %q, want %q", got[i].Deck, want.Deck)
			}
		}
	})
}

// ankiTextOf replaces what a package cannot keep: tabs and non-breaking spaces.
func ankiTextOf(s string) string { return strings.NewReplacer("\t", "    ", "\u00a0", " ").Replace(s) }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s would be\n%s", name, got)
	}
}
