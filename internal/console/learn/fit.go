package learn

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
)

// Texts of the page about the memory model.
const (
	msgFit         = i18n.Message("Memory model")
	msgFitTold     = i18n.Message("The memory model reckons when a point comes again. Its weights are those of many learners; fitted to your own reviews, they say more exactly what you remember, and when.")
	msgFitRun      = i18n.Message("Fit to my reviews")
	msgFitScope    = i18n.Message("All decks with common settings, and each deck with settings and enough reviews of its own")
	msgFitDeckOnly = i18n.Message("Only %s, which gets weights of its own")
	msgFitHint     = i18n.Message("Needs some hundred reviews to say much, and some seconds. Dates stay as they are. If you leave the page meanwhile, nothing changes.")
	msgFitTry      = i18n.Message("Only look what would change")
	msgFitRunning  = i18n.Message("Fitting: %d %%")
	msgFitResult   = i18n.Message("Last fit")
	msgFitWould    = i18n.Message("What would change")
	msgFitOn       = i18n.Message("Fitted on %s")
	msgFitReviews  = i18n.Message("Reviews learned from")
	msgFitLoss     = i18n.Message("Log-loss, before → after")
	msgFitRMSE     = i18n.Message("RMSE, before → after")
	msgFitOutcome  = i18n.Message("Result")
	msgFitLess     = i18n.Message("Less is better: log-loss says how well each single review is predicted, RMSE by how much the share of remembered points is off.")
	msgFitUndo     = i18n.Message("Back to the weights before")
	msgFitUndone   = i18n.Message("The weights before the fit are back.")
	msgFitMonthly  = i18n.Message("Fit each month without being asked")
	msgFitCommon   = i18n.Message("Common settings")
	msgFitLink     = i18n.Message("Fit the memory model to your reviews, and see what another retention would cost")

	msgFitBetter    = i18n.Message("New weights, which predict better")
	msgFitNotBetter = i18n.Message("The old weights predict as well, and stay")
	msgFitTooFew    = i18n.Message("Not enough reviews yet")

	msgCost          = i18n.Message("What would it cost to remember more?")
	msgCostTold      = i18n.Message("A simulation of your coming days, with your points, your weights and your limits of a day, for several values of the retention that you aim at.")
	msgCostDays      = i18n.Message("Days")
	msgCostRun       = i18n.Message("Simulate")
	msgCostChart     = i18n.Message("Minutes a day")
	msgCostChartTold = i18n.Message("By the retention aimed at, for %d points and %d new ones in %d days, with %.0f s for a review. Yours is %s.")
	msgCostMemory    = i18n.Message("Remembered in the end")
	msgCostNow       = i18n.Message("Of %d points, %.0f are remembered now.")
	msgCostRetention = i18n.Message("Retention")
	msgCostOne       = i18n.Message("%.1f min, %.0f reviews")
)

// fitTool is the tool that does the same.
const fitTool = "fit_memory"

// fitPageData is the data of the page about the memory model.
type fitPageData struct {
	Learner *learning.Learner
	Last    []learning.FitResult // that can be undone
	Deck    string
	DryRun  bool
	Report  *learning.FitReport
	Wrong   string
	Note    string
	Cost    *learning.SimulationReport
}

func (p *pages) fitData(v *page.Visit) (*fitPageData, error) {
	f := &fitPageData{Deck: v.FormValue("deck"), DryRun: v.FormValue("dry") != ""}
	var err error
	if f.Learner, err = p.Points.Learner(v.Context(), personID(v)); err != nil {
		return nil, err
	}
	f.Last, err = p.Points.LastFit(v.Context(), personID(v))
	return f, err
}

// fitPage shows the page about the memory model.
func (p *pages) fitPage(v *page.Visit) {
	f, err := p.fitData(v)
	if err != nil {
		v.Fail(err)
		return
	}
	switch v.FormValue("done") {
	case "undone":
		f.Note = v.Text(msgFitUndone)
	case "saved":
		f.Note = v.Text(msgSaved)
	}
	v.Render(ok, fitPage(v, f))
}

// runFit fits the weights and shows the progress to the script. If the browser disconnects, the fit
// is canceled and nothing changes.
func (p *pages) runFit(v *page.Visit) {
	f, err := p.fitData(v)
	if err != nil {
		v.Fail(err)
		return
	}
	run := func(ctx context.Context, report func(done, total int)) error {
		do := func() (err error) {
			f.Report, err = p.Points.Fit(ctx, personID(v), learning.FitOptions{Deck: f.Deck, DryRun: f.DryRun,
				Progress: report})
			return err
		}
		var err error
		if f.DryRun {
			err = do()
		} else {
			err = changeAudited(v, fitTool, control.LearnFit{Deck: f.Deck}, do)
		}
		if err != nil {
			return learnError(err)
		}
		f.Last, err = p.Points.LastFit(ctx, personID(v))
		return err
	}
	if !v.IsPartial() {
		status := ok
		if err := run(v.Context(), nil); err != nil {
			if f.Wrong, status = v.Wrong(err); f.Wrong == "" {
				return
			}
		}
		v.Render(status, fitPage(v, f))
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		report := throttledProgress(send, func(done, total int) templ.Component { return fittingPart(v, done, total) })
		report(0, 1)
		if err := run(ctx, report); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f.Wrong, _ = v.Wrong(err)
		}
		return send(fittedPart(v, f))
	})
}

// undoFit brings the weights before the last fit back.
func (p *pages) undoFit(v *page.Visit) {
	err := changeAudited(v, fitTool, control.LearnFit{Undo: true}, func() error {
		_, err := p.Points.UndoFit(context.WithoutCancel(v.Context()), personID(v), "")
		return err
	})
	p.fitChanged(v, err, "undone")
}

// fitMonthly saves whether weights are fitted each month.
func (p *pages) fitMonthly(v *page.Visit) {
	changes := json.RawMessage(`{"fit_monthly":null}`)
	if v.FormValue("monthly") != "" {
		changes = json.RawMessage(`{"fit_monthly":true}`)
	}
	err := changeAudited(v, "update_learning_settings", changes, func() error {
		_, err := p.Points.SaveProfile(v.Context(), personID(v), changes, nil)
		return err
	})
	p.fitChanged(v, err, "saved")
}

// fitChanged shows the page after a change.
func (p *pages) fitChanged(v *page.Visit, err error, done string) {
	if err == nil {
		v.Redirect("/learn/fit?done=" + done)
		return
	}
	text, status := v.Wrong(learnError(err))
	if text == "" {
		return
	}
	refuse(v, status, text, func(status int, wrong string) {
		f, err := p.fitData(v)
		if err != nil {
			v.Fail(err)
			return
		}
		f.Wrong = wrong
		v.Render(status, fitPage(v, f))
	})
}

// simulate shows what other retentions would cost.
func (p *pages) simulate(v *page.Visit) {
	f, err := p.fitData(v)
	if err != nil {
		v.Fail(err)
		return
	}
	days, _ := strconv.Atoi(v.FormValue("days")) //nolint:errcheck // 0 means the usual number
	f.Cost, err = p.Points.Simulate(v.Context(), personID(v), learning.Simulation{Deck: f.Deck, Days: days})
	status := ok
	if err != nil {
		if f.Wrong, status = v.Wrong(err); f.Wrong == "" {
			return
		}
	}
	if v.IsPartial() {
		v.Render(status, costResult(v, f))
		return
	}
	v.Render(status, fitPage(v, f))
}

// fitOutcome describes the outcome of a fit.
func fitOutcome(v *page.Visit, r *learning.FitResult) string {
	switch r.Outcome {
	case learning.FitBetter:
		return v.Text(msgFitBetter)
	case learning.FitNotBetter:
		return v.Text(msgFitNotBetter)
	}
	return v.Text(msgFitTooFew)
}

// fitDeck names what a fit was about.
func fitDeck(v *page.Visit, r *learning.FitResult) string {
	if r.Deck == learning.DefaultDeck {
		return v.Text(msgFitCommon)
	}
	return r.Deck
}

// change formats two numbers, the second of which is new.
func change(before, after float64) string {
	return strconv.FormatFloat(before, 'f', 4, 64) + " → " + strconv.FormatFloat(after, 'f', 4, 64)
}

// fitDate formats when a fit was made.
func fitDate(v *page.Visit, l *learning.Learner, at time.Time) string {
	return v.Text(msgFitOn, at.In(l.Calendar.Zone).Format(time.DateOnly))
}

// costCharts are the charts of a simulation.
func costCharts(v *page.Visit, r *learning.SimulationReport) [2]chart {
	minutes := chart{ID: "cost", Title: v.Text(msgCostChart), Heads: [2]string{v.Text(msgCostRetention), v.Text(msgCostChart)},
		Told: v.Text(msgCostChartTold, r.Points, r.NewPoints, r.Days, r.Seconds, retentionText(r.Retention))}
	memory := chart{ID: "memory", Title: v.Text(msgCostMemory), Heads: [2]string{v.Text(msgCostRetention), v.Text(msgCostMemory)},
		Told: v.Text(msgCostNow, r.Points, r.Remembered)}
	for _, one := range r.Results {
		text := retentionText(one.Retention)
		minutes.Values = append(minutes.Values, value{Label: text, Short: text, N: one.Minutes,
			Text: v.Text(msgCostOne, one.Minutes, one.Reviews)})
		memory.Values = append(memory.Values, value{Label: text, Short: text, N: one.Remembered,
			Text: page.FormatNumber(int(one.Remembered + 0.5))})
	}
	return [2]chart{minutes.bars(), memory.bars()}
}

func retentionText(r float64) string {
	return strconv.FormatFloat(math.Round(1000*r)/10, 'f', -1, 64) + " %"
}

// fitRoutes are the routes of this file.
func (p *pages) fitRoutes() []page.Route {
	return []page.Route{
		{Pattern: "GET /learn/fit", Serve: p.fitPage},
		{Pattern: "POST /learn/fit", Serve: p.runFit},
		{Pattern: "POST /learn/fit/undo", Serve: p.undoFit},
		{Pattern: "POST /learn/fit/monthly", Serve: p.fitMonthly},
		{Pattern: "GET /learn/simulation", Serve: p.simulate},
	}
}
