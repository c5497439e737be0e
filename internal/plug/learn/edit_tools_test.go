package learn

import (
	"fmt"
	"strings"
	"testing"

	"patchbay/internal/store"
)

// A program edits many points by tool, sees what would match first, and takes it back.
func TestEditTools(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		var ids []string
		for i := range 3 {
			ids = append(ids, r.add("ada", Draft{Question: fmt.Sprint("q", i), Answer: "a", Tags: []string{"t"}}).ID)
		}
		var out struct {
			Matched, Changed, Unchanged, Skipped int
			Errors                               map[string]string
		}
		r.call("ada", toolEdit, `{"query":"tag:t","dry_run":true,"deleted":true}`, &out)
		if out.Matched != 3 || out.Changed != 0 {
			t.Errorf("counted %+v", out)
		}
		r.call("ada", toolEdit, `{"query":"tag:t","ids":["`+ids[0]+`",7],"flag":2,"suspended":true,"add_tags":["x"]}`, &out)
		if out.Matched != 3 || out.Changed != 3 || out.Skipped != 1 || len(out.Errors) != 1 {
			t.Errorf("edited %+v", out)
		}
		var list struct {
			Points []struct {
				Flag      int
				Suspended bool
			} `json:"knowledge_points"`
		}
		r.call("ada", toolListPoints, `{"query":"flag:2 tag:x"}`, &list)
		if len(list.Points) != 3 || list.Points[0].Flag != 2 || !list.Points[0].Suspended {
			t.Errorf("listed %+v", list)
		}
		var undone struct {
			Undone string
			Points int
		}
		r.call("ada", toolUndoEdit, `{}`, &undone)
		if undone.Points != 3 || !strings.Contains(undone.Undone, "flag 2") {
			t.Errorf("undone %+v", undone)
		}
		for args, told := range map[string]string{`{}`: "say which points", `{"query":" "}`: "say which points",
			`{"query":"is:odd","flag":1}`: "is: knows", `{"query":"tag:t"}`: "say what to change",
			`{"ids":["x"],"flag":1}`: "not found", `{"query":"tag:t","date":"2026-12-24","in_days":1}`: "date or in_days"} {
			if message := r.refusal("ada", toolEdit, args); !strings.Contains(message, told) {
				t.Errorf("%s is told %q", args, message)
			}
		}
		if message := r.refusal("ada", toolUndoEdit, `{}`); !strings.Contains(message, "no edit") {
			t.Errorf("told %q", message)
		}
	})
}

// Reviews by query: of what is due, or as practice of everything that matches, which changes
// nothing until it is told to count.
func TestReviewByQuery(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"steps":[],"relearn":[],"balance":false}}`)
		var ids []string
		for i := range 3 {
			e := r.add("ada", Draft{Question: fmt.Sprint("q", i), Answer: "a", Tags: []string{fmt.Sprint("t", i%2)}})
			ids = append(ids, e.ID)
		}
		r.grade("ada", ids[0], store.Good)
		type next struct {
			Done bool
			Card struct {
				Point    string `json:"knowledge_point_id"`
				Question string
			}
			Cursor   string
			Total    int
			Recorded *bool
			Next     *struct{ Question string } `json:"next_card"`
			Due      string
		}
		var due next
		r.call("ada", toolNext, `{"query":"tag:t0"}`, &due)
		if due.Done || due.Card.Question != "q2" { // q0 is not due
			t.Errorf("due: %+v", due)
		}
		var asked []string
		for cursor := ""; ; {
			var n next
			r.call("ada", toolNext, fmt.Sprintf(`{"query":"tag:t0","cram":true,"cursor":%q}`, cursor), &n)
			if n.Done {
				break
			}
			if n.Total != 2 {
				t.Errorf("total %d", n.Total)
			}
			asked, cursor = append(asked, n.Card.Question), n.Cursor
			var done next
			r.call("ada", toolSubmit, fmt.Sprintf(`{"knowledge_point_id":%q,"grade":"again","query":"tag:t0","cram":true,"cursor":%q}`,
				n.Card.Point, n.Cursor), &done)
			if done.Recorded == nil || *done.Recorded || (done.Next == nil) != (len(asked) == 2) {
				t.Errorf("practised: %+v", done)
			}
		}
		if work := r.doneToday("ada"); strings.Join(asked, " ") != "q0 q2" || work.Reviews() != 1 {
			t.Errorf("asked %q, done %+v", asked, work)
		}
		// What counts is an early review: the stability grows by less than it would on its day.
		before, err := r.Get(ctx, "ada", ids[0])
		r.must(err)
		r.now = r.now.AddDate(0, 0, 1)
		var done next
		r.call("ada", toolSubmit, fmt.Sprintf(`{"knowledge_point_id":%q,"grade":"good","query":"tag:t0","cram":true,"early":true}`,
			ids[0]), &done)
		after, err := r.Get(ctx, "ada", ids[0])
		r.must(err)
		if after.Card.Reps != 2 || after.Card.Stability <= before.Card.Stability || done.Due == "" {
			t.Errorf("counted: %+v then %+v", before.Card, after.Card)
		}
	})
}

// A point that is buried is not asked before tomorrow, and one that rests not before it is woken.
func TestBuryAndSuspend(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		for _, c := range []struct {
			args string
			due  int
		}{{`"bury":true`, 0}, {`"bury":false`, 1}, {`"suspended":true`, 0}, {`"suspended":false`, 1}, {`"bury":true,"flag":4`, 0}} {
			r.call("ada", toolUpdate, `{"id":"`+e.ID+`",`+c.args+`}`, nil)
			if got := r.due("ada"); len(got) != c.due {
				t.Errorf("after %s: %q", c.args, got)
			}
		}
		r.now = r.now.AddDate(0, 0, 1)
		if got := r.due("ada"); len(got) != 1 {
			t.Errorf("on the next day: %q", got)
		}
		if message := r.refusal("ada", toolUpdate, `{"id":"`+e.ID+`","flag":9}`); !strings.Contains(message, "0 (none) to 7") {
			t.Errorf("told %q", message)
		}
	})
}
