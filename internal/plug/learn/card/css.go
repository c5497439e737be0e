package card

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// atRules lists what may follow an @: nothing that loads another style sheet.
var atRules = words(`media font-face keyframes -webkit-keyframes supports layer container page counter-style property
	starting-style`)

// badFunctions lists functions that load something by another name than url(), or ran scripts in
// browsers of old.
var badFunctions = words(`image-set -webkit-image-set image cross-fade -webkit-cross-fade src element -moz-element
	expression paint`)

// badProperties ran scripts in browsers of old.
var badProperties = words(`behavior -ms-behavior -moz-binding`)

// cssCleaner reads CSS by the tokens of CSS Syntax Level 3, §4: only so are escapes and comments
// read as browsers read them.
type cssCleaner struct {
	s       string
	i       int
	inline  bool
	address func(string) string
	out     strings.Builder
}

// cleanCSS returns a style sheet, or the declarations of an attribute, without what loads something
// other than the person's media, or could end the element around it. address returns the address of
// a file of theirs, empty if it is none. Time and memory are proportional to the text.
func cleanCSS(s string, inline bool, address func(string) string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd")
	c := cssCleaner{s: s, inline: inline, address: address}
	for c.i < len(c.s) {
		c.token()
	}
	return c.out.String()
}

func (c *cssCleaner) token() {
	switch b := c.s[c.i]; {
	case strings.HasPrefix(c.s[c.i:], "/*"):
		c.comment()
		c.out.WriteByte(' ')
	case b == '"' || b == '\'':
		c.out.WriteString(quoteCSS(c.quoted()))
	case b == '@':
		c.atRule()
	case b >= '0' && b <= '9':
		c.out.WriteByte(b) // so that 1e3 is not read as a word
		c.i++
		if c.i+1 < len(c.s) && (c.s[c.i] == 'e' || c.s[c.i] == 'E') && c.s[c.i+1] >= '0' && c.s[c.i+1] <= '9' {
			c.out.WriteByte('e')
			c.i++
		}
	case c.startsName():
		c.word()
	case b == '<' || b == '\\' || b < ' ' && b != '\n' && b != '\t' || c.inline && (b == '{' || b == '}'):
		c.out.WriteByte(' ') // what stands around it must not become one word
		c.i++
	default:
		c.out.WriteByte(b)
		c.i++
	}
}

func (c *cssCleaner) comment() {
	end := strings.Index(c.s[c.i+2:], "*/")
	if end < 0 {
		c.i = len(c.s)
		return
	}
	c.i += end + 4
}

// quoted reads a text in quotes, which ends at a line break too.
func (c *cssCleaner) quoted() string {
	quote := c.s[c.i]
	c.i++
	var b strings.Builder
	for c.i < len(c.s) {
		switch ch := c.s[c.i]; {
		case ch == quote || ch == '\n':
			c.i++
			return b.String()
		case ch == '\\':
			if c.i+1 < len(c.s) && c.s[c.i+1] == '\n' {
				c.i += 2
				continue
			}
			b.WriteRune(c.escape())
		default:
			b.WriteByte(ch)
			c.i++
		}
	}
	return b.String()
}

// escape reads a backslash and what it stands for (§4.3.7).
func (c *cssCleaner) escape() rune {
	c.i++
	start := c.i
	for c.i < len(c.s) && c.i < start+6 && strings.IndexByte("0123456789abcdefABCDEF", c.s[c.i]) >= 0 {
		c.i++
	}
	if c.i > start {
		n, _ := strconv.ParseUint(c.s[start:c.i], 16, 32) // six digits at most
		if strings.HasPrefix(c.s[c.i:], "\r\n") {
			c.i += 2
		} else if c.i < len(c.s) && strings.IndexByte(" \t\n\r\f", c.s[c.i]) >= 0 {
			c.i++
		}
		if n == 0 || n > utf8.MaxRune || n >= 0xd800 && n <= 0xdfff {
			return utf8.RuneError
		}
		return rune(n)
	}
	r, size := utf8.DecodeRuneInString(c.s[c.i:])
	c.i += size
	return r
}

// startsName reports whether a word begins here.
func (c *cssCleaner) startsName() bool {
	b := c.s[c.i]
	if b == '\\' {
		return c.i+1 < len(c.s) && c.s[c.i+1] != '\n'
	}
	return isNameByte(b) && (b < '0' || b > '9')
}

func isNameByte(b byte) bool {
	return b == '_' || b == '-' || b >= 0x80 || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// name reads a word, and decodes its escapes.
func (c *cssCleaner) name() string {
	var b strings.Builder
	for c.i < len(c.s) {
		switch ch := c.s[c.i]; {
		case isNameByte(ch):
			b.WriteByte(ch)
			c.i++
		case ch == '\\' && c.i+1 < len(c.s) && c.s[c.i+1] != '\n':
			b.WriteRune(c.escape())
		default:
			return b.String()
		}
	}
	return b.String()
}

// word reads a word, or a function if a parenthesis follows.
func (c *cssCleaner) word() {
	name := c.name()
	low := strings.ToLower(name)
	if c.i < len(c.s) && c.s[c.i] == '(' {
		switch {
		case low == "url":
			c.i++
			if address := c.address(c.target()); address != "" {
				c.out.WriteString("url(" + quoteCSS(address) + ")")
			} else {
				c.out.WriteString("none")
			}
			return
		case badFunctions[low]:
			c.skipParentheses()
			c.out.WriteString("none")
			return
		}
	}
	if badProperties[low] {
		name = "x-removed"
	}
	c.out.WriteString(writeName(name))
}

// target reads what is in url(…), and the parenthesis.
func (c *cssCleaner) target() string {
	for c.i < len(c.s) && strings.IndexByte(" \t\n\r\f", c.s[c.i]) >= 0 {
		c.i++
	}
	var b strings.Builder
	if c.i < len(c.s) && (c.s[c.i] == '"' || c.s[c.i] == '\'') {
		b.WriteString(c.quoted())
		c.toParenthesis()
		return b.String()
	}
	for c.i < len(c.s) {
		switch ch := c.s[c.i]; ch {
		case ')':
			c.i++
			return strings.TrimSpace(b.String())
		case '\\':
			b.WriteRune(c.escape())
		default:
			b.WriteByte(ch)
			c.i++
		}
	}
	return strings.TrimSpace(b.String())
}

func (c *cssCleaner) toParenthesis() {
	for c.i < len(c.s) {
		if c.i++; c.s[c.i-1] == ')' {
			return
		}
	}
}

// skipParentheses skips what is in parentheses, which begin here.
func (c *cssCleaner) skipParentheses() {
	for depth := 0; c.i < len(c.s); {
		switch b := c.s[c.i]; {
		case b == '"' || b == '\'':
			c.quoted()
			continue
		case strings.HasPrefix(c.s[c.i:], "/*"):
			c.comment()
			continue
		case b == '\\':
			c.escape()
			continue
		case b == '(':
			depth++
		case b == ')':
			depth--
		}
		if c.i++; depth == 0 {
			return
		}
	}
}

// atRule writes a rule that is allowed; what else begins with @ is skipped to its end.
func (c *cssCleaner) atRule() {
	c.i++
	name := strings.ToLower(c.name())
	if atRules[name] && !c.inline {
		c.out.WriteString("@" + name)
		return
	}
	for depth := 0; c.i < len(c.s); {
		switch b := c.s[c.i]; {
		case b == '"' || b == '\'':
			c.quoted()
			continue
		case strings.HasPrefix(c.s[c.i:], "/*"):
			c.comment()
			continue
		case b == '\\':
			c.escape()
			continue
		case b == ';' && depth == 0:
			c.i++
			return
		case b == '{':
			depth++
		case b == '}':
			if depth--; depth <= 0 {
				c.i++
				return
			}
		}
		c.i++
	}
}

// writeName writes a word, with escapes where it has other characters than words have.
func writeName(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 0x80 || isNameByte(byte(r)) && !(i == 0 && r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\%x `, r)
		}
	}
	return b.String()
}

// quoteCSS writes a text in quotes.
func quoteCSS(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' || r == '<' || r == 0x7f {
			fmt.Fprintf(&b, `\%x `, r)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
