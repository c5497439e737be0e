package learn

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// hostileModel is a note type; %s is the front of its template, in JSON.
const hostileModel = `{"id": 1700000000000, "name": "Two", "type": 0, "mod": 1700000000, "css": "", "flds": [{"name": "Front"},
	{"name": "Back"}], "tmpls": [{"name": "A", "qfmt": "%s", "afmt": "{{Back}}"}]}`

// hostile writes a package of which parts are hostile.
type hostile struct {
	front string // template; empty: {{Front}}
	decks []apkg.Part
	cards []apkg.Card // nil: one good card
	media map[string]string
	files map[string]string // files of the archive that are added or replaced
	link  string            // name of a file that is a symbolic link
}

func (h hostile) build(t *testing.T, newest bool) string {
	t.Helper()
	front := h.front
	if front == "" {
		front = "{{Front}}"
	}
	model := fmt.Sprintf(hostileModel, front)
	var b bytes.Buffer
	w, err := apkg.NewWriter(&b, apkg.WriteOptions{Temp: t.TempDir(), Newest: newest, Whole: true, Base: apkg.Contents{
		Created: 1_600_000_000, Day: 18518, Types: []apkg.Part{{ID: 1700000000000, Name: "Two", JSON: []byte(model)}},
		Decks: h.decks}, Media: func(put func(string, io.Reader) error) error {
		for _, name := range slices.Sorted(maps.Keys(h.media)) {
			if err := put(name, strings.NewReader(h.media[name])); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	cards := h.cards
	if cards == nil {
		cards = []apkg.Card{builtCard(1, "good", "1")}
	}
	for _, c := range cards {
		c.NoteRow.Type, c.Day = 1700000000000, 18518
		if err := w.WriteNote(c.NoteRow); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteCard(c, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return h.repack(t, b.Bytes())
}

// repack replaces and adds files of an archive.
func (h hostile) repack(t *testing.T, file []byte) string {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	out := zip.NewWriter(&b)
	for _, f := range in.File {
		if _, replaced := h.files[f.Name]; !replaced {
			if err := out.Copy(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		head := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if name == h.link {
			head.SetMode(fs.ModeSymlink | 0o777)
		}
		to, err := out.CreateHeader(head)
		if err == nil {
			_, err = io.WriteString(to, h.files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// what somebody has of Learn.
func (r *rig) owned(person string) (points, decks, types, files int) {
	r.t.Helper()
	list, err := r.List(ctx, person, store.PointFilter{}, store.PointKey{}, 500)
	r.must(err)
	l, err := r.Learner(ctx, person)
	r.must(err)
	kinds, err := r.Store.Learn.NoteTypes(ctx, person)
	r.must(err)
	media, err := r.Store.Learn.MediaList(ctx, person, "", 500)
	r.must(err)
	return len(list), len(l.Decks), len(kinds), len(media)
}

const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

// Packages that are to do harm get a clear error, which leaves nothing behind, or a warning for
// what is wrong in them, and the rest is imported. No temporary file stays.
func TestHostilePackages(t *testing.T) {
	deep := strings.Repeat("{{#Front}}", 20_000) + "x" + strings.Repeat("{{/Front}}", 20_000)
	broad := strings.Repeat("{{Front}}", 100_000)
	deck := func(id int64, name, more string) apkg.Part {
		return apkg.Part{ID: id, Name: name, JSON: fmt.Appendf(nil, `{"id":%d,"name":%q,"mod":1,"usn":0,"conf":1%s}`, id, name, more)}
	}
	home := builtCard(1, "in a filtered deck", "1")
	home.Row.Deck, home.Row.HomeDeck = 1600000000009, 1600000000009
	absurd := builtCard(1, "absurd", "1")
	absurd.Row.Reps, absurd.Row.Lapses, absurd.Row.Interval, absurd.Row.Due = 1<<62, 1<<62, 1<<62, 1<<62
	absurd.Row.Data = strings.Repeat("[", 100_000)
	twin := builtCard(2, "twin", "2")
	twin.NoteRow.GUID = "g1"
	for name, c := range map[string]struct {
		file    hostile
		refused string // what the error says; empty: it is imported
		added   int
		warned  string // what a warning says
		files   int
	}{
		"a bomb of media": {file: hostile{media: map[string]string{"0.png": picture},
			files: map[string]string{"0": picture + strings.Repeat("\x00", apkg.MaxMediaFile+1)}}, added: 1, warned: "64 MiB"},
		"names with folders": {file: hostile{media: map[string]string{"../../a.png": picture, "/etc/b.png": picture,
			"..": picture, "c\x00.png": picture}}, added: 1, warned: "name", files: 3},
		"two media of one name": {file: hostile{media: map[string]string{"a.png": picture, "/a.png": picture}}, refused: "a.png"},
		"a path in the archive": {file: hostile{files: map[string]string{"../x": "x"}}, refused: "../x"},
		"a symbolic link": {file: hostile{files: map[string]string{"0": "/etc/passwd", "media": `{"0": "p.png"}`}, link: "0"},
			added: 1, warned: "p.png"},
		"a list of media that is none": {file: hostile{files: map[string]string{"media": `{"0": `}}, refused: "media"},
		"a list of huge names": {file: hostile{files: map[string]string{"media": `{"0": "` + strings.Repeat("x", 300) + `"}`,
			"0": picture}}, added: 1, warned: "name"},
		"a bomb of a list": {file: hostile{files: map[string]string{"media": strings.Repeat(" ", 33<<20)}}, refused: "media"},
		"a deep template":  {file: hostile{front: deep}, added: 1},
		"a broad template": {file: hostile{front: broad}, added: 1},
		"decks in a circle": {file: hostile{decks: []apkg.Part{deck(1600000000001, "A::B", ""), deck(1600000000002, "B::A", ""),
			deck(1600000000003, "A::B::A::B", ""), deck(1600000000009, "F", `,"dyn":1`)}, cards: []apkg.Card{home}}, added: 1},
		"a deep deck":    {file: hostile{decks: []apkg.Part{deck(1600000000001, strings.Repeat("x::", 5000)+"x", "")}}, added: 1},
		"absurd numbers": {file: hostile{cards: []apkg.Card{absurd}}, added: 1},
		"one id twice":   {file: hostile{cards: []apkg.Card{builtCard(1, "one", "1"), twin}}, added: 1, warned: "twice"},
		"a huge field": {file: hostile{cards: []apkg.Card{builtCard(1, strings.Repeat("x", 2<<20), "1"), builtCard(2, "small", "2")}},
			added: 1, warned: "1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			r := newRig(t, store.Options{Folder: t.TempDir()})
			file := c.file.build(t, false)
			begun := time.Now()
			done, err := r.Import(ctx, "ada", ImportFile{Name: "x.apkg", Reader: strings.NewReader(file), Size: int64(len(file))})
			t.Logf("%d bytes in %v: %+v, %v", len(file), time.Since(begun).Round(time.Millisecond), done, err)
			points, decks, types, files := r.owned("ada")
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("it says %v, want %q", err, c.refused)
				}
				if points+decks+types+files != 0 {
					t.Errorf("%d points, %d decks, %d note types and %d files are left", points, decks, types, files)
				}
			} else {
				r.must(err)
				if done.Added != c.added || points != c.added || files != c.files {
					t.Errorf("%d points and %d files, want %d and %d", points, files, c.added, c.files)
				}
				if told := fmt.Sprint(done.Warnings); c.warned == "" && len(done.Warnings) > 0 || !strings.Contains(told, c.warned) {
					t.Errorf("the warnings are %.500s, want %q", told, c.warned)
				}
				// What was taken goes out again.
				r.exportAs("ada", ExportOptions{Format: transfer.Anki, Newest: true})
			}
			left, err := os.ReadDir(temp)
			r.must(err)
			for _, f := range left {
				if strings.HasPrefix(f.Name(), "patchbay-") {
					t.Errorf("%s is left", f.Name())
				}
			}
		})
	}
}
