package control

import (
	"context"
	"strconv"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
)

const msgBadRetentions = i18n.Message("%s are numbers such as 0.9, separated by commas.")

// Names of the tools of these use cases.
const (
	toolOfFit        = "fit_memory"
	toolOfSimulation = "simulate_retention"
)

// LearnFit selects whose weights of the memory model are fitted.
type LearnFit struct {
	Deck   string `json:"deck,omitempty"`    // gets weights of its own; empty: the settings of all decks, and decks with enough reviews
	DryRun bool   `json:"dry_run,omitempty"` // only report what would change
	Undo   bool   `json:"undo,omitempty"`    // bring back the weights before the last fit
}

// LearnFitted tells what a fit led to.
type LearnFitted = learn.FitReport

// Fit fits the weights of the memory model to the caller's reviews. If ctx ends, nothing changes.
func (p *Learning) Fit(ctx context.Context, c Caller, in LearnFit) (*LearnFitted, error) {
	person, err := p.person(c, toolOfFit)
	if err != nil {
		return nil, err
	}
	var out *LearnFitted
	do := func() (err error) {
		if in.Undo {
			out, err = p.points.UndoFit(ctx, person, in.Deck)
		} else {
			out, err = p.points.Fit(ctx, person, learn.FitOptions{Deck: in.Deck, DryRun: in.DryRun})
		}
		return err
	}
	if in.DryRun && !in.Undo {
		err = LearnError(do())
	} else {
		err = p.recordChange(c, toolOfFit, in, do)
	}
	return out, err
}

// LearnSimulation selects what is simulated.
type LearnSimulation struct {
	Deck       string `query:"deck"`       // name; empty: all points, by the common settings
	Retentions string `query:"retentions"` // such as 0.85,0.9,0.95; empty: usual ones
	Days       int    `query:"days"`       // 0: 365
	NewPoints  string `query:"new_points"` // number of new points; empty: the person's own
	Seed       int    `query:"seed"`       // the same seed gives the same results
}

// LearnSimulated is what other retentions would cost and bring.
type LearnSimulated = learn.SimulationReport

// Simulate plays through the caller's coming days with several retentions.
func (p *Learning) Simulate(ctx context.Context, c Caller, in LearnSimulation) (*LearnSimulated, error) {
	person, err := p.person(c, toolOfSimulation)
	if err != nil {
		return nil, err
	}
	s := learn.Simulation{Deck: in.Deck, Days: in.Days, Seed: uint64(in.Seed)}
	for _, text := range strings.FieldsFunc(in.Retentions, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, problem.New(problem.Invalid, msgBadRetentions, "retentions")
		}
		s.Retentions = append(s.Retentions, n)
	}
	if in.NewPoints != "" {
		n, err := strconv.Atoi(in.NewPoints)
		if err != nil {
			n = -1 // out of range, which is reported
		}
		s.NewPoints = &n
	}
	out, err := p.points.Simulate(ctx, person, s)
	return out, LearnError(err)
}
