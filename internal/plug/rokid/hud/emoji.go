package hud

import (
	"sort"
	"unicode/utf8"
)

// emojiState says whether an emoji was just taken out, and whether a joiner
// binds the next character to it.
type emojiState uint8

const (
	noEmoji emojiState = iota
	afterEmoji
	joined
)

// picture says what a character is as a part of an emoji.
type picture uint8

const (
	noPicture picture = iota
	alwaysPicture
	// maybePicture is a sign like ❤ or ™, which is an emoji if what follows makes
	// it one.
	maybePicture
	selector // chooses how the character before it looks
	joiner
)

const (
	zwj            = '\u200d'
	asEmoji        = '\ufe0f'
	keycap         = "\u20e3"
	selectedKeycap = "\ufe0f\u20e3"
)

// pictures are ranges of characters, in order.
var pictures = []struct {
	from, to rune
	kind     picture
}{
	{0xa9, 0xa9, maybePicture}, {0xae, 0xae, maybePicture},
	{zwj, zwj, joiner},
	{0x203c, 0x203c, maybePicture}, {0x2049, 0x2049, maybePicture},
	{0x20e3, 0x20e3, selector},
	{0x2122, 0x2122, maybePicture}, {0x2139, 0x2139, maybePicture}, {0x2194, 0x21aa, maybePicture},
	{0x2300, 0x2319, maybePicture}, {0x231a, 0x231b, alwaysPicture}, {0x231c, 0x23e8, maybePicture}, {0x23e9, 0x23ec, alwaysPicture},
	{0x23ed, 0x23ef, maybePicture}, {0x23f0, 0x23f0, alwaysPicture}, {0x23f1, 0x23f2, maybePicture}, {0x23f3, 0x23f3, alwaysPicture},
	{0x23f4, 0x23ff, maybePicture}, {0x24c2, 0x24c2, maybePicture}, {0x25aa, 0x25fc, maybePicture}, {0x25fd, 0x25fe, alwaysPicture},
	{0x2600, 0x2613, maybePicture}, {0x2614, 0x2615, alwaysPicture}, {0x2616, 0x2647, maybePicture}, {0x2648, 0x2653, alwaysPicture},
	{0x2654, 0x267e, maybePicture}, {0x267f, 0x267f, alwaysPicture}, {0x2680, 0x2692, maybePicture}, {0x2693, 0x2693, alwaysPicture},
	{0x2694, 0x26a0, maybePicture}, {0x26a1, 0x26a1, alwaysPicture}, {0x26a2, 0x26a9, maybePicture}, {0x26aa, 0x26ab, alwaysPicture},
	{0x26ac, 0x26bc, maybePicture}, {0x26bd, 0x26be, alwaysPicture}, {0x26bf, 0x26c3, maybePicture}, {0x26c4, 0x26c5, alwaysPicture},
	{0x26c6, 0x26cd, maybePicture}, {0x26ce, 0x26ce, alwaysPicture}, {0x26cf, 0x26d3, maybePicture}, {0x26d4, 0x26d4, alwaysPicture},
	{0x26d5, 0x26e9, maybePicture}, {0x26ea, 0x26ea, alwaysPicture}, {0x26eb, 0x26f1, maybePicture}, {0x26f2, 0x26f3, alwaysPicture},
	{0x26f4, 0x26f4, maybePicture}, {0x26f5, 0x26f5, alwaysPicture}, {0x26f6, 0x26f9, maybePicture}, {0x26fa, 0x26fa, alwaysPicture},
	{0x26fb, 0x26fc, maybePicture}, {0x26fd, 0x26fd, alwaysPicture}, {0x26fe, 0x2704, maybePicture}, {0x2705, 0x2705, alwaysPicture},
	{0x2706, 0x2709, maybePicture}, {0x270a, 0x270b, alwaysPicture}, {0x270c, 0x2727, maybePicture}, {0x2728, 0x2728, alwaysPicture},
	{0x2729, 0x274b, maybePicture}, {0x274c, 0x274c, alwaysPicture}, {0x274d, 0x274d, maybePicture}, {0x274e, 0x274e, alwaysPicture},
	{0x274f, 0x2752, maybePicture}, {0x2753, 0x2755, alwaysPicture}, {0x2756, 0x2756, maybePicture}, {0x2757, 0x2757, alwaysPicture},
	{0x2758, 0x2794, maybePicture}, {0x2795, 0x2797, alwaysPicture}, {0x2798, 0x27af, maybePicture}, {0x27b0, 0x27b0, alwaysPicture},
	{0x27b1, 0x27be, maybePicture}, {0x27bf, 0x27bf, alwaysPicture},
	{0x2934, 0x2935, maybePicture}, {0x2b05, 0x2b1a, maybePicture}, {0x2b1b, 0x2b1c, alwaysPicture}, {0x2b1d, 0x2b4f, maybePicture},
	{0x2b50, 0x2b50, alwaysPicture}, {0x2b51, 0x2b54, maybePicture}, {0x2b55, 0x2b55, alwaysPicture},
	{0x3030, 0x3030, maybePicture}, {0x303d, 0x303d, maybePicture}, {0x3297, 0x3297, maybePicture}, {0x3299, 0x3299, maybePicture},
	{0xfe0e, 0xfe0f, selector},
	{0x1f004, 0x1f004, alwaysPicture}, {0x1f0cf, 0x1f0cf, alwaysPicture}, {0x1f170, 0x1f171, alwaysPicture}, {0x1f17e, 0x1f17f, alwaysPicture},
	{0x1f18e, 0x1f18e, alwaysPicture}, {0x1f191, 0x1f19a, alwaysPicture}, {0x1f1e6, 0x1f1ff, alwaysPicture}, {0x1f201, 0x1f202, alwaysPicture},
	{0x1f21a, 0x1f21a, alwaysPicture}, {0x1f22f, 0x1f22f, alwaysPicture}, {0x1f232, 0x1f23a, alwaysPicture}, {0x1f250, 0x1f251, alwaysPicture},
	{0x1f300, 0x1f64f, alwaysPicture}, {0x1f680, 0x1f6ff, alwaysPicture}, {0x1f7e0, 0x1f7eb, alwaysPicture}, {0x1f7f0, 0x1f7f0, alwaysPicture},
	{0x1f90c, 0x1f9ff, alwaysPicture}, {0x1fa70, 0x1faff, alwaysPicture},
	{0xe0020, 0xe007f, selector}, // spell the region of a flag
}

func kindOf(r rune) picture {
	if r < 0xa9 || r > 0x3299 && r < 0xfe0e || r > 0xe007f {
		return noPicture
	}
	i := sort.Search(len(pictures), func(i int) bool { return pictures[i].to >= r })
	if i == len(pictures) || r < pictures[i].from {
		return noPicture
	}
	return pictures[i].kind
}

func isSkinTone(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

// wide reads a character that is not ASCII.
func (f *Filter) wide(l look) bool {
	r, ok := l.rune(0)
	if !ok {
		return false
	}
	_, n := utf8.DecodeRune(l.b)
	if r == utf8.RuneError && n == 1 {
		f.putString(string(utf8.RuneError))
		f.pass(1)
		return true
	}
	if r == '（' && f.opt.URLs {
		return f.beginAddress(l, n)
	}
	kind := noPicture
	if f.opt.Emoji {
		kind = kindOf(r)
	}
	switch kind {
	case alwaysPicture:
		f.dropEmoji(n)
		return true
	case selector:
		f.pos += n // it is no character of its own
		return true
	case joiner:
		if f.emoji != noEmoji {
			f.pos += n
			f.emoji = joined
			return true
		}
	case maybePicture:
		next, ok := l.rune(n)
		if !ok {
			return false
		}
		if f.emoji == joined || next == asEmoji || next == zwj || isSkinTone(next) {
			f.dropEmoji(n)
			return true
		}
	}
	f.show(n)
	return true
}

// dropEmoji goes past n bytes that are an emoji, or a part of one.
func (f *Filter) dropEmoji(n int) {
	f.gone()
	f.pass(n)
	f.emoji = afterEmoji
}

// keycap is the length of the emoji 1️⃣ or one like it, 0 if there is none.
func (l look) keycap() (n int, ok bool) {
	rest := look{l.b[1:], l.more, l.end}
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
