package relay

import (
	"errors"
	"io/fs"
	"testing"
)

// Two instances of an installation join with one code at the same time; another may not.
func TestJoinTwice(t *testing.T) {
	f := Folder(t.TempDir())
	if _, err := f.Add(Home{Name: "anna"}); err != nil {
		t.Fatal(err)
	}
	list, err := f.Homes()
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for range 2 {
		if err := f.join(list[0], "one"); err != nil {
			t.Error(err)
		}
	}
	if err := f.join(list[0], "other"); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}
