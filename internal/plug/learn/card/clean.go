package card

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	xhtml "golang.org/x/net/html"
)

const (
	// maxDepth limits how deeply the elements of a card nest; deeper tags are left out.
	maxDepth = 100
	// maxName limits the name of a picture or sound, in bytes.
	maxName = 255
)

// attributes lists what is kept: elements with their attributes beside those of every element.
// What is neither here nor in dropped loses its tags and keeps its content.
var attributes = func() map[string][]string {
	out := map[string][]string{
		"img": {"src", "alt", "width", "height", "align"}, "audio": {"src"}, "video": {"src", "width", "height"},
		"source": {"src"}, "font": {"color", "size", "face"}, "ol": {"start", "type", "reversed"}, "ul": {"type"},
		"li": {"value"}, "table": {"border", "cellpadding", "cellspacing", "width", "bgcolor", "align"},
		"tr": {"align", "valign", "bgcolor"}, "td": cell, "th": cell, "col": {"span", "width"},
		"colgroup": {"span", "width"}, "details": {"open"}, "hr": {"width", "size", "color"}, "div": {"align"},
		"p": {"align"}, "h1": {"align"}, "h2": {"align"}, "h3": {"align"},
		"math": {"display"}, "mo": {"stretchy", "fence", "separator", "form", "largeop", "movablelimits", "lspace",
			"rspace", "minsize", "maxsize", "symmetric"}, "mi": {"mathvariant"},
		"mspace": {"width", "height", "depth"}, "mfrac": {"linethickness"}, "mover": {"accent"},
		"munder": {"accentunder"}, "munderover": {"accent", "accentunder"},
		"mstyle": {"displaystyle", "scriptlevel", "mathcolor"}, "mpadded": {"width", "height", "depth", "lspace", "voffset"},
		"mtd": {"columnspan", "rowspan"}, "mtable": {"columnalign", "displaystyle"},
	}
	for name := range strings.FieldsSeq(`a abbr article aside b bdi bdo big blockquote br caption center cite code dd del
		dfn dl dt em figcaption figure footer h4 h5 h6 header i ins kbd main mark nav pre q rb rp rt rtc ruby s samp
		section small span strike strong sub summary sup tbody tfoot thead time tt u var wbr
		mn mrow mtext ms msqrt mroot msup msub msubsup mmultiscripts mprescripts mphantom merror mtr none`) {
		out[name] = nil
	}
	return out
}()

var cell = []string{"colspan", "rowspan", "align", "valign", "width", "height", "bgcolor"}

// dropped lists elements that go with all that is in them.
var dropped = words(`script iframe object embed applet noscript noembed noframes textarea title xmp plaintext template
	svg button select datalist canvas frameset portal annotation annotation-xml head`)

// void lists elements without content and end tag.
var void = words(`br hr img wbr col source`)

// closers lists elements that end the open element of the same kind beside them, as writers of HTML
// leave out end tags.
var closers = map[string][]string{"li": {"li"}, "p": {"p"}, "tr": {"tr", "td", "th"}, "td": {"td", "th"},
	"th": {"td", "th"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "rt": {"rt", "rb"}, "rb": {"rt", "rb"}}

func words(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[w] = true
	}
	return out
}

// cleaner writes HTML of which nothing runs and nothing is loaded but the person's media.
type cleaner struct {
	prefix string // of the addresses of media
	shapes []shape
	css    strings.Builder // of style elements
	media  []string        // names of pictures and sounds, in order

	out  strings.Builder
	open []string
	skip string // name of the dropped element that is open
	deep int    // how many of them
}

// clean returns a text of HTML with balanced tags, allowed elements and attributes only.
//
// It goes through the tokens without building a tree, so its time and memory are proportional to
// the text. What it writes has no element whose content browsers read in another way, so they see
// the same elements that it saw.
func (c *cleaner) clean(src string) string {
	z := xhtml.NewTokenizer(strings.NewReader(strings.ReplaceAll(src, "\x00", "")))
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			for len(c.open) > 0 {
				c.pop()
			}
			return strings.ToValidUTF8(c.out.String(), "\ufffd")
		case xhtml.TextToken:
			c.text(z)
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			c.start(z.Token())
		case xhtml.EndTagToken:
			name, _ := z.TagName()
			c.end(string(name))
		}
	}
}

func (c *cleaner) text(z *xhtml.Tokenizer) {
	switch c.skip {
	case "":
		c.out.WriteString(html.EscapeString(string(z.Text())))
	case "style":
		c.css.WriteString(string(z.Raw()))
		c.css.WriteByte('\n')
	}
}

func (c *cleaner) start(t xhtml.Token) {
	name := t.Data
	switch {
	case c.skip == name && t.Type == xhtml.StartTagToken:
		c.deep++
		return
	case c.skip != "":
		return
	case name == "style" || dropped[name] && name != "embed" && name != "head":
		if t.Type == xhtml.StartTagToken || name != "svg" { // <svg/> has no end
			c.skip, c.deep = name, 1
		}
		return
	}
	allowed, ok := attributes[name]
	if !ok || dropped[name] || len(c.open) >= maxDepth && !void[name] {
		return
	}
	for len(c.open) > 0 && slices.Contains(closers[name], c.open[len(c.open)-1]) {
		c.pop()
	}
	cover := name == "img" && len(c.shapes) > 0
	if cover {
		c.out.WriteString(`<span class="covered">`)
	}
	c.out.WriteString("<" + name)
	for _, a := range t.Attr {
		if a.Namespace == "" {
			c.attribute(name, allowed, a.Key, a.Val)
		}
	}
	switch name {
	case "audio", "video":
		c.out.WriteString(` controls preload="none"`)
	}
	c.out.WriteByte('>')
	if cover {
		for i := range c.shapes {
			c.out.WriteString(c.shapes[i].html())
		}
		c.shapes = nil
		c.out.WriteString(`</span>`)
	}
	switch {
	case void[name]:
	case t.Type == xhtml.SelfClosingTagToken && selfClosing[name]:
		c.out.WriteString("</" + name + ">")
	default:
		c.open = append(c.open, name)
	}
}

// selfClosing lists elements of MathML that may be written with a slash at the end; in HTML it
// means nothing.
var selfClosing = words("mspace none mprescripts mrow mi mn mo mtext mphantom")

// global lists the attributes that every element may have; style is looked at.
var global = words("class id lang dir title")

func (c *cleaner) attribute(element string, allowed []string, key, value string) {
	switch {
	case key == "style":
		if value = cleanCSS(value, true, c.address); strings.TrimSpace(value) == "" {
			return
		}
	case key == "href" && element == "a":
		if !strings.HasPrefix(value, "http://") && !strings.HasPrefix(value, "https://") {
			return
		}
		key = "title" // it leads nowhere, and tells where it would
	case key == "src" && slices.Contains(allowed, key):
		if value = c.source(value); value == "" {
			return
		}
	case !global[key] && !slices.Contains(allowed, key):
		return
	}
	c.out.WriteString(" " + key + `="` + html.EscapeString(value) + `"`)
}

// end closes an element with those that are open in it. An end without a beginning is left out.
func (c *cleaner) end(name string) {
	if c.skip != "" {
		if name == c.skip {
			if c.deep--; c.deep == 0 {
				c.skip = ""
			}
		}
		return
	}
	i := len(c.open) - 1
	for i >= 0 && c.open[i] != name {
		i--
	}
	if i < 0 {
		return
	}
	for len(c.open) > i {
		c.pop()
	}
}

func (c *cleaner) pop() {
	last := len(c.open) - 1
	c.out.WriteString("</" + c.open[last] + ">")
	c.open = c.open[:last]
}

// dataImage matches pictures that are part of a card.
var dataImage = regexp.MustCompile(`^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$`)

// source returns the address of a picture or sound; empty if it is not the person's.
func (c *cleaner) source(value string) string {
	if dataImage.MatchString(value) {
		return value
	}
	return c.address(value)
}

// address returns the address of a file of the person's media; empty if it is none.
func (c *cleaner) address(value string) string {
	name, ok := MediaName(value)
	if !ok {
		return ""
	}
	if !slices.Contains(c.media, name) {
		c.media = append(c.media, name)
	}
	return c.prefix + url.PathEscape(name)
}

// scheme matches the beginning of an address.
var scheme = regexp.MustCompile(`^\s*[a-zA-Z][a-zA-Z0-9+.-]*:`)

// MediaName returns the name of a file of the person's media that a text refers to. ok is false if
// it refers to something else, such as another host or another path.
func MediaName(ref string) (name string, ok bool) {
	name = strings.TrimSpace(ref)
	if scheme.MatchString(name) {
		return "", false
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return name, IsMediaName(name)
}

// IsMediaName reports whether a file of a person's media may have a name: 1 to 255 bytes of UTF-8
// without slashes and control characters, and not beginning with a dot.
func IsMediaName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && name[0] != '.' &&
		strings.TrimSpace(name) == name && !scheme.MatchString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '/' || r == '\\' || r == '"' || r == '<' || r == '>'
	})
}

// StripHTML returns the words of a text of HTML, with line breaks.
func StripHTML(src string) string {
	if !strings.ContainsAny(src, "<&") {
		return src
	}
	var b strings.Builder
	z := xhtml.NewTokenizer(strings.NewReader(src))
	hidden := ""
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			return strings.ReplaceAll(b.String(), "\u00a0", " ")
		case xhtml.TextToken:
			if hidden == "" {
				b.Write(z.Text())
			}
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			raw, _ := z.TagName()
			switch name := string(raw); name {
			case "script", "style":
				hidden = name
			case "br", "div", "p", "li", "tr":
				if b.Len() > 0 {
					b.WriteByte('\n')
				}
			}
		case xhtml.EndTagToken:
			if raw, _ := z.TagName(); string(raw) == hidden {
				hidden = ""
			}
		}
	}
}
