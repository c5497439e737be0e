package learn

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"patchbay/internal/store"
)

const (
	// maxWords limits the distinct words by which a point is found; the rest of a very long answer
	// is not indexed.
	maxWords = 4000
	// maxWordBytes is the longest word that is indexed whole.
	maxWordBytes = 40
	// maxTerms is how many words of a query are searched.
	maxTerms = 8
	// maxPointsPerTerm is how many points one word of a query returns.
	maxPointsPerTerm = 60
	// maxCombined is how many frequent words are searched together.
	maxCombined = 2
	// maxRanked is how many of the points found are read and ranked, each by its first rankedBytes.
	maxRanked   = 40
	rankedBytes = 1000
	// maxDecomposed limits a text whose characters are decomposed, in bytes, because one character
	// may become maxGrowth times as long. Ordinary text does not reach it.
	maxDecomposed = 2 * MaxText
	maxGrowth     = 11
)

// IndexWords returns the search words of a text as ASCII letters and digits: whole words in
// languages with spaces, pairs of adjacent characters in languages without.
func IndexWords(question, answer string, tags ...string) []string {
	size := min((len(question)+len(answer))/4, maxWords)
	seen, out := make(map[string]bool, size), make([]string, 0, size)
	add := func(word string) {
		if !seen[word] && len(out) < maxWords {
			seen[word] = true
			out = append(out, word)
		}
	}
	for _, text := range append([]string{question, answer}, tags...) {
		splitRuns(text, func(run []rune, dense bool) {
			if !dense {
				add(encodeWord(run))
				add(encodeWord([]rune(stem(string(run)))))
				return
			}
			for i := range run {
				// The last character of a run is indexed alone, so that every character can be
				// found by itself as the prefix of a word.
				add(hexWord(run[i:min(i+2, len(run))]))
			}
		})
	}
	return out
}

// isUnspaced reports whether a character belongs to a script without spaces between words.
func isUnspaced(r rune) bool {
	switch {
	case r < 0x0E00: // before Thai, the first of these scripts
		return false
	case 0x4E00 <= r && r <= 0x9FFF: // CJK Unified Ideographs, by far the most frequent ones
		return true
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// splitRuns passes each run of letters and digits in a text to a function, in lower case, without
// accents, one script per run.
func splitRuns(text string, each func(run []rune, dense bool)) {
	var run []rune
	var of bool
	end := func() {
		if len(run) > 0 {
			each(run, of)
		}
		run = run[:0]
	}
	for _, r := range decompose(text) {
		d := isUnspaced(r)
		if r >= 0x80 && !d && unicode.Is(unicode.Mn, r) {
			continue // an accent
		}
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
			end()
			continue
		}
		if d != of {
			end()
			of = d
		}
		run = append(run, unicode.ToLower(r))
	}
	end()
}

// truncateToDecompose returns the start of a text whose decomposition fits in maxDecomposed bytes.
func truncateToDecompose(text string) string {
	if len(text) <= maxDecomposed/maxGrowth {
		return text
	}
	for i, left := 0, maxDecomposed; i < len(text); {
		p := norm.NFKD.PropertiesString(text[i:])
		size := max(p.Size(), 1)
		if left -= max(size, len(p.Decomposition())); left < 0 {
			return text[:i]
		}
		i += size
	}
	return text
}

// decompose returns the start of a text with its characters decomposed (NFKD): ligatures into
// letters, accented letters into letter and accent.
func decompose(text string) string { return norm.NFKD.String(truncateToDecompose(text)) }

// encodeWord returns an ASCII word unchanged, and any other word encoded.
func encodeWord(run []rune) string {
	for _, r := range run {
		if r >= 0x80 {
			return hexWord(run)
		}
	}
	return "w" + string(run[:min(len(run), maxWordBytes)])
}

// hexWord encodes characters as hexadecimal digits.
func hexWord(run []rune) string {
	text := string(run)
	if len(text) > maxWordBytes {
		text = text[:maxWordBytes]
	}
	var digits [1 + 2*maxWordBytes]byte
	digits[0] = 'x'
	return string(digits[:1+hex.Encode(digits[1:], []byte(text))])
}

// SearchFilter restricts a search.
type SearchFilter struct {
	Deck  *string // ID
	Tag   string
	Limit int
	// ByWords leaves out points with a similar meaning: the service for vectors is not asked.
	ByWords bool
}

// Search finds points by their text, best first: points with the words of the query and, if there
// are vectors, points with a similar meaning.
func (s *Service) Search(ctx context.Context, person, query string, f SearchFilter) ([]Entry, error) {
	byWords, err := s.searchWords(ctx, person, query)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	var byMeaning []ranked
	if !f.ByWords {
		if byMeaning, err = s.searchMeaning(ctx, person, query); err != nil {
			s.Logger.WarnContext(ctx, "a search went by words alone", "error", err)
		}
	}
	order := fuse(byWords, byMeaning)
	if len(order) > maxRanked {
		order = order[:maxRanked]
	}
	numbers := make([]int64, len(order))
	score := make(map[int64]float64, len(order))
	for i, r := range order {
		numbers[i], score[r.number] = r.number, r.score
	}
	points, err := s.Store.Learn.PointsByNumber(ctx, person, numbers)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	points = slices.DeleteFunc(points, func(p store.Point) bool {
		return f.Deck != nil && p.Deck != *f.Deck || f.Tag != "" && !slices.Contains(p.Tags, f.Tag)
	})
	if len(byMeaning) == 0 {
		rank(points, query, score)
	}
	slices.SortStableFunc(points, func(a, b store.Point) int {
		return cmp.Or(cmp.Compare(score[b.Number], score[a.Number]), cmp.Compare(b.Number, a.Number))
	})
	if f.Limit > 0 && len(points) > f.Limit {
		points = points[:f.Limit]
	}
	return s.entries(ctx, points)
}

type ranked struct {
	number int64
	score  float64
}

// searchWords returns points with words of the query, best first. A word weighs more the fewer
// points have it. Very frequent words are used only if nothing else finds a point, and then in
// combination. Function words are searched only if the others find too few points to rank.
func (s *Service) searchWords(ctx context.Context, person, query string) ([]ranked, error) {
	q := parseQuery(query)
	words := sampleWords(q.content(), maxTerms)
	rest := sampleWords(q.Rest, maxTerms-len(words))
	rare, common := map[int64]float64{}, map[int64]float64{}
	var many []string
	for i, word := range append(words, rest...) {
		if i >= len(words) && len(rare)+len(common) >= maxRanked {
			break
		}
		found, word, err := s.pointsWithWord(ctx, person, word)
		if err != nil {
			return nil, err
		}
		score := rare
		if len(found) == maxPointsPerTerm {
			many, score = append(many, word), common
		}
		for _, n := range found {
			score[n] += 1 / math.Sqrt(float64(len(found)))
		}
	}
	if len(rare) > 0 {
		for n := range rare {
			rare[n] += common[n]
		}
		return sortRanked(rare), nil
	}
	if len(many) > 1 {
		found, err := s.Store.Learn.Search(ctx, person, sampleWords(many, maxCombined), maxPointsPerTerm)
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			common[n]++
		}
	}
	return sortRanked(common), nil
}

// pointsWithWord returns the newest points with a word, and the word that found them. Longer words
// with that prefix take more time to find, so they are searched only if too few points have the
// word itself.
func (s *Service) pointsWithWord(ctx context.Context, person, word string) ([]int64, string, error) {
	if head, star := strings.CutSuffix(word, "*"); star {
		found, err := s.Store.Learn.Search(ctx, person, []string{head}, maxPointsPerTerm)
		if err != nil || len(found) == maxPointsPerTerm {
			return found, head, err
		}
	}
	found, err := s.Store.Learn.Search(ctx, person, []string{word}, maxPointsPerTerm)
	return found, word, err
}

// sampleWords returns at most the given number of words, spread evenly over all of them.
func sampleWords(words []string, most int) []string {
	if len(words) <= most {
		return words
	}
	out := make([]string, most)
	for i := range out {
		out[i] = words[i*len(words)/most]
	}
	return out
}

func sortRanked(score map[int64]float64) []ranked {
	out := make([]ranked, 0, len(score))
	for n, s := range score {
		out = append(out, ranked{n, s})
	}
	slices.SortFunc(out, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score),
			cmp.Compare(b.number, a.number))
	})
	return out
}

// rank raises points with more of the words, and points that contain the query literally, most of
// all in the question.
func rank(points []store.Point, query string, score map[int64]float64) {
	want := strings.ToLower(strings.Join(strings.Fields(query), " "))
	looked := parseQuery(query)
	for i := range points {
		p := &points[i]
		begins, answer := p.Question[:min(len(p.Question), rankedBytes)], p.Answer[:min(len(p.Answer), rankedBytes)]
		score[p.Number] += 10 * looked.similarity(IndexWords(begins, answer, p.Tags...))
		switch question := strings.ToLower(p.Question); {
		case question == want:
			score[p.Number] += 40
		case strings.Contains(question, want):
			score[p.Number] += 20
		case strings.Contains(strings.ToLower(answer), want):
			score[p.Number] += 5
		}
	}
}

// fuse merges rankings by reciprocal rank fusion: a place near the top of several rankings beats
// the first place in one.
func fuse(orders ...[]ranked) []ranked {
	full := slices.DeleteFunc(slices.Clone(orders), func(o []ranked) bool { return len(o) == 0 })
	switch len(full) {
	case 0:
		return nil
	case 1:
		return full[0]
	}
	const k = 60 // damping constant of the published method (Cormack, Clarke and Büttcher, SIGIR 2009)
	score := map[int64]float64{}
	for _, order := range full {
		for i, r := range order {
			score[r.number] += 1 / float64(k+i+1)
		}
	}
	return sortRanked(score)
}
