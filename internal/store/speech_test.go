package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestSpeechEngines(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		ctx := t.Context()
		for _, name := range []string{"a", "b", "c"} {
			if _, err := db.SpeechEngines.Add(ctx, store.SpeechEngine{Name: name, Kind: "openai", Enabled: true,
				Settings: []byte(`{"api_key":"sealed:1:x"}`), Created: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.SpeechEngines.Add(ctx, store.SpeechEngine{Name: "b", Kind: "openai", Settings: []byte(`{}`),
			Created: time.Now()}); !errors.Is(err, store.ErrExists) {
			t.Errorf("a name that is taken: %v", err)
		}
		order := func() string {
			list, err := db.SpeechEngines.All(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range list {
				names = append(names, e.Name)
			}
			return strings.Join(names, "")
		}
		before, err := db.SpeechVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []struct {
			number int64
			place  int
			want   string
		}{{3, 0, "cab"}, {1, 9, "cba"}, {2, 1, "cba"}, {1, -1, "acb"}} {
			if err := db.SpeechEngines.Move(ctx, m.number, m.place); err != nil || order() != m.want {
				t.Errorf("%+v: %s, %v", m, order(), err)
			}
		}
		if err := db.SpeechEngines.Move(ctx, 9, 0); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an engine that is missing is moved: %v", err)
		}
		if after, err := db.SpeechVersion(ctx); err != nil || after != before+4 {
			t.Errorf("the version went from %d to %d, %v", before, after, err)
		}
		e := store.SpeechEngine{Number: 1, Name: "z", Settings: []byte(`{}`), Use: store.UseSpeak, Version: 1}
		if err := db.SpeechEngines.Save(ctx, e); err != nil {
			t.Error(err)
		}
		if err := db.SpeechEngines.Save(ctx, e); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a change of an old version: %v", err)
		}
		list, err := db.SpeechEngines.All(ctx)
		if err != nil || list[0].Name != "z" || list[0].Use != store.UseSpeak || list[0].Enabled ||
			list[0].Kind != "openai" || list[0].Version != 2 {
			t.Errorf("%+v, %v", list, err)
		}
		var sealed []string
		if _, err := db.Secrets.EachSealed(ctx, func(text string) (string, bool) {
			sealed = append(sealed, text)
			return text, false
		}); err != nil || cmp.Diff([]string{`{"api_key":"sealed:1:x"}`, `{"api_key":"sealed:1:x"}`}, sealed) != "" {
			t.Errorf("sealed texts are %q, %v", sealed, err)
		}
		if err := errors.Join(db.SpeechEngines.Remove(ctx, 2), db.SpeechEngines.Remove(ctx, 3)); err != nil ||
			order() != "z" {
			t.Error(order(), err)
		}
	})
}
