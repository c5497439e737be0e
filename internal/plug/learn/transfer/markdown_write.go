package transfer

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
)

// markdownWriter writes the form with headings. A heading is one line and an answer must not look
// like one, so Markdown alone cannot represent every item. The writer reads each item back; fields
// that differ are repeated exactly in a comment below the heading. A reader uses the comment only
// if the text it stands for was not edited.
type markdownWriter struct {
	b    *bufio.Writer
	deck string
	err  error
}

func newMarkdownWriter(w io.Writer) *markdownWriter {
	m := &markdownWriter{b: bufio.NewWriter(w)}
	_, m.err = m.b.WriteString(marker + "\n")
	return m
}

func (m *markdownWriter) Write(it Item) error {
	if m.err != nil {
		return m.err
	}
	it.Question, it.Answer = plainText(it.Question), plainText(it.Answer)
	if deck := cleanDeck(it.Deck); deck != m.deck {
		m.deck = deck
		_, m.err = m.b.WriteString("\n" + strings.TrimSpace("# "+deck) + "\n")
	}
	title := showTitle(it.Question, it.Tags)
	body := escapeAnswer(it.Answer)
	comment := metaOf(it, title, body)
	if m.err == nil {
		_, m.err = m.b.WriteString("\n" + strings.TrimSpace("## "+title) + "\n" + comment + "\n" + body + "\n")
	}
	return m.err
}

func (m *markdownWriter) Close() error {
	if m.err == nil {
		m.err = m.b.Flush()
	}
	return m.err
}

// plainText normalizes a text as every reader except JSON's does.
func plainText(s string) string { return strings.TrimSpace(unixLines(clean(s))) }

// showTitle formats a question and its tags as a heading.
func showTitle(question string, tags []string) string {
	s := strings.ReplaceAll(question, "\n", "<br>")
	i := strings.LastIndexAny(s, " \t") + 1
	if strings.HasPrefix(strings.TrimLeft(s[i:], `\`), "#") {
		s = s[:i] + `\` + s[i:]
	}
	for _, t := range tags {
		if isSimpleTag(t) {
			s += " #" + t
		}
	}
	return s
}

func isSimpleTag(t string) bool { return t != "" && !strings.ContainsAny(t, "# \t\n\r\\<>") }

// parseTitle is the reverse of showTitle.
func parseTitle(title string) (question string, tags []string) {
	question, tags = cutTags(title)
	return strings.ReplaceAll(unescapeTag(question), "<br>", "\n"), cleanTags(tags)
}

// unescapeTag removes the backslash from a last word that only looks like a tag.
func unescapeTag(s string) string {
	i := strings.LastIndexAny(s, " \t\n") + 1
	if last := s[i:]; strings.HasPrefix(last, `\`) && strings.HasPrefix(strings.TrimLeft(last, `\`), "#") {
		return s[:i] + last[1:]
	}
	return s
}

// escapeAnswer escapes with a backslash the lines that would end the answer, and fences that are
// never closed.
func escapeAnswer(answer string) string {
	lines := strings.Split(answer, "\n")
	closers := closersAfter(lines)
	var f fence
	for i, line := range lines {
		if f.size > 0 { // in a code block
			f.line(line)
			continue
		}
		if f.line(line) {
			if closers[i][f.char] >= f.size {
				continue
			}
			f = fence{}
			lines[i] = `\` + line
			continue
		}
		if needsEscape(line) {
			lines[i] = `\` + line
		}
	}
	return strings.Join(lines, "\n")
}

// closersAfter returns, for each line, the longest fence of each kind after it that can close a
// code block.
func closersAfter(lines []string) []map[byte]int {
	after := make([]map[byte]int, len(lines))
	longest := map[byte]int{}
	for i := len(lines) - 1; i >= 0; i-- {
		after[i] = longest
		if char, size, rest := fenceOf(lines[i]); size > longest[char] && strings.TrimSpace(rest) == "" {
			longest = maps.Clone(longest)
			longest[char] = size
		}
	}
	return after
}

// needsEscape reports whether a line is a heading or a fence, after any number of backslashes.
func needsEscape(line string) bool {
	s := strings.TrimLeft(line, `\`)
	level, _ := heading(s)
	if level > 0 {
		return true
	}
	_, size, _ := fenceOf(s)
	return size > 0 && len(s) < len(line)
}

func unescapeLine(line string) string {
	if strings.HasPrefix(line, `\`) && needsEscape(line) {
		return line[1:]
	}
	return line
}

// meta is the content of the comment below a heading.
type meta map[string]json.RawMessage

const (
	metaStart = "<!-- learn "
	metaEnd   = " -->"
)

func parseMeta(line string) meta {
	s, ok := strings.CutPrefix(strings.TrimSpace(line), metaStart)
	if s, ok2 := strings.CutSuffix(s, metaEnd); ok && ok2 {
		m := meta{}
		if json.Unmarshal([]byte(s), &m) == nil {
			return m
		}
	}
	return nil
}

func (m meta) set(key string, value any) { m[key], _ = json.Marshal(value) }

func (m meta) text(key string) string {
	var s string
	_ = json.Unmarshal(m[key], &s)
	return s
}

// metaOf returns the comment of an item, or "".
func metaOf(it Item, title, body string) string {
	m := meta{}
	for key, value := range map[string]string{"id": it.ID, "origin": it.Origin, "kin": it.Kin} {
		if value != "" {
			m.set(key, value)
		}
	}
	if !it.InPlan {
		m.set("in_plan", false)
	}
	if it.Suspended {
		m.set("suspended", true)
	}
	question, tags := parseTitle(strings.TrimSpace(title))
	if question != it.Question {
		m.set("question", it.Question)
	}
	if want := cleanTags(it.Tags); !slices.Equal(tags, want) {
		m.set("tags", want)
	}
	if readAnswer(body) != it.Answer {
		m.set("answer", it.Answer)
	}
	if len(m) == 0 {
		return ""
	}
	text, err := json.Marshal(m) // writes < and > as \u003c and \u003e
	if err != nil {
		return ""
	}
	return metaStart + string(text) + metaEnd + "\n"
}

// readAnswer parses an answer as the reader does. The comment line in front prevents that the
// answer's first line is taken for one.
func readAnswer(body string) string {
	m := &markdownReader{in: &itemReader{}, open: true}
	for line := range strings.SplitSeq(body, "\n") {
		fenced := m.fence.line(line)
		level, _ := heading(line)
		if level > 0 && !fenced || m.headingLine(line, 0, "", fenced) != nil {
			return ""
		}
	}
	if m.fence.size > 0 || m.meta != nil {
		return ""
	}
	return strings.TrimSpace(strings.Join(m.lines, "\n"))
}

// apply sets the fields of an item from its comment, if the text was not edited since.
func (m meta) apply(it *Item, title string) {
	it.ID, it.Origin, it.Kin = m.text("id"), m.text("origin"), m.text("kin")
	it.InPlan = string(m["in_plan"]) != "false"
	it.Suspended = string(m["suspended"]) == "true"
	tags := it.Tags
	if m["tags"] != nil {
		var all []string
		_ = json.Unmarshal(m["tags"], &all)
		if slices.Equal(simpleTags(all), tags) {
			tags = all
		}
	}
	if question := m.text("question"); question != "" && strings.TrimSpace(showTitle(question, tags)) == title {
		it.Question = question
	}
	it.Tags = tags
	if answer := m.text("answer"); answer != "" && readLoosely(escapeAnswer(answer)) == it.Answer {
		it.Answer = answer
	}
}

// simpleTags returns the tags that a heading can show.
func simpleTags(tags []string) []string {
	var list []string
	for _, t := range tags {
		if isSimpleTag(t) {
			list = append(list, t)
		}
	}
	return cleanTags(list)
}

// readLoosely is readAnswer for a body after a comment.
func readLoosely(body string) string {
	m := &markdownReader{in: &itemReader{}, open: true, meta: meta{}}
	for line := range strings.SplitSeq(body, "\n") {
		_ = m.headingLine(line, 0, "", m.fence.line(line))
	}
	return strings.TrimSpace(strings.Join(m.lines, "\n"))
}
