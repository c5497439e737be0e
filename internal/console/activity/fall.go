package activity

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// turnPath is where the page of a turn is.
func turnPath(turn string) string { return "/activity/turns/" + url.PathEscape(turn) }

func turnAt(t control.TurnRow, everybody bool) string {
	if everybody {
		return turnPath(t.Turn) + "?everybody=on"
	}
	return turnPath(t.Turn)
}

// fall is what happened in a turn, in the order in which it began.
type fall struct {
	Total time.Duration // how long the drawing is
	Steps []step
	Told  string
}

// step is a part of a turn.
type step struct {
	Name        string
	Class       string // queue, wait, answer, late or call
	From, Until time.Duration
}

// fallOf puts together what is recorded of a turn.
func fallOf(v *page.Visit, d control.TurnDetail) fall {
	f := fall{Total: max(d.Total, d.Late)}
	add := func(name, class string, from, until time.Duration) {
		if until > from {
			f.Steps = append(f.Steps, step{name, class, from, until})
			f.Total = max(f.Total, until)
		}
	}
	first, waiting := d.First, sayThinking
	if first == 0 {
		first, waiting = d.Total, sayWaitedInVain
	}
	queue := min(d.Queue, first)
	add(v.Say(sayQueue), "queue", 0, queue)
	add(v.Say(waiting), "wait", queue, first)
	for _, c := range d.Calls {
		from := max(c.At.Sub(d.At), 0)
		add(c.Tool, "call", from, from+max(c.Took, time.Microsecond))
	}
	add(v.Say(sayAnswering), "answer", first, d.Total)
	add(v.Say(sayLate), "late", d.Total, d.Late)
	slices.SortStableFunc(f.Steps, func(a, b step) int { return cmp.Compare(a.From, b.From) })
	f.Told = v.Say(sayWaterfallTold, page.Took(f.Total))
	return f
}

const (
	stepHeight = 44 // of a row: a line of words, and the bar below it
	barHeight  = 14
)

// height is how high the drawing is, in pixels: the scale is below the rows.
func (f *fall) height() int { return len(f.Steps)*stepHeight + 24 }

// share is a part of the whole in percent, as the drawing is as wide as the page lets it
// be.
func (f *fall) share(d time.Duration) float64 {
	if f.Total <= 0 {
		return 0
	}
	return min(float64(d)*100/float64(f.Total), 100)
}

// percent is a number with two digits behind the point.
func percent(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + "%" }

// width is of a bar: what is too short to be seen is drawn a little longer.
func (f *fall) width(s step) string {
	const least = 0.6
	from := f.share(s.From)
	return percent(min(max(f.share(s.Until)-from, least), 100-min(from, 100-least)))
}

// x is where a bar begins.
func (f *fall) x(s step) string { return percent(min(f.share(s.From), 99.4)) }

// words are all that is drawn.
func (f *fall) words(v *page.Visit) string {
	said := make([]string, len(f.Steps))
	for i, s := range f.Steps {
		said[i] = s.told(v)
	}
	return f.Told + " " + strings.Join(said, "; ")
}

// told is a step in words.
func (s step) told(v *page.Visit) string {
	return v.Say(sayFromTo, s.Name, page.Took(s.From), page.Took(s.Until))
}

// shortest is how many characters of a name fit beside how long it took on a phone.
const shortest = 30

func (s step) label() string {
	name := []rune(s.Name)
	if len(name) > shortest {
		name = append(name[:shortest-1], '…')
	}
	return string(name) + " · " + page.Took(s.Until-s.From)
}

func px(n int) string { return strconv.Itoa(n) }
