package transfer

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// fuzz reads arbitrary input, and writes the items in a format that must reproduce them.
func fuzz(f *testing.F, format string, back ...string) {
	f.Fuzz(func(t *testing.T, text string) {
		items, _, err := read(t, format, text, ReadOptions{MaxItems: 1000, Deck: "D"})
		var many *TooManyError
		if err != nil && !errors.Is(err, ErrUnreadable) && !errors.As(err, &many) {
			t.Errorf("%v", err)
		}
		for i, it := range items {
			if !utf8.ValidString(it.Question + it.Answer + it.Deck + it.Origin + it.Kin + strings.Join(it.Tags, "")) {
				t.Errorf("item %d is no UTF-8: %+v", i, it)
			}
			items[i].History, items[i].Sittings, items[i].Card = nil, nil, nil
		}
		for _, to := range back {
			again, bad, err := read(t, to, write(t, to, WriteOptions{}, items...), ReadOptions{})
			if err != nil || len(again) != len(items) {
				t.Fatalf("%s: %d of %d items came back, bad %v, %v", to, len(again), len(items), bad, err)
			}
			for i := range items {
				got, want := again[i], items[i]
				if to != JSON {
					want.Question, want.Answer = plainText(want.Question), plainText(want.Answer)
				}
				if got.Question != want.Question || got.Answer != want.Answer || got.Deck != want.Deck ||
					strings.Join(got.Tags, "\n") != strings.Join(want.Tags, "\n") {
					t.Errorf("%s: item %d came back as\n%s, want\n%s", to, i, show(got), show(want))
				}
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add(write(f, JSON, WriteOptions{Decks: []Deck{{Name: "x"}}}, samples()...))
	f.Add(`[{"question":"q","answer":"a","tags":"x y","deck":"D::E"},7]`)
	fuzz(f, JSON, JSON, CSV, Markdown)
}

func FuzzRows(f *testing.F) {
	f.Add(`{"knowledge_points":[` + rowPoints + `}],"review_schedules":[` + rowSchedules + `]}`)
	f.Add(`[` + rowPoints + `,"review_schedules":[` + rowSchedules + `]}]`)
	f.Add("id,knowledge_point_id,user_id,review_date,review_number,completed,completed_at\n1,2,u,2026-11-08,2,false,\n")
	f.Add("id,question,answer,created_at\n1,q,a,2026-11-01 23:30:00.5+00\n")
	fuzz(f, Rows)
}

func FuzzCSV(f *testing.F) {
	f.Add(write(f, CSV, WriteOptions{}, samples()...))
	f.Add("#separator:tab\n#html:true\n#tags column:3\nq <b>x</b>\ta<br>b\tone two\n")
	f.Add("sep=;\nquestion;answer;tags\n\"a\n\"\"b\";'=1;x,y\\,z\n")
	f.Add("q,\"a\n\nopen")
	fuzz(f, CSV, JSON, CSV, Markdown)
}

func FuzzMarkdown(f *testing.F) {
	f.Add(write(f, Markdown, WriteOptions{}, awkwardItems()[:60]...))
	f.Add("# D\n## q #t\na\n```\n# x\n```\n\\## y\n")
	f.Add("Q: q #x\nA: a\nmore\n**Q:** b\n**A:** c\n")
	f.Add("#flashcards/a/b\nq :: a #t\nx ::: y\n")
	fuzz(f, Markdown, JSON, CSV, Markdown)
}

func FuzzDetect(f *testing.F) {
	f.Add("x.csv", "question;answer\n")
	f.Add("", "Q: x\nA: y")
	f.Add("x.json", `{"patchbay_learn"`)
	f.Fuzz(func(t *testing.T, name, head string) {
		switch Detect(name, []byte(head)) {
		case "", JSON, Rows, CSV, Markdown, Anki:
		default:
			t.Error("a format that nobody knows")
		}
	})
}
