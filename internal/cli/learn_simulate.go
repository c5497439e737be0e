package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"patchbay/internal/i18n"
)

type learnSimulateCmd struct {
	Retention  []float64 `help:"Retentions to compare, such as 0.85,0.9,0.95; default: usual ones." placeholder:"SHARE"`
	Days       int       `help:"Number of days, up to 3650." default:"365" placeholder:"N"`
	Deck       string    `help:"Only points of this deck." placeholder:"DECK"`
	New        *int      `help:"Number of new points; default: those that you have." placeholder:"N"`
	Seed       uint64    `help:"Seed of chance; the same seed gives the same results." placeholder:"N"`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnSimulateCmd) Help() string {
	return `Simulates your coming days for several values of the setting retention, with your points, your weights and your limits of a day: how many reviews and minutes a day each would cost, and how many points you would remember in the end. Changes nothing.

Examples:

    patchbay learn simulate
    patchbay learn simulate --retention 0.9,0.95 --days 730
    patchbay learn simulate --deck German --new 2000 --json`
}

// Limits of what the server simulates.
const (
	maxSimulatedDays           = 3650
	minSimulated, maxSimulated = 0.7, 0.99
)

// learnSimulation is the result of a simulation.
type learnSimulation struct {
	Days       int     `json:"days"`
	Retention  float64 `json:"retention"`
	Points     int     `json:"points"`
	NewPoints  int     `json:"new_points"`
	NewPerDay  int     `json:"new_per_day"`
	Seconds    float64 `json:"seconds_per_review"`
	Remembered float64 `json:"remembered_now"`
	Results    []struct {
		Retention  float64 `json:"retention"`
		Reviews    float64 `json:"reviews_per_day"`
		Minutes    float64 `json:"minutes_per_day"`
		Remembered float64 `json:"remembered"`
		Learned    int     `json:"learned"`
	} `json:"results"`
}

const (
	msgSimulated = i18n.Message("In %d days, with %d points (%.0f of them remembered now) and %d new ones, %d a day at most; %.0f s for a review:")

	msgSimRetention  = i18n.Message("RETENTION")
	msgSimReviews    = i18n.Message("REVIEWS A DAY")
	msgSimMinutes    = i18n.Message("MINUTES A DAY")
	msgSimRemembered = i18n.Message("REMEMBERED")
	msgSimCurrent    = i18n.Message("%s (now)")
)

// Run simulates retentions.
func (c *learnSimulateCmd) Run(ctx context.Context, sh *shell) error {
	if c.Days < 1 || c.Days > maxSimulatedDays {
		return usage(i18n.Message("--days is %d; it must be between 1 and %d"), c.Days, maxSimulatedDays)
	}
	for _, r := range c.Retention {
		if !(r >= minSimulated && r <= maxSimulated) {
			return usage(i18n.Message("--retention is %v; it must be between %v and %v"), r, minSimulated, maxSimulated)
		}
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		args := map[string]any{"days": c.Days, "seed": c.Seed}
		if len(c.Retention) > 0 {
			args["retentions"] = c.Retention
		}
		if c.Deck != "" {
			args["deck"] = c.Deck
		}
		if c.New != nil {
			args["new_points"] = *c.New
		}
		var raw json.RawMessage
		if err := l.call(ctx, "simulate_retention", args, &raw); err != nil {
			return err
		}
		var s learnSimulation
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		return sh.result(raw, func() { sh.learnSimulated(s) })
	})
}

// learnSimulated prints a simulation.
func (sh *shell) learnSimulated(s learnSimulation) {
	sh.say(msgSimulated, s.Days, s.Points, s.Remembered, s.NewPoints, s.NewPerDay, s.Seconds)
	var rows [][]string
	for _, r := range s.Results {
		name := fmt.Sprintf("%.3g", r.Retention)
		if r.Retention == s.Retention {
			name = msgSimCurrent.In(sh.lang, name)
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.1f", r.Reviews), fmt.Sprintf("%.1f", r.Minutes),
			fmt.Sprintf("%.0f", r.Remembered)})
	}
	sh.table([]i18n.Message{msgSimRetention, msgSimReviews, msgSimMinutes, msgSimRemembered}, rows)
}
