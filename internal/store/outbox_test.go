package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// push returns a push for the first device.
func push(n int) store.Push {
	return store.Push{ID: fmt.Sprintf("push %03d", n), Device: 1, Kind: "show", Body: json.RawMessage(`{"text":"hi"}`),
		Person: "p1", Key: "k1",
		Created: now, Expires: now.Add(time.Hour)}
}

// waiting returns the ids of the pending pushes of a device.
func waiting(t *testing.T, db *store.DB, device int64, at time.Time) (ids []string) {
	t.Helper()
	list, err := db.Outbox.For(ctx, device, at)
	must(t, err)
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestOutbox(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		one := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "one"})
		two := approve(t, db, call("bb", "c2"), store.DeviceApproval{Owner: "p2", Name: "two"})
		box := db.Outbox

		long, short, his, bare := push(2), push(1), push(3), push(4)
		long.Expires, short.Body, his.Device = now.Add(2*time.Hour), json.RawMessage(`{"text":"a\u0000b`+"\xff"+
			`"}`), two.Number
		bare.Body, bare.Device = nil, two.Number
		for _, p := range []store.Push{long, short, his, bare} {
			must(t, box.Add(ctx, p))
		}
		wantErr(t, box.Add(ctx, long), store.ErrExists)
		lost := push(9)
		lost.Device = 99
		wantErr(t, box.Add(ctx, lost), store.ErrNotFound)

		list, err := box.For(ctx, one.Number, now)
		must(t, err)
		short.Body = json.RawMessage(`{"text":"a\u0000b` + "\ufffd" + `"}`)
		if fmt.Sprintf("%+v", list) != fmt.Sprintf("%+v", []store.Push{short, long}) {
			t.Fatalf("kept\n%+v, want\n%+v", list, []store.Push{short, long})
		}
		if list, err = box.For(ctx, two.Number, now); err != nil || len(list) != 2 || string(list[1].Body) != `{}` {
			t.Fatalf("of the other device: %+v %v", list, err)
		}
		if got := waiting(t, db, one.Number, now.Add(time.Hour)); !slices.Equal(got, []string{long.ID}) {
			t.Errorf("when one has expired: %v", got)
		}

		for _, c := range []struct {
			after time.Duration
			want  int64
		}{{time.Hour - time.Millisecond, 0}, {time.Hour, 3}, {time.Hour, 0}} {
			if n, err := box.Expire(ctx, now.Add(c.after)); err != nil || n != c.want {
				t.Errorf("%d expired after %v, want %d: %v", n, c.after, c.want, err)
			}
		}
		must(t, box.Add(ctx, his))
		must(t, box.Remove(ctx))
		must(t, box.Remove(ctx, long.ID, "never was"))
		must(t, box.Remove(ctx, long.ID, his.ID))
		if got := append(waiting(t, db, one.Number, now), waiting(t, db, two.Number, now)...); len(got) != 0 {
			t.Errorf("after all were removed: %v", got)
		}

		must(t, box.Add(ctx, short))
		must(t, box.Add(ctx, his))
		must(t, db.Devices.Remove(ctx, two.Number))
		if got := waiting(t, db, two.Number, now); len(got) != 0 {
			t.Errorf("of a device that is gone: %v", got)
		}
	})
}

// At most 32 pushes are pending under concurrency; expired ones make room.
func TestOutboxFull(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		one := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "one"})
		errs := make([]error, store.MaxPushes+8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = db.Outbox.Add(ctx, push(i)) })
		}
		wg.Wait()
		full := 0
		for _, err := range errs {
			if errors.Is(err, store.ErrFull) {
				full++
			} else {
				must(t, err)
			}
		}
		if got := waiting(t, db, one.Number, now); full != 8 || len(got) != store.MaxPushes {
			t.Fatalf("%d wait, %d were refused", len(got), full)
		}
		p := push(100)
		p.Created, p.Expires = now.Add(time.Hour-time.Millisecond), now.Add(2*time.Hour)
		wantErr(t, db.Outbox.Add(ctx, p), store.ErrFull)
		p.Created = now.Add(time.Hour)
		must(t, db.Outbox.Add(ctx, p))
		if got := waiting(t, db, one.Number, now); !slices.Equal(got, []string{p.ID}) {
			t.Errorf("those that had expired are still there: %v", got)
		}

		p = push(200)
		p.Body = json.RawMessage(`"` + strings.Repeat("x", store.MaxPush-1) + `"`)
		wantErr(t, db.Outbox.Add(ctx, p), store.ErrTooLarge)
		p.Body = json.RawMessage(`"` + strings.Repeat("x", store.MaxPush-2) + `"`)
		must(t, db.Outbox.Add(ctx, p))
		if list, err := db.Outbox.For(ctx, one.Number, now); err != nil || len(list) != 2 ||
			string(list[1].Body) != string(p.Body) {
			t.Errorf("the largest was not kept: %v", err)
		}
	})
}
