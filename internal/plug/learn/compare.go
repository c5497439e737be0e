package learn

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// A comparison is what judges when no model does. It knows words, not meanings:
//
//   - The share of the answer that was said is the share of its words that the
//     recall has, or of its pairs of characters where there are no spaces. Little
//     words count little, and so does what the question says already. A short
//     answer may also be almost the same letters somewhere in the recall: each
//     wrong letter costs as much as three missing ones.
//   - The score is 100·share^0.75: whoever says half of the words says more than
//     half of what is meant.
//   - A short answer with a number that was not said is forgotten, whatever else
//     was said. One with a "not" that the recall lacks, or the other way round, is
//     hard at most.
//   - The grade is again, hard or good by [grades]. It is never easy: how easy it
//     was, words do not tell.
const (
	// shortAnswer is the longest answer that counts as short, in letters.
	shortAnswer = 40
	// maxHeard is how much of a recall is looked through for a short answer, in
	// letters; the work grows with it.
	maxHeard = 4000
	// saidWell and saidBadly are shares from which on, and below which, a part of an
	// answer is told to be said, and to be missing.
	saidWell  = 0.75
	saidBadly = 0.5
	// maxQuoted is how many parts of an answer are quoted, and maxQuote how much of
	// each, in characters.
	maxQuoted = 5
	maxQuote  = 120
)

// Sentences of comparisons.
var (
	sayShare  = talk.Say{Zh: "说到了答案的约 %d%%。", En: "You said about %d%% of the answer."}
	sayNumber = talk.Say{Zh: "答案里的数字没有说到。", En: "A number in the answer was not said."}
)

// heard is a text that others are compared with.
type heard struct {
	units   map[string]bool
	numbers map[string]bool
	letters []rune
	raw     string
	not     bool
}

func hear(text string) *heard {
	text = inDigits(text)
	h := &heard{units: map[string]bool{}, numbers: map[string]bool{}, raw: text}
	cut(text, func(run []rune, dense bool) {
		if !dense {
			w := stem(string(run))
			h.units[w] = true
			h.not = h.not || negations[w]
			return
		}
		for i, r := range run {
			h.units[string(r)] = true
			h.units[string(run[i:min(i+2, len(run))])] = true
			h.not = h.not || r == '不' || r == '没' || r == '未'
		}
	})
	for _, n := range numbers(text, true) {
		h.numbers[n] = true
	}
	h.letters = folded(text)
	h.letters = h.letters[:min(len(h.letters), maxHeard)]
	return h
}

// compare judges a recall by its words. The error is that of the context: nobody waits
// any more.
func compare(ctx context.Context, in Recall, strictness string) (*Judgement, error) {
	t := grades(strictness)
	in.Question, in.Answer, in.Recall = affordable(in.Question), affordable(in.Answer), affordable(in.Recall)
	question, recall := hear(in.Question), hear(in.Recall)
	brief := len(folded(in.Answer)) <= shortAnswer
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	share := said(in.Answer, question, recall, brief)
	score := int(math.Round(100 * math.Pow(share, 0.75)))
	verdict := sayShare.In(in.Lang, int(math.Round(100*share)))
	if brief && hear(in.Answer).not != recall.not {
		score = min(score, t.good-1)
	}
	if brief && !recall.has(numbers(in.Answer, false)) {
		score, verdict = min(score, t.hard-1), sayNumber.In(in.Lang)
	}
	grade := min(t.grade(score), store.Good)
	j := &Judgement{Score: score, Grade: GradeName(grade), Right: []string{}, Missing: []string{}, Wrong: []string{}, Verdict: verdict, By: ByComparison}
	parts := clauses(in.Answer)
	shares := make([]float64, len(parts))
	for i, c := range parts {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !recall.has(numbers(c, false)) {
			continue
		}
		shares[i] = said(c, question, recall, brief)
		if len(j.Right) < maxQuoted && grade > store.Again && shares[i] >= saidWell {
			j.Right = append(j.Right, short(c, maxQuote))
		}
	}
	switch grade {
	case store.Again:
		j.Advice = sayAdviceAgain.In(in.Lang)
	case store.Hard:
		j.Advice = sayAdviceHard.In(in.Lang)
	}
	j.Missing = leastSaid(parts, shares)
	j.Analysis = j.analysis(in.Lang)
	return j, nil
}

// said is the share of a text that was said, from 0 to 1. Spelled compares the
// letters too, which takes long and is for short texts.
func said(text string, question, recall *heard, spelled bool) float64 {
	text = inDigits(text)
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
		share = max(share, alike(folded(text), recall.letters))
	}
	return share
}

// units cuts a text into what is compared, and says how much each counts.
func units(text string, each func(unit string, weight float64)) {
	cut(text, func(run []rune, dense bool) {
		if !dense {
			w, weight := stem(string(run)), 1.0
			switch {
			case little[w]:
				weight = 0.1
			case unicode.IsDigit(run[0]):
				weight = 2
			}
			each(w, weight)
			return
		}
		if len(run) == 1 {
			each(string(run), [...]float64{1, 0.1}[littles(run)])
			return
		}
		for i := range len(run) - 1 {
			each(string(run[i:i+2]), [...]float64{1, 0.5, 0.1}[littles(run[i:i+2])])
		}
	})
}

// little are words that say little.
var little = wordSet("a an the is are was were be been being am of in on at to for by with from as and or that this these those it its his her their there which who what when where how " +
	"do does did has have had will would can could may might i you he she we they so very just also than then into about")

// negations are words that turn an answer round.
var negations = wordSet("not no never none cannot without isn aren wasn weren don doesn didn won wouldn couldn shouldn")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[stem(w)] = true
	}
	return set
}

// littles counts the characters that say little.
func littles(run []rune) (n int) {
	for _, r := range run {
		if strings.ContainsRune("的了是在和与也就都而及着把被给之其于以为有这那个们吗呢吧啊嗯呃", r) {
			n++
		}
	}
	return n
}

// stem makes forms of one English word the same, roughly, and number words digits.
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

var numberWords = map[string]string{"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"}

// folded are the letters and digits of a text, in lower case, with one space where
// a word ends.
func folded(text string) []rune {
	var out []rune
	before := true // dense, so that nothing begins with a space
	cut(text, func(run []rune, dense bool) {
		if len(out) > 0 && !(before && dense) {
			out = append(out, ' ')
		}
		out, before = append(out, run...), dense
	})
	return out
}

// alike is how much a short text is like some part of a longer one, from 0 to 1.
func alike(part, text []rune) float64 {
	switch {
	case len(part) == 0 || len(text) == 0:
		return 0
	case len(part) < 4 && !dense(part[0]), len(part) < 2:
		return 0 // such are found everywhere
	}
	// Words begin and end where words do.
	if !dense(part[0]) || !dense(part[len(part)-1]) {
		part = slices.Concat([]rune{' '}, part, []rune{' '})
		text = slices.Concat([]rune{' '}, text, []rune{' '})
	}
	row := make([]int, len(part)+1) // the least edits of part[:i] to some end of text[:j]
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

// clauses are the sentences of a text, or if it has but one, the parts between its
// commas.
func clauses(text string) []string {
	out := split(text, func(r, next rune) bool {
		return strings.ContainsRune("。！？；!?;\n", r) || r == '.' && (unicode.IsSpace(next) || next == 0)
	})
	if len(out) == 1 {
		out = split(text, func(r, next rune) bool {
			return strings.ContainsRune("，、。；！？\n", r) || strings.ContainsRune(",.;!?", r) && (unicode.IsSpace(next) || next == 0)
		})
	}
	return out
}

// split cuts a text behind the characters that end says; what is left without a
// letter or digit is left out.
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
		if len(folded(part)) > 0 {
			out = append(out, line(part, maxQuote))
		}
		from = i + 1
	}
	return out
}

// leastSaid quotes the parts of an answer of which least was said, in their order.
// Shares says how much of each was.
func leastSaid(parts []string, shares []float64) []string {
	var least []int
	for i, share := range shares {
		if share < saidBadly {
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

// has says whether all the numbers were said.
func (h *heard) has(numbers []string) bool {
	return !slices.ContainsFunc(numbers, func(n string) bool { return !h.numbers[n] })
}

// numbers are the numbers in a text, as digits. Chinese numerals, and English
// number words, are many things besides: all are read where it is asked what was
// said, and where it is asked what should have been, only those that cannot be
// anything else.
func numbers(text string, all bool) []string {
	var out []string
	runes := []rune(apart(text))
	for i := 0; i < len(runes); {
		switch r := runes[i]; {
		case r >= '0' && r <= '9':
			j := i + 1
			for j < len(runes) && (digit(runes[j]) || strings.ContainsRune(".,", runes[j]) && j+1 < len(runes) && digit(runes[j+1])) {
				j++
			}
			if i == 0 || !latin(runes[i-1]) {
				out = append(out, tidy(string(runes[i:j])))
			}
			i = j
		case strings.ContainsRune(hanDigits+hanUnits, r):
			j := i + 1
			for j < len(runes) && strings.ContainsRune(hanDigits+hanUnits, runes[j]) {
				j++
			}
			sure := j-i > 1 || i > 0 && runes[i-1] == '第' || j < len(runes) && strings.ContainsRune("年月日号岁米倍度届章", runes[j])
			if n, ok := hanNumber(runes[i:j]); ok && (all || sure) {
				out = append(out, n)
			}
			i = j
		default:
			i++
		}
	}
	if all {
		for w := range strings.FieldsSeq(string(folded(text))) {
			if n, ok := numberWords[w]; ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// inDigits writes the Chinese numerals of a text, but single ones, as digits.
func inDigits(text string) string {
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

func digit(r rune) bool { return r >= '0' && r <= '9' }

func latin(r rune) bool { return r < 0x80 && unicode.IsLetter(r) }

// tidy makes 1,000.50 and 1000.5 the same.
func tidy(n string) string {
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

// hanNumber reads Chinese numerals: 二百零六, or one by one, 一九四九.
func hanNumber(run []rune) (string, bool) {
	if len(run) > 12 {
		return "", false
	}
	if !slices.ContainsFunc(run, func(r rune) bool { return strings.ContainsRune(hanUnits, r) }) {
		var b strings.Builder
		for _, r := range run {
			b.WriteString(strconv.Itoa(hanDigit(r)))
		}
		return tidy(b.String()), true
	}
	total, section, last := 0, 0, -1
	for _, r := range run {
		switch r {
		case '十', '百', '千':
			if last <= 0 {
				last = 1 // 十二, 一百零十
			}
			section += last * map[rune]int{'十': 10, '百': 100, '千': 1000}[r]
			last = -1
		case '万', '亿':
			by := map[rune]int{'万': 1e4, '亿': 1e8}[r]
			if n := section + max(last, 0); n > 0 {
				total += n * by
			} else {
				total = max(total, 1) * by
			}
			section, last = 0, -1
		default:
			last = hanDigit(r)
		}
		if total > 1e15 {
			return "", false
		}
	}
	return strconv.Itoa(total + section + max(last, 0)), true
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
