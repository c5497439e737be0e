// Package markdown renders Markdown of people and of models as HTML that cannot do anything to the
// page around it.
package markdown

import (
	"bytes"
	"context"
	"html"
	"io"
	"net/url"
	"strings"

	"github.com/a-h/templ"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"patchbay/internal/plug/learn/card"
)

// Limits of what is rendered as Markdown. The parser takes quadratic time or memory in each of
// them. A text beyond a limit is shown as plain text.
const (
	maxText  = 64 << 10 // in bytes
	maxDepth = 32       // markers of quotes and lists at the beginning of a line
	maxLinks = 1000     // opening brackets
	maxMarks = 4000     // emphasis markers
	maxCells = 50_000   // table cells: short rows are filled up
)

// isWithinLimits reports, in linear time, whether a text is within the limits.
func isWithinLimits(source string) bool {
	if len(source) > maxText || strings.Count(source, "[") > maxLinks ||
		strings.Count(source, "$")+strings.Count(source, `\(`) > maxFormulas {
		return false
	}
	marks, lines, columns := 0, 0, 0
	for _, mark := range []string{"*", "_", "~", "`"} {
		marks += strings.Count(source, mark)
	}
	for line := range strings.SplitSeq(source, "\n") {
		lines++
		depth := 0
		text := strings.TrimLeft(line, " \t>-+*.)0123456789")
		line = line[:len(line)-len(text)]
		if ruled := strings.Trim(line, " \t-") == "" || strings.Trim(line, " \t*") == ""; text != "" || !ruled {
			for _, mark := range ">-+*.)" {
				depth += strings.Count(line, string(mark))
			}
		}
		if depth > maxDepth {
			return false
		}
		if strings.Trim(text, "|-: \t\r") == "" { // separator between a table's header and its rows
			columns = max(columns, strings.Count(text, "|")+1)
		}
	}
	return marks <= maxMarks && lines*columns <= maxCells
}

var reader = goldmark.New(
	// The policy forbids inline styles, so cells state their alignment in an attribute.
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
		extension.Strikethrough, extension.Linkify),
	goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(sanitizer{}, 900)),
		parser.WithInlineParsers(util.Prioritized(formulas{}, 50), util.Prioritized(sounds{}, 60))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(rawHTMLAsText{}, 100),
		util.Prioritized(insertions{}, 100))),
)

// HTML renders a text as HTML. HTML tags in it are shown as text, links lead only to http and
// https, and pictures and sounds are those of the person: pages load nothing from other hosts.
// Formulas between dollar signs are drawn.
func HTML(source string) string {
	out, _ := Render(source, card.MediaPath)
	return out
}

// Render is [HTML] with another beginning of the addresses of media. It also returns the names of
// the pictures and sounds.
func Render(source, prefix string) (out string, media []string) {
	var b bytes.Buffer
	r := &rendering{prefix: prefix}
	pc := parser.NewContext()
	pc.Set(renderingKey, r)
	if !isWithinLimits(source) || reader.Convert([]byte(source), &b, parser.WithContext(pc)) != nil {
		return "<p>" + html.EscapeString(source) + "</p>", nil
	}
	return b.String(), r.media
}

// Component returns a text as a component of a page. It does not render if the request was
// canceled.
func Component(source string) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := io.WriteString(w, HTML(source))
		return err
	})
}

// Plain returns the words of a text without formatting and tables. Of a picture it has the words
// that describe it.
func Plain(source string) string { return PlainWith(source, nil) }

// PlainWith is [Plain], but for each picture of the person's it has what a function returns for its
// name and the words that describe it.
func PlainWith(source string, picture func(name, alt string) string) string {
	if !isWithinLimits(source) {
		return source
	}
	raw, pc := []byte(source), parser.NewContext()
	if picture != nil {
		pc.Set(renderingKey, new(rendering)) // which keeps the pictures
	}
	var out strings.Builder
	newline := func() {
		if n := out.Len(); n > 0 && out.String()[n-1] != '\n' {
			out.WriteByte('\n')
		}
	}
	document := reader.Parser().Parse(text.NewReader(raw), parser.WithContext(pc))
	ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { //nolint:errcheck // nothing here fails
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Value(raw))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte('\n')
				}
			}
			return ast.WalkContinue, nil
		case *ast.String:
			if entering {
				out.WriteString(html.UnescapeString(string(n.Value)))
			}
			return ast.WalkContinue, nil
		case *ast.AutoLink:
			if entering {
				out.Write(n.Label(raw))
			}
			return ast.WalkContinue, nil
		case *insertion:
			if entering {
				out.WriteString(n.source)
			}
			return ast.WalkContinue, nil
		case *ast.Image:
			if name, ok := card.MediaName(string(n.Destination)); entering && ok && picture != nil {
				out.WriteString(picture(name, wordsOf(n, raw)))
				return ast.WalkSkipChildren, nil
			}
			return ast.WalkContinue, nil
		case *ast.RawHTML:
			for i := 0; entering && i < n.Segments.Len(); i++ {
				segment := n.Segments.At(i)
				out.Write(segment.Value(raw))
			}
			return ast.WalkContinue, nil
		case *extast.TableCell:
			if entering && n.PreviousSibling() != nil {
				out.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		if n.Type() == ast.TypeBlock {
			newline()
			switch n.Kind() {
			case ast.KindCodeBlock, ast.KindFencedCodeBlock, ast.KindHTMLBlock:
				for i := 0; entering && i < n.Lines().Len(); i++ {
					line := n.Lines().At(i)
					out.Write(line.Value(raw))
				}
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(out.String())
}

// wordsOf returns the text in a node.
func wordsOf(n ast.Node, raw []byte) string {
	var out strings.Builder
	ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { //nolint:errcheck // nothing here fails
		if t, ok := n.(*ast.Text); ok && entering {
			out.Write(t.Value(raw))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// sanitizer removes from a document what a page does not allow.
type sanitizer struct{}

func (sanitizer) Transform(doc *ast.Document, r text.Reader, pc parser.Context) {
	var links []ast.Node
	media, _ := pc.Get(renderingKey).(*rendering)
	ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { //nolint:errcheck // nothing here fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			n.Level = min(n.Level+2, 6) // the page itself has the first two levels
		case *ast.Link, *ast.Image, *ast.AutoLink:
			links = append(links, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range links {
		switch n := n.(type) {
		case *ast.Link:
			if isSafeLink(string(n.Destination)) {
				openInNewTab(n)
			} else {
				unwrap(n)
			}
		case *ast.AutoLink:
			if address := string(n.URL(r.Source())); n.AutoLinkType == ast.AutoLinkURL && isSafeLink(address) {
				openInNewTab(n)
			} else {
				n.Parent().ReplaceChild(n.Parent(), n,
					ast.NewString([]byte(html.EscapeString(string(n.Label(r.Source()))))))
			}
		case *ast.Image:
			if address := media.mediaAddress(string(n.Destination)); address != "" { // a picture of the person's
				n.Destination = []byte(address)
			} else {
				unwrap(n)
			}
		}
	}
}

// isSafeLink reports whether the target of a link is allowed.
func isSafeLink(address string) bool {
	u, err := url.Parse(strings.TrimSpace(address))
	return err == nil && u.Host != "" && (strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https"))
}

// openInNewTab makes a link open in a new tab, without a referrer or access to this page.
func openInNewTab(n ast.Node) {
	n.SetAttributeString("rel", []byte("noopener noreferrer nofollow"))
	n.SetAttributeString("target", []byte("_blank"))
}

// unwrap replaces a link or picture with its words.
func unwrap(n ast.Node) {
	parent := n.Parent()
	for child := n.FirstChild(); child != nil; {
		next := child.NextSibling()
		parent.InsertBefore(parent, n, child)
		child = next
	}
	parent.RemoveChild(parent, n)
}

// rawHTMLAsText shows HTML tags as typed: people who learn HTML want to see them.
type rawHTMLAsText struct{}

func (rawHTMLAsText) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		if entering {
			raw := n.(*ast.RawHTML)
			for i := range raw.Segments.Len() {
				segment := raw.Segments.At(i)
				w.WriteString(html.EscapeString(string(segment.Value(source)))) //nolint:errcheck // into memory
			}
		}
		return ast.WalkSkipChildren, nil
	})
	reg.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		block := n.(*ast.HTMLBlock)
		if !entering {
			if block.HasClosure() {
				w.WriteString(html.EscapeString(string(block.ClosureLine.Value(source)))) //nolint:errcheck // into memory
			}
			w.WriteString("</code></pre>\n") //nolint:errcheck // into memory
			return ast.WalkContinue, nil
		}
		w.WriteString("<pre><code>") //nolint:errcheck // into memory
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			w.WriteString(html.EscapeString(string(line.Value(source)))) //nolint:errcheck // into memory
		}
		return ast.WalkContinue, nil
	})
}
