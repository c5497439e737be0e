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
	"unicode/utf8"

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
	var x wordIndex
	x.index(question, answer, tags...)
	return x.words
}

// index replaces the words by those of a text. It uses the same memory again.
func (x *wordIndex) index(question, answer string, tags ...string) {
	if x.has == nil {
		size := min((len(question)+len(answer))/4, maxWords)
		x.has, x.words = make(map[string]bool, size), make([]string, 0, size)
	}
	clear(x.has)
	x.words = x.words[:0]
	x.split(question)
	x.split(answer)
	for _, tag := range tags {
		x.split(tag)
	}
}

// split adds the words of a text.
func (x *wordIndex) split(text string) {
	splitRuns(text, func(run []rune, dense bool) {
		if !dense {
			x.add(appendWord(x.word[:0], run))
			x.add(appendWord(x.word[:0], []rune(stem(string(run)))))
			return
		}
		for i := range run {
			// The last character of a run is indexed alone, so that every character can be found by
			// itself as the prefix of a word.
			x.add(appendHexWord(x.word[:0], run[i:min(i+2, len(run))]))
		}
	})
}

func (x *wordIndex) add(word []byte) {
	x.word = word
	if !x.has[string(word)] && len(x.words) < maxWords && (x.of == nil || x.of.has(word)) {
		text := string(word)
		x.has[text] = true
		x.words = append(x.words, text)
	}
}

// isIdeograph reports whether a character is one of the CJK Unified Ideographs but the rare ones.
func isIdeograph(r rune) bool { return 0x4E00 <= r && r <= 0x9FFF }

// isOrdinary reports whether a character is one of the most frequent ones. They stay as they are
// when a text is decomposed, and begin a new part of it.
func isOrdinary(r rune) bool { return r < utf8.RuneSelf || isIdeograph(r) }

// isUnspaced reports whether a character belongs to a script without spaces between words.
func isUnspaced(r rune) bool {
	switch {
	case r < 0x0E00: // before Thai, the first of these scripts
		return false
	case isIdeograph(r):
		return true
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// splitRuns passes each run of letters and digits in a text to a function, in lower case, without
// accents, one script per run.
func splitRuns(text string, each func(run []rune, dense bool)) {
	run := make([]rune, 0, 64)
	var of bool
	var decomposed []byte
	end := func() {
		if len(run) > 0 {
			each(run, of)
		}
		run = run[:0]
	}
	add := func(r rune, unspaced bool) {
		if unspaced != of {
			end()
			of = unspaced
		}
		run = append(run, r)
	}
	text = truncateToDecompose(text)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			add(r, false)
		case 'A' <= r && r <= 'Z':
			add(r+'a'-'A', false)
		case isIdeograph(r):
			add(r, true)
		case r < utf8.RuneSelf:
			end()
		default:
			if size = strings.IndexFunc(text[i:], isOrdinary); size < 0 {
				size = len(text) - i
			}
			decomposed = appendDecomposed(decomposed[:0], text[i:i+size])
			for rest := decomposed; len(rest) > 0; {
				r, n := utf8.DecodeRune(rest)
				rest = rest[n:]
				switch unspaced := isUnspaced(r); {
				case !unspaced && r >= utf8.RuneSelf && unicode.Is(unicode.Mn, r): // an accent
				case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
					add(unicode.ToLower(r), unspaced)
				default:
					end()
				}
			}
		}
		i += size
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

// appendDecomposed appends a text with its characters decomposed (NFKD) to an empty slice. It
// allocates nothing for characters without accents, such as the punctuation of Chinese, of which a
// search reads hundreds.
func appendDecomposed(to []byte, text string) []byte {
	for i := 0; i < len(text); {
		p := norm.NFKD.PropertiesString(text[i:])
		r, size := utf8.DecodeRuneInString(text[i:])
		switch d := p.Decomposition(); {
		case p.CCC() > 0, p.TrailCCC() > 0, r == utf8.RuneError, unicode.Is(unicode.Hangul, r):
			return norm.NFKD.AppendString(to[:0], text) // accents may change their order
		case d != nil:
			to = append(to, d...)
		default:
			to = append(to, text[i:i+size]...)
		}
		i += size
	}
	return to
}

// encodeWord returns an ASCII word unchanged, and any other word encoded.
func encodeWord(run []rune) string { return string(appendWord(nil, run)) }

// hexWord encodes characters as hexadecimal digits.
func hexWord(run []rune) string { return string(appendHexWord(nil, run)) }

func appendWord(to []byte, run []rune) []byte {
	for _, r := range run {
		if r >= 0x80 {
			return appendHexWord(to, run)
		}
	}
	to = append(to, 'w')
	for _, r := range run[:min(len(run), maxWordBytes)] {
		to = append(to, byte(r))
	}
	return to
}

func appendHexWord(to []byte, run []rune) []byte {
	var space [maxWordBytes + utf8.UTFMax]byte
	text := space[:0]
	for _, r := range run {
		if text = utf8.AppendRune(text, r); len(text) >= maxWordBytes {
			text = text[:maxWordBytes]
			break
		}
	}
	return hex.AppendEncode(append(to, 'x'), text)
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
// points have it. Very frequent words are used only if nothing else finds a point, and are searched
// in combination if the newest points with each are not the same. Function words are searched only
// if the others find too few points to rank.
func (s *Service) searchWords(ctx context.Context, person, query string) ([]ranked, error) {
	q := parseQuery(query)
	words := sampleWords(q.content(), maxTerms)
	rare, common := map[int64]float64{}, map[int64]float64{}
	together := map[int64]bool{} // points with several frequent words
	var many []string
	search := func(words []string) error {
		words, found, err := s.pointsWithWords(ctx, person, words)
		for i, numbers := range found {
			score := rare
			if len(numbers) == maxPointsPerTerm {
				many, score = append(many, words[i]), common
			}
			for _, n := range numbers {
				if common[n] > 0 {
					together[n] = true
				}
				score[n] += 1 / math.Sqrt(float64(len(numbers)))
			}
		}
		return err
	}
	if err := search(words); err != nil {
		return nil, err
	}
	if len(rare)+len(common) < maxRanked {
		if err := search(sampleWords(q.Rest, maxTerms-len(words))); err != nil {
			return nil, err
		}
	}
	if len(rare) > 0 {
		for n := range rare {
			rare[n] += common[n]
		}
		return sortRanked(rare), nil
	}
	if len(many) > 1 && len(together) < maxRanked {
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

// pointsWithWords returns the newest points with each of some words, and the words that found them.
// Longer words with a prefix take more time to find, so they are searched only if too few points
// have the word itself.
func (s *Service) pointsWithWords(ctx context.Context, person string, words []string) ([]string, [][]int64, error) {
	heads := make([]string, len(words))
	for i, word := range words {
		heads[i] = strings.TrimSuffix(word, "*")
	}
	found, err := s.Store.Learn.SearchEach(ctx, person, heads, maxPointsPerTerm)
	if err != nil {
		return nil, nil, err
	}
	var prefixes []string
	var places []int
	for i, word := range words {
		if word != heads[i] && len(found[i]) < maxPointsPerTerm {
			prefixes, places, heads[i] = append(prefixes, word), append(places, i), word
		}
	}
	longer, err := s.Store.Learn.SearchEach(ctx, person, prefixes, maxPointsPerTerm)
	for i, numbers := range longer {
		found[places[i]] = numbers
	}
	return heads, found, err
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
	words := wordIndex{of: looked}
	for i := range points {
		p := &points[i]
		begins, answer := p.Question[:min(len(p.Question), rankedBytes)], p.Answer[:min(len(p.Answer), rankedBytes)]
		words.index(begins, answer, p.Tags...)
		score[p.Number] += 10 * looked.similarity(&words)
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
