package remind

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

const (
	// feedDays is the number of days in a calendar.
	feedDays = 14
	// defaultFeedTime is the time of day for people who set none.
	defaultFeedTime = "20:00"
	// feedEventLength is the length of a review in a calendar.
	feedEventLength = 15 * time.Minute
	// lineBytes is the longest line of a calendar without its line break (RFC 5545 §3.1).
	lineBytes = 75
)

const (
	msgCalendar = i18n.Message("Reviews")
	msgEvent    = i18n.Message("To review: %d")
	msgEventMay = i18n.Message("Due: %d, unless they are reviewed before.")
)

// Feed is the content of a calendar.
type Feed struct {
	Person   string
	Lang     i18n.Lang
	Calendar schedule.Calendar
	At       string // time of the reminders, such as "20:00"; empty: defaultFeedTime
	Now      time.Time
	Days     []FeedDay // by date
}

// FeedDay is the number of points due on a learner's day.
type FeedDay struct {
	Day store.Day
	Due int
}

// NewFeed loads the content of a person's calendar: the reviews left today and those of the
// following thirteen days.
func NewFeed(ctx context.Context, s Service, person string, lang i18n.Lang) (Feed, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return Feed{}, err
	}
	stats, err := s.Stats(ctx, person, feedDays, 0)
	if err != nil {
		return Feed{}, err
	}
	f := Feed{Person: person, Lang: lang, Calendar: l.Calendar, At: l.Profile.Remind.At, Now: l.Now}
	for i, d := range stats.Forecast {
		due := d.Due
		if i == 0 {
			due = stats.Left.Total()
		}
		f.Days = append(f.Days, FeedDay{d.Day, due})
	}
	return f, nil
}

// ICS writes a calendar to subscribe to (iCalendar, RFC 5545), with one event and alarm per day on
// which points are due. The UID of an event is derived from person and day, so that a later version
// of the event replaces the earlier one.
func ICS(f Feed) []byte {
	if f.At == "" {
		f.At = defaultFeedTime
	}
	stamp := f.Now.UTC().Format("20060102T150405Z")
	var w lines
	w.add("BEGIN:VCALENDAR")
	w.add("VERSION:2.0")
	w.add("PRODID:-//Patchbay//Learn//EN")
	w.add("CALSCALE:GREGORIAN")
	w.add("METHOD:PUBLISH")
	w.text("NAME", msgCalendar.In(f.Lang))
	w.text("X-WR-CALNAME", msgCalendar.In(f.Lang))
	w.add("REFRESH-INTERVAL;VALUE=DURATION:PT1H")
	w.add("X-PUBLISHED-TTL:PT1H")
	for _, d := range f.Days {
		at, err := TimeOnDay(f.Calendar, d.Day, f.At)
		if err != nil || d.Due <= 0 {
			continue
		}
		w.add("BEGIN:VEVENT")
		w.add("UID:" + uid(f.Person, d.Day))
		w.add("DTSTAMP:" + stamp)
		w.add("DTSTART:" + at.UTC().Format("20060102T150405Z"))
		w.add("DTEND:" + at.Add(feedEventLength).UTC().Format("20060102T150405Z"))
		w.text("SUMMARY", msgEvent.In(f.Lang, d.Due))
		w.text("DESCRIPTION", msgEventMay.In(f.Lang, d.Due))
		w.add("TRANSP:TRANSPARENT")
		w.add("BEGIN:VALARM")
		w.add("ACTION:DISPLAY")
		w.add("TRIGGER:PT0S")
		w.text("DESCRIPTION", msgEvent.In(f.Lang, d.Due))
		w.add("END:VALARM")
		w.add("END:VEVENT")
	}
	w.add("END:VCALENDAR")
	return []byte(w.String())
}

// uid returns the UID of an event, which does not reveal the person.
func uid(person string, day store.Day) string {
	sum := sha256.Sum256([]byte("learn calendar\x00" + person))
	return fmt.Sprintf("learn-%s-%s@patchbay", hex.EncodeToString(sum[:8]), day)
}

// lines writes content lines.
type lines struct{ strings.Builder }

// escapes replaces characters with a special meaning in a text (RFC 5545 §3.3.11).
var escapes = strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`)

func (w *lines) text(name, value string) { w.add(name + ":" + escapes.Replace(value)) }

// add writes a line, folded if it is too long, but never within a character.
func (w *lines) add(line string) {
	most := lineBytes
	for len(line) > most {
		cut := most
		for cut > 1 && !utf8.RuneStart(line[cut]) {
			cut--
		}
		w.WriteString(line[:cut] + "\r\n ")
		line, most = line[cut:], lineBytes-1 // the leading space counts
	}
	w.WriteString(line + "\r\n")
}
