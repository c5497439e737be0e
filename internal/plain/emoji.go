package plain

import (
	"sort"
	"unicode/utf8"
)

// emojiState records whether an emoji was just removed, and whether a joiner binds the next
// character to it.
type emojiState uint8

const (
	noEmoji emojiState = iota
	afterEmoji
	joined
)

// emojiClass classifies a character as a part of an emoji (UTS #51 §1.4).
type emojiClass uint8

const (
	notEmoji emojiClass = iota
	alwaysEmoji
	// maybeEmoji is a sign like ❤ or ™, which is an emoji if the following character makes it one.
	maybeEmoji
	selector // selects the presentation of the character before it
	joiner
)

const (
	zwj            = '\u200d'
	emojiSelector  = '\ufe0f'
	keycap         = "\u20e3"
	selectedKeycap = "\ufe0f\u20e3"
)

// emojiRanges are ranges of characters, in ascending order: the emoji of Unicode's emoji-data.txt
// (UTS #51), with gaps between maybeEmoji closed, since a selector has to follow those.
var emojiRanges = []struct {
	from, to rune
	kind     emojiClass
}{
	{0xa9, 0xa9, maybeEmoji}, {0xae, 0xae, maybeEmoji},
	{zwj, zwj, joiner},
	{0x203c, 0x203c, maybeEmoji}, {0x2049, 0x2049, maybeEmoji},
	{0x20e3, 0x20e3, selector},
	{0x2122, 0x2122, maybeEmoji}, {0x2139, 0x2139, maybeEmoji}, {0x2194, 0x21aa, maybeEmoji},
	{0x2300, 0x2319, maybeEmoji}, {0x231a, 0x231b, alwaysEmoji}, {0x231c, 0x23e8, maybeEmoji},
	{0x23e9, 0x23ec, alwaysEmoji},
	{0x23ed, 0x23ef, maybeEmoji}, {0x23f0, 0x23f0, alwaysEmoji}, {0x23f1, 0x23f2, maybeEmoji},
	{0x23f3, 0x23f3, alwaysEmoji},
	{0x23f4, 0x23ff, maybeEmoji}, {0x24c2, 0x24c2, maybeEmoji}, {0x25aa, 0x25fc, maybeEmoji},
	{0x25fd, 0x25fe, alwaysEmoji},
	{0x2600, 0x2613, maybeEmoji}, {0x2614, 0x2615, alwaysEmoji}, {0x2616, 0x2647, maybeEmoji},
	{0x2648, 0x2653, alwaysEmoji},
	{0x2654, 0x267e, maybeEmoji}, {0x267f, 0x267f, alwaysEmoji}, {0x2680, 0x2692, maybeEmoji},
	{0x2693, 0x2693, alwaysEmoji},
	{0x2694, 0x26a0, maybeEmoji}, {0x26a1, 0x26a1, alwaysEmoji}, {0x26a2, 0x26a9, maybeEmoji},
	{0x26aa, 0x26ab, alwaysEmoji},
	{0x26ac, 0x26bc, maybeEmoji}, {0x26bd, 0x26be, alwaysEmoji}, {0x26bf, 0x26c3, maybeEmoji},
	{0x26c4, 0x26c5, alwaysEmoji},
	{0x26c6, 0x26cd, maybeEmoji}, {0x26ce, 0x26ce, alwaysEmoji}, {0x26cf, 0x26d3, maybeEmoji},
	{0x26d4, 0x26d4, alwaysEmoji},
	{0x26d5, 0x26e9, maybeEmoji}, {0x26ea, 0x26ea, alwaysEmoji}, {0x26eb, 0x26f1, maybeEmoji},
	{0x26f2, 0x26f3, alwaysEmoji},
	{0x26f4, 0x26f4, maybeEmoji}, {0x26f5, 0x26f5, alwaysEmoji}, {0x26f6, 0x26f9, maybeEmoji},
	{0x26fa, 0x26fa, alwaysEmoji},
	{0x26fb, 0x26fc, maybeEmoji}, {0x26fd, 0x26fd, alwaysEmoji}, {0x26fe, 0x2704, maybeEmoji},
	{0x2705, 0x2705, alwaysEmoji},
	{0x2706, 0x2709, maybeEmoji}, {0x270a, 0x270b, alwaysEmoji}, {0x270c, 0x2727, maybeEmoji},
	{0x2728, 0x2728, alwaysEmoji},
	{0x2729, 0x274b, maybeEmoji}, {0x274c, 0x274c, alwaysEmoji}, {0x274d, 0x274d, maybeEmoji},
	{0x274e, 0x274e, alwaysEmoji},
	{0x274f, 0x2752, maybeEmoji}, {0x2753, 0x2755, alwaysEmoji}, {0x2756, 0x2756, maybeEmoji},
	{0x2757, 0x2757, alwaysEmoji},
	{0x2758, 0x2794, maybeEmoji}, {0x2795, 0x2797, alwaysEmoji}, {0x2798, 0x27af, maybeEmoji},
	{0x27b0, 0x27b0, alwaysEmoji},
	{0x27b1, 0x27be, maybeEmoji}, {0x27bf, 0x27bf, alwaysEmoji},
	{0x2934, 0x2935, maybeEmoji}, {0x2b05, 0x2b1a, maybeEmoji}, {0x2b1b, 0x2b1c, alwaysEmoji},
	{0x2b1d, 0x2b4f, maybeEmoji},
	{0x2b50, 0x2b50, alwaysEmoji}, {0x2b51, 0x2b54, maybeEmoji}, {0x2b55, 0x2b55, alwaysEmoji},
	{0x3030, 0x3030, maybeEmoji}, {0x303d, 0x303d, maybeEmoji}, {0x3297, 0x3297, maybeEmoji},
	{0x3299, 0x3299, maybeEmoji},
	{0xfe0e, 0xfe0f, selector},
	{0x1f004, 0x1f004, alwaysEmoji}, {0x1f0cf, 0x1f0cf, alwaysEmoji}, {0x1f170, 0x1f171, alwaysEmoji},
	{0x1f17e, 0x1f17f, alwaysEmoji},
	{0x1f18e, 0x1f18e, alwaysEmoji}, {0x1f191, 0x1f19a, alwaysEmoji}, {0x1f1e6, 0x1f1ff, alwaysEmoji},
	{0x1f201, 0x1f202, alwaysEmoji},
	{0x1f21a, 0x1f21a, alwaysEmoji}, {0x1f22f, 0x1f22f, alwaysEmoji}, {0x1f232, 0x1f23a, alwaysEmoji},
	{0x1f250, 0x1f251, alwaysEmoji},
	{0x1f300, 0x1f64f, alwaysEmoji}, {0x1f680, 0x1f6ff, alwaysEmoji}, {0x1f7e0, 0x1f7eb, alwaysEmoji},
	{0x1f7f0, 0x1f7f0, alwaysEmoji},
	{0x1f90c, 0x1f9ff, alwaysEmoji}, {0x1fa70, 0x1faff, alwaysEmoji},
	{0xe0020, 0xe007f, selector}, // tags that spell the region of a flag
}

func emojiClassOf(r rune) emojiClass {
	if r < 0xa9 || r > 0x3299 && r < 0xfe0e || r > 0xe007f {
		return notEmoji
	}
	i := sort.Search(len(emojiRanges), func(i int) bool { return emojiRanges[i].to >= r })
	if i == len(emojiRanges) || r < emojiRanges[i].from {
		return notEmoji
	}
	return emojiRanges[i].kind
}

func isSkinTone(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

// nonASCII processes a character that is not ASCII.
func (f *Filter) nonASCII(l window) bool {
	r, ok := l.rune(0)
	if !ok {
		return false
	}
	_, n := utf8.DecodeRune(l.b)
	if r == utf8.RuneError && n == 1 {
		f.writeString(string(utf8.RuneError))
		f.advance(1)
		return true
	}
	if r == '（' && f.opt.URLs {
		return f.beginAddress(l, n)
	}
	kind := notEmoji
	if f.opt.Emoji {
		kind = emojiClassOf(r)
	}
	switch kind {
	case alwaysEmoji:
		f.dropEmoji(n)
		return true
	case selector:
		f.pos += n // not a character of its own
		return true
	case joiner:
		if f.emoji != noEmoji {
			f.pos += n
			f.emoji = joined
			return true
		}
	case maybeEmoji:
		next, ok := l.rune(n)
		if !ok {
			return false
		}
		if f.emoji == joined || next == emojiSelector || next == zwj || isSkinTone(next) {
			f.dropEmoji(n)
			return true
		}
	}
	f.emit(n)
	return true
}

// dropEmoji skips n bytes that are an emoji or a part of one.
func (f *Filter) dropEmoji(n int) {
	f.noteRemoved()
	f.advance(n)
	f.emoji = afterEmoji
}

// keycap returns the length of an emoji such as 1️⃣, or 0 if there is none.
func (l window) keycap() (n int, ok bool) {
	rest := window{l.b[1:], l.more, l.end}
	for _, s := range []string{keycap, selectedKeycap} {
		yes, ok := rest.prefix(s)
		if !ok {
			return 0, false
		}
		if yes {
			return 1 + len(s), true
		}
	}
	return 0, true
}
