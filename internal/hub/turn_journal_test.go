package hub_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// blocked makes the database of a folder refuse writes until release is called.
func blocked(t *testing.T, folder string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: filepath.Join(folder, store.FileName),
		RawQuery: "_pragma=busy_timeout(20000)"}).String())
	must(t, err)
	conn, err := db.Conn(t.Context())
	must(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	release = sync.OnceFunc(func() {
		conn.ExecContext(context.Background(), "ROLLBACK") //nolint:errcheck // closing does it too
		conn.Close()
		db.Close()
	})
	t.Cleanup(release)
	return release
}

func waiting(t *testing.T, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, "turns.pending", "*"))
	must(t, err)
	return list
}

// TestDeliveredIsSaved checks that askers get complete answers while the database refuses writes.
// Turns are on the disk before that, also if the process is killed then, and in the database as
// soon as it accepts writes.
func TestDeliveredIsSaved(t *testing.T) {
	folder := t.TempDir()
	o := hubtest.Options{DB: store.Options{Folder: folder}, Hub: hub.Options{Folder: folder}}
	r := hubtest.New(t, o)
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text("yes"))
	})
	must(t, r.Hub.Answer(ctx, ask(bot, "before"), newRecorder().emit))

	release := blocked(t, folder)
	const turns = 40
	var ids [turns]string
	for i := range turns {
		turn := ask(bot, fmt.Sprint("meanwhile ", i))
		began := time.Now()
		if err := r.Hub.Answer(ctx, turn, newRecorder().emit); err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
		if took := time.Since(began); i > 0 && took > 10*time.Second {
			t.Errorf("turn %d took %v, although it is known that the database takes nothing", i, took)
		}
		ids[i] = turn.ID
	}
	if n := len(waiting(t, folder)); n != turns {
		t.Errorf("%d turns wait on the disk, want %d", n, turns)
	}
	if r.Hub.SaveFailing() {
		t.Error("it says that what happens is not kept")
	}

	// The process is killed; the next one finds the files that it has left.
	saved := t.TempDir()
	must(t, os.CopyFS(filepath.Join(saved, "turns.pending"), os.DirFS(filepath.Join(folder, "turns.pending"))))
	must(t, os.WriteFile(filepath.Join(saved, "turns.pending", "00000000000000000000-x.json"), []byte("{"), 0o600))
	release()
	kept := func(r *hubtest.Rig, folder string) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.After(time.Minute); ; {
			list, err := filepath.Glob(filepath.Join(folder, "turns.pending", "*.json"))
			must(t, err)
			if len(list) == 0 {
				break
			}
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("%d turns wait still", len(list))
			}
		}
		for _, id := range ids {
			if tr, err := r.Store.Traces.ByTurn(ctx, id); err != nil || tr.Outcome != "done" {
				t.Errorf("the turn %s is %+v, %v", id, tr, err)
			}
		}
	}
	kept(r, folder)
	must(t, r.Hub.Answer(ctx, ask(bot, "afterwards"), newRecorder().emit))
	if n := len(waiting(t, folder)); n != 0 {
		t.Errorf("%d turns wait although the database takes them", n)
	}

	another := store.Options{Folder: t.TempDir()} // has the person, but not the bot
	must(t, storetest.Open(t, another).People.Add(ctx, r.Person))
	next := hubtest.New(t, hubtest.Options{DB: another, Hub: hub.Options{Folder: saved}})
	kept(next, saved)
	if list := waiting(t, saved); len(list) != 1 || filepath.Ext(list[0]) != ".bad" {
		t.Errorf("of a broken file is left %q", list)
	}
}

// TestSaveFailing checks that the asker gets an error if neither the database nor the disk stores a
// turn, and that the instance reports the failure until it is over.
func TestSaveFailing(t *testing.T) {
	folder := t.TempDir()
	r := hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, Hub: hub.Options{Folder: folder}})
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text("yes"))
	})
	must(t, r.Hub.Answer(ctx, ask(bot, "before"), newRecorder().emit))
	release := blocked(t, folder)
	must(t, os.WriteFile(filepath.Join(folder, "turns.pending"), nil, 0o600)) // blocks the folder
	e := newRecorder()
	wantCode(t, r.Hub.Answer(ctx, ask(bot, "meanwhile"), e.emit), talk.NotSaved)
	if e.text() != "yes" || !r.Hub.SaveFailing() {
		t.Errorf("told %q; it says that what happens is kept: %t", e.text(), !r.Hub.SaveFailing())
	}
	release()
	must(t, r.Hub.Answer(ctx, ask(bot, "afterwards"), newRecorder().emit))
	if r.Hub.SaveFailing() {
		t.Error("it says still that nothing is kept")
	}
}
