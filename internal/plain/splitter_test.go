package plain

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
)

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

func TestPause(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		" ":                         "",
		"Let me check.":             "Let me check.",
		"Let me check":              "Let me",
		"Let me check ":             "Let me check",
		"Let":                       "",
		"好的，我查":                     "好的，我查",
		"好的 O":                      "好的",
		"用O":                        "用",
		"It costs 3.":               "It costs",
		"It costs 3. ":              "It costs 3.",
		"1. ":                       "",
		"He said “wait":             "He said",
		"He said “wait”":            "He said “wait”",
		"Done. Cafe\u0301":          "Done.",
		"What is the weather? It i": "What is the weather? It",
	} {
		var s Splitter
		pieces := s.Write(text)
		got := strings.Join(append(pieces, s.Pause()), " ")
		if got = strings.TrimSpace(got); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if whole := solid(got + s.Flush()); whole != solid(text) {
			t.Errorf("%q: %q is left", text, whole)
		}
	}
}

func TestClauses(t *testing.T) {
	const text = "Well, I think that the weather, as they say, is not too bad today, is it?"
	for clauses, want := range map[bool][]string{
		false: {"Well, I think that the weather,", "as they say, is not too bad today, is it?"},
		true:  {"Well, I think that the weather,", "as they say, is not too bad today,", "is it?"},
	} {
		s := Splitter{Clauses: clauses}
		if got := append(s.Write(text), s.Flush()); !slices.Equal(got, want) {
			t.Errorf("clauses %v: %q", clauses, got)
		}
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
		for _, s := range sentences[1 : len(sentences)-1] {
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
