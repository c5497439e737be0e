package learn

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// The comparison judges a recall when no model does. It compares words, not meanings:
//
//   - The share of the answer that was recalled is the share of its words that occur in the recall,
//     or of its pairs of characters in scripts without spaces. Stop words count little, and so do
//     words that the question already contains. A short answer also matches if it nearly equals
//     some part of the recall letter by letter: each wrong letter costs as much as three missing
//     ones.
//   - The score is 100·share^0.75, because half of the words carry more than half of the meaning.
//   - A short answer whose number is missing from the recall is graded again, whatever else was
//     recalled. If only one of answer and recall contains a negation, the grade is hard at most.
//   - The grade is again, hard or good by [thresholdsFor]. It is never easy: words do not show how
//     easy the recall was.
const (
	// shortAnswer is the length up to which an answer counts as short, in letters.
	shortAnswer = 40
	// maxFuzzyLetters limits how much of a recall is searched for a short answer, in letters; the
	// work grows with it.
	maxFuzzyLetters = 4000
	// coveredShare is the share from which a part of an answer is reported as recalled,
	// missingShare the share below which it is reported as missing.
	coveredShare = 0.75
	missingShare = 0.5
	// maxQuoted is how many parts of an answer are quoted, and maxQuote limits each quote, in
	// characters.
	maxQuoted = 5
	maxQuote  = 120
)

// Texts of comparisons.
const (
	msgShare  = i18n.Message("You said about %d%% of the answer.")
	msgNumber = i18n.Message("A number in the answer was not said.")
)

// comparedText is a text prepared for comparison with others.
type comparedText struct {
	units   map[string]bool
	numbers map[string]bool
	letters []rune
	raw     string
	negated bool
}

func newComparedText(text string) *comparedText {
	text = hanToDigits(text)
	h := &comparedText{units: map[string]bool{}, numbers: map[string]bool{}, raw: text}
	splitRuns(text, func(run []rune, dense bool) {
		if !dense {
			w := stem(string(run))
			h.units[w] = true
			h.negated = h.negated || negations[w]
			return
		}
		for i, r := range run {
			h.units[string(r)] = true
			h.units[string(run[i:min(i+2, len(run))])] = true
			h.negated = h.negated || r == '不' || r == '没' || r == '未'
		}
	})
	for _, n := range numbers(text, true) {
		h.numbers[n] = true
	}
	h.letters = foldText(text)
	h.letters = h.letters[:min(len(h.letters), maxFuzzyLetters)]
	return h
}

// compare judges a recall by its words. It fails only with the error of the context.
func compare(ctx context.Context, in Recall, strictness string) (*Judgement, error) {
	t := thresholdsFor(strictness)
	in.Question, in.Answer, in.Recall = truncateToDecompose(in.Question), truncateToDecompose(in.Answer),
		truncateToDecompose(in.Recall)
	question, recall := newComparedText(in.Question), newComparedText(in.Recall)
	brief := len(foldText(in.Answer)) <= shortAnswer
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	share := coverage(in.Answer, question, recall, brief)
	score := int(math.Round(100 * math.Pow(share, 0.75)))
	verdict := msgShare.In(in.Lang, int(math.Round(100*share)))
	if brief && newComparedText(in.Answer).negated != recall.negated {
		score = min(score, t.good-1)
	}
	if brief && !recall.hasNumbers(numbers(in.Answer, false)) {
		score, verdict = min(score, t.hard-1), msgNumber.In(in.Lang)
	}
	grade := min(t.grade(score), store.Good)
	j := &Judgement{Score: score, Grade: GradeName(grade), Right: []string{}, Missing: []string{}, Wrong: []string{},
		Verdict: verdict, By: ByComparison}
	parts := clauses(in.Answer)
	shares := make([]float64, len(parts))
	for i, c := range parts {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !recall.hasNumbers(numbers(c, false)) {
			continue
		}
		shares[i] = coverage(c, question, recall, brief)
		if len(j.Right) < maxQuoted && grade > store.Again && shares[i] >= coveredShare {
			j.Right = append(j.Right, truncateRunes(c, maxQuote))
		}
	}
	switch grade {
	case store.Again:
		j.Advice = msgAdviceAgain.In(in.Lang)
	case store.Hard:
		j.Advice = msgAdviceHard.In(in.Lang)
	}
	j.Missing = leastCovered(parts, shares)
	j.Analysis = j.analysis(in.Lang)
	return j, nil
}

// coverage returns the share of a text that was recalled, from 0 to 1. With spelled set it also
// compares letters, which is slow and meant for short texts.
func coverage(text string, question, recall *comparedText, spelled bool) float64 {
	text = hanToDigits(text)
	var have, all float64
	each := map[string]bool{}
	units(text, func(unit string, weight float64) {
		if each[unit] {
			return
		}
		each[unit] = true
		if question.units[unit] {
			weight *= 0.3
		}
		all += weight
		if recall.units[unit] {
			have += weight
		}
	})
	share := 0.0
	if all > 0 {
		share = have / all
	} else if text = strings.TrimSpace(text); text != "" && strings.Contains(recall.raw, text) {
		share = 1
	}
	if spelled {
		share = max(share, similarity(foldText(text), recall.letters))
	}
	return share
}

// units cuts a text into the units of comparison and passes each to a function with its weight.
func units(text string, each func(unit string, weight float64)) {
	splitRuns(text, func(run []rune, dense bool) {
		if !dense {
			w, weight := stem(string(run)), 1.0
			switch {
			case stopWords[w]:
				weight = 0.1
			case unicode.IsDigit(run[0]):
				weight = 2
			}
			each(w, weight)
			return
		}
		if len(run) == 1 {
			each(string(run), [...]float64{1, 0.1}[countStopCharacters(run)])
			return
		}
		for i := range len(run) - 1 {
			each(string(run[i:i+2]), [...]float64{1, 0.5, 0.1}[countStopCharacters(run[i:i+2])])
		}
	})
}

// stopWords are words with little meaning of their own.
var stopWords = wordSet("a an the is are was were be been being am of in on at to for by with from as and or that this these those it its his her their there which who what when where how " +
	"do does did has have had will would can could may might i you he she we they so very just also than then into about")

// negations are words that negate an answer.
var negations = wordSet("not no never none cannot without isn aren wasn weren don doesn didn won wouldn couldn shouldn")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[stem(w)] = true
	}
	return set
}

// countStopCharacters counts the characters with little meaning of their own.
func countStopCharacters(run []rune) (n int) {
	for _, r := range run {
		if strings.ContainsRune("的了是在和与也就都而及着把被给之其于以为有这那个们吗呢吧啊嗯呃", r) {
			n++
		}
	}
	return n
}

// stem maps the forms of an English word to one, roughly, and number words to digits.
func stem(word string) string {
	if n, ok := numberWords[word]; ok {
		return n
	}
	if head, ok := strings.CutSuffix(word, "ies"); ok && len(head) >= 3 {
		return head + "y"
	}
	for _, end := range []string{"ing", "ed", "es", "s"} {
		if head, ok := strings.CutSuffix(word, end); ok && len(head) >= 3 && !strings.HasSuffix(head, "s") {
			word = head
			break
		}
	}
	if len(word) > 3 {
		word = strings.TrimSuffix(word, "e")
	}
	return word
}

var numberWords = map[string]string{"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5",
	"six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"}

// foldText returns the letters and digits of a text in lower case, with one space at the end of
// each word.
func foldText(text string) []rune {
	var out []rune
	before := true // dense, so that the result does not begin with a space
	splitRuns(text, func(run []rune, dense bool) {
		if len(out) > 0 && !(before && dense) {
			out = append(out, ' ')
		}
		out, before = append(out, run...), dense
	})
	return out
}

// similarity returns how similar a short text is to the most similar part of a longer one, from 0
// to 1.
func similarity(part, text []rune) float64 {
	switch {
	case len(part) == 0 || len(text) == 0:
		return 0
	case len(part) < 4 && !isUnspaced(part[0]), len(part) < 2:
		return 0 // such short texts occur everywhere
	}
	// A match begins and ends at word boundaries.
	if !isUnspaced(part[0]) || !isUnspaced(part[len(part)-1]) {
		part = slices.Concat([]rune{' '}, part, []rune{' '})
		text = slices.Concat([]rune{' '}, text, []rune{' '})
	}
	row := make([]int, len(part)+1) // the fewest edits from part[:i] to any text that ends at text[:j]
	for i := range row {
		row[i] = i
	}
	least := len(part)
	for _, r := range text {
		diagonal := row[0]
		for i := 1; i <= len(part); i++ {
			change := diagonal
			if part[i-1] != r {
				change++
			}
			diagonal = row[i]
			row[i] = min(change, row[i]+1, row[i-1]+1)
		}
		least = min(least, row[len(part)])
	}
	return max(0, 1-3*float64(least)/float64(len(part)))
}

// clauses returns the sentences of a text or, if there is only one, the parts between its commas.
func clauses(text string) []string {
	out := split(text, func(r, next rune) bool {
		return strings.ContainsRune("。！？；!?;\n", r) || r == '.' && (unicode.IsSpace(next) || next == 0)
	})
	if len(out) == 1 {
		out = split(text, func(r, next rune) bool {
			return strings.ContainsRune("，、。；！？\n", r) || strings.ContainsRune(",.;!?", r) &&
				(unicode.IsSpace(next) || next == 0)
		})
	}
	return out
}

// split cuts a text after each character for which end returns true. Parts without a letter or
// digit are dropped.
func split(text string, end func(r, next rune) bool) []string {
	var out []string
	runes := []rune(text)
	from := 0
	for i, r := range runes {
		next := rune(0)
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		if i+1 < len(runes) && !end(r, next) {
			continue
		}
		part := strings.Trim(string(runes[from:i+1]), " \t\r\n，、。；,;-*#>")
		part = strings.TrimRight(part, ".")
		if len(foldText(part)) > 0 {
			out = append(out, oneLine(part, maxQuote))
		}
		from = i + 1
	}
	return out
}

// leastCovered quotes the parts of an answer with the lowest coverage, in their order. shares holds
// the coverage of each part.
func leastCovered(parts []string, shares []float64) []string {
	var least []int
	for i, share := range shares {
		if share < missingShare {
			least = append(least, i)
		}
	}
	slices.SortStableFunc(least, func(a, b int) int { return cmp.Compare(shares[a], shares[b]) })
	least = least[:min(len(least), maxQuoted)]
	slices.Sort(least)
	out := []string{}
	for _, i := range least {
		out = append(out, parts[i])
	}
	return out
}

// hasNumbers reports whether the text contains all the numbers.
func (h *comparedText) hasNumbers(numbers []string) bool {
	return !slices.ContainsFunc(numbers, func(n string) bool { return !h.numbers[n] })
}

// numbers returns the numbers in a text, as digits. Chinese numerals and English number words have
// other meanings too. With all set (for a recall) every one counts as a number; otherwise (for an
// answer) only those that can be nothing else do.
func numbers(text string, all bool) []string {
	var out []string
	runes := []rune(decompose(text))
	for i := 0; i < len(runes); {
		switch r := runes[i]; {
		case r >= '0' && r <= '9':
			j := i + 1
			for j < len(runes) && (isDigit(runes[j]) || strings.ContainsRune(".,", runes[j]) && j+1 < len(runes) &&
				isDigit(runes[j+1])) {
				j++
			}
			if i == 0 || !isLatinLetter(runes[i-1]) {
				out = append(out, normalizeNumber(string(runes[i:j])))
			}
			i = j
		case strings.ContainsRune(hanDigits+hanUnits, r):
			j := i + 1
			for j < len(runes) && strings.ContainsRune(hanDigits+hanUnits, runes[j]) {
				j++
			}
			sure := j-i > 1 || i > 0 && runes[i-1] == '第' ||
				j < len(runes) && strings.ContainsRune("年月日号岁米倍度届章", runes[j])
			if n, ok := hanNumber(runes[i:j]); ok && (all || sure) {
				out = append(out, n)
			}
			i = j
		default:
			i++
		}
	}
	if all {
		for w := range strings.FieldsSeq(string(foldText(text))) {
			if n, ok := numberWords[w]; ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// hanToDigits replaces the Chinese numerals of a text by digits, except those of a single
// character.
func hanToDigits(text string) string {
	if !strings.ContainsAny(text, hanDigits+hanUnits) {
		return text
	}
	var b strings.Builder
	runes := []rune(text)
	for i := 0; i < len(runes); {
		j := i
		for j < len(runes) && strings.ContainsRune(hanDigits+hanUnits, runes[j]) {
			j++
		}
		if n, ok := hanNumber(runes[i:j]); ok && j-i > 1 {
			b.WriteString(n)
		} else {
			j = max(j, i+1)
			b.WriteString(string(runes[i:j]))
		}
		i = j
	}
	return b.String()
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isLatinLetter(r rune) bool { return r < 0x80 && unicode.IsLetter(r) }

// normalizeNumber gives equal numbers the same form, such as 1,000.50 and 1000.5.
func normalizeNumber(n string) string {
	n = strings.ReplaceAll(n, ",", "")
	if strings.Contains(n, ".") {
		n = strings.TrimRight(strings.TrimRight(n, "0"), ".")
	}
	if n = strings.TrimLeft(n, "0"); n == "" || n[0] == '.' {
		n = "0" + n
	}
	return n
}

const (
	hanDigits = "零〇一二三四五六七八九两"
	hanUnits  = "十百千万亿"
)

// hanNumber reads Chinese numerals with units (二百零六) or digit by digit (一九四九).
func hanNumber(run []rune) (string, bool) {
	if len(run) > 12 {
		return "", false
	}
	if !slices.ContainsFunc(run, func(r rune) bool { return strings.ContainsRune(hanUnits, r) }) {
		var b strings.Builder
		for _, r := range run {
			b.WriteString(strconv.Itoa(hanDigit(r)))
		}
		return normalizeNumber(b.String()), true
	}
	total, section, last := int64(0), int64(0), int64(-1)
	for _, r := range run {
		switch r {
		case '十', '百', '千':
			if last <= 0 {
				last = 1 // 十二, 一百零十
			}
			section += last * map[rune]int64{'十': 10, '百': 100, '千': 1000}[r]
			last = -1
		case '万', '亿':
			by := map[rune]int64{'万': 1e4, '亿': 1e8}[r]
			if n := section + max(last, 0); n > 0 {
				total += n * by
			} else {
				total = max(total, 1) * by
			}
			section, last = 0, -1
		default:
			last = int64(hanDigit(r))
		}
		if total > 1e15 {
			return "", false
		}
	}
	return strconv.FormatInt(total+section+max(last, 0), 10), true
}

func hanDigit(r rune) int {
	switch r {
	case '零', '〇':
		return 0
	case '两':
		return 2
	}
	return slices.Index([]rune("零一二三四五六七八九"), r)
}
