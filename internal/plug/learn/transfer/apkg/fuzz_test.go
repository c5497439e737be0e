package apkg

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	notecard "patchbay/internal/plug/learn/card"
)

func FuzzText(f *testing.F) {
	for _, s := range []string{"a<br>b &amp; <b>c</b>", "<ul><li>a<ol><li>b", "<img src='x'>[sound:y]",
		"<pre> a\n</pre><style>x", "<p><p></b>\xff\x00&#0;", "<table><td>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("%q became %q", s, got)
		}
		if len(got) > 20*len(s)+20 {
			t.Errorf("%d bytes became %d", len(s), len(got))
		}
		if again := Text(fieldHTML(got)); utf8.ValidString(s) && again != Text(fieldHTML(again)) {
			t.Errorf("%q changes each time it goes to Anki and back: %q", got, again)
		}
	})
}

func FuzzCard(f *testing.F) {
	f.Add("{{#Front}}{{cloze:Front}}{{/Front}}", "{{FrontSide}}<hr id=answer>{{type:Back}}{{furigana:Front}}",
		"{{c1::a {{c2::b::h}}}}\x1f 漢[か]", 0, true)
	f.Add("{{Front}}", "{{Back}}", "q\x1fa", 0, false)
	f.Fuzz(func(t *testing.T, question, answer, fields string, order int, cloze bool) {
		kind := &noteType{fields: []string{"Front", "Back", "Extra"}, cloze: cloze,
			templates: []template{{notecard.Parse(question), notecard.Parse(answer)}}}
		q, a, err := kind.card(strings.Split(fields, "\x1f"), order, map[string]string{"Tags": "x"}, new(int64))
		if err == nil && (len(q) > 40*maxField || len(a) > 40*maxField) {
			t.Errorf("%d and %d bytes", len(q), len(a))
		}
	})
}

func FuzzPackage(f *testing.F) {
	peers, err := os.ReadFile("testdata/anki-apkg-export.apkg")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(peers)
	f.Add(old(f, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 1, 0, 2, 2, 5, 5, `{"s":1,"d":2}`),
		review(1600000000000, 10, 3, 1)))
	f.Add(modern(f, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 1, 0, 2, 2, 5, 5, "")))
	f.Add([]byte("PK\x05\x06"))
	temp := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Read(t.Context(), bytes.NewReader(b), int64(len(b)), Options{MaxCards: 1000, Temp: temp},
			func(Card) error { return nil })
		var many *TooManyError
		if err != nil && !errors.Is(err, ErrBroken) && !errors.As(err, &many) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzDatabase damages the database; FuzzPackage mostly damages the archive.
func FuzzDatabase(f *testing.F) {
	for _, b := range [][]byte{
		old(f, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 1, 0, 2, 2, 5, 5, `{"s":1,"d":2}`),
			review(1600000000000, 10, 3, 1)),
		modern(f, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 1, 0, 2, 2, 5, 5, "")),
	} {
		_, path, err := unpack(f.Context(), bytes.NewReader(b), int64(len(b)), f.TempDir())
		if err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	temp := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path, err := copyOut(t.Context(), bytes.NewReader(b), "fuzz", temp, maxDatabase)
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		c, err := openCollection(t.Context(), path, Options{})
		if c != nil {
			defer c.close()
		}
		if err == nil {
			err = c.cards(t.Context(), Options{MaxCards: 1000}, func(Card) error { return nil })
		}
		var many *TooManyError
		if err != nil && !errors.Is(err, ErrBroken) && !errors.As(err, &many) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzMediaNames reads lists of media of both generations.
func FuzzMediaNames(f *testing.F) {
	f.Add([]byte(`{"0": "a.png", "x": "b", "-1": "c", "99999999999999999999": "d"}`), false)
	f.Add(field(1, string(append(field(1, "a.png"), field(255, 7)...))), true)
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0f"), true)
	f.Fuzz(func(t *testing.T, list []byte, compressed bool) {
		names, err := (&archive{compressed: compressed}).mediaNames(list)
		if err != nil && !errors.Is(err, ErrBroken) {
			t.Errorf("%v", err)
		}
		for at, name := range names {
			clean := CleanMediaName(name)
			if at < 0 || len(names) > maxMedia+1 || strings.ContainsAny(clean, "/\\:\x00") || clean != "" &&
				strings.Trim(clean, ". ") == "" {
				t.Errorf("%d is %q", at, name)
			}
		}
	})
}

// FuzzRecords reads parts of the newest generation, and writes them again: what was read stays.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("\x0a\x04\x00\x00\x80\x3f"), append(field(1, 1), field(4, "about")...))
	f.Add(append(field(9, 7), field(37, 1)...), []byte("\x0a\xff"))
	f.Fuzz(func(t *testing.T, options, deck []byte) {
		r := record{}
		if fromProto(r, options, optionAttrs) == nil {
			if err := fromProto(record{}, toProto(r, optionAttrs, rowColumns...), optionAttrs); err != nil {
				t.Errorf("%x cannot be read again: %v", options, err)
			}
		}
		if r, err := deckRecord(options, deck); err == nil {
			common, kind := deckProto(r)
			if _, err := deckRecord(common, kind); err != nil {
				t.Errorf("%x %x cannot be read again: %v", options, deck, err)
			}
		}
	})
}
