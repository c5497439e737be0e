package account

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// ErrNameAlike is a name that looks like somebody else's: whoever approves, shares or
// removes something could not tell the two.
var ErrNameAlike = talk.Say{Zh: "名称看起来太像了", En: "the name looks too much like another"}.Wrong()

var sayNameAlike = talk.Say{Zh: "%v：已经有人叫 %q，请换一个", En: "%v: somebody is called %q; choose another"}

// alike finds somebody else whose name looks like the one that a person is to have. One
// that the person has already may stay.
func alike(p store.Person, others []store.Person) error {
	for _, o := range others {
		if o.ID == p.ID && o.Name == p.Name {
			return nil
		}
	}
	for _, o := range others {
		if o.ID == p.ID {
			continue
		}
		if o.Name == p.Name {
			return ErrPersonName
		}
		if a, b := plainLetters(o.Name), plainLetters(p.Name); strings.EqualFold(a, b) || oneStroke.Replace(a) == oneStroke.Replace(b) {
			return sayNameAlike.Wrong(ErrNameAlike, o.Name)
		}
	}
	return nil
}

// oneStroke makes what is one vertical stroke in most fonts the same, and rings too.
var oneStroke = strings.NewReplacer("I", "l", "1", "l", "|", "l", "0", "O")

// plainLetters is a name in Latin letters where others look the same, without what is not
// seen.
func plainLetters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) || r == '\u3164' {
			return -1
		}
		if latin, ok := looksLatin[r]; ok {
			return latin
		}
		return r
	}, norm.NFKC.String(name))
}

// looksLatin has the letters of Cyrillic, Greek and Armenian, and signs, that look like
// Latin ones, as the Unicode Consortium's confusables (UTS 39) have them.
var looksLatin = pairs(
	"авсеіјкмнорԛѕтухԝһӏԁɡ", "abceijkmhopqstyxwhldg",
	"АВСЕНІЈКМОРЅТХУԚԜӀҮ", "ABCEHIJKMOPSTXYQWlY",
	"αγεικνορυχω", "ayeikvopuxw",
	"ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX",
	"օսոհցզյ", "ouhhgqj",
	"ı‐‑‒–—―−ǀ∣", "i-------ll",
)

// pairs maps the letters of each text to those of the one that follows.
func pairs(texts ...string) map[rune]rune {
	m := map[rune]rune{}
	for i := 0; i < len(texts); i += 2 {
		to := []rune(texts[i+1])
		for j, r := range []rune(texts[i]) {
			m[r] = to[j]
		}
	}
	return m
}
