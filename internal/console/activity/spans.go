package activity

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// turnPath returns the path of a turn's page.
func turnPath(turn string) string { return "/activity/turns/" + url.PathEscape(turn) }

func turnAt(t control.TurnRow, everybody bool) string {
	if everybody {
		return turnPath(t.Turn) + "?everybody=on"
	}
	return turnPath(t.Turn)
}

// trace is what happened in a turn, as a tree of spans on one time axis.
type trace struct {
	Total time.Duration // length of the time axis
	Spans []span        // by start
	Label string
}

// span is something that took time in a turn.
type span struct {
	Name        string
	Class       string // queue, wait, answer, late, call, model or wrong; empty: its parts have one
	From, Until time.Duration
	Facts       []fact
	Call        *control.Call // of a tool
	Parts       []span        // what happened within it, by start
}

// fact is something that is known of a span.
type fact struct{ Name, Value string }

// traceBuilder collects the spans of a turn.
type traceBuilder struct {
	v      *page.Visit
	d      control.TurnDetail
	before time.Duration // from the end of speech to the question of the bot
}

// newTrace builds the trace of a turn from its records.
func newTrace(v *page.Visit, d control.TurnDetail) trace {
	b := traceBuilder{v: v, d: d}
	if d.Voice != nil {
		b.before = max(d.At.Sub(d.Voice.SpeechEnded), 0)
	}
	heard, spoken := b.voice()
	list := []span{heard, b.span(msgQueue, "queue", 0, b.queue()), b.bot(), spoken}
	list = slices.DeleteFunc(list, func(s span) bool { return s.Until <= s.From })
	sortSpans(list)
	t := trace{Spans: list}
	for _, s := range list {
		t.Total = max(t.Total, s.Until)
	}
	t.Label = v.Text(msgTraceTold, page.FormatDuration(t.Total))
	return t
}

// queue returns how long the turn waited for earlier ones.
func (b *traceBuilder) queue() time.Duration {
	if b.d.First > 0 {
		return min(b.d.Queue, b.d.First)
	}
	return min(b.d.Queue, b.d.Total)
}

// span returns a span whose times count from the question.
func (b *traceBuilder) span(name i18n.Message, class string, from, until time.Duration) span {
	return span{Name: b.v.Text(name), Class: class, From: from + b.before, Until: until + b.before}
}

// bot returns the span of the bot, with its requests to a model and its calls of tools.
func (b *traceBuilder) bot() span {
	d := b.d
	var parts []span
	if len(d.Models) == 0 { // it is known only when it answered
		first, waiting := d.First, msgThinking
		if first == 0 {
			first, waiting = d.Total, msgWaitedInVain
		}
		parts = append(parts, b.span(waiting, "wait", b.queue(), first), b.span(msgAnswering, "answer", first, d.Total))
	}
	for _, m := range d.Models {
		parts = append(parts, b.model(m))
	}
	for _, c := range d.Calls {
		from := max(c.At.Sub(d.At), 0)
		s := b.span("", "call", from, from+max(c.Took, time.Microsecond))
		if s.Name, s.Call = c.Tool, &c; c.Failed() {
			s.Class = "wrong"
		}
		parts = append(parts, s)
	}
	parts = append(parts, b.span(msgLate, "late", d.Total, d.Late))
	whole := b.span("", "", b.queue(), max(d.Total, d.Late))
	whole.Name = botName(b.v, d.BotName, d.Bot)
	whole.Parts = slices.DeleteFunc(parts, func(s span) bool { return s.Until <= s.From })
	for _, s := range whole.Parts { // a bot may go on without its asker
		whole.From, whole.Until = min(whole.From, s.From), max(whole.Until, s.Until)
	}
	sortSpans(whole.Parts)
	return whole
}

// model returns the span of a request to the model.
func (b *traceBuilder) model(m store.ModelUse) span {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	s := b.span("", "model", ms(m.From), ms(max(m.From+m.Took, m.From+1)))
	s.Name = b.v.Text(msgModelRequest, m.Model)
	if m.First > 0 {
		s.Facts = append(s.Facts, fact{b.v.Text(msgFirstPiece), page.FormatDuration(ms(m.First))})
	}
	if m.Input > 0 || m.Output > 0 {
		s.Facts = append(s.Facts, fact{b.v.Text(msgTokens), b.v.Text(msgTokensOf, page.FormatNumber(m.Input),
			page.FormatNumber(m.Output))})
	}
	if m.Failed {
		s.Class = "wrong"
	}
	return s
}

// voice returns the spans before and after the bot of a spoken turn.
func (b *traceBuilder) voice() (heard, spoken span) {
	for _, s := range voiceSteps(b.d) {
		group, name := &spoken, msgSpeaking
		if s.name == msgPause || s.name == msgRecognising {
			group, name = &heard, msgListening
		}
		part := b.span(s.name, s.class, s.from-b.before, s.until-b.before)
		if part.Until <= part.From {
			continue
		}
		if len(group.Parts) == 0 {
			*group = span{Name: b.v.Text(name), From: part.From}
		}
		group.From, group.Until = min(group.From, part.From), max(group.Until, part.Until)
		group.Parts = append(group.Parts, part)
	}
	return heard, spoken
}

func sortSpans(list []span) {
	slices.SortStableFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.Until, a.Until))
	})
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

// share returns d in percent of the total. Positions are in percent because the chart is as wide as
// the page allows.
func (t *trace) share(d time.Duration) float64 {
	if t.Total <= 0 {
		return 0
	}
	return min(float64(d)*100/float64(t.Total), 100)
}

// percent formats a percentage with two decimal places.
func percent(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + "%" }

// width returns the width of a bar, with a minimum that is visible.
func (t *trace) width(s span) string {
	const least = 0.6
	from := t.share(s.From)
	return percent(min(max(t.share(s.Until)-from, least), 100-min(from, 100-least)))
}

// x returns where a bar begins.
func (t *trace) x(s span) string { return percent(min(t.share(s.From), 99.4)) }

// class returns the class of a bar.
func (s span) class() string { return cmp.Or(s.Class, "whole") }

// hasDetails reports whether more is known of a span than its time.
func (s span) hasDetails() bool { return len(s.Facts) > 0 || s.Call != nil }

// times says in words from when to when it went.
func (s span) times(v *page.Visit) string {
	return v.Text(msgFromTo, page.FormatDuration(s.From), page.FormatDuration(s.Until))
}

// failed reports whether it brought nothing.
func (s span) failed() bool { return s.Class == "wrong" }

func px(n int) string { return strconv.Itoa(n) }
