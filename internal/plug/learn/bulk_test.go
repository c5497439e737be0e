package learn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// expr parses an expression that is right.
func expr(t testing.TB, text string) *Expression {
	t.Helper()
	x, err := ParseExpression(text)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ptr[T any](v T) *T { return &v }

// selected returns the questions that an expression selects, sorted.
func (r *rig) selected(person, text string) (out []string) {
	r.t.Helper()
	l, err := r.Learner(ctx, person)
	r.must(err)
	points, err := r.Select(ctx, l, expr(r.t, text), store.PointKey{}, 100)
	r.must(err)
	n, err := r.Count(ctx, l, expr(r.t, text))
	r.must(err)
	if n != len(points) {
		r.t.Errorf("%q: %d points, counted %d", text, len(points), n)
	}
	for _, p := range points {
		out = append(out, p.Question)
	}
	slices.Sort(out)
	return out
}

// Everything that an expression may say selects the points that it should, on both databases.
func TestExpressions(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"steps":[],"relearn":[],"balance":false}}`)
		words := r.add("ada", Draft{Question: "Great Wall", Answer: "long", Deck: "My Places", Tags: []string{"china", "old"}})
		known := r.add("ada", Draft{Question: "Known", Answer: "a", Deck: "My Places"})
		forgot := r.add("ada", Draft{Question: "Forgot", Answer: "a", Tags: []string{"old"}})
		undone := r.add("ada", Draft{Question: "Undone", Answer: "a"})
		r.add("ada", Draft{Question: "Draft", Answer: "a", Unconfirmed: true})
		r.add("ada", Draft{Question: "Kept", Answer: "长城有多长", Unplanned: true})
		r.add("bob", Draft{Question: "Other", Answer: "long", Tags: []string{"old"}})
		r.grade("ada", known.ID, store.Good)
		r.grade("ada", forgot.ID, store.Again)
		r.grade("ada", undone.ID, store.Again)
		_, err := r.Undo(ctx, "ada", "", "test")
		r.must(err)
		_, err = r.Update(ctx, "ada", words.ID, Edit{Flag: ptr(3), Suspended: ptr(true)})
		r.must(err)
		_, err = r.Update(ctx, "ada", undone.ID, Edit{Bury: ptr(true)})
		r.must(err)
		all := "Draft, Forgot, Great Wall, Kept, Known, Undone"
		for _, c := range []struct{ text, want string }{
			{"", all}, {"tag:old", "Forgot, Great Wall"}, {"tag:#old -tag:china", "Forgot"}, {"-tag:old", "Draft, Kept, Known, Undone"},
			{`deck:"My Places"`, "Great Wall, Known"}, {`deck："my places" tag:old`, "Great Wall"}, {"deck:default tag:old", "Forgot"},
			{"flag:3", "Great Wall"}, {"flag:0 tag:old", "Forgot"}, {"-flag:3 tag:old", "Forgot"}, {"is:suspended", "Great Wall"},
			{"is:new", "Undone"}, {"is:new -is:buried", ""}, {"is:buried", "Undone"}, {"is:draft", "Draft"}, {"is:unplanned", "Kept"},
			{"is:leech", ""}, {"is:review", "Forgot, Known"}, {"is:due", ""}, {"is:learning", ""}, {"due:1d", "Forgot"}, {"due:7d", "Forgot, Known"},
			{"forgotten:7d", "Forgot"}, {"reviewed:today", "Forgot, Known"}, {"added:1d", all}, {"lapses:1", ""},
			{"wall", "Great Wall"}, {"wall long tag:old", "Great Wall"}, {"长城到底有多长呢", "Kept"}, {"长江有多长", ""}, {`"tag:old"`, ""}, {"?!", ""},
			{"-is:due wall", "Great Wall"},
		} {
			if got := strings.Join(r.selected("ada", c.text), ", "); got != c.want {
				t.Errorf("%q selects %q, want %q", c.text, got, c.want)
			}
		}
		r.now = r.now.AddDate(0, 0, 7)
		for _, c := range []struct{ text, want string }{
			{"forgotten:7d", ""}, {"forgotten:8d", "Forgot"}, {"reviewed:week", ""}, {"reviewed:2w", "Forgot, Known"}, {"added:7d", ""},
			{"is:due", "Forgot, Known"}, {"is:buried", ""},
		} {
			if got := strings.Join(r.selected("ada", c.text), ", "); got != c.want {
				t.Errorf("a week later, %q selects %q, want %q", c.text, got, c.want)
			}
		}
	})
}

// What is wrong with an expression is said in words.
func TestWrongExpressions(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	for _, c := range []struct{ text, told string }{
		{"tag:", "tag: needs a value"}, {"flag:8", "0 (none) to 7"}, {"flag:x", "0 (none) to 7"}, {"is:old", "is: knows buried, draft, due"},
		{"forgotten:soon", "forgotten: needs a number of days"}, {"due:-1d", "due: needs"}, {"added:999999999w", "added: needs"},
		{"lapses:many", "lapses: needs a number"}, {strings.Repeat("x", 1001), "1000 bytes"}, {strings.Repeat("tag:x ", 21), "20 conditions"},
	} {
		if _, err := ParseExpression(c.text); !problem.Is(err, problem.Invalid) ||
			!strings.Contains(err.Error(), c.told) {
			t.Errorf("%.30q: %v", c.text, err)
		}
	}
	l, err := r.Learner(ctx, "ada")
	r.must(err)
	if _, err := r.Count(ctx, l, expr(t, "deck:Nowhere")); !problem.Is(err, problem.Invalid) ||
		!strings.Contains(err.Error(), "there is no deck") {
		t.Errorf("an unknown deck: %v", err)
	}
}

// Whatever is typed is understood or refused, and what is understood can be run.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{`tag:x deck:"a b" is:new`, "forgotten:7d -flag:2", `"`, ":", "-", "tag:", "“长城”：", "a:b:c", "due:999999999999w"} {
		f.Add(s)
	}
	r := newRig(f, store.Options{Folder: f.TempDir()})
	l, err := r.Learner(ctx, "ada")
	r.must(err)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := ParseExpression(text)
		if err != nil {
			if !problem.Is(err, problem.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if _, err := r.Select(ctx, l, x, store.PointKey{}, 3); err != nil && !problem.Is(err, problem.Invalid) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// Each change of many points does what the change of one does, counters included, and undoing it
// puts all of them back.
func TestBulkAndBack(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"steps":[],"relearn":[],"balance":false}}`)
		_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: "Classic", Settings: []byte(`{"schedule":"classic"}`)}, nil)
		r.must(err)
		var ids []string
		for i := range 3 {
			e := r.add("ada", Draft{Question: fmt.Sprint("q", i), Answer: "a", Tags: []string{"t"}})
			r.grade("ada", e.ID, store.Good)
			ids = append(ids, e.ID)
		}
		r.add("ada", Draft{Question: "other", Answer: "a"})
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		for _, c := range bulkEdits(l) {
			t.Run(c.name, func(t *testing.T) { r.bulkAndBack(t, ids, c) })
		}
	})
}

// bulkCase is a change of many points.
type bulkCase struct {
	name  string
	edit  BulkEdit
	check string // selects the changed points afterwards; empty: they are in the trash
}

func bulkEdits(l *Learner) []bulkCase {
	return []bulkCase{
		{"deck", BulkEdit{Deck: ptr("Classic")}, "deck:Classic"},
		{"tags", BulkEdit{AddTags: []string{"#new one"}, RemoveTags: []string{"t"}}, "tag:new-one -tag:t"},
		{"suspend", BulkEdit{Suspended: ptr(true)}, "is:suspended"},
		{"flag", BulkEdit{Flag: ptr(7)}, "flag:7"},
		{"bury", BulkEdit{Bury: ptr(true)}, "is:buried"},
		{"date", BulkEdit{Due: ptr(l.Today + 5)}, "-is:due due:5d -is:new"},
		{"trash", BulkEdit{Deleted: ptr(true)}, ""},
	}
}

// bulkAndBack changes all points with the tag t, and undoes it.
func (r *rig) bulkAndBack(t *testing.T, ids []string, c bulkCase) {
	before := r.everything("ada", ids)
	out, err := r.Bulk(ctx, "ada", BulkTarget{Query: expr(t, "tag:t"), IDs: ids[:1]}, c.edit, "test", nil)
	r.must(err)
	if out.Matched != 3 || out.Changed != 3 || len(out.Refused) != 0 {
		t.Fatalf("changed %+v", out)
	}
	want, check := []string{"q0", "q1", "q2"}, c.check
	if check == "" {
		want = []string{"other"}
	}
	if got := r.selected("ada", check); !slices.Equal(got, want) {
		t.Errorf("%q selects %q", check, got)
	}
	r.checkCounters("ada")
	e, n, err := r.LastBulk(ctx, "ada")
	r.must(err)
	if n != 3 || e.Describe(i18n.English) == "" || strings.Contains(e.Describe(i18n.English), "%") {
		t.Errorf("the last edit: %d, %q", n, e.Describe(i18n.English))
	}
	undone, err := r.UndoBulk(ctx, "ada", "test", nil)
	r.must(err)
	if undone.Points != 3 || undone.Kept != 0 {
		t.Errorf("undone %+v", undone)
	}
	r.checkCounters("ada")
	if diff := cmp.Diff(before, r.everything("ada", ids), cmpopts.IgnoreFields(store.Point{}, "Updated", "Version"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if _, err := r.UndoBulk(ctx, "ada", "test", nil); !problem.Is(err, problem.Invalid) {
		t.Errorf("undone twice: %v", err)
	}
}

func (r *rig) everything(person string, ids []string) (out []Entry) {
	r.t.Helper()
	for _, id := range ids {
		e, err := r.Get(ctx, person, id)
		r.must(err)
		out = append(out, *e)
	}
	return out
}

// checkCounters compares the counters of points by queue, day and tag with the points themselves.
func (r *rig) checkCounters(person string) {
	r.t.Helper()
	points, err := r.Store.Learn.Points(ctx, person, store.PointFilter{}, store.PointKey{}, 10_000)
	r.must(err)
	want, tags := map[store.Count]int{}, map[string]int{}
	for i := range points {
		p := &points[i]
		want[store.Count{Deck: p.Deck, Queue: p.Queue()}]++
		for _, tag := range p.Tags {
			tags[tag]++
		}
	}
	counts, err := r.Store.Learn.Waiting(ctx, person, 100_000)
	r.must(err)
	got := map[store.Count]int{}
	for _, c := range counts {
		if n := c.N; n != 0 {
			c.N = 0
			got[c] = n
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("counters: %s", diff)
	}
	list, err := r.Tags(ctx, person, "", 100)
	r.must(err)
	have := map[string]int{}
	for _, c := range list {
		have[c.Tag] = c.N
	}
	trash, err := r.Store.Learn.Points(ctx, person, store.PointFilter{Trash: true}, store.PointKey{}, 10_000)
	r.must(err)
	for i := range trash {
		for _, tag := range trash[i].Tags {
			tags[tag]++
		}
	}
	if diff := cmp.Diff(tags, have); diff != "" {
		r.t.Errorf("counters of tags: %s", diff)
	}
}

// A point that cannot be changed is told, and does not keep the others from it. What was changed
// after an edit stays when the edit is undone, and an edit is forgotten after a day.
func TestBulkOneByOne(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		a := r.add("ada", Draft{Question: "a", Answer: "a"})
		b := r.add("ada", Draft{Question: "b", Answer: "b"})
		kept := r.add("ada", Draft{Question: "kept", Answer: "b", Unplanned: true})
		bobs := r.add("bob", Draft{Question: "bobs", Answer: "b"})
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		day := l.Today + 3
		out, err := r.Bulk(ctx, "ada", BulkTarget{IDs: []string{a.ID, "nonsense", kept.ID, bobs.ID, b.ID, a.ID}},
			BulkEdit{Due: &day, Flag: ptr(1)}, "test", nil)
		r.must(err)
		if out.Changed != 2 || out.Refused["nonsense"] != ErrNotFound || out.Refused[kept.ID] != ErrNoPlan ||
			out.Refused[bobs.ID] != ErrNotFound || len(out.Refused) != 3 {
			t.Errorf("changed %+v", out)
		}
		_, err = r.Update(ctx, "ada", a.ID, Edit{Flag: ptr(2)})
		r.must(err)
		r.grade("ada", b.ID, store.Good)
		undone, err := r.UndoBulk(ctx, "ada", "test", nil)
		r.must(err)
		got := r.everything("ada", []string{a.ID, b.ID})
		if undone.Points != 2 || got[0].Flag != 2 || got[0].Card.Due != l.Today || got[1].Flag != 0 ||
			got[1].Card.Reps != 1 {
			t.Errorf("undone %+v: %+v", undone, got)
		}
		_, err = r.Bulk(ctx, "ada", BulkTarget{IDs: []string{a.ID}}, BulkEdit{Suspended: ptr(true)}, "test", nil)
		r.must(err)
		r.now = r.now.AddDate(0, 0, 2)
		if _, err := r.UndoBulk(ctx, "ada", "test", nil); err == nil {
			t.Error("an edit is undone two days later")
		}
		for _, e := range []BulkEdit{{}, {Flag: ptr(8)}, {Due: ptr(l.Today - 9)}, {AddTags: []string{strings.Repeat("x", 200)}}} {
			if _, err := r.Bulk(ctx, "ada", BulkTarget{IDs: []string{a.ID}}, e, "test", nil); !problem.Is(err, problem.Invalid) {
				t.Errorf("%+v: %v", e, err)
			}
		}
	})
}

// Many points change in several transactions, the last of which undoing can begin anew.
func TestBulkMany(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		const n = 2*store.BulkBatch + 7
		var drafts []Draft
		for i := range n {
			drafts = append(drafts, Draft{Question: fmt.Sprint("q", i), Answer: "a"})
		}
		_, err := r.Create(ctx, "ada", drafts)
		r.must(err)
		var steps []int
		out, err := r.Bulk(ctx, "ada", BulkTarget{Query: expr(t, "is:new")}, BulkEdit{Suspended: ptr(true),
			AddTags: []string{"x"}}, "test", func(done, total int) { steps = append(steps, done, total) })
		r.must(err)
		if out.Changed != n || !slices.Equal(steps, []int{250, n, 500, n, n, n}) {
			t.Fatalf("changed %d in steps %v", out.Changed, steps)
		}
		r.checkCounters("ada")
		// An undo that was interrupted after its first part goes on from there.
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		last, err := r.Store.Learn.LastBulk(ctx, "ada", l.Now)
		r.must(err)
		first, err := r.Store.Learn.FirstPart(ctx, "ada", last.ID)
		r.must(err)
		_, _, err = r.undoPart(ctx, l, first, "test")
		r.must(err)
		undone, err := r.UndoBulk(ctx, "ada", "test", nil)
		r.must(err)
		if undone.Points != n-store.BulkBatch || len(r.selected("ada", "tag:x")) != 0 {
			t.Errorf("undone %+v", undone)
		}
		r.checkCounters("ada")
	})
}
