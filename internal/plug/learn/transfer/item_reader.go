package transfer

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/store"
)

// itemReader is the common part of all readers: it validates, counts and delivers items, and
// collects row errors.
type itemReader struct {
	ctx       context.Context
	o         ReadOptions
	format    string
	each      func(Item) error
	rowErrors []RowError
	count     int
}

// reject records a row that is left out.
func (in *itemReader) reject(row int, what string, why error) {
	switch {
	case len(in.rowErrors) < MaxRowErrors-1:
		in.rowErrors = append(in.rowErrors, newRowError(row, shorten(what), why))
	case len(in.rowErrors) == MaxRowErrors-1:
		in.rowErrors = append(in.rowErrors, newRowError(row, "", msgMore.Errorf()))
	}
}

// item validates and delivers an item.
func (in *itemReader) item(row int, it Item) error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	it.Question, it.Answer = clean(it.Question), clean(it.Answer)
	if in.format != JSON {
		it.Question, it.Answer = strings.TrimSpace(unixLines(it.Question)), strings.TrimSpace(unixLines(it.Answer))
	}
	onlySittings := in.format == Rows && it.Question == "" && it.ID != "" && len(it.Sittings) > 0
	if why := validateItem(it); why != nil && !onlySittings {
		in.reject(row, it.Question, why)
		return nil
	}
	if it.Tags = cleanTags(it.Tags); len(it.Tags) > MaxTags {
		in.reject(row, it.Question, msgManyTags.Errorf(MaxTags))
		return nil
	}
	if it.Deck = cleanDeck(it.Deck); it.Deck == "" {
		it.Deck = cleanDeck(in.o.Deck)
	}
	it.Origin, it.Kin = cut(clean(it.Origin), MaxName), cut(clean(it.Kin), MaxName)
	if it.ID != "" {
		id, err := uuid.Parse(it.ID)
		if err != nil {
			if it.Origin == "" {
				it.Origin = cut(in.format+":"+clean(it.ID), MaxName)
			}
			it.ID = ""
		} else {
			it.ID = id.String()
		}
	}
	if in.count++; in.count > in.o.MaxItems {
		return &TooManyError{in.o.MaxItems}
	}
	return in.each(it)
}

func validateItem(it Item) error {
	switch {
	case strings.TrimSpace(it.Question) == "" && strings.TrimSpace(it.Answer) == "":
		return msgEmpty.Errorf()
	case strings.TrimSpace(it.Question) == "":
		return msgNoQuestion.Errorf()
	case strings.TrimSpace(it.Answer) == "":
		return msgNoAnswer.Errorf()
	case len(it.Question) > MaxText:
		return msgLongAsking.Errorf()
	case len(it.Answer) > MaxText:
		return msgLongAnswer.Errorf()
	}
	return nil
}

// clean drops what databases reject: NUL and invalid UTF-8.
func clean(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func unixLines(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// cleanTags trims and sorts tags, and drops empty, duplicate and overlong ones.
func cleanTags(tags []string) []string {
	var list []string
	for _, t := range tags {
		t = strings.TrimLeft(strings.Join(strings.Fields(clean(t)), " "), "# ")
		if t != "" && len(t) <= MaxTag {
			list = append(list, t)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// cleanDeck trims the levels of a deck's name and drops empty ones.
func cleanDeck(name string) string {
	var levels []string
	for level := range strings.SplitSeq(clean(name), "::") {
		if level = strings.Join(strings.Fields(level), " "); level != "" {
			levels = append(levels, level)
		}
	}
	return cut(strings.Join(levels, "::"), MaxName)
}

// shorten returns the start of a text on one line.
func shorten(s string) string {
	const length = 60
	s = strings.Join(strings.Fields(clean(cut(s, 4*length))), " ")
	if short := cut(s, length); len(short) < len(s) {
		return short + "…"
	}
	return s
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// day returns the learner's date at a moment.
func (o ReadOptions) day(t time.Time) store.Day { return dayOf(t, o.Zone, o.DayStart) }

func dayOf(t time.Time, zone *time.Location, start time.Duration) store.Day {
	if zone == nil {
		zone = time.UTC
	}
	return store.DateOf(t.In(zone).Add(-start))
}

// elapsed sets the number of the learner's days between reviews.
func (o ReadOptions) elapsed(history []store.LogEntry) {
	for i := 1; i < len(history); i++ {
		history[i].Elapsed = max(int(o.day(history[i].At)-o.day(history[i-1].At)), 0)
	}
}

// Time formats, as programs write them and spreadsheets rewrite them.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999", "2006-01-02 15:04", time.DateOnly, "2006/1/2 15:04:05", "2006/1/2 15:04",
	"2006/1/2",
}

// parseTime parses a time; an empty text is the zero time.
func parseTime(s string, zone *time.Location) (t time.Time, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return t, true
	}
	if zone == nil {
		zone = time.UTC
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t.UTC(), t.Year() > 0 && t.Year() < 10000
		}
	}
	return t, false
}

// progressReader is a reader that reports its progress.
type progressReader struct {
	r           io.Reader
	in          *itemReader
	done, total int64
	reported    int64
}

// progressInterval is the number of bytes between two progress reports.
const progressInterval = 1 << 20

func (in *itemReader) reader(r io.ReaderAt, size int64) io.Reader {
	return &progressReader{r: io.NewSectionReader(r, 0, size), in: in, total: size}
}

func (p *progressReader) Read(b []byte) (int, error) {
	if err := p.in.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	p.done += int64(n)
	if report := p.in.o.Progress; report != nil && (p.done-p.reported >= progressInterval ||
		err == io.EOF && p.reported < p.done) {
		p.reported = p.done
		report(int(p.done), int(p.total))
	}
	return n, err
}
