package account

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// ErrNameAlike means that a name looks like another person's. Whoever approves, shares or removes
// something could not tell the two apart.
var ErrNameAlike = i18n.Message("the name looks too much like another").Errorf()

const msgNameAlike = i18n.Message("%v: somebody is called %q; choose another")

// looksAlike returns an error if the name of p is, or looks like, the name of another person. A
// name that p has already may stay.
func looksAlike(p store.Person, others []store.Person) error {
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
		if a, b := foldLookalikes(o.Name), foldLookalikes(p.Name); strings.EqualFold(a, b) ||
			singleStroke.Replace(a) == singleStroke.Replace(b) {
			return msgNameAlike.Errorf(ErrNameAlike, o.Name)
		}
	}
	return nil
}

// singleStroke replaces characters that most fonts show as one vertical stroke by one of them, and
// rings likewise.
var singleStroke = strings.NewReplacer("I", "l", "1", "l", "|", "l", "0", "O")

// foldLookalikes replaces letters that look like Latin letters by those, and drops invisible
// characters.
func foldLookalikes(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) ||
			r == '\u3164' {
			return -1
		}
		if latin, ok := latinLookalikes[r]; ok {
			return latin
		}
		return r
	}, norm.NFKC.String(name))
}

// latinLookalikes maps Cyrillic, Greek and Armenian letters, and signs, to the Latin ones they look
// like, following the confusables of the Unicode Consortium (UTS 39).
var latinLookalikes = pairs(
	"авсеіјкмнорԛѕтухԝһӏԁɡ", "abceijkmhopqstyxwhldg",
	"АВСЕНІЈКМОРЅТХУԚԜӀҮ", "ABCEHIJKMOPSTXYQWlY",
	"αγεικνορυχω", "ayeikvopuxw",
	"ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX",
	"օսոհցզյ", "ouhhgqj",
	"ı‐‑‒–—―−ǀ∣", "i-------ll",
)

// pairs maps each letter of every first text to the letter at the same position in the text after
// it.
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
