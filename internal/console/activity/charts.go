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
	f := filter{Everybody: v.Admin() && v.FormValue("everybody") != ""}
	s, err := v.House.Control.Stats(v.Context(), f.caller(v), control.StatsQuery{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, chartsPage(v, f, s))
}

// The plot of a chart, in pixels: the words of its scale are above and below.
const (
	plotTop    = 20
	plotHeight = 140
	plotBottom = plotTop + plotHeight
	plotWhole  = plotBottom + 20
)

// bars is a chart of hours, each a pile of parts.
type bars struct {
	id, title, told string
	parts           []part
	hours           []control.Hour
	most            int64 // of an hour
}

// part is one colour of the piles.
type part struct {
	name, class string
	of          func(*control.Hour) int64
}

// names are what the parts are called.
func (b *bars) names() (out []string) {
	for _, p := range b.parts {
		out = append(out, p.name)
	}
	return out
}

func (b *bars) settle() *bars {
	for i := range b.hours {
		b.most = max(b.most, b.sum(&b.hours[i]))
	}
	return b
}

func (b *bars) sum(h *control.Hour) (n int64) {
	for _, p := range b.parts {
		n += p.of(h)
	}
	return n
}

// block is a rectangle of a pile.
type block struct {
	class, x, width string
	y, height       string
}

// blocks are the rectangles of one hour.
func (b *bars) blocks(i int) (out []block) {
	const gap = 0.15 // between two hours, as a part of one
	hour := 100 / float64(len(b.hours))
	base := float64(plotBottom)
	for _, p := range b.parts {
		n := p.of(&b.hours[i])
		if n == 0 {
			continue
		}
		height := max(float64(n)*plotHeight/float64(b.most), 1.5)
		base -= height
		out = append(out, block{p.class, percent((float64(i) + gap/2) * hour), percent((1 - gap) * hour), decimal(base), decimal(height)})
	}
	return out
}

// counted is one hour in words.
func (b *bars) counted(v *page.Visit, i int) string {
	h := &b.hours[i]
	var words []string
	for _, p := range b.parts {
		words = append(words, p.name+" "+page.Number(p.of(h)))
	}
	return v.Say(sayOneHour, hourOf(v, h.At), strings.Join(words, ", "))
}

func turnsChart(v *page.Visit, hours []control.Hour) *bars {
	var all, wrong int64
	for i := range hours {
		all += hours[i].Turns()
		wrong += hours[i].Turns() - hours[i].Done
	}
	told := v.Say(sayPerHourTold, page.Number(all), page.Number(wrong))
	if all == 0 {
		told = v.Say(sayNothingYet)
	}
	return (&bars{id: "turns", title: v.Say(sayPerHour), told: told, hours: hours, parts: []part{
		{v.Say(sayAnswered), "done", func(h *control.Hour) int64 { return h.Done }},
		{v.Say(sayLeft), "left", func(h *control.Hour) int64 { return h.HungUp }},
		{v.Say(sayTurnsFailed), "wrong", func(h *control.Hour) int64 { return h.Failed }},
	}}).settle()
}

func errorsChart(v *page.Visit, hours []control.Hour) *bars {
	var failed, calls int64
	for i := range hours {
		failed += hours[i].Failed
		calls += hours[i].Calls
	}
	told := v.Say(sayErrorsTold, page.Number(failed), page.Number(calls))
	if failed+calls == 0 {
		told = v.Say(sayNoErrors)
	}
	return (&bars{id: "errors", title: v.Say(sayErrors), told: told, hours: hours, parts: []part{
		{v.Say(sayTurnsFailed), "wrong", func(h *control.Hour) int64 { return h.Failed }},
		{v.Say(sayCallsWrong), "left", func(h *control.Hour) int64 { return h.Calls }},
	}}).settle()
}

// hourOf is when an hour begins.
func hourOf(v *page.Visit, t time.Time) string { return t.In(v.Zone()).Format("15:04") }

// slowest is the longest time that is drawn.
func slowest(hours []control.Hour) (most time.Duration) {
	for i := range hours {
		most = max(most, hours[i].Most)
	}
	return most
}

// steps draws a line of one step for each hour, in a space of as many units as there are
// hours and 100 high. Hours of which there is nothing break it.
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

// devices is what the chart of connected devices shows.
type devices struct {
	from      time.Time
	line      string // in a space of 1440 minutes, 100 high
	most, now int
	since     time.Time // of the first count; zero: there is none
	partial   bool      // the server has not run for a day
}

// minutes is how many of them the chart has.
const minutes = 24 * 60

func devicesOf(s control.Stats, now time.Time) devices {
	d := devices{from: now.Add(-minutes * time.Minute)}
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

func (d *devices) x(at time.Time) string { return decimal(at.Sub(d.from).Minutes()) }

// hourly are the counts of the table: of each hour the most.
func (d *devices) hourly(s control.Stats) (out []control.Sample) {
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

// decimal is a number with at most two digits behind the point.
func decimal(n float64) string {
	text := strconv.FormatFloat(n, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
