package remind

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// feedDays is how far a calendar looks ahead.
	feedDays = 14
	// feedAt is the time of day for who chose none.
	feedAt = "20:00"
	// feedFor is how long a review takes in a calendar.
	feedFor = 15 * time.Minute
	// lineBytes is the longest line of a calendar, without its end (RFC 5545, 3.1).
	lineBytes = 75
)

var (
	sayCalendar = talk.Say{Zh: "复习", En: "Reviews"}
	sayEvent    = talk.Say{Zh: "复习 %d 题", En: "To review: %d"}
	sayEventMay = talk.Say{Zh: "到期 %d 题；之前复习过的不再算。", En: "Due: %d, unless they are reviewed before."}
)

// Feed is what a calendar shows.
type Feed struct {
	Person   string
	Lang     talk.Lang
	Calendar schedule.Calendar
	At       string // the time of the reminders, such as "20:00"; empty: that
	Now      time.Time
	Days     []FeedDay // by date
}

// FeedDay is how many points are due on a learner's day.
type FeedDay struct {
	Day store.Day
	Due int
}

// FeedOf looks up what a person's calendar shows: today with what is left of it, and
// the thirteen days behind it.
func FeedOf(ctx context.Context, s Service, person string, lang talk.Lang) (Feed, error) {
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

// ICS writes a calendar to subscribe to (iCalendar, RFC 5545): an event with an alarm
// for each day that has something due. An event's UID follows from person and day,
// so that a later version takes the place of an earlier one.
func ICS(f Feed) []byte {
	if f.At == "" {
		f.At = feedAt
	}
	stamp := f.Now.UTC().Format("20060102T150405Z")
	var w lines
	w.add("BEGIN:VCALENDAR")
	w.add("VERSION:2.0")
	w.add("PRODID:-//Patchbay//Learn//EN")
	w.add("CALSCALE:GREGORIAN")
	w.add("METHOD:PUBLISH")
	w.text("NAME", sayCalendar.In(f.Lang))
	w.text("X-WR-CALNAME", sayCalendar.In(f.Lang))
	w.add("REFRESH-INTERVAL;VALUE=DURATION:PT1H")
	w.add("X-PUBLISHED-TTL:PT1H")
	for _, d := range f.Days {
		at, err := Moment(f.Calendar, d.Day, f.At)
		if err != nil || d.Due <= 0 {
			continue
		}
		w.add("BEGIN:VEVENT")
		w.add("UID:" + uid(f.Person, d.Day))
		w.add("DTSTAMP:" + stamp)
		w.add("DTSTART:" + at.UTC().Format("20060102T150405Z"))
		w.add("DTEND:" + at.Add(feedFor).UTC().Format("20060102T150405Z"))
		w.text("SUMMARY", sayEvent.In(f.Lang, d.Due))
		w.text("DESCRIPTION", sayEventMay.In(f.Lang, d.Due))
		w.add("TRANSP:TRANSPARENT")
		w.add("BEGIN:VALARM")
		w.add("ACTION:DISPLAY")
		w.add("TRIGGER:PT0S")
		w.text("DESCRIPTION", sayEvent.In(f.Lang, d.Due))
		w.add("END:VALARM")
		w.add("END:VEVENT")
	}
	w.add("END:VCALENDAR")
	return []byte(w.String())
}

// uid names an event without telling whose it is.
func uid(person string, day store.Day) string {
	sum := sha256.Sum256([]byte("learn calendar\x00" + person))
	return fmt.Sprintf("learn-%s-%s@patchbay", hex.EncodeToString(sum[:8]), day)
}

// lines writes content lines.
type lines struct{ strings.Builder }

// escapes are what stands for characters that mean something in a text (3.3.11).
var escapes = strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`)

func (w *lines) text(name, value string) { w.add(name + ":" + escapes.Replace(value)) }

// add writes a line, folded where it is too long, but never within a character.
func (w *lines) add(line string) {
	most := lineBytes
	for len(line) > most {
		cut := most
		for cut > 1 && !utf8.RuneStart(line[cut]) {
			cut--
		}
		w.WriteString(line[:cut] + "\r\n ")
		line, most = line[cut:], lineBytes-1 // the space counts
	}
	w.WriteString(line + "\r\n")
}
