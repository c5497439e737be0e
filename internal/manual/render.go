package manual

import (
	"bytes"
	"path"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"

	"patchbay/internal/i18n"
)

// markdown returns the reader and renderer of pages. Comments and other raw HTML are left out.
var markdown = sync.OnceValue(func() goldmark.Markdown { return newMarkdown() })

func newMarkdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
		extension.Strikethrough, extension.Linkify))
}

// joinLines joins the lines of Chinese and Japanese paragraphs: without a space between their
// characters and around their punctuation, and with one between such a character and a Latin word,
// as these pages are written.
func joinLines(root ast.Node, source []byte) error {
	var last *ast.Text // which ends a line; the next text begins one
	var before rune    // the last character before it, perhaps in a link that ends there
	return ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n.Kind() {
		case ast.KindAutoLink, ast.KindRawHTML, ast.KindString:
			last, before = nil, 0
		}
		if n.Type() == ast.TypeBlock {
			last, before = nil, 0
		}
		t, ok := n.(*ast.Text)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		if text := t.Segment.Value(source); len(text) > 0 {
			if after, _ := utf8.DecodeRune(text); last != nil && (isWide(before) && isWide(after) ||
				isWidePunctuation(before) || isWidePunctuation(after)) {
				last.SetSoftLineBreak(false)
			}
			last = nil
			before, _ = utf8.DecodeLastRune(text)
		}
		if t.SoftLineBreak() {
			last = t
		}
		return ast.WalkContinue, nil
	})
}

// isWidePunctuation reports whether a character is punctuation that has its space in itself: of the
// blocks CJK Symbols and Punctuation, and Halfwidth and Fullwidth Forms.
func isWidePunctuation(r rune) bool {
	return r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef || r == '“' || r == '”' || r == '—' || r == '…'
}

// Place says where the pages are shown.
type Place struct {
	// Page returns the address of a page, and Picture that of a picture, by its path in the
	// manual's folder.
	Page    func(name string) string
	Picture func(file string) string
}

// HTML renders the page. Links to other pages lead to the place's addresses, and those to other
// hosts open in a new tab; links to files that are not pages become plain text. An anchor of a page
// in another language than the link's becomes that of the page's own language.
func (m *Manual) HTML(p *Page, at Place) (string, error) {
	// The tree is changed while it is rendered, so each rendering has its own.
	d := parse(p)
	var links []ast.Node
	err := ast.Walk(d.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering && (n.Kind() == ast.KindLink || n.Kind() == ast.KindImage) {
			links = append(links, n)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", err
	}
	for _, n := range links {
		switch n := n.(type) {
		case *ast.Link:
			m.relink(p, n, at)
		case *ast.Image:
			n.Destination = []byte(at.Picture(string(n.Destination)))
		}
	}
	if p.Lang != i18n.English {
		if err := joinLines(d.root, p.source); err != nil {
			return "", err
		}
	}
	var out bytes.Buffer
	if err := markdown().Renderer().Render(&out, p.source, d.root); err != nil {
		return "", err
	}
	return focusable.Replace(out.String()), nil
}

// focusable lets the keyboard scroll what is wider than the page.
var focusable = strings.NewReplacer("<!-- raw HTML omitted -->\n", "", "<!-- raw HTML omitted -->", "",
	"<pre>", `<pre tabindex="0">`, "<table>", `<div class="table" tabindex="0"><table>`, "</table>", "</table></div>")

// relink gives a link its address at a place.
func (m *Manual) relink(p *Page, l *ast.Link, at Place) {
	target, fragment, hasFragment := strings.Cut(string(l.Destination), "#")
	if strings.Contains(target, "://") {
		l.SetAttributeString("rel", []byte("noopener noreferrer"))
		l.SetAttributeString("target", []byte("_blank"))
		return
	}
	if target == "" {
		return
	}
	name, lang := split(target)
	if path.Ext(target) != ".md" || m.pages[name] == nil {
		unwrap(l)
		return
	}
	address := at.Page(name)
	if to, _ := m.Page(name, p.Lang); hasFragment {
		if to.Lang != lang {
			fragment = m.Anchor(name, to.Lang, fragment)
		}
		if fragment != "" {
			address += "#" + fragment
		}
	}
	l.Destination = []byte(address)
}

// unwrap replaces a link with its words.
func unwrap(n ast.Node) {
	parent := n.Parent()
	for child := n.FirstChild(); child != nil; {
		next := child.NextSibling()
		parent.InsertBefore(parent, n, child)
		child = next
	}
	parent.RemoveChild(parent, n)
}

// words returns the words of a node without formatting, those of blocks of code included.
func words(n ast.Node, source []byte) string {
	var out strings.Builder
	ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { //nolint:errcheck // nothing here fails
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				out.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				out.Write(n.Label(source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := 0; entering && i < n.Lines().Len(); i++ {
				line := n.Lines().At(i)
				out.Write(line.Value(source))
			}
		case *ast.HTMLBlock, *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		case *extast.TableCell, *ast.ListItem, *ast.Paragraph:
			if !entering {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// isWord reports whether a character is part of a word.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }
