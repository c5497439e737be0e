package page

import (
	"strconv"
	"strings"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
)

// FormatTime formats a time for reading: how long ago, or the date.
func (v *Visit) FormatTime(t time.Time) string {
	if t.IsZero() {
		return v.Text(msgNever)
	}
	now := time.Now()
	switch d := now.Sub(t); {
	case d < -24*time.Hour || d >= 24*time.Hour:
		return v.FormatDate(t)
	case d <= -time.Hour:
		return v.Text(msgInHours, int(-d/time.Hour))
	case d <= -time.Minute:
		return v.Text(msgInMins, int(-d/time.Minute))
	case d < 0:
		return v.Text(msgTomorrow)
	case d < time.Minute:
		return v.Text(msgJustNow)
	case d < time.Hour:
		return v.Text(msgMinutes, int(d/time.Minute))
	default:
		return v.Text(msgHours, int(d/time.Hour))
	}
}

// FormatDate formats a time with its date, in the visitor's time zone.
func (v *Visit) FormatDate(t time.Time) string {
	t = t.In(v.Zone())
	layout := "2006-01-02 15:04"
	if t.Year() == time.Now().In(v.Zone()).Year() {
		layout = "01-02 15:04"
	}
	return t.Format(layout)
}

// FormatClock formats the time of day to the second, in the visitor's time zone.
func (v *Visit) FormatClock(t time.Time) string { return t.In(v.Zone()).Format("15:04:05") }

// MaxSearch is how many characters what is searched for in everything may have: enough for a
// sentence, and little work.
const MaxSearch = 200

// FirstLine returns the first line of a text for a list, at most some characters of it.
func FirstLine(text string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return Cut(strings.TrimSpace(line), most)
}

// Cut returns a text, or the beginning of it that has at most some characters with its ellipsis.
func Cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// maxAsked is how many characters of a question a row of a list shows.
const maxAsked = 120

// Asked returns the beginning of a turn's question on one line, without its pictures; empty: it is
// not kept.
func Asked(t *control.TurnRow) string {
	text, _ := hub.SplitImages(t.Question)
	return Cut(strings.Join(strings.Fields(text), " "), maxAsked)
}

// FormatDuration formats a duration.
func FormatDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < 10*time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	default:
		return d.Round(time.Second / 10).String()
	}
}

// FormatSize formats a number of bytes.
func FormatSize(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	default:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
}

// FormatNumber formats a number with thousands separators.
func FormatNumber[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// State is the colour of a status light.
type State string

// States of a [Light].
const (
	On   State = "on"
	Wait State = "wait"
	Off  State = "off"
	Bad  State = "bad"
)

// SplitNames splits the names that a person typed, at commas, spaces and line breaks.
func SplitNames(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",， \n\r\t", r) })
}

// FieldError returns an error that begins with the name of a setting, for a form that shows the
// setting by its label: what is said beside the field, and what is said above the form. ok is false
// if the error is about something else.
func (v *Visit) FieldError(text, name string, label i18n.Message) (beside, above string, ok bool) {
	rest, ok := strings.CutPrefix(text, name)
	if !ok {
		return "", "", false
	}
	for _, end := range []string{":", "："} {
		if said, ok := strings.CutPrefix(rest, end); ok {
			said = strings.TrimSpace(said)
			return said, v.Text(msgWrongField, v.Text(label), said), true
		}
	}
	return text, v.Text(msgWrongField, v.Text(label), text), strings.HasPrefix(rest, " ")
}

// Labelled returns a text after what it is about, as in "Cause: no route".
func (v *Visit) Labelled(label, text string) string { return v.Text(msgLabelled, label, text) }
