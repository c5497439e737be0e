package activity

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

func charts(v *page.Visit) {
	f := filter{Everybody: v.IsAdmin() && v.FormValue("everybody") != ""}
	s, err := v.Instance.Control.Stats(v.Context(), f.caller(v), control.StatsQuery{})
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

// barChartData is a stacked bar chart with one bar per hour.
type barChartData struct {
	id, title, told string
	series          []series
	hours           []control.Hour
	most            int64 // the greatest total of an hour
}

// series is one colour of the bars.
type series struct {
	name, class string
	of          func(*control.Hour) int64
}

// names returns the names of the series.
func (b *barChartData) names() (out []string) {
	for _, p := range b.series {
		out = append(out, p.name)
	}
	return out
}

func (b *barChartData) trimSeries() *barChartData {
	for i := range b.hours {
		b.most = max(b.most, b.sum(&b.hours[i]))
	}
	return b
}

func (b *barChartData) sum(h *control.Hour) (n int64) {
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

// blocks returns the rectangles of hour i.
func (b *barChartData) blocks(i int) (out []block) {
	const gap = 0.15 // between two hours, as a fraction of an hour
	hour := 100 / float64(len(b.hours))
	base := float64(plotBottom)
	for _, p := range b.series {
		n := p.of(&b.hours[i])
		if n == 0 {
			continue
		}
		height := max(float64(n)*plotHeight/float64(b.most), 1.5)
		base -= height
		out = append(out, block{p.class, percent((float64(i) + gap/2) * hour), percent((1 - gap) * hour), decimal(base),
			decimal(height)})
	}
	return out
}

// countText describes hour i in words.
func (b *barChartData) countText(v *page.Visit, i int) string {
	h := &b.hours[i]
	var words []string
	for _, p := range b.series {
		words = append(words, p.name+" "+page.FormatNumber(p.of(h)))
	}
	return v.Text(msgOneHour, hourOf(v, h.At), strings.Join(words, ", "))
}

func turnsChart(v *page.Visit, hours []control.Hour) *barChartData {
	var all, wrong int64
	for i := range hours {
		all += hours[i].Turns()
		wrong += hours[i].Turns() - hours[i].Done
	}
	told := v.Text(msgPerHourTold, page.FormatNumber(all), page.FormatNumber(wrong))
	if all == 0 {
		told = v.Text(msgNothingYet)
	}
	return (&barChartData{id: "turns", title: v.Text(msgPerHour), told: told, hours: hours, series: []series{
		{v.Text(msgAnswered), "done", func(h *control.Hour) int64 { return h.Done }},
		{v.Text(msgLeft), "left", func(h *control.Hour) int64 { return h.Disconnected }},
		{v.Text(msgTurnsFailed), "wrong", func(h *control.Hour) int64 { return h.Failed }},
	}}).trimSeries()
}

func errorsChart(v *page.Visit, hours []control.Hour) *barChartData {
	var failed, calls int64
	for i := range hours {
		failed += hours[i].Failed
		calls += hours[i].Calls
	}
	told := v.Text(msgErrorsTold, page.FormatNumber(failed), page.FormatNumber(calls))
	if failed+calls == 0 {
		told = v.Text(msgNoErrors)
	}
	return (&barChartData{id: "errors", title: v.Text(msgErrors), told: told, hours: hours, series: []series{
		{v.Text(msgTurnsFailed), "wrong", func(h *control.Hour) int64 { return h.Failed }},
		{v.Text(msgCallsWrong), "left", func(h *control.Hour) int64 { return h.Calls }},
	}}).trimSeries()
}

// hourOf formats the beginning of an hour.
func hourOf(v *page.Visit, t time.Time) string { return t.In(v.Zone()).Format("15:04") }

// slowest returns the longest duration of the chart.
func slowest(hours []control.Hour) (most time.Duration) {
	for i := range hours {
		most = max(most, hours[i].Most)
	}
	return most
}

// steps returns an SVG path with one step per hour, in a space of one unit per hour and 100 units
// high. Hours without data interrupt it.
func steps(hours []control.Hour, most time.Duration, of func(*control.Hour) time.Duration) string {
	var d strings.Builder
	on := false
	for i := range hours {
		if hours[i].Pieces == 0 || most <= 0 {
			on = false
			continue
		}
		y := decimal(100 - float64(of(&hours[i]))*100/float64(most))
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
