package cli

import (
	"io"
	"regexp"
	"strings"
)

// style emphasizes text: on a terminal, unless NO_COLOR is set, and nowhere else.
type style struct{ on bool }

// newStyle returns the style of a stream.
func (sh *shell) newStyle(w io.Writer) style {
	_, ok := terminal(w)
	return style{ok && sh.getenv("NO_COLOR") == ""}
}

func (i style) wrap(code, text string) string {
	if !i.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (i style) bold(text string) string  { return i.wrap("1", text) }
func (i style) faint(text string) string { return i.wrap("2", text) }
func (i style) code(text string) string  { return i.wrap("36", text) }
func (i style) good(text string) string  { return i.wrap("32", text) }
func (i style) bad(text string) string   { return i.wrap("31", text) }

var (
	markBold = regexp.MustCompile(`\*\*([^*\s](?:[^*]*[^*\s])?)\*\*`)
	markCode = regexp.MustCompile("`([^`]+)`")
	markItem = regexp.MustCompile(`^(\s*)[-*+] +(.*)$`)
	markHead = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
)

// markdown formats Markdown for a terminal: headings, lists, bold and code. Unknown syntax stays
// unchanged. With styles off, everything does.
func (i style) markdown(text string) string {
	text = strings.TrimSpace(plain(text))
	if !i.on {
		return text
	}
	lines := strings.Split(text, "\n")
	out := lines[:0]
	fenced := false
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			out = append(out, "    "+i.code(line))
			continue
		}
		out = append(out, i.line(line))
	}
	return strings.Join(out, "\n")
}

// line formats a line that is not code.
func (i style) line(line string) string {
	if m := markHead.FindStringSubmatch(line); m != nil {
		return i.bold(m[1])
	}
	if m := markItem.FindStringSubmatch(line); m != nil {
		line = m[1] + "• " + m[2]
	}
	var b strings.Builder
	rest := line
	for {
		at := markCode.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		b.WriteString(i.emphasis(rest[:at[0]]) + i.code(rest[at[2]:at[3]]))
		rest = rest[at[1]:]
	}
	return b.String() + i.emphasis(rest)
}

func (i style) emphasis(text string) string {
	return markBold.ReplaceAllStringFunc(text, func(m string) string { return i.bold(strings.Trim(m, "*")) })
}
