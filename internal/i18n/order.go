package i18n

import (
	"cmp"
	"slices"
	"unicode"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/unicode/norm"
)

// Compare compares two names in the alphabetical order of the language: letters without regard to
// case and accents, Chinese characters by their sound.
//
// The order of characters is that of the national character sets, GB 2312 and JIS X 0208, whose
// usual characters are sorted by sound. Their tables are in the program anyway, while
// golang.org/x/text/collate is 1.5 MB of it.
func (l Lang) Compare(a, b string) int {
	return cmp.Or(slices.Compare(l.sortKey(a), l.sortKey(b)), cmp.Compare(a, b))
}

// Places of a sort key: letters, then characters that the national character set has, then others.
const listedKey, otherKey = 1 << 24, 1 << 25

// sortKey returns what is compared of a name, a number for each letter.
func (l Lang) sortKey(name string) (key []rune) {
	var e *encoding.Encoder
	switch l {
	case "zh":
		e = simplifiedchinese.GBK.NewEncoder()
	case "ja":
		e = japanese.EUCJP.NewEncoder()
	}
	for _, r := range norm.NFKD.String(name) {
		switch {
		case unicode.Is(unicode.Mn, r): // accents
		case e == nil || !unicode.Is(unicode.Han, r):
			key = append(key, unicode.ToLower(r))
		default:
			key = append(key, hanKey(e, r))
		}
	}
	return key
}

// hanKey returns the place of a Chinese character in a character set of two bytes.
func hanKey(e *encoding.Encoder, r rune) rune {
	b, err := e.Bytes([]byte(string(r)))
	// Both bytes of a character that the national set has, and not an extension of it, are at
	// least A1 (GB 2312-80 and JIS X 0208, in the form EUC).
	if err != nil || len(b) != 2 || b[0] < 0xA1 || b[1] < 0xA1 {
		return otherKey + r
	}
	return listedKey + rune(b[0])<<8 + rune(b[1])
}
