package plain

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write testdata/sentences.txt anew")

func sentencesOf(pieces ...string) (sentences []string) {
	var s Splitter
	for _, p := range pieces {
		sentences = append(sentences, s.Write(p)...)
	}
	if rest := s.Flush(); rest != "" {
		sentences = append(sentences, rest)
	}
	return sentences
}

// TestSentences splits the texts of testdata/sentences.txt: a text, "|" for a line break, and below
// it its sentences, indented. It gets them whole, by character and in random pieces.
func TestSentences(t *testing.T) {
	const file = "testdata/sentences.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var got bytes.Buffer
	cases := 0
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "\t") || line == "" {
			continue
		}
		cases++
		text := strings.ReplaceAll(line, "|", "\n")
		sentences := sentencesOf(text)
		got.WriteString(line + "\n")
		for _, s := range sentences {
			got.WriteString("\t" + strings.ReplaceAll(s, "\n", "|") + "\n")
		}
		checkPieces(t, random, text, sentences)
	}
	if cases < 90 {
		t.Errorf("%d cases", cases)
	}
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(got.Bytes(), b) {
		t.Errorf("the sentences are others; see git diff after -update")
	}
}

// checkPieces checks that the sentences are the same however the text arrives, and that only spaces
// are lost.
func checkPieces(t *testing.T, random *rand.Rand, text string, sentences []string) {
	t.Helper()
	if again := sentencesOf(strings.Split(text, "")...); !slices.Equal(again, sentences) {
		t.Errorf("by character %q, whole %q", again, sentences)
	}
	var pieces []string
	for rest := []rune(text); len(rest) > 0; {
		n := 1 + random.IntN(len(rest))
		pieces, rest = append(pieces, string(rest[:n])), rest[n:]
	}
	if again := sentencesOf(pieces...); !slices.Equal(again, sentences) {
		t.Errorf("in pieces %q, whole %q", again, sentences)
	}
	if got, want := solid(strings.Join(sentences, "")), solid(text); got != want {
		t.Errorf("%q has become %q", want, got)
	}
}

// solid is a text without spaces.
func solid(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// TestLongSentences checks that text without an end is cut, at spaces or commas if it has some.
func TestLongSentences(t *testing.T) {
	for text, most := range map[string]int{
		strings.Repeat("word ", 200):          240,
		strings.Repeat("x", 2000):             240,
		strings.Repeat("很", 1000):             300,
		strings.Repeat("很好，", 300):            300,
		strings.Repeat("e\u0301", 1000):       240,
		strings.Repeat("\u0301", 1000):        240,
		strings.Repeat("👩\u200d👧\u200d👦", 99): 360,
	} {
		sentences := sentencesOf(text)
		for _, s := range sentences[:len(sentences)-1] {
			if len(s) > most || len(s) < most/4 {
				t.Errorf("%d bytes: %q", len(s), s)
			}
			if strings.HasPrefix(text, "word") && !strings.HasSuffix(s, "word") ||
				strings.HasPrefix(text, "很好") && !strings.HasSuffix(s, "，") {
				t.Errorf("cut in the middle: %q", s)
			}
		}
		if solid(strings.Join(sentences, "")) != solid(text) {
			t.Errorf("%q…: something is lost", text[:20])
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add("Dr. Who said: “Stop. Now.” 然后他走了。3.14", uint64(1))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		text = strings.ToValidUTF8(text, "")
		checkPieces(t, rand.New(rand.NewPCG(seed, 0)), text, sentencesOf(text))
	})
}
