package learn

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

func (r *rig) take(person, name, text string, change func(*ImportFile)) *ImportResult {
	r.t.Helper()
	f := ImportFile{Name: name, Reader: strings.NewReader(text), Size: int64(len(text))}
	if change != nil {
		change(&f)
	}
	done, err := r.Import(ctx, person, f)
	r.must(err)
	return done
}

func (r *rig) export(person, format string) string {
	r.t.Helper()
	var w bytes.Buffer
	_, err := r.Export(ctx, person, ExportOptions{Format: format}, &w)
	r.must(err)
	return w.String()
}

func TestImportCSV(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		const good = "question,answer,deck,tags\nwhy?,because,Logic,a b\nwho?,me,,\n"
		if done := r.take("ada", "x.csv", good, func(f *ImportFile) { f.DryRun = true }); done.Done ||
			done.Added != 2 || len(done.Decks) != 1 {
			t.Errorf("a dry run: %+v", done)
		} else if fmt.Sprint(done.Preview) != "[{why? because Logic [a b]} {who? me  []}]" {
			t.Errorf("a dry run shows %+v", done.Preview)
		}
		gbk := "\xcc\xe2\xc4\xbf,\xb4\xf0\xb0\xb8\n\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\n" // 题目,答案 and 法国,巴黎
		if done := r.take("ada", "gbk.txt", gbk, func(f *ImportFile) { f.DryRun = true }); done.Encoding != "GBK (GB18030)" ||
			len(done.Preview) != 1 || done.Preview[0].Question != "法国" || done.Preview[0].Answer != "巴黎" {
			t.Errorf("a table that Excel wrote in China: %+v", done)
		}
		if got := r.due("ada"); len(got) != 0 {
			t.Errorf("a dry run leaves %q", got)
		}
		if done := r.take("ada", "x.csv", good, nil); !done.Done || done.Added != 2 || len(done.Decks) != 1 {
			t.Errorf("imported: %+v", done)
		}
		if got := r.due("ada"); len(got) != 2 {
			t.Errorf("due: %q", got)
		}
		_, decks, err := r.Decks(ctx, "ada")
		r.must(err)
		if len(decks) != 2 || decks[1].Name != "Logic" || decks[1].New != 1 {
			t.Errorf("decks: %+v", decks)
		}

		// With one bad row nothing is imported; with SkipBadRows the rest is.
		const bad = "question,answer,deck\nq1,a1,New\nq2,,New\nq3,a3,New\n"
		done := r.take("ada", "x.csv", bad, nil)
		if done.Done || len(done.RowErrors) != 1 {
			t.Errorf("a bad row: %+v", done)
		}
		if _, decks, err = r.Decks(ctx, "ada"); err != nil || len(decks) != 2 {
			t.Errorf("a refused file leaves decks: %+v, %v", decks, err)
		}
		if got := r.due("ada"); len(got) != 2 {
			t.Errorf("a refused file leaves %q", got)
		}
		if done = r.take("ada", "x.csv", bad, func(f *ImportFile) { f.SkipBadRows = true }); !done.Done ||
			done.Added != 2 || len(done.RowErrors) != 1 {
			t.Errorf("with the bad row skipped: %+v", done)
		}
		if _, err := r.Import(ctx, "ada", ImportFile{Reader: strings.NewReader("\x00\x01\x02"),
			Size: 3}); !errors.Is(err, transfer.ErrUnreadable) {
			t.Errorf("an unreadable file: %v", err)
		}
	})
}

// Another person who imports an export has the same points, with plan, history and memory;
// importing again duplicates nothing.
func TestExportImport(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"steps":[],"relearn":[]}}`)
		r.settings("bob", `{"defaults":{"steps":[],"relearn":[]}}`)
		var ids []string
		for i := range 20 {
			e := r.add("ada", Draft{Question: fmt.Sprintf("question %d", i),
				Answer: "answer\n\n- with a list", Deck: []string{"", "德语"}[i%2], Tags: []string{"t"}})
			ids = append(ids, e.ID)
		}
		for i, id := range ids[:10] {
			r.grade("ada", id, store.Grade(1+i%4))
		}
		r.now = r.now.AddDate(0, 0, 5)
		for _, id := range ids[:5] {
			_, err := r.Submit(ctx, "ada", Submission{Point: id, Grade: store.Good, Recall: "I said", Score: 80,
				Early: true})
			r.must(err)
		}
		_, err := r.Undo(ctx, "ada", "", "test")
		r.must(err)
		file := r.export("ada", transfer.JSON)
		if done := r.take("bob", "x.json", file, nil); !done.Done || done.Added != 20 {
			t.Fatalf("imported: %+v", done)
		}
		for _, id := range ids {
			a, err := r.Get(ctx, "ada", id)
			r.must(err)
			b, err := r.Get(ctx, "bob", id)
			r.must(err)
			if a.Card != b.Card || a.Question != b.Question || a.Answer != b.Answer ||
				len(a.Sittings) != len(b.Sittings) || a.OpenSitting().Day != b.OpenSitting().Day {
				t.Errorf("ada's %+v\nbob's %+v", a, b)
			}
		}
		if st, err := r.Stats(ctx, "bob", 5, 10); err != nil || st.Points != 20 || st.Reviews30 != 14 {
			t.Errorf("stats %+v, %v", st, err)
		}
		if _, err := r.Undo(ctx, "bob", "", "test"); err == nil {
			t.Error("an imported review was undone")
		}
		if done := r.take("bob", "x.json", file, nil); !done.Done || done.Unchanged != 20 ||
			done.Added+done.Changed != 0 {
			t.Errorf("again: %+v", done)
		}
		changed := strings.Replace(file, "question 3", "question three", 1)
		if done := r.take("bob", "x.json", changed, nil); done.Changed != 1 || done.Unchanged != 19 {
			t.Errorf("changed: %+v", done)
		}
		b, err := r.Get(ctx, "bob", ids[3])
		r.must(err)
		if b.Question != "question three" || b.Card.Reps == 0 {
			t.Errorf("the changed one: %+v", b.Point)
		}
	})
}

// Anki packages keep memory and history in both directions.
func TestAnkiBothWays(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.settings("ada", `{"defaults":{"steps":[],"relearn":[],"balance":false}}`)
	e := r.add("ada", Draft{Question: "1 < 2 & \"3\"?", Answer: "yes\nof course", Deck: "Math::Easy",
		Tags: []string{"t"}})
	fresh := r.add("ada", Draft{Question: "never seen", Answer: "a"})
	r.grade("ada", e.ID, store.Good)
	r.now = r.now.AddDate(0, 0, 3)
	r.grade("ada", e.ID, store.Hard)
	file := r.export("ada", transfer.Anki)
	if done := r.take("bob", "x.apkg", file, nil); !done.Done || done.Added != 2 || done.Format != transfer.Anki {
		t.Fatalf("imported: %+v", done)
	}
	want, err := r.Get(ctx, "ada", e.ID)
	r.must(err)
	list, err := r.List(ctx, "bob", store.PointFilter{}, store.PointKey{}, 10)
	r.must(err)
	for _, got := range list {
		if got.Question == fresh.Question {
			if got.Card.Phase != store.New || got.OpenSitting() == nil {
				t.Errorf("the fresh one: %+v", got)
			}
			continue
		}
		if got.Question != want.Question || got.Answer != want.Answer || got.Card.Due != want.Card.Due ||
			got.Card.Reps != 2 || got.Card.Phase != store.Review || got.OpenSitting().Day != want.Card.Due {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if d := got.Card.Stability - want.Card.Stability; d > 0.01 || d < -0.01 {
			t.Errorf("stability %v, want %v", got.Card.Stability, want.Card.Stability)
		}
		log, err := r.Store.Learn.Log(ctx, "bob", got.Number, time.Time{}, "", 10)
		r.must(err)
		if len(log) != 2 || log[1].Grade != store.Hard {
			t.Errorf("history %+v", log)
		}
	}
	if done := r.take("bob", "x.apkg", file, nil); done.Unchanged != 2 {
		t.Errorf("again: %+v", done)
	}
}

// Rows of the original service: points keep their IDs, completed reviews count as good, and FSRS
// plans the rest anew, or the classic course continues.
func TestImportRows(t *testing.T) {
	const rows = `{"knowledge_points":[{"id":"123e4567-e89b-12d3-a456-426614174000","user_id":"u","question":"什么是主动回忆？","answer":"一种学习技巧","created_at":"2026-11-01T07:35:32.566+00:00","updated_at":"2026-11-01T07:35:32.566+00:00","embedding":null,"is_in_review_plan":true}],
"review_schedules":[
{"id":"123e4567-e89b-12d3-a456-426614174001","knowledge_point_id":"123e4567-e89b-12d3-a456-426614174000","user_id":"u","review_date":"2026-11-02","review_number":1,"completed":true,"completed_at":"2026-11-02T08:00:00.000+00:00","created_at":"2026-11-01T07:35:32.566+00:00","recall_text":"想起来了"},
{"id":"123e4567-e89b-12d3-a456-426614174002","knowledge_point_id":"123e4567-e89b-12d3-a456-426614174000","user_id":"u","review_date":"2026-11-08","review_number":2,"completed":false,"completed_at":null,"created_at":"2026-11-01T07:35:32.566+00:00","recall_text":null},
{"id":"123e4567-e89b-12d3-a456-426614174003","knowledge_point_id":"123e4567-e89b-12d3-a456-426614174000","user_id":"u","review_date":"2026-11-17","review_number":3,"completed":false,"completed_at":null,"created_at":"2026-11-01T07:35:32.566+00:00","recall_text":null},
{"id":"123e4567-e89b-12d3-a456-426614174004","knowledge_point_id":"123e4567-e89b-12d3-a456-426614174000","user_id":"u","review_date":"2026-12-06","review_number":4,"completed":false,"completed_at":null,"created_at":"2026-11-01T07:35:32.566+00:00","recall_text":null}]}`
	each(t, func(t *testing.T, r *rig) {
		r.settings("bob", `{"defaults":{"schedule":"classic"}}`)
		for _, c := range []struct {
			person string
			open   int
			due    string
		}{{"ada", 1, ""}, {"bob", 3, "2026-11-08"}} {
			if done := r.take(c.person, "x.json", rows, nil); !done.Done || done.Added != 1 ||
				done.Format != transfer.Rows {
				t.Fatalf("imported: %+v", done)
			}
			e, err := r.Get(ctx, c.person, "123e4567-e89b-12d3-a456-426614174000")
			r.must(err)
			open := 0
			for _, s := range e.Sittings {
				if s.Completed.IsZero() {
					open++
				}
			}
			if open != c.open || e.Card.Reps != 1 || e.Card.Stability == 0 || e.Sittings[0].Recall != "想起来了" {
				t.Errorf("%s: %+v", c.person, e)
			}
			if c.due != "" && e.OpenSitting().Day.String() != c.due {
				t.Errorf("%s is due on %s", c.person, e.OpenSitting().Day)
			}
		}
	})
}
