package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"patchbay/internal/store"
)

func TestFolderHasOneServer(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	first, err := store.LockFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(want store.Holder) {
		t.Helper()
		_, err := store.LockFolder(folder)
		held, ok := errors.AsType[*store.HeldError](err)
		if !ok || held.Holder != want || held.Folder != folder {
			t.Errorf("a second lock gives %v, want one that names %+v", err, want)
		}
	}
	refused(store.Holder{PID: os.Getpid()})
	if err := first.Announce("http://127.0.0.1:3000"); err != nil {
		t.Fatal(err)
	}
	refused(store.Holder{PID: os.Getpid(), URL: "http://127.0.0.1:3000"})

	// Commands can use the database while it is locked.
	db, err := store.Open(t.Context(), store.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := store.LockFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
