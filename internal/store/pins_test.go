package store_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

const gone = "removed"

// pinRig records lists of one upstream.
type pinRig struct {
	t  *testing.T
	db *store.DB
	at time.Time
	up store.Upstream
}

// record records a list of names and their fingerprints, 20 s after the last one.
func (r *pinRig) record(complete bool, list ...string) (marks map[string]store.PinMark, news []string) {
	r.t.Helper()
	r.at = r.at.Add(20 * time.Second)
	in := store.PinRecord{Upstream: r.up.Number, Removed: gone, At: r.at,
		Risk: func(before, after []byte) string {
			if bytes.Contains(after, []byte("bad")) {
				return "held"
			}
			return "flagged"
		}}
	if !complete {
		in.Partial = []string{"tool"}
	}
	for i := 0; i < len(list); i += 2 {
		in.Forms = append(in.Forms, store.PinForm{PinKey: store.PinKey{Kind: "tool", Name: list[i]},
			Fingerprint: list[i+1], Content: []byte("content " + list[i+1])})
	}
	rows, keys, err := r.db.Pins.Record(ctx, in)
	must(r.t, err)
	marks = map[string]store.PinMark{}
	for _, m := range rows {
		marks[m.Name] = m
	}
	for _, k := range keys {
		news = append(news, k.Name)
	}
	return marks, news
}

func (r *pinRig) approve(name, fingerprint string) error {
	return r.db.Pins.Approve(ctx, r.up.Number, []store.PinForm{{PinKey: store.PinKey{Kind: "tool", Name: name},
		Fingerprint: fingerprint}}, gone, r.at)
}

// Changes wait for approval, and are told once.
func TestPins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		up, err := db.Upstreams.Add(ctx, store.Upstream{Owner: "p1", Slug: "up", Kind: "mcp", Settings: []byte(`{}`),
			Created: now})
		must(t, err)
		r := &pinRig{t, db, now, up}
		if m, news := r.record(true, "a", "a1", "b", "b1"); m["a"].Fingerprint != "a1" || m["a"].Pending != "" ||
			len(m) != 2 || news != nil {
			t.Errorf("first list: %+v %v", m, news)
		}
		m, news := r.record(true, "a", "bad-a2", "c", "c1")
		if m["a"].Fingerprint != "a1" || m["a"].Pending != "bad-a2" || m["a"].Risk != "held" ||
			m["b"].Pending != gone || m["b"].Risk != "flagged" || m["c"].Fingerprint != "" || m["c"].Pending != "c1" ||
			len(news) != 3 {
			t.Errorf("changed: %+v %v", m, news)
		}
		for range 2 { // also seen by another instance, or again
			if _, news := r.record(true, "a", "bad-a2", "c", "c1"); news != nil {
				t.Errorf("told twice: %v", news)
			}
		}
		if err := r.approve("a", "a3"); !errors.Is(err, store.ErrPinChanged) {
			t.Errorf("another form was approved: %v", err)
		}
		before, err := db.Upstreams.ByNumber(ctx, up.Number)
		must(t, err)
		must(t, r.approve("a", "bad-a2"))
		must(t, r.approve("b", gone))
		after, err := db.Upstreams.ByNumber(ctx, up.Number)
		must(t, err)
		if after.Pins != before.Pins+2 || after.Version != before.Version {
			t.Errorf("%+v, before %+v", after, before)
		}
		if m, _ := r.record(true, "a", "bad-a2"); m["a"].Fingerprint != "bad-a2" || m["a"].Pending != "" || len(m) != 1 {
			t.Errorf("approved: %+v", m) // and the new one that went away is forgotten
		}
		if m, news := r.record(false); m["a"].Pending != "" || news != nil {
			t.Errorf("an incomplete list removes nothing: %+v", m)
		}
		r.record(true, "z", "z1")
		if m, _ := r.record(true, "a", "bad-a2"); m["a"].Pending != "" {
			t.Errorf("it is back: %+v", m)
		}
		if _, news := r.record(true, "z", "z1"); len(news) != 1 || news[0] != "z" {
			t.Errorf("that it comes and goes is told once: %v", news)
		}
		rows, err := db.Pins.List(ctx, up.Number)
		must(t, err)
		if string(rows[0].Content) != "content bad-a2" || string(rows[1].PendingContent) != "content z1" ||
			rows[1].Noticed.IsZero() {
			t.Errorf("%+v", rows)
		}
		// A server that keeps changing causes few events, and nothing is forgotten.
		r.at = r.at.Add(-15 * time.Second)
		if m, news := r.record(true, "y", "y1"); news != nil || m["y"].IsTold() {
			t.Errorf("told too soon: %v", news)
		}
		if _, news := r.record(true, "y", "y1"); len(news) != 1 {
			t.Errorf("not told later: %v", news)
		}
	})
}

// Of kinds that are open, what is new or missing is no change, what has changed is, and the rows
// are limited. The first list of a kind that was not pinned before is approved.
func TestPinKinds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		up, err := db.Upstreams.Add(ctx, store.Upstream{Owner: "p1", Slug: "up", Kind: "mcp", Settings: []byte(`{}`),
			Created: now})
		must(t, err)
		at := now
		record := func(partial []string, list ...string) string {
			t.Helper()
			at = at.Add(20 * time.Second)
			in := store.PinRecord{Upstream: up.Number, Removed: gone, At: at, Partial: partial,
				Risk: func(_, _ []byte) string { return "held" },
				Kinds: map[string]store.PinKind{"file": {Open: true, Most: 3}, "mark": {Open: true, Most: 1},
					"form": {First: store.PinKey{Kind: "mark", Name: "m"}}}}
			for _, x := range list {
				part := strings.Split(x, " ")
				in.Forms = append(in.Forms, store.PinForm{PinKey: store.PinKey{Kind: part[0], Name: part[1]},
					Fingerprint: part[2], Content: []byte("{}")})
			}
			marks, _, err := db.Pins.Record(ctx, in)
			must(t, err)
			var out []string
			for _, m := range marks {
				if m.Kind == "file" || m.Kind == "form" {
					out = append(out, m.Name+":"+m.Fingerprint+":"+m.Pending)
				}
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		for _, c := range []struct {
			partial, list []string
			want          string
		}{
			{nil, []string{"tool t 1"}, ""},
			{nil, []string{"tool t 1", "form a 1"}, "a:1:"}, // not pinned before
			{nil, []string{"tool t 1", "mark m 1", "form a 1", "form b 1", "file f 1"}, "a:1: b:1: f:1:"},
			{nil, []string{"tool t 1", "mark m 1", "form b 1", "form c 1", "file g 1"},
				"a:1:" + gone + " b:1: c::1 f:1: g:1:"},
			{[]string{"form", "tool"}, []string{"mark m 1", "form a 1", "file f 2"}, "a:1: b:1: c::1 f:1:2 g:1:"},
			{[]string{"form", "tool"}, []string{"file h 1", "file i 1"}, "a:1: b:1: c::1 f:1:2 h:1: i:1:"},
			{[]string{"form", "tool", "file"}, []string{"file j 1", "file f 1"}, "a:1: b:1: c::1 f:1: h:1: i:1:"},
		} {
			if got := record(c.partial, c.list...); got != c.want {
				t.Errorf("%v: %s, want %s", c.list, got, c.want)
			}
		}
	})
}
