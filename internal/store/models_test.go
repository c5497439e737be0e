package store_test

import (
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// The state of a model is stored only if the bot is unchanged since it was read.
func TestModelStates(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		ctx, now := t.Context(), time.Now().Truncate(time.Millisecond)
		if err := db.People.Add(ctx, store.Person{ID: "p", Name: "p", Role: "admin", Lang: "en",
			Created: now}); err != nil {
			t.Fatal(err)
		}
		b, err := db.Bots.Add(ctx, store.Bot{Owner: "p", Name: "b", Kind: "openai", Settings: []byte(`{}`),
			Created: now})
		if err != nil || b.Model != (store.ModelState{}) {
			t.Fatalf("%+v, %v", b, err)
		}
		is := store.ModelState{Version: 1, State: "key", Since: now, Asked: true}
		if done, err := db.Bots.SetModel(ctx, b, is); err != nil || !done {
			t.Fatal(done, err)
		}
		if done, err := db.Bots.SetModel(ctx, b, store.ModelState{Version: 1}); err != nil || done {
			t.Errorf("who had not read it was let write: %v, %v", done, err)
		}
		got, err := db.Bots.ByNumber(ctx, b.Number)
		if err != nil || got.Model.State != "key" || !got.Model.Asked || !got.Model.Since.Equal(now) ||
			got.Model.Version != 1 {
			t.Errorf("kept %+v, %v", got.Model, err)
		}
		got.Name = "c"
		if err := db.Bots.Save(ctx, got); err != nil {
			t.Fatal(err)
		}
		if done, err := db.Bots.SetModel(ctx, got, is); err != nil || done {
			t.Errorf("a bot that was changed: %v, %v", done, err)
		}
	})
}
