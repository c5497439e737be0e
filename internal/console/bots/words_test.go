package bots_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/console/bots"
)

// Every setting of every kind of bot has texts, and every kind too; nothing else has.
func TestWords(t *testing.T) {
	c := config.Default()
	c.Data = filepath.Join(t.TempDir(), "data")
	base, err := app.OpenBase(t.Context(), c, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	there := map[string]bool{}
	for _, kind := range base.Registry.Kinds() {
		list, err := base.Registry.Describe(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			there[s.Name] = true
			if ofKind, ofSetting := bots.HasWords(kind, s.Name); !ofKind || !ofSetting {
				t.Errorf("kind %s: %t, its setting %s: %t", kind, ofKind, s.Name, ofSetting)
			}
		}
	}
	for _, name := range bots.Worded() {
		if !there[name] {
			t.Errorf("nothing is called %s any more", name)
		}
	}
}
