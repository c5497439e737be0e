package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What was written is taken over from the log into the database file by those who
// only read, while others write.
func TestCheckpoint(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	big := strings.Repeat("x", 100_000)
	for i := range 20 {
		if err := db.People.Add(ctx, Person{ID: fmt.Sprint(i), Name: fmt.Sprint("p", i), Role: big, Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	pages, taken, err := db.checkpoint(context.Background())
	if err != nil || pages != taken {
		t.Fatalf("%d of %d pages were taken over, %v", taken, pages, err)
	}
	if err := db.People.Add(ctx, Person{ID: "last", Name: "last", Role: "x", Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if pages, _, err = db.checkpoint(context.Background()); err != nil || pages > 200 {
		t.Errorf("the log begins anew after it was taken over, but has %d pages, %v", pages, err)
	}
}
