package hub

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode"
)

// The ranking of [View.Find] is Okapi BM25, with its usual parameters.
const (
	rankSaturation, rankLength = 1.2, 0.75
	// A word counts by where it is: as often as this for each occurrence.
	nameWeight, titleWeight, descriptionWeight, argumentWeight = 4, 2, 1, 0.5
	// minPrefix is the minimum length of a word that also counts, by prefixShare, if it begins
	// another one: "remind" in "reminder".
	minPrefix, prefixShare = 4, 0.5
)

// toolIndex is a full-text index of tools.
type toolIndex struct {
	tools   []map[string]float64 // the weights of the words of each tool
	lengths []float64
	length  float64        // on average
	spread  map[string]int // number of tools with a word
	words   []string       // all, sorted
}

// Find returns the tools that fit a description of what is wanted best, at most so many. Tools that
// have nothing in common with it are left out.
func (v *View) Find(wanted string, most int) []*RegisteredTool {
	v.indexed.Do(func() { v.index = newToolIndex(v.Tools) })
	scores := v.index.scores(wanted)
	var found []int
	for i, score := range scores {
		if score > 0 {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	out := make([]*RegisteredTool, min(most, len(found)))
	for i := range out {
		out[i] = v.Tools[found[i]]
	}
	return out
}

func newToolIndex(tools []*RegisteredTool) *toolIndex {
	x := &toolIndex{spread: map[string]int{}}
	for _, t := range tools {
		words, length := map[string]float64{}, 0.0
		add := func(text string, weight float64) {
			for _, w := range searchWords(text) {
				words[w] += weight
				length += weight
			}
		}
		add(t.Name, nameWeight)
		add(t.Title, titleWeight)
		add(t.Description, descriptionWeight)
		var schema struct {
			Properties map[string]struct {
				Description string `json:"description"`
			} `json:"properties"`
		}
		if json.Unmarshal(t.Input, &schema) == nil { // else it has other properties
			for name, p := range schema.Properties {
				add(name+" "+p.Description, argumentWeight)
			}
		}
		for w := range words {
			if x.spread[w]++; x.spread[w] == 1 {
				x.words = append(x.words, w)
			}
		}
		x.tools, x.lengths = append(x.tools, words), append(x.lengths, length)
		x.length += length / float64(len(tools))
	}
	slices.Sort(x.words)
	return x
}

// scores ranks all tools.
func (x *toolIndex) scores(wanted string) []float64 {
	scores := make([]float64, len(x.tools))
	words := searchWords(wanted)
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		x.addScores(scores, w, 1)
		if len(w) < minPrefix {
			continue
		}
		at, _ := slices.BinarySearch(x.words, w)
		for ; at < len(x.words) && strings.HasPrefix(x.words[at], w); at++ {
			if x.words[at] != w {
				x.addScores(scores, x.words[at], prefixShare)
			}
		}
	}
	return scores
}

func (x *toolIndex) addScores(scores []float64, word string, share float64) {
	n := float64(x.spread[word])
	rarity := math.Log(1 + (float64(len(x.tools))-n+0.5)/(n+0.5))
	for i, words := range x.tools {
		if weight := words[word]; weight > 0 {
			scores[i] += share * rarity * weight * (rankSaturation + 1) /
				(weight + rankSaturation*(1-rankLength+rankLength*x.lengths[i]/x.length))
		}
	}
}

// fillerWords say nothing about a tool.
var fillerWords = []string{"a", "all", "an", "and", "at", "by", "can", "for", "from", "get", "i", "in", "is", "it", "me",
	"my", "of", "on", "or", "please", "some", "that", "the", "this", "to", "use", "want", "what", "with", "you"}

// searchWords splits a text into words in lower case, without a plural's s. Names are split at
// capital letters, and Chinese, Japanese and Korean text into pairs of characters.
func searchWords(text string) (words []string) {
	var word []rune
	end := func() {
		w := string(word)
		if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
			w = w[:len(w)-1]
		}
		if w != "" && !slices.Contains(fillerWords, w) {
			words = append(words, w)
		}
		word = word[:0]
	}
	var before rune
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			end()
			if unicode.In(before, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
				words = append(words, string([]rune{before, r}))
			}
		case unicode.IsLetter(r), unicode.IsDigit(r):
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				end()
			}
			word = append(word, unicode.ToLower(r))
		default:
			end()
		}
		before = r
	}
	end()
	return words
}
