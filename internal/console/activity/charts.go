package activity

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

func charts(v *page.Visit) {
	f := filter{Everybody: v.IsAdmin() && v.FormValue("everybody") != ""}
	s, err := v.Instance.Control.StatsIn(v.Context(), f.caller(v), control.StatsQuery{Range: v.FormValue("range")}, v.Zone())
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, chartsPage(v, f, s))
}

// Size of the plot of a chart, in pixels; the labels of the scale are above and below.
const (
	plotTop    = 20
	plotHeight = 140
	plotBottom = plotTop + plotHeight
	plotWhole  = plotBottom + 20
)

// chartRanges are the ranges to choose from, and how each is described.
var chartRanges = []struct {
	name        string
	label, told i18n.Message
}{
	{control.RangeDay, msgRangeDay, msgDayTold}, {control.RangeWeek, msgRangeWeek, msgWeekTold},
	{control.RangeMonth, msgRangeMonth, msgMonthTold},
}

// chartsURL returns the address of the charts of a range.
func chartsURL(f filter, of string) string {
	address := "/activity/charts?range=" + of
	if f.Everybody {
		address += "&everybody=on"
	}
	return address
}

// barChartData is a stacked bar chart with one bar per span.
type barChartData struct {
	id, title, told string
	series          []series
	stats           control.Stats
	most            int64 // the greatest total of a span
}

// series is one colour of the bars.
type series struct {
	name, class string
	of          func(*control.Span) int64
}

// names returns the names of the series.
func (b *barChartData) names() (out []string) {
	for _, p := range b.series {
		out = append(out, p.name)
	}
	return out
}

func (b *barChartData) trimSeries() *barChartData {
	for i := range b.stats.Spans {
		b.most = max(b.most, b.sum(&b.stats.Spans[i]))
	}
	return b
}

func (b *barChartData) sum(h *control.Span) (n int64) {
	for _, p := range b.series {
		n += p.of(h)
	}
	return n
}

// block is one rectangle of a bar.
type block struct {
	class, x, width string
	y, height       string
}

// blocks returns the rectangles of span i.
func (b *barChartData) blocks(i int) (out []block) {
	const gap = 0.15 // between two spans, as a fraction of one
	span := 100 / float64(len(b.stats.Spans))
	base := float64(plotBottom)
	for _, p := range b.series {
		n := p.of(&b.stats.Spans[i])
		if n == 0 {
			continue
		}
		height := max(float64(n)*plotHeight/float64(b.most), 1.5)
		base -= height
		out = append(out, block{p.class, percent((float64(i) + gap/2) * span), percent((1 - gap) * span), decimal(base),
			decimal(height)})
	}
	return out
}

// countText describes span i in words.
func (b *barChartData) countText(v *page.Visit, i int) string {
	h := &b.stats.Spans[i]
	var words []string
	for _, p := range b.series {
		words = append(words, p.name+" "+page.FormatNumber(p.of(h)))
	}
	return v.Text(msgOneSpan, spanName(v, b.stats, h.At), strings.Join(words, ", "))
}

func turnsChart(v *page.Visit, s control.Stats) *barChartData {
	var all, wrong int64
	for i := range s.Spans {
		all += s.Spans[i].Turns()
		wrong += s.Spans[i].Turns() - s.Spans[i].Done
	}
	told := v.Text(msgTurnsSum, page.FormatNumber(all), page.FormatNumber(wrong))
	if all == 0 {
		told = v.Text(msgNothingYet)
	}
	return (&barChartData{id: "turns", title: v.Text(msgTurns), told: told, stats: s, series: []series{
		{v.Text(msgAnswered), "done", func(h *control.Span) int64 { return h.Done }},
		{v.Text(msgLeft), "left", func(h *control.Span) int64 { return h.Disconnected }},
		{v.Text(msgTurnsFailed), "wrong", func(h *control.Span) int64 { return h.Failed }},
	}}).trimSeries()
}

func errorsChart(v *page.Visit, s control.Stats) *barChartData {
	var failed, calls int64
	for i := range s.Spans {
		failed += s.Spans[i].Failed
		calls += s.Spans[i].Calls
	}
	told := v.Text(msgErrorsTold, page.FormatNumber(failed), page.FormatNumber(calls))
	if failed+calls == 0 {
		told = v.Text(msgNoErrors)
	}
	return (&barChartData{id: "errors", title: v.Text(msgErrors), told: told, stats: s, series: []series{
		{v.Text(msgTurnsFailed), "wrong", func(h *control.Span) int64 { return h.Failed }},
		{v.Text(msgCallsWrong), "left", func(h *control.Span) int64 { return h.Calls }},
	}}).trimSeries()
}

// spanName formats when a span is. Days are named by their noon, since the clock may have been
// changed after them.
func spanName(v *page.Visit, s control.Stats, at time.Time) string {
	switch s.Range {
	case control.RangeWeek:
		return at.In(v.Zone()).Format("01-02 15:04")
	case control.RangeMonth:
		return at.Add(12 * time.Hour).In(v.Zone()).Format("01-02")
	}
	return hourOf(v, at)
}

// spanNames returns four names for the scale of a chart.
func spanNames(v *page.Visit, s control.Stats) (names [4]string) {
	for i := range names {
		names[i] = spanName(v, s, s.Spans[i*len(s.Spans)/len(names)].At)
	}
	return names
}

// hourOf formats the beginning of an hour.
func hourOf(v *page.Visit, t time.Time) string { return t.In(v.Zone()).Format("15:04") }

// slowest returns the longest duration of the chart.
func slowest(spans []control.Span) (most time.Duration) {
	for i := range spans {
		most = max(most, spans[i].Most)
	}
	return most
}

// steps returns an SVG path with one step per span, in a space of one unit per span and 100 units
// high. Spans without data interrupt it.
func steps(spans []control.Span, most time.Duration, of func(*control.Span) time.Duration) string {
	var d strings.Builder
	on := false
	for i := range spans {
		if spans[i].Pieces == 0 || most <= 0 {
			on = false
			continue
		}
		y := decimal(100 - float64(of(&spans[i]))*100/float64(most))
		if on {
			d.WriteString("V" + y)
		} else {
			d.WriteString("M" + strconv.Itoa(i) + " " + y)
		}
		d.WriteString("H" + strconv.Itoa(i+1))
		on = true
	}
	return d.String()
}

// deviceCurve is the chart of connected devices.
type deviceCurve struct {
	from      time.Time
	line      string // SVG path in a space of 1440 minutes, 100 high
	most, now int
	since     time.Time // time of the first sample; zero means none
	partial   bool      // the server has run for less than a day
}

// minutes is the length of the chart.
const minutes = 24 * 60

func newDeviceCurve(s control.Stats, now time.Time) deviceCurve {
	d := deviceCurve{from: now.Add(-minutes * time.Minute)}
	for _, sample := range s.Devices {
		if sample.At.Before(d.from) {
			continue
		}
		if d.since.IsZero() {
			d.since = sample.At
		}
		d.most, d.now = max(d.most, sample.Connected), sample.Connected
	}
	if d.since.IsZero() {
		return d
	}
	d.partial = d.since.Sub(d.from) > 2*time.Minute
	var path strings.Builder
	was := -1
	for _, sample := range s.Devices {
		if sample.At.Before(d.from) || sample.Connected == was {
			continue
		}
		x, y := d.x(sample.At), decimal(100-float64(sample.Connected)*100/float64(max(d.most, 1)))
		if was < 0 {
			path.WriteString("M" + x + " " + y)
		} else {
			path.WriteString("H" + x + "V" + y)
		}
		was = sample.Connected
	}
	path.WriteString("H" + strconv.Itoa(minutes))
	d.line = path.String()
	return d
}

// names returns four times for the scale.
func (d *deviceCurve) names(v *page.Visit) (names [4]string) {
	for i := range names {
		names[i] = hourOf(v, d.from.Add(time.Duration(i*minutes/len(names))*time.Minute))
	}
	return names
}

func (d *deviceCurve) x(at time.Time) string { return decimal(at.Sub(d.from).Minutes()) }

// hourly returns the samples of the table: the maximum of each hour.
func (d *deviceCurve) hourly(s control.Stats) (out []control.Sample) {
	for _, sample := range s.Devices {
		hour := sample.At.Truncate(time.Hour)
		if n := len(out); n > 0 && out[n-1].At.Equal(hour) {
			out[n-1].Connected = max(out[n-1].Connected, sample.Connected)
			continue
		}
		out = append(out, control.Sample{At: hour, Connected: sample.Connected})
	}
	return out
}

// decimal formats a number with at most two decimal places.
func decimal(n float64) string {
	text := strconv.FormatFloat(n, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
