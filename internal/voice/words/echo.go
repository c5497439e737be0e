package words

import "strings"

// echoShare is the share of the letters of a text that have to be in what was spoken for the text
// to be an echo.
const echoShare = 0.6

// maxCompared limits the letters that are compared: ten seconds of quick speech have 200. Of longer
// texts the end counts.
const maxCompared = 256

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

func lastLetters(text string) []rune {
	r := []rune(Letters(text))
	return r[max(0, len(r)-maxCompared):]
}

// distance is the least number of insertions, deletions and replacements that make a into any part
// of b.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1) // for an empty part of a, any place of b will do
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range b {
			change := diagonal
			if x != y {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	best := len(a)
	for _, d := range row {
		best = min(best, d)
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
