package markdown

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"patchbay/internal/plug/learn/card"
)

// maxFormula limits a formula in bytes, and maxFormulas what may begin one: the end of each is
// searched for.
const maxFormula, maxFormulas = 4 << 10, 2000

// rendering is what one text is rendered with.
type rendering struct {
	prefix string   // of the addresses of media
	media  []string // names of pictures and sounds, in order
}

var renderingKey = parser.NewContextKey()

// mediaAddress returns the address of a picture or sound; empty if it is not the person's.
func (r *rendering) mediaAddress(ref string) string {
	if r == nil { // only the words are asked for
		return ""
	}
	name, ok := card.MediaName(ref)
	if !ok {
		return ""
	}
	r.media = append(r.media, name)
	return r.prefix + url.PathEscape(name)
}

// insertion is HTML in the middle of a text: a formula, or a player.
type insertion struct {
	ast.BaseInline
	html, source string
}

var insertionKind = ast.NewNodeKind("Insertion")

// Kind implements [ast.Node].
func (*insertion) Kind() ast.NodeKind { return insertionKind }

// Dump implements [ast.Node].
func (n *insertion) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

type insertions struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (insertions) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(insertionKind, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			w.WriteString(n.(*insertion).html) //nolint:errcheck // into memory
		}
		return ast.WalkContinue, nil
	})
}

// formulas reads $…$, $$…$$, \(…\) and \[…\]. As in Pandoc, a dollar sign begins a formula if no
// space follows, and ends one if there is none before it and no digit after it: so prices stay.
type formulas struct{}

// Trigger implements [parser.InlineParser].
func (formulas) Trigger() []byte { return []byte{'$', '\\'} }

// Parse implements [parser.InlineParser].
func (formulas) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, _ := block.PeekLine()
	begin, end, display := "", "", false
	for _, p := range [][2]string{{"$$", "$$"}, {"$", "$"}, {`\(`, `\)`}, {`\[`, `\]`}} {
		if bytes.HasPrefix(line, []byte(p[0])) {
			begin, end, display = p[0], p[1], p[0] == "$$" || p[0] == `\[`
			break
		}
	}
	if begin == "" || begin == "$" && len(line) > 1 && strings.IndexByte(" \t\n", line[1]) >= 0 {
		return nil
	}
	at, segment := block.Position()
	block.Advance(len(begin))
	var tex strings.Builder
	for tex.Len() <= maxFormula {
		line, _ := block.PeekLine()
		if line == nil {
			break
		}
		i := endOf(line, end, tex.Len() > 0)
		if i == notAFormula {
			break
		}
		if i >= 0 {
			tex.Write(line[:i])
			if strings.TrimSpace(tex.String()) == "" {
				break
			}
			block.Advance(i + len(end))
			return &insertion{html: card.Formula(tex.String(), display), source: begin + tex.String() + end}
		}
		tex.Write(line)
		block.AdvanceLine()
	}
	block.SetPosition(at, segment)
	return nil
}

// notAFormula is returned by endOf if a dollar sign comes that ends none: two prices, perhaps.
const notAFormula = -2

// endOf returns where a formula ends in a line; negative if it does not. more reports whether it
// began in a line before.
func endOf(line []byte, end string, more bool) int {
	for from := 0; ; {
		i := bytes.Index(line[from:], []byte(end))
		if i < 0 {
			return -1
		}
		i += from
		after := i + len(end)
		escaped := end[0] == '$' && i > 0 && line[i-1] == '\\'
		valid := (end != "$" || i > 0 && line[i-1] != ' ' && (after >= len(line) || line[after] < '0' ||
			line[after] > '9') || i == 0 && more)
		switch {
		case escaped:
		case valid:
			return i
		case end == "$":
			return notAFormula
		}
		from = after
	}
}

// sounds reads [sound:name.mp3].
type sounds struct{}

// Trigger implements [parser.InlineParser].
func (sounds) Trigger() []byte { return []byte{'['} }

// Parse implements [parser.InlineParser].
func (sounds) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, _ := block.PeekLine()
	rest, ok := bytes.CutPrefix(line, []byte("[sound:"))
	end := bytes.IndexByte(rest, ']')
	r, _ := pc.Get(renderingKey).(*rendering)
	if !ok || end < 1 || end > maxFormula {
		return nil
	}
	name := string(rest[:end])
	block.Advance(len("[sound:") + end + 1)
	if r == nil { // only the words are asked for
		return &insertion{source: name}
	}
	html, media := card.Clean(card.Sound(name), r.prefix)
	r.media = append(r.media, media...)
	return &insertion{html: html, source: name}
}
