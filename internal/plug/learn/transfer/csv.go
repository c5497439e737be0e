package transfer

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/plug/learn/transfer/apkg"
)

// header maps our names of known columns to their positions; of equally named columns the first
// counts. It is a map because a file may have as many columns as bytes.
type header map[string]int

// columns maps the column names that people and programs use to ours.
var columns = map[string]string{
	"question": "question", "front": "question", "term": "question", "prompt": "question",
	"问题": "question", "題目": "question", "题目": "question", "正面": "question",
	"answer": "answer", "back": "answer", "definition": "answer", "答案": "answer", "回答": "answer", "背面": "answer",
	"deck": "deck", "deck_name": "deck", "牌组": "deck", "卡组": "deck",
	"tags": "tags", "tag": "tags", "标签": "tags",
	"id": "id", "origin": "origin", "kin": "kin", "created_at": "created_at", "created": "created_at",
	"updated_at": "updated_at", "updated": "updated_at",
	"in_plan": "in_plan", "is_in_review_plan": "in_plan", "suspended": "suspended",
	// Columns of the original service's tables.
	"user_id": "user_id", "knowledge_point_id": "knowledge_point_id", "review_date": "review_date",
	"review_number": "review_number",
	"completed":     "completed", "completed_at": "completed_at", "recall_text": "recall_text",
}

func parseHeader(cells []string) header {
	h := header{}
	for i, c := range cells {
		name := columns[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(c)), " ", "_")]
		if h.index(name) < 0 && name != "" {
			h[name] = i
		}
	}
	// The letters are column names only as a pair; a single one may be data.
	if len(cells) >= 2 && strings.EqualFold(cells[0], "q") && strings.EqualFold(cells[1], "a") {
		h["question"], h["answer"] = 0, 1
	}
	return h
}

// index returns the position of a column, or −1.
func (h header) index(name string) int {
	if i, ok := h[name]; ok {
		return i
	}
	return -1
}

func (h header) question() int { return h.index("question") }
func (h header) answer() int   { return h.index("answer") }

// cell returns the text in a column, or "" if the row is shorter.
func (h header) cell(cells []string, name string) string {
	if i := h.index(name); i >= 0 && i < len(cells) {
		return cells[i]
	}
	return ""
}

// table is the state of reading a spreadsheet.
type table struct {
	csv    *csv.Reader
	lines  int // before the first line of the csv reader
	header header
	first  []string // a data row that was read in search of the header
	row    int      // number of first
	anki   ankiText
}

// ankiText holds the header lines of Anki's text export
// (rslib/src/import_export/text/csv/metadata.rs).
type ankiText struct {
	isAnki, html                   bool
	separator                      rune
	deck                           string
	tags                           []string
	guid, noteType, deckAt, tagsAt int // column numbers, from 1
}

func newTable(in *itemReader, r io.ReaderAt, size int64) *table {
	t := &table{}
	b := bufio.NewReaderSize(in.reader(r, size), 64<<10)
	if start, _ := b.Peek(len(byteOrderMark)); string(start) == string(byteOrderMark) {
		_, _ = b.Discard(len(byteOrderMark))
	}
	for t.topLine(b) {
		t.lines++
	}
	t.csv = csv.NewReader(b)
	t.csv.FieldsPerRecord = -1
	if t.csv.Comma = t.anki.separator; t.csv.Comma == 0 {
		head, _ := b.Peek(b.Size())
		t.csv.Comma = separator(string(head))
	}
	// Tab-separated text is rarely quoted; quotes are part of the text there.
	t.csv.LazyQuotes = t.csv.Comma == '\t'
	return t
}

// topLine parses a header line such as "#separator:tab", or Excel's "sep=;".
func (t *table) topLine(b *bufio.Reader) bool {
	head, _ := b.Peek(min(b.Size(), 4096))
	line, _, found := strings.Cut(string(head), "\n")
	if !found {
		return false
	}
	size := len(line) + 1
	line = strings.TrimRight(line, "\r")
	if sep, ok := strings.CutPrefix(strings.ToLower(line), "sep="); ok && len(sep) == 1 && t.lines == 0 {
		t.anki.separator = rune(sep[0])
	} else if !t.anki.line(line) {
		return false
	}
	_, _ = b.Discard(size)
	return true
}

func (a *ankiText) line(line string) bool {
	key, value, found := strings.Cut(line, ":")
	if !found || !strings.HasPrefix(key, "#") {
		return false
	}
	number := func(into *int) {
		if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n > 0 {
			*into = n
		}
	}
	switch strings.ToLower(key) {
	case "#separator":
		a.separator = separatorNamed(value)
	case "#html":
		a.html = strings.EqualFold(strings.TrimSpace(value), "true")
	case "#tags":
		a.tags = strings.Fields(value)
	case "#deck":
		a.deck = value
	case "#guid column":
		number(&a.guid)
	case "#notetype column":
		number(&a.noteType)
	case "#deck column":
		number(&a.deckAt)
	case "#tags column":
		number(&a.tagsAt)
	case "#notetype", "#columns", "#if matches":
	default:
		return false
	}
	a.isAnki = true
	return true
}

func separatorNamed(name string) rune {
	name = strings.ToLower(name)
	for sep, called := range map[rune]string{'\t': "tab", ';': "semicolon", ',': "comma", '|': "pipe", ':': "colon",
		' ': "space"} {
		if strings.TrimSpace(name) == called || name == string(sep) {
			return sep
		}
	}
	return '\t'
}

// separator returns the most frequent separator in the first line, outside quotes.
func separator(head string) rune {
	best, most := ',', 0
	for _, sep := range []rune{',', '\t', ';'} {
		n, quoted, last := 0, false, sep
	line:
		for _, r := range head {
			switch {
			case r == '"' && (quoted || last == sep):
				quoted = !quoted
			case r == sep && !quoted:
				n++
			case r == '\n' && !quoted:
				break line
			}
			last = r
		}
		if n > most {
			best, most = sep, n
		}
	}
	return best
}

// splitLoosely splits a line in order to recognize a header.
func splitLoosely(line string) []string {
	cells := strings.Split(strings.TrimSpace(line), string(separator(line)))
	for i, c := range cells {
		cells[i] = strings.Trim(c, `" `)
	}
	return cells
}

// next reads a row; io.EOF ends the table. Unreadable rows are reported.
func (t *table) next(in *itemReader) (row int, cells []string, err error) {
	if t.first != nil {
		cells, t.first = t.first, nil
		return t.row, cells, nil
	}
	for {
		cells, err := t.csv.Read()
		var broken *csv.ParseError
		switch {
		case errors.As(err, &broken):
			why := msgQuoteInside
			if errors.Is(broken.Err, csv.ErrQuote) {
				why = msgQuoteOpen
			}
			in.reject(t.lines+broken.StartLine, strings.Join(cells, " "), why.Errorf())
			continue
		case err != nil:
			return 0, nil, err
		}
		line, _ := t.csv.FieldPos(0)
		return t.lines + line, cells, nil
	}
}

// findHeader reads the first row. A table without known column names has two columns, question and
// answer.
func (t *table) findHeader(in *itemReader) error {
	row, cells, err := t.next(in)
	if err != nil {
		return err
	}
	h := parseHeader(cells)
	switch {
	case h.question() >= 0 && h.answer() >= 0, h.index("knowledge_point_id") >= 0:
		t.header = h
		return nil
	case h.question() >= 0:
		return unreadable(msgNoAnswers)
	case h.answer() >= 0:
		return unreadable(msgNoAsking)
	case len(cells) != 2:
		return unreadable(msgNoHeader, len(cells))
	}
	t.header, t.first, t.row = header{"question": 0, "answer": 1}, cells, row
	return nil
}

func (in *itemReader) readCSV(r io.ReaderAt, size int64) error {
	t := newTable(in, r, size)
	convert := t.ankiItem
	if !t.anki.isAnki {
		switch err := t.findHeader(in); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		convert = t.item
	}
	for {
		row, cells, err := t.next(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if isBlankRow(cells) {
			continue
		}
		if err := in.item(row, convert(in, row, cells)); err != nil {
			return err
		}
	}
}

func isBlankRow(cells []string) bool {
	return !slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) != "" })
}

// item converts a row to an item. Columns of the schedule are informational and ignored.
func (t *table) item(in *itemReader, row int, cells []string) Item {
	get := func(name string) string { return unescapeFormula(t.header.cell(cells, name)) }
	it := Item{ID: strings.TrimSpace(get("id")), Origin: get("origin"), Kin: get("kin"), Deck: get("deck"),
		Question: get("question"), Answer: get("answer"),
		Tags: splitTags(get("tags")), InPlan: !isNo(get("in_plan")), Suspended: isYes(get("suspended"))}
	var ok bool
	if it.Created, ok = parseTime(get("created_at"), in.o.Zone); !ok {
		in.reject(row, get("created_at"), msgTimeLeft.Errorf("created_at"))
	}
	if it.Updated, ok = parseTime(get("updated_at"), in.o.Zone); !ok {
		in.reject(row, get("updated_at"), msgTimeLeft.Errorf("updated_at"))
	}
	return it
}

// ankiItem converts a row of Anki's text export: the first ordinary column is the question, the
// others are the answer.
func (t *table) ankiItem(_ *itemReader, _ int, cells []string) Item {
	a := &t.anki
	it := Item{Deck: a.deck, Tags: slices.Clone(a.tags), InPlan: true}
	var rest []string
	first := true
	for i, cell := range cells {
		switch i + 1 {
		case a.guid:
			it.Origin = "anki:" + cell + ":0"
			continue
		case a.deckAt:
			it.Deck = cell
			continue
		case a.tagsAt:
			it.Tags = append(it.Tags, strings.Fields(cell)...)
			continue
		case a.noteType:
			continue
		}
		if a.html {
			cell = apkg.Text(cell)
		}
		switch cell = strings.TrimSpace(cell); {
		case first:
			it.Question, first = cell, false
		case cell != "":
			rest = append(rest, cell)
		}
	}
	it.Answer = strings.Join(rest, "\n\n")
	return it
}

func isYes(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "t", "yes", "y", "1", "是":
		return true
	}
	return false
}

func isNo(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "false", "f", "no", "n", "0", "否":
		return true
	}
	return false
}

// splitTags splits at commas, or at spaces if there is no comma. A backslash escapes a comma.
func splitTags(s string) []string {
	if !strings.ContainsAny(s, ",，、;；") {
		return strings.Fields(s)
	}
	cut := ","
	if !strings.Contains(s, cut) {
		cut = "，、;；"
	}
	var tags []string
	var tag strings.Builder
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			if r != ',' && r != '\\' {
				tag.WriteByte('\\')
			}
			tag.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case strings.ContainsRune(cut, r):
			tags = append(tags, tag.String())
			tag.Reset()
		default:
			tag.WriteRune(r)
		}
	}
	if escaped {
		tag.WriteByte('\\')
	}
	return append(tags, tag.String())
}

// joinTags is the reverse of splitTags. A single tag that would be split gets a trailing comma.
func joinTags(tags []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	list := make([]string, len(tags))
	for i, t := range tags {
		list[i] = escape.Replace(t)
	}
	s := strings.Join(list, ",")
	if len(tags) == 1 && (s != tags[0] || strings.ContainsAny(s, " ,，、;；\t\n")) {
		s += ","
	}
	return s
}

// escapeFormula prevents spreadsheets from running a cell as a formula (OWASP, "CSV Injection"): a
// text that begins with one of = + - @ gets an apostrophe in front, which marks text in
// spreadsheets. If apostrophes already precede such a character, the text gets one more.
func escapeFormula(s string) string {
	if isFormula(s) {
		return "'" + s
	}
	return s
}

// unescapeFormula is the reverse of escapeFormula.
func unescapeFormula(s string) string {
	if strings.HasPrefix(s, "'") && isFormula(s) {
		return s[1:]
	}
	return s
}

func isFormula(s string) bool {
	s = strings.TrimLeft(s, "'")
	for _, start := range []string{"=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"} {
		if strings.HasPrefix(s, start) {
			return true
		}
	}
	return false
}
