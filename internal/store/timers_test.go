package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestTimers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		one := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "one"})
		two := approve(t, db, call("bb", "c2"), store.DeviceApproval{Owner: "p1", Name: "two"})
		add := func(device int64, after time.Duration) store.Timer {
			t.Helper()
			r, err := db.Timers.Add(ctx, store.Timer{Device: device, Text: "tea", Due: now.Add(after), Zone: "UTC",
				Created: now})
			must(t, err)
			return r
		}
		later, soon := add(one.Number, time.Hour), add(one.Number, time.Minute)
		his := add(two.Number, 2*time.Minute)
		list, err := db.Timers.Of(ctx, one.Number)
		must(t, err)
		if diff := cmp.Diff([]store.Timer{soon, later}, list); diff != "" {
			t.Error(diff)
		}
		_, err = db.Timers.Add(ctx, store.Timer{Device: 99, Due: now})
		wantErr(t, err, store.ErrNotFound)

		at := now.Add(2 * time.Minute)
		due := func() []store.Timer {
			t.Helper()
			list, err := db.Timers.Due(ctx, at, at)
			must(t, err)
			return list
		}
		if diff := cmp.Diff([]store.Timer{soon, his}, due()); diff != "" {
			t.Error(diff)
		}
		// One of many gets it.
		var held atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				ok, err := db.Timers.Hold(ctx, soon, at, at.Add(time.Minute))
				if err != nil {
					t.Error(err)
				}
				if ok {
					held.Add(1)
				}
			})
		}
		all.Wait()
		if held.Load() != 1 {
			t.Errorf("%d hold one timer", held.Load())
		}
		if diff := cmp.Diff([]store.Timer{his}, due()); diff != "" {
			t.Error(diff)
		}
		must(t, db.Timers.Release(ctx, soon))
		if len(due()) != 2 {
			t.Error("it is not free again")
		}
		must(t, db.Timers.Finish(ctx, soon, now.Add(24*time.Hour)))
		must(t, db.Timers.Finish(ctx, soon, time.Time{})) // its time has changed
		must(t, db.Timers.Finish(ctx, his, time.Time{}))
		if len(due()) != 0 {
			t.Error("something is still due")
		}
		list, err = db.Timers.Of(ctx, one.Number)
		must(t, err)
		if len(list) != 2 || list[1].Number != soon.Number {
			t.Errorf("%+v", list)
		}
		must(t, db.Timers.Remove(ctx, one.Number, later.Number))
		wantErr(t, db.Timers.Remove(ctx, two.Number, soon.Number), store.ErrNotFound)

		for range store.MaxTimers - 1 {
			add(one.Number, time.Hour)
		}
		_, err = db.Timers.Add(ctx, store.Timer{Device: one.Number, Due: now})
		wantErr(t, err, store.ErrFull)
		add(two.Number, time.Hour)
	})
}

func TestNextTimer(t *testing.T) {
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		must(t, err)
		return when
	}
	for _, c := range []struct{ repeat, zone, clock, due, now, want string }{
		{"daily", "Asia/Shanghai", "07:00:00", "2026-11-25T07:00:00+08:00", "2026-11-25T07:00:01+08:00",
			"2026-11-26T07:00:00+08:00"},
		// 2026-11-27 is a Friday.
		{"weekdays", "Asia/Shanghai", "07:00:00", "2026-11-27T07:00:00+08:00", "2026-11-27T07:00:01+08:00",
			"2026-11-30T07:00:00+08:00"},
		// No server ran for a week.
		{"daily", "UTC", "07:00:00", "2026-11-20T07:00:00Z", "2026-11-27T06:00:00Z", "2026-11-27T07:00:00Z"},
		// The clock is put back, and forward over the time.
		{"daily", "Europe/Berlin", "07:00:00", "2026-10-24T07:00:00+02:00", "2026-10-24T08:00:00+02:00",
			"2026-10-25T07:00:00+01:00"},
		{"daily", "Europe/Berlin", "02:30:00", "2026-03-28T02:30:00+01:00", "2026-03-28T03:00:00+01:00",
			"2026-03-29T03:30:00+02:00"},
		{"daily", "Europe/Berlin", "02:30:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:00:00+02:00",
			"2026-03-30T02:30:00+02:00"},
	} {
		r := store.Timer{Repeat: c.repeat, Zone: c.zone, Clock: c.clock, Due: at(c.due)}
		if got := r.Next(at(c.now)); !got.Equal(at(c.want)) {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if once := (&store.Timer{Due: now}).Next(now); !once.IsZero() {
		t.Errorf("once: %s", once)
	}
}
