package bots_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/console/bots"
)

// openBase opens a new installation, whose kinds of bots are those of the program.
func openBase(t *testing.T) *app.Base {
	t.Helper()
	c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": filepath.Join(t.TempDir(), "data")}})
	if err != nil {
		t.Fatal(err)
	}
	base, err := app.OpenBase(t.Context(), c, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	return base
}

// Every setting of every kind of bot has texts, and every kind too; nothing else has.
func TestWords(t *testing.T) {
	base := openBase(t)
	there := map[string]bool{}
	for _, name := range base.Registry.Kinds() {
		kind, err := base.Registry.Kind(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := base.Registry.Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			there[s.Name] = true
			if ofKind, ofSetting := bots.HasWords(kind, s); !ofKind || !ofSetting {
				t.Errorf("kind %s: %t, its setting %s: %t", name, ofKind, s.Name, ofSetting)
			}
		}
	}
	for _, name := range bots.Worded() {
		if !there[name] {
			t.Errorf("nothing is called %s any more", name)
		}
	}
}
