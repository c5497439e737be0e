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
	"patchbay/internal/i18n"
)

// turnPath returns the path of a turn's page.
func turnPath(turn string) string { return "/activity/turns/" + url.PathEscape(turn) }

func turnAt(t control.TurnRow, everybody bool) string {
	if everybody {
		return turnPath(t.Turn) + "?everybody=on"
	}
	return turnPath(t.Turn)
}

// waterfallData is the waterfall chart of a turn; its steps are ordered by start time.
type waterfallData struct {
	Total time.Duration // length of the time axis
	Steps []step
	Label string
}

// step is one bar of a waterfall.
type step struct {
	Name        string
	Class       string // queue, wait, answer, late or call
	From, Until time.Duration
}

// newWaterfall builds the chart from the records of a turn.
func newWaterfall(v *page.Visit, d control.TurnDetail) waterfallData {
	f := waterfallData{Total: max(d.Total, d.Late)}
	before := time.Duration(0) // from the end of speech to the question of the bot
	if d.Voice != nil {
		before = max(d.At.Sub(d.Voice.SpeechEnded), 0)
	}
	add := func(name, class string, from, until time.Duration) {
		if until > from {
			from, until = from+before, until+before
			f.Steps = append(f.Steps, step{name, class, from, until})
			f.Total = max(f.Total, until)
		}
	}
	first, waiting := d.First, msgThinking
	if first == 0 {
		first, waiting = d.Total, msgWaitedInVain
	}
	queue := min(d.Queue, first)
	add(v.Text(msgQueue), "queue", 0, queue)
	add(v.Text(waiting), "wait", queue, first)
	for _, c := range d.Calls {
		from := max(c.At.Sub(d.At), 0)
		add(c.Tool, "call", from, from+max(c.Took, time.Microsecond))
	}
	add(v.Text(msgAnswering), "answer", first, d.Total)
	add(v.Text(msgLate), "late", d.Total, d.Late)
	for _, s := range voiceSteps(d) {
		add(v.Text(s.name), s.class, s.from-before, s.until-before)
	}
	slices.SortStableFunc(f.Steps, func(a, b step) int { return cmp.Compare(a.From, b.From) })
	f.Label = v.Text(msgWaterfallTold, page.FormatDuration(f.Total))
	return f
}

// voiceStep is a bar of a spoken turn. Its times count from the end of the speech.
type voiceStep struct {
	name        i18n.Message
	class       string
	from, until time.Duration
}

// voiceSteps returns the bars of a spoken turn.
func voiceSteps(d control.TurnDetail) []voiceStep {
	if d.Voice == nil {
		return nil
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	t := d.Voice
	end := d.At.Add(d.Total).Sub(t.SpeechEnded)
	if t.Interrupted > 0 {
		end = ms(t.Interrupted)
	}
	steps := []voiceStep{{msgPause, "queue", 0, ms(t.Commit)}}
	if t.Transcript > t.Commit {
		steps = append(steps, voiceStep{msgRecognising, "wait", ms(t.Commit), ms(t.Transcript)})
	}
	if t.FirstSentence > t.FirstText && t.FirstText > 0 {
		steps = append(steps, voiceStep{msgFirstSentence, "wait", ms(t.FirstText), ms(t.FirstSentence)})
	}
	if t.FirstSound > 0 {
		steps = append(steps, voiceStep{msgSynthesis, "call", ms(t.FirstSentence), ms(t.FirstSound)},
			voiceStep{msgPlaying, "answer", ms(t.FirstSound), end})
	}
	return steps
}

const (
	stepHeight = 44 // height of a row in pixels: a line of text and the bar below it
	barHeight  = 14
)

// height returns the height of the chart in pixels, with the scale below the rows.
func (f *waterfallData) height() int { return len(f.Steps)*stepHeight + 24 }

// share returns d in percent of the total. Positions are in percent because the chart is as wide as
// the page allows.
func (f *waterfallData) share(d time.Duration) float64 {
	if f.Total <= 0 {
		return 0
	}
	return min(float64(d)*100/float64(f.Total), 100)
}

// percent formats a percentage with two decimal places.
func percent(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + "%" }

// width returns the width of a bar, with a minimum that is visible.
func (f *waterfallData) width(s step) string {
	const least = 0.6
	from := f.share(s.From)
	return percent(min(max(f.share(s.Until)-from, least), 100-min(from, 100-least)))
}

// x returns where a bar begins.
func (f *waterfallData) x(s step) string { return percent(min(f.share(s.From), 99.4)) }

// summary describes the whole chart in words.
func (f *waterfallData) summary(v *page.Visit) string {
	said := make([]string, len(f.Steps))
	for i, s := range f.Steps {
		said[i] = s.description(v)
	}
	return f.Label + " " + strings.Join(said, "; ")
}

// description describes a step in words.
func (s step) description(v *page.Visit) string {
	return v.Text(msgFromTo, s.Name, page.FormatDuration(s.From), page.FormatDuration(s.Until))
}

// minLabelWidth is how many characters of a name fit beside its duration on a phone.
const minLabelWidth = 30

func (s step) label() string {
	name := []rune(s.Name)
	if len(name) > minLabelWidth {
		name = append(name[:minLabelWidth-1], '…')
	}
	return string(name) + " · " + page.FormatDuration(s.Until-s.From)
}

func px(n int) string { return strconv.Itoa(n) }
