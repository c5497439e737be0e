package spoken

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Numbers writes the numbers of a text in words: dates, times, phone numbers, versions, ranges,
// amounts with their units. It is for voices that cannot read them. Lang is BCP 47, or empty. Texts
// of other languages than Chinese and English are unchanged.
func Numbers(text, lang string) string {
	l := languageOf(text, lang)
	if l == nil || !strings.ContainsAny(text, "0123456789") {
		return text
	}
	n := numbers{language: l, text: text}
	for n.pos < len(text) {
		m := pattern.FindStringSubmatchIndex(text[n.pos:])
		if m == nil {
			break
		}
		n.rewrite(match{text, n.pos, m})
	}
	n.join(len(text), "")
	return string(n.out)
}

// language is how numbers are said.
type language interface {
	// number returns a number of digits, perhaps with commas in its whole part. The text goes on
	// with next.
	number(whole, fraction string, next rune) string
	digits(text string) string // one by one; other characters separate groups
	date(year, month, day int) string
	clock(hour, minute, second int, noon bool) string // noon: a.m. or p.m. follows
	ratio(a, b string) string
	version(parts []string) string
	percent(number string) string
	ordinal(n int) string // 1st
	// money and unit return an amount. It is not ok if there is no word for the sign or the symbol.
	money(whole, fraction, sign string) (words string, ok bool)
	unit(number, symbol string, negative bool) (words string, ok bool)
	// words are what stands for the sign of a range and for a minus sign; space is what separates
	// words from each other.
	words() (to, minus, space string)
	// shares returns a range of percentages.
	shares(from, to string) string
}

// languageOf returns the language of a text, or nil if it is none of these.
func languageOf(text, lang string) language {
	base, _, _ := strings.Cut(strings.ToLower(lang), "-")
	has := func(tables ...*unicode.RangeTable) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, tables...) })
	}
	switch {
	case base != "" && base != "zh" && base != "en", has(unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return nil
	case has(unicode.Han), base == "zh" && !has(unicode.Latin):
		return chinese{}
	}
	return english{}
}

// pattern finds what is read as one: a date, a time, a phone number, a ratio, a version, or an
// amount. The constants below number its groups.
var pattern = regexp.MustCompile(
	`(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})` +
		`|(\d{1,2})[:：](\d\d)(?:[:：](\d\d))?( ?[aApP]\.?[mM])?` +
		`|(\+\d[\d -]{5,}\d|\(\d{3}\) ?\d{3}-\d{4}|\d{3,4}-\d{3,4}-\d{3,4}|0\d{2,3}-\d{7,8}|1[3-9]\d[ -]?\d{4}[ -]?\d{4})` +
		`|(\d+)[:：](\d+)` +
		`|(\d+(?:\.\d+){2,})` +
		`|([$￥¥€£]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(st|nd|rd|th)?( ?(?:%|℃|°C|℉|°F|€|[A-Za-z]{1,3}(?:/[hs])?))?`)

// maxCardinal is the number of digits, without commas, up to which they are no name or code.
const maxCardinal = 8

const (
	year, month, day             = 1, 2, 3
	hour, minute, second, noon   = 4, 5, 6, 7
	phone                        = 8
	first, other                 = 9, 10
	version                      = 11
	sign, whole, fraction, order = 12, 13, 14, 15
	unit                         = 16
)

// match is a match of the pattern from a place of the text on.
type match struct {
	text  string
	from  int
	index []int
}

func (m match) has(group int) bool  { return m.index[2*group] >= 0 }
func (m match) start(group int) int { return m.from + m.index[2*group] }
func (m match) end(group int) int   { return m.from + m.index[2*group+1] }

func (m match) string(group int) string {
	if !m.has(group) {
		return ""
	}
	return m.text[m.start(group):m.end(group)]
}

func (m match) number(group int) int {
	n, _ := strconv.Atoi(m.string(group))
	return n
}

// item is a part of the text that is read as one.
type item struct {
	words string
	ends  int // in the text
	// A range has two items of which the first one has less. Only amounts, percentages and moments
	// are in ranges.
	rank   float64
	ranges bool
	share  string // number of a percentage
}

// numbers is a text that is being rewritten, up to pos.
type numbers struct {
	language language
	text     string
	pos      int
	out      []byte
	last     item // the newest; it is at lastAt in out
	lastAt   int
}

// rewrite rewrites a match and what is before it.
func (n *numbers) rewrite(m match) {
	i := n.read(m)
	to, minus, _ := n.language.words()
	gap := n.text[n.pos:m.start(0)]
	switch {
	case n.last.ends == n.pos && n.pos > 0 && isRange(gap) && n.last.ranges && i.ranges && n.last.rank < i.rank:
		if i.share != "" && n.last.share == "" {
			i.words = n.language.shares(n.last.words, i.share)
			n.out = n.out[:n.lastAt]
			break
		}
		n.out = append(n.out, to...)
	case isNegative(n.text[:m.start(0)]) && strings.HasSuffix(gap, "-"):
		n.join(m.start(0)-1, "")
		if !m.has(unit) || !strings.HasPrefix(i.words, below) {
			n.out = append(n.out, minus...)
		}
	default:
		n.join(m.start(0), i.words)
	}
	n.lastAt = len(n.out)
	n.out = append(n.out, i.words...)
	n.pos = i.ends
	n.last = i
}

// join adds the text up to a place, before words. A space separates numbers from letters.
func (n *numbers) join(to int, words string) {
	_, _, space := n.language.words()
	gap := n.text[n.pos:to]
	if n.last.ends == n.pos && n.pos > 0 && startsWithLetter(gap) {
		n.out = append(n.out, space...)
	}
	n.out = append(n.out, gap...)
	if before, _ := utf8.DecodeLastRuneInString(gap); words != "" && isLatin(before) {
		n.out = append(n.out, space...)
	}
	n.pos = to
}

// isRange reports whether a text between two amounts means up to.
func isRange(gap string) bool {
	switch strings.TrimSpace(gap) {
	case "-", "–", "—", "~", "～":
		return true
	}
	return false
}

// isNegative reports whether a text ends with the sign of a negative number.
func isNegative(text string) bool {
	text, minus := strings.CutSuffix(text, "-")
	before, _ := utf8.DecodeLastRuneInString(text)
	return minus && !isLatin(before) && !unicode.IsDigit(before)
}

// read returns the item of a match.
func (n *numbers) read(m match) item {
	i := item{ends: m.end(0), ranges: true}
	cut := i.ends < len(n.text) && isDigit(n.text[i.ends]) // it is a part of something else
	switch {
	case m.has(year) && !cut && m.number(month)-1 < 12 && m.number(day)-1 < 31 && m.number(month)*m.number(day) > 0:
		i.words = n.language.date(m.number(year), m.number(month), m.number(day))
		i.rank = float64(m.number(year)*10000 + m.number(month)*100 + m.number(day))
	case m.has(hour) && !cut && m.number(hour) < 25 && m.number(minute) < 60 && m.number(second) < 60:
		i.words = n.language.clock(m.number(hour), m.number(minute), m.number(second), m.has(noon))
		i.rank = float64(m.number(hour)*60 + m.number(minute))
		if m.has(noon) {
			i.ends = m.start(noon)
		}
	case m.has(phone) && !cut:
		i.words, i.ranges = n.language.digits(m.string(phone)), false
	case m.has(first):
		i.words, i.ranges = n.language.ratio(m.string(first), m.string(other)), false
	case m.has(version):
		i.words, i.ranges = n.language.version(strings.Split(m.string(version), ".")), false
	case m.has(whole):
		n.readAmount(m, &i)
	default:
		n.readDigits(m.start(0), &i)
	}
	return i
}

// readDigits reads the first digits from a place on.
func (n *numbers) readDigits(from int, i *item) {
	for !isDigit(n.text[from]) {
		from++
	}
	for i.ends = from; i.ends < len(n.text) && isDigit(n.text[i.ends]); {
		i.ends++
	}
	i.words, i.ranges = n.language.number(n.text[from:i.ends], "", 0), false
}

// readAmount reads a number with the sign of money before it or a unit behind it.
func (n *numbers) readAmount(m match, i *item) {
	symbol := strings.TrimSpace(m.string(unit))
	if startsWithLetter(symbol) && startsWithLetter(n.text[i.ends:]) {
		symbol = "" // a longer word
	}
	if m.has(unit) && symbol == "" {
		i.ends = m.start(unit)
	}
	next, _ := utf8.DecodeRuneInString(n.text[i.ends:])
	i.words = n.language.number(m.string(whole), m.string(fraction), next)
	i.rank, _ = strconv.ParseFloat(strings.ReplaceAll(m.string(whole), ",", "")+"."+m.string(fraction), 64)
	if words, ok := n.language.money(m.string(whole), m.string(fraction), m.string(sign)); ok {
		i.words = words
	}
	switch {
	case m.has(order) && m.number(whole) > 0:
		i.words, i.ranges = n.language.ordinal(m.number(whole)), false
	case symbol == "%":
		i.words, i.share = n.language.percent(i.words), i.words
	case symbol != "":
		words, ok := n.language.unit(i.words, symbol, isNegative(n.text[:m.start(0)]))
		if ok {
			i.words = words
		} else {
			i.ends = m.start(unit)
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLatin(r rune) bool { return unicode.Is(unicode.Latin, r) }

func startsWithLetter(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return isLatin(r)
}
