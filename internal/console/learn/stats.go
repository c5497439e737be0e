package learn

import (
	"fmt"
	"strconv"

	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

const (
	forecastDays = 30
	historyDays  = 30
	recallWeeks  = 12
)

// figures is the data of the statistics.
type figures struct {
	*learning.Stats
	New, Steps, Known, Suspended int // numbers of points by state
	Recalled                     string
	Forecast, History            chart
	Retention                    chart
	HasHistory                   bool // there are past reviews to draw
}

// stats shows the statistics.
func (p *pages) stats(v *page.Visit) {
	s, err := p.Points.Stats(v.Context(), personID(v), forecastDays, historyDays)
	if err != nil {
		v.Fail(err)
		return
	}
	f := &figures{Stats: s}
	waiting, err := p.Points.Waiting(v.Context(), personID(v), s.Today+40000)
	if err != nil {
		v.Fail(err)
		return
	}
	for _, c := range waiting {
		switch c.Queue {
		case store.QueueNew:
			f.New += c.N
		case store.QueueSteps:
			f.Steps += c.N
		case store.QueueDay:
			f.Known += c.N
		default:
			f.Suspended += c.N
		}
	}
	recalls, err := p.Points.Recalls(v.Context(), personID(v), s.Today-7*recallWeeks+1)
	if err != nil {
		v.Fail(err)
		return
	}
	f.Forecast = forecastChart(v, s)
	f.History = historyChart(v, s)
	f.Retention = retentionChart(v, s.Today, recalls)
	reviews, again := 0, 0
	for _, r := range recalls {
		if r.Day > s.Today-30 {
			reviews, again = reviews+r.Reviews, again+r.Again
		}
	}
	f.Recalled = "–"
	if reviews > 0 {
		f.Recalled = percent(reviews-again, reviews)
	}
	f.HasHistory = len(recalls) > 0 || len(s.History) > 0
	v.Render(ok, statsPage(v, f))
}

func percent(part, whole int) string {
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 0, 64) + " %"
}

func forecastChart(v *page.Visit, s *learning.Stats) chart {
	c := chart{ID: "forecast", Title: v.Text(msgForecast), Heads: [2]string{v.Text(msgDay), v.Text(msgDue)}}
	sum := 0
	for _, d := range s.Forecast {
		c.Values = append(c.Values, value{Label: d.Day.String(), Short: shortDay(d.Day), N: float64(d.Due),
			Text: strconv.Itoa(d.Due)})
		sum += d.Due
	}
	c.Told = v.Text(msgForecastTold, len(s.Forecast), sum)
	return c.bars()
}

func historyChart(v *page.Visit, s *learning.Stats) chart {
	c := chart{ID: "history", Title: v.Text(msgReviewsChart), Heads: [2]string{v.Text(msgDay), v.Text(msgReviewsHead)}}
	done := map[store.Day]int{}
	for _, h := range s.History {
		done[h.Day] = h.Reviews
	}
	sum := 0
	for d := s.Today - historyDays + 1; d <= s.Today; d++ {
		c.Values = append(c.Values, value{Label: d.String(), Short: shortDay(d), N: float64(done[d]),
			Text: strconv.Itoa(done[d])})
		sum += done[d]
	}
	c.Told = v.Text(msgReviewsTold, historyDays, sum)
	return c.bars()
}

// retentionChart shows the share of due points that were still known, by week.
func retentionChart(v *page.Visit, today store.Day, recalls []store.DayRecalls) chart {
	c := chart{ID: "retention", Title: v.Text(msgRetentionChart), Told: v.Text(msgRetentionTold),
		Heads: [2]string{v.Text(msgWeekFrom), v.Text(msgRecalled)}}
	for _, w := range learning.Weeks(today, recalls, recallWeeks) {
		one := value{Label: w.From.String(), Short: shortDay(w.From), N: -1, Text: "–"}
		if w.Reviews > 0 {
			one.N = 100 * float64(w.Reviews-w.Again) / float64(w.Reviews)
			one.Text = v.Text(msgRecalledOf, percent(w.Reviews-w.Again, w.Reviews), w.Reviews)
		}
		c.Values = append(c.Values, one)
	}
	if len(recalls) == 0 {
		c.Told = v.Text(msgNoRetention)
	}
	return c.line()
}

// shortDay formats a date in little space.
func shortDay(d store.Day) string {
	t := d.Time()
	return fmt.Sprintf("%d/%d", t.Month(), t.Day())
}
