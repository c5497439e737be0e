package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of which the end could not be written is not left, and one that was there before stays.
func TestWriteNew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "demo.apkg")
	full := errors.New("the disk is full")
	half := func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, full)
	}
	if err := writeNew(name, half); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	if err := os.WriteFile(name, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(name, half); !errors.Is(err, os.ErrExist) {
		t.Errorf("the error is %v", err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "other" {
		t.Errorf("the file that was there is %q, %v", text, err)
	}
}

// Another word is one that differs from the first, which an answer may repeat.
func TestOtherWord(t *testing.T) {
	readings := map[string]string{"火": "huǒ", "火车": "huǒchē", "水": "shuǐ"}
	if word, reading := wordOf("What is 火车?", readings); word != "火车" || reading != "huǒchē" {
		t.Errorf("the word is %q, %q", word, reading)
	}
	for text, want := range map[string]bool{"火车 again": false, "火车 is right. Next: 水": true, "水": true, "Well done": false} {
		if got := otherWord(text, "火车", readings); got != want {
			t.Errorf("another word in %q: %v", strings.TrimSpace(text), got)
		}
	}
}
