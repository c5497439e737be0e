package manual

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/i18n"
)

// section is a heading with the words below it, up to the next heading.
type section struct {
	heading Heading // empty: what stands above the first one
	text    string
}

// Hit is a section that has all words of a query.
type Hit struct {
	Section
	// Excerpt is a part of the section's words around the first that was looked for.
	Excerpt string

	score int
}

// Section is a section of a page in a language.
type Section struct {
	Page    *Page
	Heading Heading // empty: what stands above the first heading
	Text    string  // words without formatting
}

// Name returns what the section is called: the title of its page, and its heading.
func (s *Section) Name() string {
	if s.Heading.Text == "" || s.Heading.Text == s.Page.Title {
		return s.Page.Title
	}
	return s.Page.Title + " · " + s.Heading.Text
}

// Sections lists the sections of all pages in a language; of pages that it lacks, in English.
func (m *Manual) Sections(lang i18n.Lang) (out []Section) {
	for _, name := range m.Names() {
		p, ok := m.Page(name, lang)
		if !ok {
			continue
		}
		for _, s := range p.parsed().sections {
			out = append(out, Section{p, s.heading, s.text})
		}
	}
	return out
}

// Limits of a search.
const (
	maxQuery   = 200 // bytes
	maxTerms   = 16
	excerptLen = 160 // characters
)

// Search returns the sections that have all words of a query, the best first: those with words in
// their heading, and in the title of their page. Pages that a language lacks are searched in
// English. Words match from their beginning; of texts without spaces, any two neighbouring
// characters count as a word.
func (m *Manual) Search(lang i18n.Lang, query string, limit int) []Hit {
	terms := queryTerms(query)
	if len(terms) == 0 {
		return nil
	}
	var hits []Hit
	for _, sec := range m.Sections(lang) {
		if score := sec.score(terms); score > 0 {
			hits = append(hits, Hit{Section: sec, Excerpt: excerpt(sec.Text, terms), score: score})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.score, a.score) })
	return hits[:min(len(hits), limit)]
}

// queryTerms splits a query into words in lower case.
func queryTerms(query string) []string {
	query = strings.ToLower(query[:min(len(query), maxQuery)])
	var terms []string
	isSpace := func(r rune) bool { return unicode.IsSpace(r) || r == utf8.RuneError }
	for word := range strings.FieldsFuncSeq(query, isSpace) {
		if letters := []rune(word); len(letters) > 2 && slices.ContainsFunc(letters, isWide) {
			for i := range len(letters) - 1 {
				terms = append(terms, string(letters[i:i+2]))
			}
			continue
		}
		terms = append(terms, word)
	}
	return terms[:min(len(terms), maxTerms)]
}

// isWide reports whether a character belongs to a script that is written without spaces.
func isWide(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// score rates a section; 0 means that a term is missing.
func (s *Section) score(terms []string) int {
	heading, title := strings.ToLower(s.Heading.Text), strings.ToLower(s.Page.Title)
	text := strings.ToLower(s.Text)
	total := 0
	for _, term := range terms {
		score := 10*countStarts(heading, term) + 4*countStarts(title, term) + min(countStarts(text, term), 5)
		if score == 0 {
			return 0
		}
		total += score
	}
	return total
}

// countStarts counts the places where a term begins a word, or of wide characters, all places.
func countStarts(text, term string) (n int) {
	first, _ := utf8.DecodeRuneInString(term)
	for at := 0; ; {
		i := strings.Index(text[at:], term)
		if i < 0 {
			return n
		}
		at += i
		if before, _ := utf8.DecodeLastRuneInString(text[:at]); !isWord(first) || isWide(first) || !isWord(before) {
			n++
		}
		at += len(term)
	}
}

// excerpt returns a part of a text, which has no line breaks, around the first term that occurs.
func excerpt(text string, terms []string) string {
	at, lower := len(text), strings.ToLower(text)
	for _, term := range terms {
		if i := strings.Index(lower, term); i >= 0 && len(lower) == len(text) {
			at = min(at, i)
		}
	}
	letters := []rune(text[:min(at, len(text))])
	if at == len(text) {
		letters = nil
	}
	from := max(len(letters)-excerptLen/4, 0)
	all := []rune(text)
	to := min(from+excerptLen, len(all))
	out := string(all[from:to])
	if from > 0 {
		out = "…" + out
	}
	if to < len(all) {
		out += "…"
	}
	return out
}
