package learn

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// A tag of many points is renamed in several steps, with progress reports.
func TestRenameTag(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	const many = retagBatch + 20
	var drafts []Draft
	for i := range many {
		drafts = append(drafts, Draft{Question: fmt.Sprint("q", i), Answer: "a", Tags: []string{"old", "stays"}})
	}
	if _, err := r.Create(ctx, "ada", drafts); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]error{"": &problem.Error{}, "# ": &problem.Error{}, "stays": &TagExistsError{}} {
		_, n, err := r.RenameTag(ctx, "ada", "old", to, false, nil)
		if n != 0 || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", want) {
			t.Errorf("to %q: %d, %v", to, n, err)
		}
	}
	if _, _, err := r.RenameTag(ctx, "ada", "nobodys", "new", false, nil); !errors.Is(err, ErrTagNotFound) {
		t.Errorf("%v", err)
	}
	if to, n, err := r.RenameTag(ctx, "ada", "old", "#old", false, nil); to != "old" || n != 0 || err != nil {
		t.Errorf("%q, %d, %v", to, n, err)
	}
	var message []int
	to, n, err := r.RenameTag(ctx, "ada", "old", "brand new", false,
		func(done, total int) { message = append(message, done, total) })
	if to != "brand-new" || n != many || err != nil || !slices.Equal(message, []int{retagBatch, many, many, many}) {
		t.Fatalf("%q, %d, %v, told %v", to, n, err, message)
	}
	if _, n, err := r.RenameTag(ctx, "ada", "brand-new", "stays", true, nil); n != many || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	list, err := r.Store.Learn.Tags(ctx, "ada", "", 10)
	if err != nil || fmt.Sprint(list) != fmt.Sprintf("[{stays %d}]", many) {
		t.Errorf("%v, %v", list, err)
	}
	hits, err := r.Search(ctx, "ada", "q7 stays", SearchFilter{Limit: 3})
	if err != nil || len(hits) == 0 || hits[0].Question != "q7" || !slices.Equal(hits[0].Tags, []string{"stays"}) {
		t.Errorf("%+v, %v", hits, err)
	}
}

// Errors are available in both languages.
func TestInvalidInBoth(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	_, err := r.Reschedule(ctx, "ada", "x", -1, "")
	bad, ok := errors.AsType[*problem.Error](err)
	if !ok || bad.In(i18n.Chinese) == bad.In(i18n.English) || bad.In(i18n.English) != bad.Error() {
		t.Errorf("%v", err)
	}
}
