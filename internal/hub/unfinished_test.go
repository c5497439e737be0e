package hub

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/store"
)

// unfinishedFiles returns the files of running calls in a folder.
func unfinishedFiles(t *testing.T, folder string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "calls-*-running.journal"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestUnfinishedCalls checks that a call has a slot while it runs, that the slot is reused, and
// that the next start does not find ended calls.
func TestUnfinishedCalls(t *testing.T) {
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	dead, err := openJournal(folder, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		dead.begin(row(n))
	}
	dead.end("call-1")
	long := row(3)
	long.Args = strings.Repeat("x", slotSize)
	dead.begin(long)
	dead.end("call-1") // has ended already, and does not free the slot of another call
	own := row(0)
	dead.append(&own)
	dead.end("call-0") // its line is still there
	endless := row(4)
	endless.Tool = strings.Repeat("x", slotSize)
	dead.begin(endless)
	if dead.unfinished.next != 3 || len(dead.unfinished.slots) != 2 || !dead.failing {
		t.Errorf("three calls at a time have %d slots, of which %v are taken", dead.unfinished.next,
			dead.unfinished.slots)
	}
	for i := range dead.segments { // as when the process is killed
		dead.segments[i].file.Close()
	}
	dead.unfinished.file.Close()

	db := newDatabase()
	next, err := openJournal(folder, log, func(rows []store.Call) error { return db.commit(t.Context(), rows) })
	if err != nil {
		t.Fatal(err)
	}
	db.has(t, 3)
	if c := db.rows["call-0"]; c.Code != own.Code || c.Outcome != own.Outcome {
		t.Errorf("a call that has ended is %+v", c)
	}
	for id, args := range map[string]string{"call-2": row(2).Args, "call-3": ""} {
		if c := db.rows[id]; c.Outcome != callFailed || c.Code != "lost" || c.Cause == "" || c.Args != args {
			t.Errorf("%s is %+v", id, c)
		}
	}
	secret := row(5)
	secret.Args = "secret"
	next.begin(secret)
	next.end("call-5")
	next.tidy()
	text, err := os.ReadFile(next.unfinished.path)
	if err != nil || bytes.Contains(text, []byte("secret")) {
		t.Errorf("arguments of a call that has ended stay: %v", err)
	}
	next.close()
	if left := unfinishedFiles(t, folder); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestUnfinishedCallsWait checks that calls that the database refuses at the start are tried again,
// and that a recorded end of a call is not replaced by its loss.
func TestUnfinishedCallsWait(t *testing.T) {
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	dead, err := openJournal(folder, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	dead.begin(row(0))
	dead.begin(row(1))
	ended := row(1)
	dead.append(&ended)
	dead.current = 1
	other := row(2)
	dead.append(&other) // here it is killed
	for i := range dead.segments {
		dead.segments[i].file.Close()
	}
	dead.unfinished.file.Close()

	db := newDatabase()
	db.refuse(os.ErrDeadlineExceeded)
	a := newAudit(folder, log, db.commit)
	a.begin(row(3))
	a.add(row(3), true)
	for range 2 { // at the start, and again
		<-db.tries
	}
	db.refuse(nil)
	db.has(t, 4)
	a.close()
	for id, code := range map[string]string{"call-0": "lost", "call-1": "", "call-2": "", "call-3": ""} {
		if c := db.rows[id]; c.Code != code {
			t.Errorf("%s is %+v", id, c)
		}
	}
	if left := unfinishedFiles(t, folder); len(left) > 0 || len(journals(t, folder)) > 0 {
		t.Errorf("%v are left, and %v", left, journals(t, folder))
	}
}
