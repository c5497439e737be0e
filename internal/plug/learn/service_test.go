package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Points created in the morning are due on the following days by local time, not half an hour later
// when the day begins in Greenwich.
func TestClassicInShanghai(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"schedule":"classic"}}`)
		for _, c := range []struct{ at, first string }{
			{"2026-11-22 07:30", "2026-11-23"}, {"2026-11-22 08:30", "2026-11-23"}, {"2026-11-22 23:59", "2026-11-23"},
			{"2026-11-23 03:30", "2026-11-23"}, // the night still belongs to the previous day
			{"2026-11-23 04:00", "2026-11-24"},
		} {
			r.at(c.at)
			e := r.add("ada", Draft{Question: c.at, Answer: "a"})
			if got := e.Sittings[0].Day.String(); got != c.first || len(e.Sittings) != 4 {
				t.Errorf("made at %s: due on %s, want %s (%d rows)", c.at, got, c.first, len(e.Sittings))
			}
		}
		r.at("2026-11-22 08:30")
		if got := r.due("ada"); len(got) != 0 {
			t.Errorf("due an hour later: %q", got)
		}
		r.at("2026-11-23 04:00")
		if got := r.due("ada"); len(got) != 4 {
			t.Errorf("due on the next morning: %q", got)
		}
	})
}

// The whole classic course, with late reviews: the dates stay, no question is asked twice on a day,
// and after the fourth review the course ends.
func TestClassicCourse(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"schedule":"classic"}}`)
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		r.at("2026-11-30 12:00") // rows 1 (23rd) and 2 (29th) are overdue
		if got := r.due("ada"); len(got) != 1 {
			t.Fatalf("due %q", got)
		}
		var first struct{ Success bool }
		r.call("ada", toolMark, `{"knowledge_point_id":"`+e.ID+`","recall_text":"x"}`, &first)
		if got := r.due("ada"); len(got) != 0 {
			t.Fatalf("the same point twice on a day: %q", got)
		}
		r.at("2026-12-01 12:00")
		if got := r.due("ada"); len(got) != 1 {
			t.Fatalf("the second row: %q", got)
		}
		r.grade("ada", e.ID, store.Ungraded)
		got, err := r.Get(ctx, "ada", e.ID)
		r.must(err)
		if open := got.OpenSitting(); open.Day.String() != "2026-12-08" || open.Number != 3 {
			t.Fatalf("the third row moved: %+v", open)
		}
		r.at("2026-12-27 12:00")
		r.grade("ada", e.ID, store.Again)
		r.at("2026-12-28 12:00")
		r.grade("ada", e.ID, store.Good)
		got, err = r.Get(ctx, "ada", e.ID)
		r.must(err)
		if got.OpenSitting() != nil || got.Card.Phase != store.Done || got.Card.Lapses != 1 {
			t.Fatalf("after the fourth: %+v", got.Card)
		}
		if message := r.refusal("ada", toolMark, `{"knowledge_point_id":"`+e.ID+
			`","recall_text":"more"}`); message != "No incomplete review schedule found" {
			t.Errorf("told %q", message)
		}
	})
}

// FSRS gives the known intervals, with and without learning steps.
func TestFSRSCourse(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"balance":false,"steps":[],"relearn":[]}}`)
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		for _, days := range []int{3, 14, 57, 196, 586} {
			out := r.grade("ada", e.ID, store.Good)
			l, err := r.Learner(ctx, "ada")
			r.must(err)
			if got := int(out.Entry.Card.Due - l.Today); got != days {
				t.Fatalf("%d days, want %d", got, days)
			}
			r.now = r.now.AddDate(0, 0, days)
		}
		r.settings("bob", `{"defaults":{"balance":false}}`)
		e = r.add("bob", Draft{Question: "q", Answer: "a"})
		out := r.grade("bob", e.ID, store.Good)
		if wait := out.Entry.Card.DueAt.Sub(r.now); wait != 10*time.Minute {
			t.Fatalf("the second step comes in %v", wait)
		}
		if got := r.due("bob"); len(got) != 0 {
			t.Fatalf("due before the step is over: %q", got)
		}
		r.now = r.now.Add(10 * time.Minute)
		for _, days := range []int{2, 11, 46, 163} {
			out := r.grade("bob", e.ID, store.Good)
			l, err := r.Learner(ctx, "bob")
			r.must(err)
			if got := int(out.Entry.Card.Due - l.Today); got != days {
				t.Fatalf("%d days, want %d", got, days)
			}
			r.now = r.now.AddDate(0, 0, days)
		}
	})
}

// Two devices show the same question and both submit a review: one counts, the other gets an error.
func TestTwoDevices(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		var card struct {
			Card struct {
				Point   string `json:"knowledge_point_id"`
				Sitting string `json:"schedule_id"`
				Answer  string
			}
			Done bool
		}
		res := r.call("ada", toolNext, `{}`, &card)
		if card.Card.Point != e.ID || strings.Contains(res.PlainText(), `"answer"`) {
			t.Fatalf("next is %s", res.PlainText())
		}
		submit := func(review, grade string) string {
			return fmt.Sprintf(`{"knowledge_point_id":%q,"schedule_id":%q,"review_id":%q,"grade":%q}`, e.ID,
				card.Card.Sitting, review, grade)
		}
		var first, again struct {
			Review  string `json:"review_id"`
			Grade   string
			Already bool
			Due     string
		}
		r.call("ada", toolSubmit, submit("phone-1", "good"), &first)
		r.call("ada", toolSubmit, submit("phone-1", "good"), &again) // a retry after the response was lost
		if !again.Already || again.Grade != "good" || again.Due != first.Due {
			t.Errorf("the same review again: %+v", again)
		}
		if message := r.refusal("ada", toolSubmit, submit("glasses-1", "again")); !strings.Contains(message,
			"done already") {
			t.Errorf("told %q", message)
		}
		log, err := r.Store.Learn.Log(ctx, "ada", e.Number, time.Time{}, "", 10)
		r.must(err)
		if len(log) != 1 {
			t.Errorf("%d entries in the log", len(log))
		}
	})
}

// Undoing a review restores the card and the plan, keeps text edited meanwhile, and leaves both
// entries in the log.
func TestUndoAfterEdit(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		before := e.Card
		out := r.grade("ada", e.ID, store.Again)
		text := "better question"
		_, err := r.Update(ctx, "ada", e.ID, Edit{Question: &text})
		r.must(err)
		for _, already := range []bool{false, true} {
			undone, err := r.Undo(ctx, "ada", out.Review.ID, "test")
			r.must(err)
			if undone.Already != already {
				t.Errorf("already %v, want %v", undone.Already, already)
			}
		}
		got, err := r.Get(ctx, "ada", e.ID)
		r.must(err)
		if got.Question != text || got.Card != before || len(got.Sittings) != 1 ||
			!got.Sittings[0].Completed.IsZero() || got.Sittings[0].ID != e.Sittings[0].ID {
			t.Fatalf("after the undo: %+v", got)
		}
		log, err := r.Store.Learn.Log(ctx, "ada", e.Number, time.Time{}, "", 10)
		r.must(err)
		if len(log) != 2 || log[1].Kind != store.LogUndo || log[1].Undoes != out.Review.ID {
			t.Fatalf("the log: %+v", log)
		}
		st, err := r.Stats(ctx, "ada", 3, 3)
		r.must(err)
		if st.Done.Reviews != 0 || st.Left.New != 1 {
			t.Errorf("stats %+v", st)
		}
		if _, err := r.Undo(ctx, "ada", "", "test"); err == nil {
			t.Error("there was something left to undo")
		}
	})
}

// Another person's IDs behave like IDs that do not exist.
func TestForeignIDs(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		out := r.grade("ada", e.ID, store.Good)
		open := out.Entry.OpenSitting().ID
		for _, c := range []struct{ tool, args string }{
			{toolGet, `{"id":"%s"}`}, {toolUpdate, `{"id":"%s","question":"x"}`}, {toolDelete, `{"id":"%s"}`},
			{toolRestore, `{"id":"%s"}`},
			{toolMark, `{"knowledge_point_id":"%s"}`}, {toolReveal, `{"knowledge_point_id":"%s"}`},
			{toolSubmit, `{"knowledge_point_id":"%s","grade":"good"}`},
			{toolHistory, `{"knowledge_point_id":"%s"}`}, {toolReschedule, `{"ids":["%s"],"in_days":3}`},
			{toolJudge, `{"knowledge_point_id":"%s","recall_text":"x"}`},
		} {
			const unknown = "123e4567-e89b-12d3-a456-426614174000"
			theirs := strings.ReplaceAll(r.refusal("bob", c.tool, fmt.Sprintf(c.args, e.ID)), e.ID, "ID")
			nobodys := strings.ReplaceAll(r.refusal("bob", c.tool, fmt.Sprintf(c.args, unknown)), unknown, "ID")
			if theirs != nobodys {
				t.Errorf("%s: %q for somebody else's, %q for nobody's", c.tool, theirs, nobodys)
			}
		}
		if message := r.refusal("bob", toolRecall, `{"schedule_id":"`+open+
			`","recall_text":"x"}`); message != "Review schedule not found: "+open {
			t.Errorf("told %q", message)
		}
		if message := r.refusal("bob", toolUndo, `{"review_id":"`+out.Review.ID+`"}`); message != r.refusal("bob",
			toolUndo, `{"review_id":"nobody's"}`) {
			t.Errorf("told %q", message)
		}
		if got := r.due("bob"); len(got) != 0 {
			t.Errorf("bob sees %q", got)
		}
	})
}

// Daily limits hold points back, and the result says so; decks can have their own limits.
func TestDailyLimits(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"new_per_day":3}}`)
		_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: "own", Settings: json.RawMessage(`{"new_per_day":2}`)}, nil)
		r.must(err)
		for i := range 6 {
			r.add("ada", Draft{Question: fmt.Sprintf("common %d", i), Answer: "a", Deck: []string{"", "other"}[i%2]})
			r.add("ada", Draft{Question: fmt.Sprintf("own %d", i), Answer: "a", Deck: "own"})
		}
		q, err := r.Queue(ctx, "ada", QueueFilter{Limit: 100})
		r.must(err)
		if len(q.Entries) != 5 || q.Left != (Remaining{New: 5, HeldBack: 7}) {
			t.Fatalf("%d questions, %+v", len(q.Entries), q.Left)
		}
		// Paging returns the same points in the same order.
		var paged []string
		cursor := ""
		for {
			page, err := r.Queue(ctx, "ada", QueueFilter{Limit: 2, Cursor: cursor})
			r.must(err)
			for _, e := range page.Entries {
				paged = append(paged, e.Question)
			}
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
		if want := r.due("ada"); strings.Join(paged, ",") != strings.Join(want, ",") {
			t.Errorf("paged %q, at once %q", paged, want)
		}
		r.grade("ada", q.Entries[0].ID, store.Easy)
		if q, err = r.Queue(ctx, "ada", QueueFilter{Limit: 100}); err != nil || len(q.Entries) != 4 ||
			q.Left.HeldBack != 7 {
			t.Errorf("after one review %d, %+v, %v", len(q.Entries), q.Left, err)
		}
		r.now = r.now.AddDate(0, 0, 1)
		if q, err = r.Queue(ctx, "ada", QueueFilter{Limit: 100}); err != nil || q.Left.New != 5 {
			t.Errorf("on the next day %+v, %v", q.Left, err)
		}
	})
}

// Kin of a reviewed point stay away until the next day.
func TestBuryKin(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		var rows []store.NewPoint
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		for _, name := range []string{"one", "two", "three"} {
			n := store.NewPoint{Point: store.Point{ID: name, Question: name, Answer: "a", InPlan: true,
				Kin: "note", Created: r.now, Updated: r.now, Words: []string{}}}
			startPlan(&n.Point, &n.Sittings, l)
			rows = append(rows, n)
		}
		r.must(r.Store.Learn.Add(ctx, "ada", rows))
		r.grade("ada", "one", store.Easy)
		q, err := r.Queue(ctx, "ada", QueueFilter{Limit: 10})
		r.must(err)
		if len(q.Entries) != 0 || q.Left.Total() != 0 {
			t.Errorf("kin are asked on the same day: %d, %+v", len(q.Entries), q.Left)
		}
		r.now = r.now.AddDate(0, 0, 1)
		if got := r.due("ada"); len(got) != 2 {
			t.Errorf("on the next day %q", got)
		}
	})
}

// A point that is forgotten repeatedly is tagged and, if so configured, suspended.
func TestLeech(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"steps":[],"relearn":[],"leech":2,"leech_suspend":true}}`)
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		r.grade("ada", e.ID, store.Good)
		var out *Outcome
		for range 2 {
			r.now = r.now.AddDate(0, 0, 30)
			out = r.grade("ada", e.ID, store.Again)
		}
		if !out.Leech || !out.Entry.Suspended || out.Entry.Tags[0] != "leech" {
			t.Fatalf("%+v", out.Entry.Point)
		}
		if got := r.due("ada"); len(got) != 0 {
			t.Errorf("a suspended point is asked: %q", got)
		}
		undone, err := r.Undo(ctx, "ada", "", "test")
		r.must(err)
		if undone.Entry.Suspended || len(undone.Entry.Tags) != 0 {
			t.Errorf("after the undo %+v", undone.Entry.Point)
		}
	})
}

// Decks change from one schedule to the other and back; the history stays.
func TestChangeOver(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"steps":[],"balance":false}}`)
		fresh := r.add("ada", Draft{Question: "fresh", Answer: "a"})
		known := r.add("ada", Draft{Question: "known", Answer: "a"})
		r.grade("ada", known.ID, store.Good)
		r.settings("ada", `{"defaults":{"schedule":"classic"}}`)
		e, err := r.Get(ctx, "ada", known.ID)
		r.must(err)
		if len(e.Sittings) != 4 || e.OpenSitting().Day.String() != "2026-11-29" || e.Card.Stability == 0 {
			t.Fatalf("the known one: %+v", e)
		}
		if e, err = r.Get(ctx, "ada", fresh.ID); err != nil || len(e.Sittings) != 4 ||
			e.OpenSitting().Day.String() != "2026-11-23" {
			t.Fatalf("the fresh one: %+v, %v", e, err)
		}
		r.settings("ada", `{"defaults":{"schedule":null}}`)
		e, err = r.Get(ctx, "ada", known.ID)
		r.must(err)
		if len(e.Sittings) != 2 || e.Card.Due.String() != "2026-11-24" || e.Card.Phase != store.Review {
			t.Fatalf("back again: %+v", e)
		}
		if e, err = r.Get(ctx, "ada", fresh.ID); err != nil || e.Card.Phase != store.New || len(e.Sittings) != 1 {
			t.Fatalf("the fresh one back again: %+v, %v", e, err)
		}
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		if l.Settings("").Schedule != schedule.FSRS || len(l.Settings("").Steps) != 0 {
			t.Errorf("settings %+v", l.Settings(""))
		}
	})
}

// Points in the trash can be restored for thirty days.
func TestTrash(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		e := r.add("ada", Draft{Question: "q", Answer: "a", Tags: []string{"x"}})
		r.call("ada", toolDelete, `{"id":"`+e.ID+`"}`, &struct{}{})
		if message := r.refusal("ada", toolDelete, `{"id":"`+e.ID+`"}`); message != "Knowledge point not found: "+e.ID {
			t.Errorf("told %q", message)
		}
		var trash struct {
			Points []struct{ ID string } `json:"knowledge_points"`
		}
		r.call("ada", toolTrash, `{}`, &trash)
		if len(trash.Points) != 1 {
			t.Fatalf("trash %+v", trash)
		}
		r.call("ada", toolRestore, `{"id":"`+e.ID+`"}`, &struct{}{})
		if got := r.due("ada"); len(got) != 1 {
			t.Errorf("due after it came back: %q", got)
		}
		r.must(r.Delete(ctx, "ada", e.ID))
		r.now = r.now.Add(TrashRetention - time.Hour)
		if n, err := r.EmptyTrash(ctx); err != nil || n != 0 {
			t.Errorf("%d went early, %v", n, err)
		}
		r.now = r.now.Add(2 * time.Hour)
		if n, err := r.EmptyTrash(ctx); err != nil || n != 1 {
			t.Errorf("%d went, %v", n, err)
		}
		if _, err := r.Restore(ctx, "ada", e.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("restored after its end: %v", err)
		}
	})
}

// A statement that times out is a failure of the database, not a cancelled call.
func TestDatabaseTooSlow(t *testing.T) {
	_, err := errorResult(t.Context(), &tool.Call{}, &arguments{}, fmt.Errorf("store: %w", context.DeadlineExceeded))
	if e := tool.AsError(err); e.Code != tool.Failed || !strings.Contains(e.Told,
		"could not be reached; try again in a moment") {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = errorResult(ended, &tool.Call{}, &arguments{}, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Who calls a tool gets words in time although each statement of the database is within its limit.
func TestDatabaseTooSlowInAll(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.callTimeout = time.Nanosecond
	for _, name := range []string{toolMark, toolSubmit, toolListReviews, toolStats} {
		_, err := (&Provider{r.Service}).Call(t.Context(), &tool.Call{Tool: name, Caller: tool.Caller{Person: "ada"},
			Args: json.RawMessage(`{"knowledge_point_id":"p","grade":"good"}`)})
		if e := tool.AsError(err); e == nil || e.Code != tool.Failed ||
			!strings.Contains(e.Told, "could not be reached; try again in a moment") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (&Provider{r.Service}).Call(t.Context(), &tool.Call{Tool: toolSaveDeck,
		Caller: tool.Caller{Person: "ada"}, Args: json.RawMessage(`{"name":"irregular verbs"}`)}); err != nil {
		t.Error(err)
	}
}
