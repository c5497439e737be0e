// Package manual shows the pages of the manual, and finds words in them.
//
// A page is written in Markdown, as NAME.md in English and NAME.TAG.md in another language, for
// readers on a code host. Here the same files become pages of the console and of a static site:
// links between them are changed to the addresses of the reader's place, in the reader's language.
package manual

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"patchbay/internal/i18n"
)

// Manual is all pages in all languages. It is safe for concurrent use.
type Manual struct {
	pages map[string]map[i18n.Lang]*Page
}

// Page is a page of the manual in one language.
type Page struct {
	Name  string // such as "learn"
	Lang  i18n.Lang
	Title string

	source []byte
	parsed func() *document
}

// document is a parsed page.
type document struct {
	root     ast.Node
	headings []Heading
	sections []section
}

// Heading is a heading of a page.
type Heading struct {
	Level  int    // 1 to 6
	Text   string // without formatting
	Anchor string // as GitHub makes it
}

// New reads the pages of a folder.
func New(files fs.FS) (*Manual, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	m := &Manual{pages: map[string]map[i18n.Lang]*Page{}}
	for _, file := range names {
		source, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, fmt.Errorf("read the manual: %w", err)
		}
		m.add(file, source)
	}
	return m, nil
}

func (m *Manual) add(file string, source []byte) {
	name, lang := split(file)
	p := &Page{Name: name, Lang: lang, source: source, Title: name}
	if _, head, ok := strings.Cut("\n"+string(source), "\n# "); ok {
		title, _, _ := strings.Cut(head, "\n")
		p.Title = strings.Trim(title, " `")
	}
	p.parsed = sync.OnceValue(func() *document { return parse(p) })
	if m.pages[name] == nil {
		m.pages[name] = map[i18n.Lang]*Page{}
	}
	m.pages[name][lang] = p
}

// split returns the name and the language of a page's file.
func split(file string) (name string, lang i18n.Lang) {
	name, tag, ok := strings.Cut(strings.TrimSuffix(file, ".md"), ".")
	if !ok {
		return name, i18n.English
	}
	return name, i18n.ParseLang(tag, i18n.English)
}

// Page returns a page in a language, or in English if it is not there in that language.
func (m *Manual) Page(name string, lang i18n.Lang) (*Page, bool) {
	for _, l := range []i18n.Lang{lang, i18n.English} {
		if p, ok := m.pages[name][l]; ok {
			return p, true
		}
	}
	return nil, false
}

// Names lists all pages by name.
func (m *Manual) Names() []string {
	names := make([]string, 0, len(m.pages))
	for name := range m.pages {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Headings lists the headings of the page in their order.
func (p *Page) Headings() []Heading { return p.parsed().headings }

// Headings lists the headings of a text in Markdown in their order.
func Headings(source []byte) []Heading { return parse(&Page{source: source}).headings }

// Anchor returns the anchor in a page in some language of the heading that has the given one in
// English: the heading at the same place, if both pages are built alike. Otherwise it is empty.
func (m *Manual) Anchor(name string, lang i18n.Lang, english string) string {
	from, ok := m.pages[name][i18n.English]
	to, translated := m.Page(name, lang)
	if !ok || !translated {
		return ""
	}
	here, there := from.Headings(), to.Headings()
	if len(here) != len(there) {
		return ""
	}
	for i, h := range here {
		if h.Level != there[i].Level {
			return ""
		}
		if h.Anchor == english {
			return there[i].Anchor
		}
	}
	return ""
}

// parse reads a page.
func parse(p *Page) *document {
	d := &document{root: markdown().Parser().Parse(text.NewReader(p.source))}
	dropSwitch(d.root, p)
	seen := map[string]int{}
	here := section{}
	for n := d.root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			here.text += words(n, p.source) + "\n"
			continue
		}
		heading := Heading{Level: h.Level, Text: strings.TrimSpace(words(h, p.source))}
		heading.Anchor = anchor(heading.Text)
		seen[heading.Anchor]++
		if n := seen[heading.Anchor]; n > 1 {
			heading.Anchor += fmt.Sprintf("-%d", n-1)
		}
		h.SetAttributeString("id", []byte(heading.Anchor))
		d.headings = append(d.headings, heading)
		d.addSection(here)
		here = section{heading: heading}
	}
	d.addSection(here)
	return d
}

// addSection adds a section unless it is empty.
func (d *document) addSection(s section) {
	if s.text = strings.Join(strings.Fields(s.text), " "); s.text != "" || s.heading.Text != "" {
		d.sections = append(d.sections, s)
	}
}

// dropSwitch removes the line that links to the same page in another language: the reader's place
// has a choice of languages of its own.
func dropSwitch(root ast.Node, p *Page) {
	for n := root.FirstChild(); n != nil && n.Kind() != ast.KindHeading || n == root.FirstChild(); n = n.NextSibling() {
		next := n.NextSibling()
		if next == nil {
			return
		}
		l, ok := next.FirstChild().(*ast.Link)
		if !ok || next.ChildCount() != 1 {
			continue
		}
		if name, lang := split(string(l.Destination)); name == p.Name && lang != p.Lang {
			root.RemoveChild(root, next)
			return
		}
	}
}

// anchor returns the anchor of a heading, as GitHub makes it: letters in lower case, digits, "-"
// and "_", with "-" in place of spaces.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || isWord(r):
			return r
		}
		return -1
	}, strings.ToLower(heading))
}
