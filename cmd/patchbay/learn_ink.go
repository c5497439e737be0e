package main

import (
	"io"
	"regexp"
	"strings"
)

// ink is how text is made to stand out: on a terminal, unless NO_COLOR asks for
// none, and nowhere else.
type ink struct{ on bool }

// ink is that of a stream.
func (sh *shell) ink(w io.Writer) ink {
	_, ok := terminal(w)
	return ink{ok && sh.getenv("NO_COLOR") == ""}
}

func (i ink) style(code, text string) string {
	if !i.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (i ink) bold(text string) string  { return i.style("1", text) }
func (i ink) faint(text string) string { return i.style("2", text) }
func (i ink) code(text string) string  { return i.style("36", text) }
func (i ink) good(text string) string  { return i.style("32", text) }
func (i ink) bad(text string) string   { return i.style("31", text) }

var (
	markBold = regexp.MustCompile(`\*\*([^*\s](?:[^*]*[^*\s])?)\*\*`)
	markCode = regexp.MustCompile("`([^`]+)`")
	markItem = regexp.MustCompile(`^(\s*)[-*+] +(.*)$`)
	markHead = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
)

// markdown writes Markdown for a terminal: headings, lists, bold and code. What it
// does not know stays as it is. Without ink, all does.
func (i ink) markdown(text string) string {
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

// line writes a line that is no code.
func (i ink) line(line string) string {
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

func (i ink) emphasis(text string) string {
	return markBold.ReplaceAllStringFunc(text, func(m string) string { return i.bold(strings.Trim(m, "*")) })
}
