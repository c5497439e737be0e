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
	// maxWords is by how many different words a point is found; the rest of a very
	// long answer is not searched.
	maxWords = 4000
	// maxWordBytes is the longest word that is kept whole.
	maxWordBytes = 40
	// maxTerms is how many words of a question are looked for.
	maxTerms = 8
	// perTerm is how many points one word of a question brings in.
	perTerm = 60
	// maxTogether is how many frequent words are looked for together.
	maxTogether = 2
	// maxRanked is how many of the points that were brought in are read and ranked,
	// by their first rankedBytes.
	maxRanked   = 40
	rankedBytes = 1000
	// maxApart bounds a text whose characters are taken apart, in bytes, as one character
	// may become mostGrowth times as long. Nothing that is written in letters reaches it.
	maxApart   = 2 * MaxText
	mostGrowth = 11
)

// Words are what a text is found by, as ASCII letters and digits: the words of
// languages that have spaces, and of those that have none each two characters that
// follow one another.
func Words(question, answer string, tags ...string) []string {
	seen := map[string]bool{}
	out := []string{}
	add := func(word string) {
		if !seen[word] && len(out) < maxWords {
			seen[word] = true
			out = append(out, word)
		}
	}
	for _, text := range append([]string{question, answer}, tags...) {
		cut(text, func(run []rune, dense bool) {
			if !dense {
				add(plain(run))
				add(plain([]rune(stem(string(run)))))
				return
			}
			for i := range run {
				// The last character of a run stands alone, so that each can be found by
				// itself, as the beginning of a word.
				add(encoded(run[i:min(i+2, len(run))]))
			}
		})
	}
	return out
}

// terms are what is looked for when somebody searches for a text. The last word may
// be the beginning of one, as somebody types it, and ends in * then.
func terms(query string) []string {
	var out []string
	last := ""
	cut(query, func(run []rune, dense bool) {
		last = ""
		switch {
		case !dense:
			out = append(out, plain([]rune(stem(string(run)))))
			if len(run) >= 3 {
				last = plain(run) + "*"
			}
		case len(run) == 1:
			out = append(out, encoded(run)+"*")
		default:
			for i := range len(run) - 1 {
				out = append(out, encoded(run[i:i+2]))
			}
		}
	})
	if last != "" {
		out[len(out)-1] = last
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// dense says whether a character is of a script without spaces between words.
func dense(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// cut finds the runs of letters and digits in a text, in lower case and without
// accents, one script at a time.
func cut(text string, each func(run []rune, dense bool)) {
	var run []rune
	var of bool
	end := func() {
		if len(run) > 0 {
			each(run, of)
		}
		run = run[:0]
	}
	for _, r := range apart(text) {
		if unicode.Is(unicode.Mn, r) && !dense(r) {
			continue // an accent
		}
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
			end()
			continue
		}
		if d := dense(r); d != of {
			end()
			of = d
		}
		run = append(run, unicode.ToLower(r))
	}
	end()
}

// affordable is the beginning of a text, of no more characters than maxApart bytes hold
// once they are taken apart.
func affordable(text string) string {
	if len(text) <= maxApart/mostGrowth {
		return text
	}
	for i, left := 0, maxApart; i < len(text); {
		p := norm.NFKD.PropertiesString(text[i:])
		size := max(p.Size(), 1)
		if left -= max(size, len(p.Decomposition())); left < 0 {
			return text[:i]
		}
		i += size
	}
	return text
}

// apart is an affordable text with its characters taken apart: ligatures into letters,
// letters into those without their accents.
func apart(text string) string { return norm.NFKD.String(affordable(text)) }

// plain is a word as it is if it is ASCII, else encoded.
func plain(run []rune) string {
	for _, r := range run {
		if r >= 0x80 {
			return encoded(run)
		}
	}
	return "w" + string(run[:min(len(run), maxWordBytes)])
}

// encoded writes characters as hexadecimal digits.
func encoded(run []rune) string {
	text := string(run)
	if len(text) > maxWordBytes {
		text = text[:maxWordBytes]
	}
	return "x" + hex.EncodeToString([]byte(text))
}

// Hit is a point that was found.
type Hit struct {
	Entry
	Score float64 // the higher the better; only its order means something
}

// SearchFilter says what of the points is meant.
type SearchFilter struct {
	Deck  *string // id
	Tag   string
	Limit int
}

// Search finds points by what they say, the best first: those that have the words
// of the query, and if there are vectors, those that mean something alike.
func (s *Service) Search(ctx context.Context, person, query string, f SearchFilter) ([]Hit, error) {
	byWords, err := s.searchWords(ctx, person, query)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	byMeaning, err := s.searchMeaning(ctx, person, query)
	if err != nil {
		s.Logger.WarnContext(ctx, "a search went by words alone", "error", err)
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
	points, err := s.Store.Learn.Numbered(ctx, person, numbers)
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
	entries, err := s.entries(ctx, points)
	hits := make([]Hit, len(entries))
	for i, e := range entries {
		hits[i] = Hit{e, score[e.Number]}
	}
	return hits, err
}

type ranked struct {
	number int64
	score  float64
}

// searchWords brings in points that have words of a query, best first: each word
// counts the more the fewer points it brings. Words that very many points have bring
// in points only if nothing else does, and then those that have several of them.
func (s *Service) searchWords(ctx context.Context, person, query string) ([]ranked, error) {
	words := some(terms(query), maxTerms)
	rare, common := map[int64]float64{}, map[int64]float64{}
	var many []string
	for _, word := range words {
		found, err := s.having(ctx, person, word)
		if err != nil {
			return nil, err
		}
		score := rare
		if len(found) == perTerm {
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
		return sorted(rare), nil
	}
	if len(many) > 1 {
		found, err := s.Store.Learn.Search(ctx, person, some(many, maxTogether), perTerm)
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			common[n]++
		}
	}
	return sorted(common), nil
}

// having are the newest points that have a word. If as many as are wanted have it
// whole, those that have longer ones, which take longer to find, are not looked for.
func (s *Service) having(ctx context.Context, person, word string) ([]int64, error) {
	if head, star := strings.CutSuffix(word, "*"); star {
		found, err := s.Store.Learn.Search(ctx, person, []string{head}, perTerm)
		if err != nil || len(found) == perTerm {
			return found, err
		}
	}
	return s.Store.Learn.Search(ctx, person, []string{word}, perTerm)
}

// some are as many of the words, spread over all of them.
func some(words []string, most int) []string {
	if len(words) <= most {
		return words
	}
	out := make([]string, most)
	for i := range out {
		out[i] = words[i*len(words)/most]
	}
	return out
}

func sorted(score map[int64]float64) []ranked {
	out := make([]ranked, 0, len(score))
	for n, s := range score {
		out = append(out, ranked{n, s})
	}
	slices.SortFunc(out, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.number, a.number)) })
	return out
}

// rank lifts points that have more of the words, and those that say literally what
// was looked for, most of all in the question.
func rank(points []store.Point, query string, score map[int64]float64) {
	want := strings.ToLower(strings.Join(strings.Fields(query), " "))
	looked := terms(query)
	for i := range points {
		p := &points[i]
		begins, answer := p.Question[:min(len(p.Question), rankedBytes)], p.Answer[:min(len(p.Answer), rankedBytes)]
		score[p.Number] += 10 * share(looked, Words(begins, answer, p.Tags...))
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

// share is how much of the terms is among the words.
func share(terms, words []string) float64 {
	if len(terms) == 0 {
		return 0
	}
	has := make(map[string]bool, len(words))
	for _, word := range words {
		has[word] = true
	}
	n := 0
	for _, term := range terms {
		head, star := strings.CutSuffix(term, "*")
		if has[head] || star && slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, head) }) {
			n++
		}
	}
	return float64(n) / float64(len(terms))
}

// fuse joins orders by what is called reciprocal rank: what is near the top of
// several is better than what is first in one.
func fuse(orders ...[]ranked) []ranked {
	full := slices.DeleteFunc(slices.Clone(orders), func(o []ranked) bool { return len(o) == 0 })
	switch len(full) {
	case 0:
		return nil
	case 1:
		return full[0]
	}
	const k = 60 // how little the first places differ, as published
	score := map[int64]float64{}
	for _, order := range full {
		for i, r := range order {
			score[r.number] += 1 / float64(k+i+1)
		}
	}
	return sorted(score)
}
