package spoken

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"patchbay/internal/i18n"
	_ "patchbay/internal/i18n/translations"
)

var update = flag.Bool("update", false, "write testdata anew")

// piecesOf returns the pieces of a text that comes in parts.
func piecesOf(parts ...string) (pieces []string) {
	t := New(i18n.English, false)
	for _, p := range parts {
		pieces = append(pieces, t.Write(p)...)
	}
	return append(pieces, t.Flush()...)
}

// randomParts divides a text.
func randomParts(random *rand.Rand, text string) (parts []string) {
	for len(text) > 0 {
		n := min(1+random.IntN(1+random.IntN(30)), len(text))
		parts, text = append(parts, text[:n]), text[n:]
	}
	return parts
}

// checkParts checks that the pieces are the same however the text comes, and that nothing was added
// to it or changed, but what replaces code.
func checkParts(t *testing.T, random *rand.Rand, text string, pieces []string) {
	t.Helper()
	for name, parts := range map[string][]string{
		"by character": strings.Split(text, ""), "in parts": randomParts(random, text), "in other parts": randomParts(random, text),
	} {
		if again := piecesOf(parts...); !slices.Equal(again, pieces) {
			t.Errorf("%q\n%s %q\nwhole %q", text, name, again, pieces)
		}
	}
	rest := []rune(text)
	for _, r := range strings.ReplaceAll(strings.Join(pieces, ""), "The code is on the page of this conversation.", "") {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		at := slices.Index(rest, r)
		if at < 0 {
			t.Errorf("%q has become %q", text, pieces)
			return
		}
		rest = rest[at+1:]
	}
}

// TestPieces reads texts and their pieces.
func TestPieces(t *testing.T) {
	const file = "testdata/pieces.json"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text   string   `json:"text"`
		Pieces []string `json:"pieces"`
	}
	if err := json.Unmarshal(before, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 250 {
		t.Errorf("%d cases", len(cases))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range cases {
		c := &cases[i]
		pieces := piecesOf(c.Text)
		checkParts(t, random, c.Text, pieces)
		if !slices.Equal(pieces, c.Pieces) && !*update {
			t.Errorf("%q\n got %q\nwant %q", c.Text, pieces, c.Pieces)
		}
		c.Pieces = pieces
	}
	if *update {
		var b bytes.Buffer
		out := json.NewEncoder(&b)
		out.SetEscapeHTML(false)
		out.SetIndent("", " ")
		if err := out.Encode(cases); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzPieces(f *testing.F) {
	f.Add("Dr. Who said: “Stop. Now.” <think>no</think> | a | 然后，他走了https://www.a.b/c。3.14\n```\nx\n```", uint64(1))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		text = strings.ToValidUTF8(text, "")
		if strings.Contains(text, "&") {
			return // names of characters become these
		}
		checkParts(t, rand.New(rand.NewPCG(seed, 0)), text, piecesOf(text))
	})
}
