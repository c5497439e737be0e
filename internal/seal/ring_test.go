package seal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func key(t *testing.T, digits string) *Key {
	t.Helper()
	k, err := NewKey(strings.Repeat(digits, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// While a box gets another key, what either key sealed opens, whichever of them seals.
func TestSeveralKeys(t *testing.T) {
	first, second := key(t, "ab"), key(t, "cd")
	b, err := New(first.Secret())
	if err != nil {
		t.Fatal(err)
	}
	old, mac := b.SealFor("https://x:443", "value"), b.MAC("code")
	b.SetKeys(first, second)
	if b.MAC("code") != mac || b.Key().ID != first.ID || len(b.Keys()) != 2 {
		t.Error("a key that was added is used at once")
	}
	if plain, err := b.Open(second.Seal("theirs")); err != nil || plain != "theirs" {
		t.Errorf("it opens %q, %v", plain, err)
	}
	b.SetKeys(second, first)
	if b.MAC("code") != second.MAC("code") || b.Keys()[1].MAC("code") != mac {
		t.Error("it does not use its new key, or has lost the old one")
	}
	text := `{"a":"` + old + `","b":"plain","c":["` + second.Seal("x") + `"],"d":"` + key(t, "ef").Seal("strange") +
		`"}`
	again, changed := b.Reseal(text)
	if !changed || len(again) != len(text) || strings.Contains(again, old) {
		t.Fatalf("%v: %s", changed, again)
	}
	if same, changed := b.Reseal(again); changed || same != again {
		t.Error("what is sealed well is sealed once more")
	}
	b.SetKeys(second)
	value := sealedText.FindString(again)
	if plain, err := b.OpenFor("https://x:443", value); err != nil || plain != "value" {
		t.Errorf("sealed anew it is %q, %v", plain, err)
	}
	if _, err := b.Open(old); !errors.Is(err, ErrKey) {
		t.Errorf("what was sealed with a key that has been dropped opens: %v", err)
	}
}

func TestWrap(t *testing.T) {
	first, second := key(t, "ab"), key(t, "cd")
	if k, err := first.Unwrap(first.Wrap(second)); err != nil || k.ID != second.ID || k.MAC("x") != second.MAC("x") {
		t.Errorf("%v", err)
	}
	if _, err := second.Unwrap(first.Wrap(second)); !errors.Is(err, ErrKey) {
		t.Errorf("a key takes out what another has sealed: %v", err)
	}
}

// The file has a whole secret at any time, and nobody else may read it.
func TestWriteFile(t *testing.T) {
	folder := t.TempDir()
	if _, err := ReadFile(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, k := range []*Key{key(t, "ab"), key(t, "cd")} {
		if err := WriteFile(folder, k); err != nil {
			t.Fatal(err)
		}
		b, err := Open(folder)
		if err != nil || b.Key().ID != k.ID {
			t.Errorf("it has another key, %v", err)
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v", files, err)
	}
	if info, err := os.Stat(filepath.Join(folder, FileName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Keys come and go while others seal and open.
func TestKeysAreChangedSafely(t *testing.T) {
	first, second := key(t, "ab"), key(t, "cd")
	b, err := New(first.Secret())
	if err != nil {
		t.Fatal(err)
	}
	b.SetKeys(first, second)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 500 {
				if i == 0 && n%2 == 0 {
					b.SetKeys(second, first)
				} else if i == 0 {
					b.SetKeys(first, second)
				} else if plain, err := b.Open(b.Seal("x")); plain != "x" || err != nil {
					t.Errorf("%q, %v", plain, err)
				}
			}
		})
	}
	all.Wait()
}
