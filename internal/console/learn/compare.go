package learn

import (
	"html"
	"strings"
	"unicode"

	"github.com/a-h/templ"
)

// piece is a part of a text that is compared with another.
type piece struct {
	Text string
	Same bool // also in the other text
}

// comparedMost limits the work of a comparison, in pairs of words.
const comparedMost = 1 << 20

// differences marks the words that only one of two texts has. Each Han, kana or Thai character is a
// word of its own. Case and punctuation are ignored. It returns nil for texts that are too long.
func differences(recall, answer string) (recalled, answered []piece) {
	a, b := pieces(recall), pieces(answer)
	as, bs := wordIndexes(a), wordIndexes(b)
	if len(as)*len(bs) > comparedMost {
		return nil, nil
	}
	// length[i][j] is the length of the longest common subsequence of as[i:] and bs[j:].
	length := make([][]int32, len(as)+1)
	for i := range length {
		length[i] = make([]int32, len(bs)+1)
	}
	same := func(i, j int) bool { return strings.EqualFold(a[as[i]].Text, b[bs[j]].Text) }
	for i := len(as) - 1; i >= 0; i-- {
		for j := len(bs) - 1; j >= 0; j-- {
			if same(i, j) {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(as) && j < len(bs); {
		switch {
		case same(i, j):
			a[as[i]].Same, b[bs[j]].Same = true, true
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return mergePieces(a), mergePieces(b)
}

// pieces splits a text into words and what is between them.
func pieces(text string) []piece {
	var out []piece
	begin, was := 0, rune(0)
	for i, r := range text {
		if kind := runeClass(r); i > begin && (kind != runeClass(was) || kind == 'c') {
			out = append(out, piece{Text: text[begin:i]})
			begin = i
		}
		was = r
	}
	if begin < len(text) {
		out = append(out, piece{Text: text[begin:]})
	}
	return out
}

// runeClass returns whether a character is a word by itself, part of a word, or a separator.
func runeClass(r rune) byte {
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
		return 'c'
	case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		return 'w'
	}
	return ' '
}

// wordIndexes returns the indexes of the words, and marks the separators as equal.
func wordIndexes(list []piece) []int {
	var out []int
	for i := range list {
		first := []rune(list[i].Text)[0]
		if list[i].Same = runeClass(first) == ' '; !list[i].Same {
			out = append(out, i)
		}
	}
	return out
}

// mergePieces joins neighbours that are marked alike. A separator between two marked words is
// marked too, so that a phrase gets one mark.
func mergePieces(list []piece) []piece {
	var out []piece
	for i, p := range list {
		between := p.Same && i > 0 && i+1 < len(list) && !list[i-1].Same && !list[i+1].Same &&
			runeClass([]rune(p.Text)[0]) == ' '
		same := p.Same && !between
		if n := len(out); n > 0 && out[n-1].Same == same {
			out[n-1].Text += p.Text
		} else {
			out = append(out, piece{p.Text, same})
		}
	}
	return out
}

// marks renders a text with the marked pieces inside an HTML tag. A template would put spaces
// between the pieces, which Chinese does not have.
func marks(list []piece, tag string) templ.Component {
	var out strings.Builder
	for _, p := range list {
		text := html.EscapeString(p.Text)
		if !p.Same {
			text = "<" + tag + ">" + text + "</" + tag + ">"
		}
		out.WriteString(text)
	}
	return templ.Raw(out.String())
}
