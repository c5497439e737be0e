package apkg

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// What is beyond the limits is left out, with a warning. Rows that cannot be kept do not count.
func TestOrphanLimits(t *testing.T) {
	note := func(i int64, guid string, kind int64) OrphanNote {
		row := NoteRow{ID: 1_690_000_000_000 + i, GUID: guid, Type: kind, Fields: []string{"12345", "6789"}}
		return OrphanNote{Row: row, Fields: row.Fields}
	}
	var base Contents
	base.Types = []Part{{ID: 7, Name: "T", JSON: []byte(`{"id":7,"name":"T","type":0,"mod":1,"flds":[{"name":"F"},{"name":"B"}],
		"tmpls":[{"name":"A","qfmt":"{{F}}","afmt":"{{B}}"}]}`)}}
	base.Orphans.Notes = []OrphanNote{note(0, "", 7), note(1, "a", 7), note(2, "b", 7), note(3, "c", 7)}
	for i := range int64(3) {
		base.Orphans.Log = append(base.Orphans.Log, LogRow{ID: i - 1, Card: 5, Ease: 3, Kind: 1},
			LogRow{ID: 1_650_000_000_000 + i, Card: 5, Ease: 3, Kind: 1})
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, WriteOptions{Temp: t.TempDir(), Whole: true, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limits      orphanLimits
		notes, rows int
		warned      string
	}{
		{orphanLimits{}, 3, 4, "[]"},
		{orphanLimits{rows: 4, notes: 3, bytes: 30}, 3, 4, "[]"},
		{orphanLimits{rows: 4, notes: 2, bytes: 99}, 2, 4, "[notes: " + msgManyOrphans.Errorf(2).Error() + "]"},
		{orphanLimits{rows: 4, notes: 3, bytes: 20}, 2, 4, "[notes: " + msgManyOrphans.Errorf(2).Error() + "]"},
		{orphanLimits{rows: 3, notes: 3, bytes: 99}, 3, 3, "[revlog: " + msgManyOrphans.Errorf(3).Error() + "]"},
	} {
		var got Orphans
		warned := []string{}
		o := Options{Temp: t.TempDir(), orphans: c.limits,
			OnError:  func(e CardError) { warned = append(warned, fmt.Sprintf("%s: %v", e.What, e.Why)) },
			Contents: func(c *Contents) error { got = c.Orphans; return nil }}
		err := Read(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len()), o, func(Card) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Notes) != c.notes || len(got.Log) != c.rows || fmt.Sprint(warned) != c.warned {
			t.Errorf("%+v: %d notes and %d rows with %v, want %d, %d and %s", c.limits, len(got.Notes), len(got.Log), warned,
				c.notes, c.rows, c.warned)
		}
	}
}

// Orphans of two collections are merged by GUID and id, up to the limits, the newer ones first.
func TestMergeOrphans(t *testing.T) {
	note := func(i int64, guid, text string) OrphanNote {
		return OrphanNote{Row: NoteRow{ID: i, GUID: guid}, Fields: []string{text}}
	}
	earlier := Orphans{Notes: []OrphanNote{note(1, "a", "old"), note(1, "b", "b"), note(4, "d", "d")},
		Log: []LogRow{{ID: 1, Card: 1}, {ID: 3, Card: 1}, {ID: 4, Card: 1}}}
	for _, c := range []struct {
		limits orphanLimits
		want   string
	}{
		{usualOrphans, "new b c d 1:9 2:9 3:1 4:1"},
		{orphanLimits{rows: 3, notes: 3, bytes: 99}, "new b c 1:9 2:9 3:1"},
		{orphanLimits{rows: 2, notes: 9, bytes: 4}, "new c 1:9 2:9"},
	} {
		o := Orphans{Notes: []OrphanNote{note(1, "a", "new"), note(2, "c", "c")}, Log: []LogRow{{ID: 1, Card: 9}, {ID: 2, Card: 9}}}
		o.merge(&earlier, c.limits)
		var got []string
		for _, n := range o.Notes {
			got = append(got, n.Fields[0])
		}
		for _, r := range o.Log {
			got = append(got, fmt.Sprintf("%d:%d", r.ID, r.Card))
		}
		if !reflect.DeepEqual(got, strings.Fields(c.want)) {
			t.Errorf("%+v: %v, want %s", c.limits, got, c.want)
		}
	}
}
