package learn

import (
	"context"
	"errors"
	"fmt"

	"patchbay/internal/problem"
	"patchbay/internal/tool"
)

// fitTools returns the tools around the weights of the memory model.
func fitTools() []tool.Tool {
	return []tool.Tool{
		{Name: toolFit, Title: "Fit the memory model",
			Description: "Fit the memory model (the 21 weights of FSRS-6) to the person's own reviews, and use the new weights where they predict these better. Returns log_loss and rmse before and after; less is better. Due dates stay. With undo the weights before the last fit come back.",
			Input: objectSchema("", "deck", `{"type":"string","maxLength":200,"description":"A deck that gets weights of its own; without it the settings of all decks are fitted, and those of decks with settings and at least 1000 reviews of their own"}`,
				"dry_run", `{"type":"boolean","description":"Only report what would change"}`,
				"undo", `{"type":"boolean","description":"Bring back the weights before the last fit"}`),
			Hints: writeHints(false, false)},
		{Name: toolSimulate, Title: "Simulate retentions",
			Description: "Simulate what other values of the setting retention would cost and bring: reviews and minutes a day, and how many points are remembered in the end. Changes nothing.",
			Input: objectSchema("", "deck", schemaDeck,
				"retentions", `{"type":"array","maxItems":10,"items":{"type":"number","minimum":0.7,"maximum":0.99},"description":"Default: 0.80, 0.85, 0.90, 0.95, 0.97 and the current one"}`,
				"days", `{"type":"integer","minimum":1,"maximum":3650,"description":"Default 365"}`,
				"new_points", `{"type":"integer","minimum":0,"maximum":100000,"description":"Number of new points; default: those that the person has"}`,
				"seed", `{"type":"integer","minimum":0,"description":"The same seed gives the same results (default 0)"}`),
			Hints: tool.ReadOnlyHints()},
	}
}

func (s *Service) callFit(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	deck := deref(a.Deck)
	if a.Undo {
		report, err := s.UndoFit(ctx, c.Caller.Person, deck)
		if err != nil {
			return fitRefused(c, err)
		}
		return result(report, report, ""), nil
	}
	o := FitOptions{Deck: deck, DryRun: a.DryRun}
	if c.Progress != nil {
		o.Progress = fewReports(func(done, total int) {
			c.Progress(tool.Progress{Done: float64(done), Total: float64(total),
				Message: fmt.Sprintf("%d of %d reviews", done, total)})
		})
	}
	report, err := s.Fit(ctx, c.Caller.Person, o)
	if err != nil {
		return fitRefused(c, err)
	}
	return result(report, report, fitNote(report)), nil
}

// fitRefused returns the result of a call that was right, but cannot be done now.
func fitRefused(c *tool.Call, err error) (*tool.Result, error) {
	e, ok := errors.AsType[*problem.Error](err)
	if ok && (e.Code == problem.NotFound || e.Code == problem.Conflict || e.Code == problem.Unavailable) {
		return tool.ErrorResult(e.In(langOf(c))), nil
	}
	return nil, err
}

// fewReports passes on progress in steps of one percent.
func fewReports(report func(done, total int)) func(done, total int) {
	last := -1
	return func(done, total int) {
		if percent := int(int64(done) * 100 / int64(max(total, 1))); percent != last {
			last = percent
			report(done, total)
		}
	}
}

// fitNote tells a model what the numbers do not say.
func fitNote(r *FitReport) string {
	for _, f := range r.Fits {
		if f.Outcome == FitTooFew {
			return "Where outcome is too_few, there are not enough reviews yet."
		}
	}
	return ""
}

func (s *Service) callSimulate(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	report, err := s.Simulate(ctx, c.Caller.Person, Simulation{Deck: deref(a.Deck), Retentions: a.Retentions,
		Days: a.Days, NewPoints: a.NewPoints, Seed: a.Seed})
	if err != nil {
		return nil, err
	}
	return result(report, report, ""), nil
}
