package note_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/plug/learn/note"
)

// TestKeepsAttributes reads a type with attributes that this package does not know.
func TestKeepsAttributes(t *testing.T) {
	const model = `{"id":"1699999999999","name":"Vokabeln","type":0,"css":".card {}","mod":1700000000,"usn":12,
		"sortf":1,"did":5,"latexPre":"a","latexPost":"b","latexsvg":true,"req":[[0,"any",[0]]],"originalStockKind":2,
		"flds":[{"name":"Front","ord":0,"font":"Arial","size":20,"rtl":true,"sticky":true,"media":[],"id":77,"tag":3}],
		"tmpls":[{"name":"Card 1","ord":0,"qfmt":"{{Front}}","afmt":"{{FrontSide}}","bqfmt":"","bafmt":"","did":9,"id":-4}],
		"vers":[],"tags":["x"]}`
	typ, err := note.Parse([]byte(model))
	if err != nil {
		t.Fatal(err)
	}
	if typ.ID != 1699999999999 || typ.Name != "Vokabeln" || !typ.Fields[0].RTL || typ.Templates[0].Front != "{{Front}}" {
		t.Errorf("read %+v", typ)
	}
	out, err := typ.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(model), &want); err != nil {
		t.Fatal(err)
	}
	want["id"] = float64(1699999999999) // a number that was written as a text
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"id":1,"flds":[{"name":"F"}],"tmpls":[{"qfmt":"{{F}}"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		typ, err := note.Parse(data)
		if err != nil {
			return
		}
		out, err := typ.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := note.Parse(out); err != nil {
			t.Errorf("its own JSON is not read: %v", err)
		}
	})
}

func TestMerge(t *testing.T) {
	parse := func(mod int64, fields ...string) *note.Type {
		t := &note.Type{ID: 1, Name: "T", Modified: mod, Templates: []note.Template{{Name: "A", Front: strconv.FormatInt(mod, 10)}}}
		for _, f := range fields {
			t.Fields = append(t.Fields, note.Field{Name: f})
		}
		return t
	}
	stored := parse(5, "a", "b")
	if m, _, _, changed := note.Merge(stored, parse(5, "a", "b")); m != stored || changed {
		t.Error("the same type changed something")
	}
	if m, fields, _, changed := note.Merge(stored, parse(6, "a", "b")); m.Templates[0].Front != "6" || fields != nil || !changed {
		t.Errorf("a newer version: %+v", m)
	}
	m, fields, templates, changed := note.Merge(stored, parse(4, "b", "c"))
	if len(m.Fields) != 3 || m.Fields[2].Name != "c" || m.Templates[0].Front != "5" || !changed ||
		!slices.Equal(fields, []int{1, 2}) || !slices.Equal(templates, []int{0}) {
		t.Errorf("an older version with another field: %+v, %v, %v", m, fields, templates)
	}
	if again, fields, _, changed := note.Merge(m, parse(4, "b", "c")); changed || again != m || !slices.Equal(fields, []int{1, 2}) {
		t.Errorf("the same again: %+v, %v", again, fields)
	}
}

func TestReferences(t *testing.T) {
	const field = `<img src="a%20b.png"> <img src=c.jpg> [sound:d e.mp3] <object data='f.svg'> <p style="background: url(&quot;g.png&quot;)">`
	if got := note.References(field); !slices.Equal(got, []string{"a b.png", "c.jpg", "d e.mp3", "f.svg", `"g.png"`}) {
		t.Errorf("%q", got)
	}
	names := map[string]string{"a b.png": "A.png", "d e.mp3": "D.mp3", "c.jpg": "C.jpg"}
	if got := note.Rename(field, names); !strings.Contains(got, `src="A.png"`) || !strings.Contains(got, "[sound:D.mp3]") ||
		!strings.Contains(got, "src=C.jpg>") || !strings.Contains(got, "'f.svg'") {
		t.Errorf("%q", got)
	}
}
