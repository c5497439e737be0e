package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// TestSpeechUsage checks the sums, that those of a removed device stay, that a removed person gets
// none, and what is purged.
func TestSpeechUsage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		d, err := db.Devices.Seen(ctx, store.DeviceCall{Kind: "xiaozhi", Hardware: "hw", Client: "c", At: now})
		must(t, err)
		key := func(day, owner string, device int64, engine string) store.SpeechUseKey {
			return store.SpeechUseKey{Day: day, Owner: owner, Device: device, Engine: engine}
		}
		keys := []store.SpeechUseKey{key("2026-11-24", "p1", d.Number, "a"), key("2026-11-25", "p1", d.Number, "a"),
			key("2026-11-25", "p1", 9, "b"), key("2026-11-25", "p2", 10, "b"), key("2026-11-25", "gone", 11, "b")}
		use := store.SpeechUse{Uses: 1, Heard: 1500 * time.Millisecond, Characters: 20, Cost: 3}
		for range 2 {
			must(t, db.SpeechUsage.Add(ctx, keys, []store.SpeechUse{use, use, use, use, use}))
		}
		times := func(n int64) store.SpeechUse {
			return store.SpeechUse{Uses: n, Heard: time.Duration(n) * use.Heard, Characters: 20 * n, Cost: 3 * n}
		}
		got, err := db.SpeechUsage.OfDay(ctx, "2026-11-25", "p1")
		must(t, err)
		if diff := cmp.Diff(map[int64]store.SpeechUse{d.Number: times(2), 9: times(2)}, got); diff != "" {
			t.Error(diff)
		}
		people, err := db.People.All(ctx)
		must(t, err)
		sums, err := db.SpeechUsage.Since(ctx, "2026-11-24")
		must(t, err)
		want := store.SpeechSums{
			Days: []store.SpeechSum{{Name: "2026-11-25", SpeechUse: times(6)}, {Name: "2026-11-24", SpeechUse: times(2)}},
			People: []store.SpeechSum{{ID: "p1", Name: people[0].Name, SpeechUse: times(6)},
				{ID: "p2", Name: people[1].Name, SpeechUse: times(2)}},
			Devices: []store.SpeechSum{{ID: "1", SpeechUse: times(4)}, {ID: "9", SpeechUse: times(2)},
				{ID: "10", SpeechUse: times(2)}},
			Engines: []store.SpeechSum{{Name: "a", SpeechUse: times(4)}, {Name: "b", SpeechUse: times(4)}},
		}
		if diff := cmp.Diff(want, sums); diff != "" {
			t.Error(diff)
		}
		must(t, db.Devices.Remove(ctx, d.Number))
		day := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
		for _, purge := range []struct {
			calls time.Time
			days  int
		}{{day, 2}, {day.Add(48 * time.Hour), 1}} { // the last three days stay whatever else does
			_, err = db.Purge(ctx, store.Limits{Calls: purge.calls, Now: purge.calls})
			must(t, err)
			sums, err = db.SpeechUsage.Since(ctx, "")
			must(t, err)
			if len(sums.Days) != purge.days || sums.Devices[0].Uses != int64(2*purge.days) {
				t.Errorf("at %s: %+v", purge.calls, sums)
			}
		}
	})
}
