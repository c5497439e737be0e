package transfer

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// form is a form of Markdown. A file has only one.
type form int

const (
	headings form = iota // "# Deck", "## question", then the answer
	letters              // "Q: …" and "A: …"
	// inline is "question :: answer" (obsidian-spaced-repetition,
	// docs/docs/en/flashcards/q-and-a-cards.md).
	inline
)

// marker is the first line of files that we write; such a file has headings, whatever its answers
// look like.
const marker = "<!-- patchbay learn -->"

// readMarkdown reads the file twice: first to detect its form, then for its items.
func (in *itemReader) readMarkdown(r io.ReaderAt, size int64) error {
	quiet := &itemReader{ctx: in.ctx}
	form, err := markdownForm(bufio.NewReader(quiet.reader(r, size)))
	if err != nil {
		return err
	}
	m := &markdownReader{in: in, form: form}
	err = eachLine(bufio.NewReaderSize(in.reader(r, size), 64<<10), func(line string) error {
		m.row++
		return m.line(line)
	})
	if err != nil {
		return err
	}
	if err := m.end(); err != nil {
		return err
	}
	if m.items == 0 && m.stray > 0 && len(in.rowErrors) == 0 {
		in.reject(m.stray, "", msgStray.Errorf())
	}
	return nil
}

func eachLine(b *bufio.Reader, f func(string) error) error {
	for first := true; ; first = false {
		line, err := b.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line == "" && err != nil {
			return nil
		}
		line = strings.TrimRight(line, "\r\n")
		if first {
			line = strings.TrimPrefix(line, string(byteOrderMark))
		}
		if failed := f(line); failed != nil {
			return failed
		}
		if err != nil {
			return nil
		}
	}
}

// markdownForm counts the matches of each form. Headings and "::" occur in all kinds of notes, so
// "::" counts only if no heading is a question or the file has the plugin's tag #flashcards.
func markdownForm(b *bufio.Reader) (form, error) {
	var f fence
	var questions, asked, pairs, sections int
	ours, plugin := false, false
	err := eachLine(b, func(line string) error {
		ours = ours || line == marker
		if f.line(line) || ours {
			return nil
		}
		level, _ := heading(line)
		_, q := cutLetter(line, questionLetters)
		_, a := cutLetter(line, answerLetters)
		switch {
		case level == 2:
			sections++
		case q:
			questions++
		case a && questions > asked:
			asked++
		case strings.Contains(line, "::"):
			pairs++
		}
		plugin = plugin || strings.Contains(line, "#flashcards")
		return nil
	})
	switch {
	case ours:
		return headings, err
	case asked > 0:
		return letters, err
	case pairs > 0 && (plugin || sections == 0):
		return inline, err
	}
	return headings, err
}

// markdownReader collects the lines of an item until the next one begins.
type markdownReader struct {
	in     *itemReader
	form   form
	row    int
	fence  fence
	deck   string
	items  int
	stray  int // first line with text outside items
	open   bool
	start  int      // line of the question
	asking bool     // before "A:"
	title  string   // heading as written
	asked  []string // lines after "Q:"
	lines  []string // lines of the answer
	meta   meta
}

func (m *markdownReader) line(line string) error {
	fenced := m.fence.line(line)
	level, text := 0, ""
	if !fenced {
		level, text = heading(line)
	}
	if level == 1 || level == 2 && m.form != headings {
		if err := m.end(); err != nil {
			return err
		}
		if level == 1 {
			m.deck = text
		}
		return nil
	}
	switch m.form {
	case headings:
		return m.headingLine(line, level, text, fenced)
	case letters:
		return m.letterLine(line, fenced)
	}
	return m.inlineLine(line, fenced)
}

func (m *markdownReader) headingLine(line string, level int, text string, fenced bool) error {
	switch {
	case level == 2:
		if err := m.end(); err != nil {
			return err
		}
		m.open, m.start, m.title = true, m.row, text
	case !m.open:
		m.outside(line)
	case len(m.lines) == 0 && strings.TrimSpace(line) == "":
	case len(m.lines) == 0 && m.meta == nil && !fenced && parseMeta(line) != nil:
		m.meta = parseMeta(line)
	case fenced:
		m.lines = append(m.lines, line)
	default:
		m.lines = append(m.lines, unescapeLine(line))
	}
	return nil
}

func (m *markdownReader) outside(line string) {
	if m.stray == 0 && strings.TrimSpace(line) != "" && line != marker {
		m.stray = m.row
	}
}

var (
	questionLetters = []string{"q", "question", "问", "问题", "問"}
	answerLetters   = []string{"a", "answer", "答", "答案"}
)

// cutLetter parses "Q: …", also "**Q:** …" and with a full-width colon.
func cutLetter(line string, letters []string) (rest string, ok bool) {
	s := strings.TrimSpace(line)
	s = strings.TrimPrefix(s, "**")
	bold := len(s) < len(strings.TrimSpace(line))
	for _, letter := range letters {
		if len(s) < len(letter) || !strings.EqualFold(s[:len(letter)], letter) {
			continue
		}
		for _, colon := range []string{":", "："} {
			if rest, ok := strings.CutPrefix(s[len(letter):], colon); ok && !strings.HasPrefix(rest, ":") {
				if bold {
					rest = strings.TrimPrefix(rest, "**")
				}
				return strings.TrimSpace(rest), true
			}
		}
	}
	return "", false
}

func isQuestion(line string) bool {
	_, ok := cutLetter(line, questionLetters)
	return ok
}

func (m *markdownReader) letterLine(line string, fenced bool) error {
	q, isQ := cutLetter(line, questionLetters)
	a, isA := cutLetter(line, answerLetters)
	switch {
	case fenced:
		isQ, isA = false, false
	case isQ:
		if err := m.end(); err != nil {
			return err
		}
		m.open, m.asking, m.start, m.asked = true, true, m.row, []string{q}
		return nil
	case isA && m.asking:
		m.asking, m.lines = false, []string{a}
		return nil
	}
	switch {
	case !m.open:
		m.outside(line)
	case m.asking:
		m.asked = append(m.asked, line)
	default:
		m.lines = append(m.lines, line)
	}
	return nil
}

// inlineLine parses one line with question and answer; ":::" makes two items, one in each
// direction.
func (m *markdownReader) inlineLine(line string, fenced bool) error {
	question, answer, found := strings.Cut(line, "::")
	if !found || fenced {
		m.outside(line)
		if deck := flashcardsDeck(line); deck != "" && !fenced {
			m.deck = deck
		}
		return nil
	}
	answer, both := strings.CutPrefix(answer, ":")
	if i := strings.Index(answer, "<!--SR:"); i >= 0 { // the plugin's schedule (docs/docs/en/data-storage.md)
		answer = answer[:i]
	}
	question = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(question), "-*+ "))
	question, tags := cutTags(question)
	answer, more := cutTags(strings.TrimSpace(answer))
	it := Item{Deck: m.deck, Question: unescapeTag(question), Answer: unescapeTag(answer), InPlan: true}
	for _, t := range append(tags, more...) {
		if deck := flashcardsDeck("#" + t); deck != "" {
			it.Deck = deck
		} else if t != "flashcards" {
			it.Tags = append(it.Tags, t)
		}
	}
	m.items++
	if !both {
		return m.in.item(m.row, it)
	}
	it.Kin = cut("md:"+it.Question, MaxName)
	if err := m.in.item(m.row, it); err != nil {
		return err
	}
	it.Question, it.Answer = it.Answer, it.Question
	return m.in.item(m.row, it)
}

// flashcardsDeck returns the deck in the plugin's tag #flashcards/deck/part
// (obsidian-spaced-repetition docs/docs/en/flashcards/decks.md).
func flashcardsDeck(line string) string {
	_, rest, found := strings.Cut(line, "#flashcards/")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return strings.ReplaceAll(name, "/", "::")
}

// end delivers the current item.
func (m *markdownReader) end() error {
	if !m.open {
		return nil
	}
	it := Item{Deck: m.deck, InPlan: true}
	if m.form == letters {
		question, tags := cutTags(strings.Join(m.asked, "\n"))
		it.Question, it.Tags, it.Answer = unescapeTag(question), tags, strings.Join(m.lines, "\n")
	} else {
		m.fromHeading(&it)
	}
	row := m.start
	m.open, m.asking, m.asked, m.lines, m.meta, m.fence = false, false, nil, nil, nil, fence{}
	m.items++
	return m.in.item(row, it)
}

func (m *markdownReader) fromHeading(it *Item) {
	it.Question, it.Tags = parseTitle(m.title)
	it.Answer = strings.TrimSpace(strings.Join(m.lines, "\n"))
	if m.meta != nil {
		m.meta.apply(it, m.title)
	}
}

// heading parses "# text" and "## text" at the start of a line.
func heading(line string) (level int, text string) {
	for level < 3 && level < len(line) && line[level] == '#' {
		level++
	}
	if level == 0 || level > 2 || len(line) > level && line[level] != ' ' && line[level] != '\t' {
		return 0, ""
	}
	return level, strings.TrimSpace(line[level:])
}

// cutTags removes the tags from the end of a question.
func cutTags(s string) (rest string, tags []string) {
	for {
		s = strings.TrimRight(s, " \t")
		i := strings.LastIndexAny(s, " \t\n") + 1
		tag := s[i:]
		if len(tag) < 2 || tag[0] != '#' || strings.Contains(tag[1:], "#") || i == 0 {
			return s, tags
		}
		tags = append(tags, tag[1:])
		s = s[:i]
	}
}

// fence tracks fenced code blocks (CommonMark 0.31 §4.5: ``` or ~~~), in which markup is ignored.
type fence struct {
	char byte
	size int
}

// line reports whether a line belongs to a code block, including its fences.
func (f *fence) line(line string) bool {
	char, size, rest := fenceOf(line)
	switch {
	case f.size == 0 && size > 0 && (char == '~' || !strings.Contains(rest, "`")):
		f.char, f.size = char, size
		return true
	case f.size == 0:
		return false
	case char == f.char && size >= f.size && strings.TrimSpace(rest) == "":
		f.size = 0
	}
	return true
}

func fenceOf(line string) (char byte, size int, rest string) {
	s := strings.TrimLeft(line, " ")
	if len(line)-len(s) > 3 || s == "" || s[0] != '`' && s[0] != '~' {
		return 0, 0, ""
	}
	rest = strings.TrimLeft(s, s[:1])
	if size = len(s) - len(rest); size < 3 {
		return 0, 0, ""
	}
	return s[0], size, rest
}
