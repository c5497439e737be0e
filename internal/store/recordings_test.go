package store_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// addRecordings stores turns of a device, a minute apart, each recorded for so many hours as its
// number says.
func addRecordings(t *testing.T, db *store.DB, owner string, bot int64, device store.Device, turns int) {
	t.Helper()
	for i := range turns {
		turn := fmt.Sprintf("%s-%d", device.Name, i)
		must(t, db.Traces.Finish(ctx, store.Trace{Turn: turn, Bot: bot, Owner: owner, Outcome: "done",
			At: now.Add(time.Duration(i) * time.Minute)}, nil))
		must(t, db.Recordings.Add(ctx, store.Recording{Turn: turn, Device: device.Number,
			Expires: now.Add(time.Duration(i) * time.Hour), Question: fmt.Sprint("Where is ÄRGER ", i, "?"), Answer: "100% here",
			QuestionLength: 1200 * time.Millisecond}, store.RecordedSound{Question: []byte("asked"), Answer: []byte{byte(i)}}))
	}
}

func TestRecordings(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		one := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "one"})
		two := approve(t, db, call("bb", "c2"), store.DeviceApproval{Owner: "p1", Name: "two"})
		addRecordings(t, db, "p1", 1, one, 4)
		addRecordings(t, db, "p1", 2, two, 2)
		find := func(f store.RecordingFilter, want ...string) {
			t.Helper()
			list, err := db.Recordings.Find(ctx, f, 10)
			must(t, err)
			var turns []string
			for _, r := range list {
				turns = append(turns, r.Turn)
			}
			if diff := cmp.Diff(want, turns); diff != "" {
				t.Errorf("%+v:\n%s", f, diff)
			}
		}
		find(store.RecordingFilter{Device: one.Number}, "one-3", "one-2", "one-1", "one-0")
		find(store.RecordingFilter{Device: one.Number, Text: "ärger 2"}, "one-2")
		find(store.RecordingFilter{Device: one.Number, Text: "100%"}, "one-3", "one-2", "one-1", "one-0")
		find(store.RecordingFilter{Device: one.Number, Text: "1_0"})
		find(store.RecordingFilter{Device: one.Number, From: now.Add(time.Minute), Until: now.Add(3 * time.Minute)},
			"one-2", "one-1")
		find(store.RecordingFilter{Device: one.Number, After: store.RecordCursor{At: now.Add(time.Minute), ID: "one-1"}},
			"one-0")
		r, err := db.Recordings.ByTurn(ctx, "one-3")
		must(t, err)
		want := store.Recording{Turn: "one-3", Device: one.Number, At: now.Add(3 * time.Minute),
			Expires: now.Add(3 * time.Hour), Question: "Where is ÄRGER 3?", Answer: "100% here",
			QuestionLength: 1200 * time.Millisecond, Bytes: 6}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
		if s, err := db.Recordings.Sound(ctx, "one-3"); err != nil || !bytes.Equal(s.Answer, []byte{3}) {
			t.Errorf("%v, %v", s, err)
		}
		usage := func(d store.Device, want store.RecordingUsage) {
			t.Helper()
			if u, err := db.Recordings.Usage(ctx, d.Number); err != nil || u != want {
				t.Errorf("%+v, not %+v: %v", u, want, err)
			}
		}
		usage(one, store.RecordingUsage{Turns: 4, Bytes: 24})
		have, err := db.Recordings.Recorded(ctx, []string{"one-1", "two-1", "none"})
		must(t, err)
		if diff := cmp.Diff(map[string]bool{"one-1": true, "two-1": true}, have); diff != "" {
			t.Error(diff)
		}

		wantErr(t, db.Recordings.Add(ctx, store.Recording{Turn: "none", Device: one.Number}, store.RecordedSound{}),
			store.ErrNotFound)
		wantErr(t, db.Recordings.Add(ctx, store.Recording{Turn: "one-1", Device: 99}, store.RecordedSound{}),
			store.ErrNotFound)
		wantErr(t, db.Recordings.Add(ctx, store.Recording{Turn: "one-1", Device: one.Number},
			store.RecordedSound{Answer: make([]byte, store.MaxRecordedSound+1)}), store.ErrTooLarge)

		// What has expired is deleted; the record of a turn stays as long as its recording.
		_, err = db.Purge(ctx, store.Limits{Traces: now.Add(150 * time.Second), Now: now.Add(90 * time.Minute)})
		must(t, err)
		find(store.RecordingFilter{Device: one.Number}, "one-3", "one-2")
		find(store.RecordingFilter{Device: two.Number})
		for turn, there := range map[string]bool{"one-0": false, "one-1": false, "one-2": true, "one-3": true} {
			if _, err := db.Traces.ByTurn(ctx, turn); (err == nil) != there {
				t.Errorf("the record of %s: %v", turn, err)
			}
		}
		n, err := db.Recordings.Forget(ctx, "p1", 2)
		if err != nil || n != 0 {
			t.Errorf("%d of another bot are deleted: %v", n, err)
		}
		if n, err = db.Traces.Forget(ctx, "p1", 1); err != nil || n != 2 {
			t.Errorf("%d turns are deleted: %v", n, err)
		}
		usage(one, store.RecordingUsage{})
		addRecordings(t, db, "p1", 1, one, 2)
		if n, err = db.Recordings.Remove(ctx, one.Number); err != nil || n != 2 {
			t.Errorf("%d are deleted: %v", n, err)
		}
		addRecordings(t, db, "p1", 2, two, 2)
		must(t, db.Devices.Remove(ctx, two.Number))
		if rows := storetest.Rows(t, o)["recordings"]; len(rows) != 0 {
			t.Errorf("the device left %q", rows)
		}
	})
}
