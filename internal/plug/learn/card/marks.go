package card

import (
	"html"
	"path"
	"slices"
	"strings"
)

// maxFormulas limits the formulas of a side; further ones are shown as they are written.
const maxFormulas = 1000

// pair is what stands around a formula. Anki's own are in square brackets
// (rslib/src/latex.rs), the others are MathJax's.
type pair struct {
	begin, end string
	show       func(tex string) string
}

var pairs = []pair{
	{`\(`, `\)`, func(tex string) string { return Formula(tex, false) }},
	{`\[`, `\]`, func(tex string) string { return Formula(tex, true) }},
	{`[$$]`, `[/$$]`, func(tex string) string { return Formula(tex, true) }},
	{`[$]`, `[/$]`, func(tex string) string { return Formula(tex, false) }},
	{`[latex]`, `[/latex]`, latexText},
	{`[anki:tts`, `[/anki:tts]`, func(string) string { return "" }},
	{`[sound:`, `]`, Sound},
}

// marks replaces formulas and sounds in a text of HTML by elements. It leaves tags, code and
// comments as they are. Time is proportional to the text.
func marks(s string) string {
	var b strings.Builder
	missing := map[string]bool{} // ends that do not come any more
	code, formulas := 0, 0
	for s != "" {
		i := strings.IndexAny(s, `<[\`)
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		if s[0] == '<' {
			tag, rest := cutTag(s)
			switch low := strings.ToLower(tag[:min(len(tag), 6)]); {
			case strings.HasPrefix(low, "<pre") || strings.HasPrefix(low, "<code"):
				code++
			case strings.HasPrefix(low, "</pre") || strings.HasPrefix(low, "</code"):
				code = max(code-1, 0)
			}
			b.WriteString(tag)
			s = rest
			continue
		}
		at := slices.IndexFunc(pairs, func(p pair) bool { return strings.HasPrefix(s, p.begin) })
		if at < 0 || missing[pairs[at].end] || code > 0 && s[0] == '\\' || formulas >= maxFormulas {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		p := pairs[at]
		size := strings.Index(s[len(p.begin):], p.end)
		if size < 0 {
			missing[p.end] = true
			continue
		}
		formulas++
		b.WriteString(p.show(StripHTML(s[len(p.begin) : len(p.begin)+size])))
		s = s[len(p.begin)+size+len(p.end):]
	}
	b.WriteString(s)
	return b.String()
}

// cutTag cuts a tag, a comment or a raw element from the beginning of a text.
func cutTag(s string) (tag, rest string) {
	for _, raw := range [][2]string{{"<!--", "-->"}, {"<script", "</script"}, {"<style", "</style"}} {
		if len(s) >= len(raw[0]) && strings.EqualFold(s[:len(raw[0])], raw[0]) {
			if end := strings.Index(s, raw[1]); end >= 0 {
				return s[:end+len(raw[1])], s[end+len(raw[1]):]
			}
			return s, ""
		}
	}
	if len(s) < 2 || s[1] != '/' && (s[1]|0x20 < 'a' || s[1]|0x20 > 'z') {
		return s[:1], s[1:]
	}
	quote := byte(0)
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && s[i-1] == '=':
			quote = c
		case c == '>':
			return s[:i+1], s[i+1:]
		}
	}
	return s, ""
}

// videos lists the endings of files that are shown, not only heard.
var videos = words(".mp4 .webm .ogv .mov .mkv .avi .mpg .mpeg .m4v")

// Sound returns a player for a sound or a film, by its name.
func Sound(ref string) string {
	name, ok := MediaName(ref)
	if !ok {
		return "🔇 " + html.EscapeString(ref)
	}
	kind := "audio"
	if videos[strings.ToLower(path.Ext(name))] {
		kind = "video"
	}
	return "<" + kind + ` src="` + html.EscapeString(strings.ReplaceAll(name, "%", "%25")) + `"></` + kind + ">"
}

// latexText shows a text of LaTeX: formulas between dollar signs, or one that it is.
func latexText(tex string) string {
	tex = strings.TrimSpace(tex)
	for _, env := range []string{"displaymath", "equation", "equation*", "math"} {
		inner, ok1 := strings.CutPrefix(tex, `\begin{`+env+`}`)
		inner, ok2 := strings.CutSuffix(inner, `\end{`+env+`}`)
		if ok1 && ok2 {
			return Formula(inner, true)
		}
	}
	if inner, ok := cutAround(tex, "$$"); ok {
		return Formula(inner, true)
	}
	parts := strings.Split(tex, "$")
	if len(parts) == 1 {
		if strings.ContainsAny(tex, `\^_`) {
			return Formula(tex, true)
		}
		return html.EscapeString(tex)
	}
	var b strings.Builder
	for i, part := range parts {
		switch {
		case i%2 == 1 && i < len(parts)-1:
			b.WriteString(Formula(part, false))
		case strings.Contains(part, `\`) || i%2 == 1:
			return source(tex)
		default:
			b.WriteString(html.EscapeString(part))
		}
	}
	return b.String()
}

func cutAround(s, mark string) (string, bool) {
	inner, ok1 := strings.CutPrefix(s, mark)
	inner, ok2 := strings.CutSuffix(inner, mark)
	return inner, ok1 && ok2 && !strings.Contains(inner, mark)
}
