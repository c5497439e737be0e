package seal

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestSealAndOpen(t *testing.T) {
	folder := t.TempDir()
	var boxes [8]*Box
	var wg sync.WaitGroup
	for i := range boxes {
		wg.Go(func() { boxes[i], _ = Open(folder) })
	}
	wg.Wait()
	sealed := boxes[0].Seal("sk-secret")
	if strings.Contains(sealed, "secret") || sealed == boxes[0].Seal("sk-secret") {
		t.Fatalf("sealed to %q", sealed)
	}
	for i, b := range boxes { // all that started at once have the same key
		if b == nil {
			t.Fatalf("box %d did not open", i)
		}
		if plain, err := b.Open(sealed); err != nil || plain != "sk-secret" {
			t.Fatalf("box %d opened %q, %v", i, plain, err)
		}
	}
	if plain, err := boxes[0].Open("not sealed"); err != nil || plain != "not sealed" {
		t.Fatalf("plain text became %q, %v", plain, err)
	}
	if boxes[0].Seal("") != "" {
		t.Fatal("the empty text was sealed")
	}
	other, err := New(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{sealed, prefix + "AAAA", prefix + "!", sealed[:len(sealed)-2]} {
		if _, err := other.Open(text); !errors.Is(err, ErrKey) {
			t.Errorf("opening %q with another key: %v", text, err)
		}
	}
	if other.MAC("123456") == boxes[0].MAC("123456") {
		t.Fatal("two keys make the same MAC")
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("ab", 31)} {
		if _, err := New(s); err == nil {
			t.Errorf("%q was taken as a secret", s)
		}
	}
}
