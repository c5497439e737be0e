package words

import (
	"slices"
	"strings"
	"unicode"
)

// echoShare is the share of the letters of a text that have to be in what was spoken for the text
// to be an echo.
const echoShare = 0.6

// maxCompared limits the letters that are compared: half a minute of quick speech has 600. Of
// longer texts the end counts.
const maxCompared = 640

// An echo before other words has at least minEchoWords and minEchoLetters. Fewer are taken for what
// a person says in the words of the board.
const minEchoWords, minEchoLetters = 3, 6

// IsEcho reports whether what was heard may be what the board itself has spoken: its letters are a
// part of it, or it differs from a part of it in less than 40 % of its letters.
func IsEcho(heard, spoken string) bool {
	h, s := lastLetters(heard), lastLetters(spoken)
	if len(h) == 0 {
		return true
	}
	if strings.Contains(string(s), string(h)) {
		return true
	}
	return float64(len(h)-distance(h, s)) >= echoShare*float64(len(h))
}

// AfterEcho returns what a person has said after an echo: heard without its first words, if they
// may be what the board itself has spoken.
func AfterEcho(heard, spoken string) string {
	h, s := []rune(heard), lastLetters(spoken)
	row := newPlaces(s)
	letters, words, best, rest := 0, 0, 0.0, 0
	for i, r := range h {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		if letters++; letters > maxCompared {
			return heard
		}
		different := row.add(unicode.ToLower(r))
		if !isIdeogram(r) && i+1 < len(h) && (unicode.IsLetter(h[i+1]) || unicode.IsDigit(h[i+1])) {
			continue
		}
		words++ // it ends here
		score := (1-echoShare)*float64(letters) - float64(different)
		if score >= best && words >= minEchoWords && letters >= minEchoLetters {
			best, rest = score, i+1
		}
	}
	return strings.TrimLeftFunc(string(h[rest:]), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
}

func lastLetters(text string) []rune {
	r := []rune(Letters(text))
	return r[max(0, len(r)-maxCompared):]
}

// distance is the least number of insertions, deletions and replacements that make a into any part
// of b.
func distance(a, b []rune) (n int) {
	row := newPlaces(b)
	for _, x := range a {
		n = row.add(x)
	}
	return n
}

// places compares a text that grows with the parts of another one.
type places struct {
	in  []rune
	row []int // the distance to the best part that ends at each place
}

func newPlaces(in []rune) *places { return &places{in: in, row: make([]int, len(in)+1)} } // any part may begin

// add appends a letter. It returns the distance to the best part.
func (p *places) add(x rune) (best int) {
	diagonal := p.row[0]
	p.row[0]++
	best = p.row[0]
	for j, y := range p.in {
		change := diagonal
		if x != y {
			change++
		}
		diagonal = p.row[j+1]
		p.row[j+1] = min(change, p.row[j+1]+1, p.row[j]+1)
		best = min(best, p.row[j+1])
	}
	return best
}

// HasStop reports whether a word that interrupts was heard which was not spoken by the board. It
// may be in the middle of an echo.
func HasStop(heard, spoken string) bool {
	if IsStop(heard) {
		return !strings.Contains(Letters(spoken), Letters(heard))
	}
	for word := range strings.FieldsSeq(strings.ToLower(heard)) {
		if word = Letters(word); word != "" && !isIdeogram(lastRune(word)) && IsStop(word) &&
			!strings.Contains(Letters(spoken), word) {
			return true
		}
	}
	letters, said := Letters(heard), Letters(spoken)
	for _, stop := range stops {
		if isIdeogram([]rune(stop)[0]) && strings.Contains(letters, stop) && !strings.Contains(said, stop) {
			return true
		}
	}
	return false
}

// IsStopInEcho reports whether a text in which [HasStop] says little more, apart from an echo, of
// which two of five words may be misunderstood.
func IsStopInEcho(heard, spoken string) bool {
	rest := strings.Join(slices.DeleteFunc(strings.Fields(heard), IsStop), " ")
	for _, stop := range stops {
		if isIdeogram([]rune(stop)[0]) {
			rest = strings.ReplaceAll(rest, stop, "")
		}
	}
	unknown := CountNew(rest, spoken)
	return unknown < 2 || float64(unknown) <= (1-echoShare)*float64(Count(rest))
}
