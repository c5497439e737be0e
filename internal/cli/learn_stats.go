package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"patchbay/internal/i18n"
)

type learnStatsCmd struct {
	Days       int `help:"Number of days of the forecast, up to 365." default:"14" placeholder:"N"`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnStatsCmd) Help() string {
	return `Examples:

    patchbay learn stats
    patchbay learn stats --days 60
    patchbay learn stats --json`
}

// learnLeft is how many points are left for today.
type learnLeft struct {
	New     int `json:"new"`
	Steps   int `json:"learning"`
	Reviews int `json:"review"`
	Held    int `json:"held_back"`
}

func (l learnLeft) total() int { return l.New + l.Steps + l.Reviews }

// learnStats holds the learning statistics.
type learnStats struct {
	Today     string         `json:"today"`
	Zone      string         `json:"time_zone"`
	Points    int            `json:"points"`
	Left      learnLeft      `json:"left_today"`
	Streak    int            `json:"streak_days"`
	Retention float64        `json:"retention_30d"`
	Reviews   int            `json:"reviews_30d"`
	Forecast  []learnDay     `json:"forecast"`
	Decks     []learnDeckRow `json:"decks"`
	Done      struct {
		Reviews int `json:"reviews"`
		New     int `json:"new"`
		Again   int `json:"again"`
		Minutes int `json:"minutes"`
	} `json:"done_today"`
}

// learnDay is how many points are due on a day.
type learnDay struct {
	Day string `json:"date"`
	Due int    `json:"due"`
}

// learnDeckRow is a deck with the numbers of its new and due points.
type learnDeckRow struct {
	Name     string          `json:"name"`
	Points   int             `json:"points"`
	New      int             `json:"new"`
	Due      int             `json:"due"`
	Settings learnSettings   `json:"settings"`
	Own      json.RawMessage `json:"own_settings"`
}

const (
	// maxDays is the longest forecast, in days.
	maxDays = 365
	// maxBarWidth is the longest bar, in columns.
	maxBarWidth = 60
)

const (
	msgLearnLeft   = i18n.Message("Remaining for today: %d (%d new).")
	msgLearnHeld   = i18n.Message("Deferred by the daily limits: %d (patchbay learn set --new-per-day N --reviews-per-day N).")
	msgLearnToday  = i18n.Message("Done today: %d (%d new, %d again), %d min.")
	msgLearnStreak = i18n.Message("Days in a row: %d.")
	msgLearnKept   = i18n.Message("In 30 days: %d reviews, %.0f%% remembered.")
	msgLearnAhead  = i18n.Message("Upcoming (time zone %s)")
	msgLearnPoints = i18n.Message("POINTS")
	msgLearnNew    = i18n.Message("NEW")
)

// Run prints the statistics.
func (c *learnStatsCmd) Run(ctx context.Context, sh *shell) error {
	if c.Days < 1 || c.Days > maxDays {
		return usage(i18n.Message("--days is %d; it must be between 1 and %d"), c.Days, maxDays)
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		var raw json.RawMessage
		if err := l.call(ctx, "learning_stats", map[string]any{"days": c.Days}, &raw); err != nil {
			return err
		}
		var s learnStats
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		return sh.result(raw, func() { sh.learnStats(s) })
	})
}

func (sh *shell) learnStats(s learnStats) {
	sh.say(msgLearnLeft, s.Left.total(), s.Left.New)
	if s.Left.Held > 0 {
		sh.say(msgLearnHeld, s.Left.Held)
	}
	sh.say(msgLearnToday, s.Done.Reviews, s.Done.New, s.Done.Again, s.Done.Minutes)
	sh.say(msgLearnStreak, s.Streak)
	if s.Reviews > 0 {
		sh.say(msgLearnKept, s.Reviews, 100*s.Retention)
	}
	sh.printf("\n%s\n", msgLearnAhead.In(sh.lang, plain(s.Zone)))
	sh.bars(s.Forecast)
	sh.printf("\n")
	sh.learnDecks(s.Decks, false)
}

// bars prints how many points are due on each day.
func (sh *shell) bars(days []learnDay) {
	most, digits := 0, 1
	for _, d := range days {
		most, digits = max(most, d.Due), max(digits, len(strconv.Itoa(d.Due)))
	}
	room := max(1, min(maxBarWidth, sh.width()-len("2006-01-02")-digits-5))
	for _, d := range days {
		n := d.Due * room / max(most, room)
		if d.Due > 0 {
			n = max(n, 1)
		}
		sh.printf("%s\n", strings.TrimRight(fmt.Sprintf("  %s %*d %s", d.Day, digits, d.Due, strings.Repeat("█", n)),
			" "))
	}
}

// learnDecks prints decks, with their settings on request.
func (sh *shell) learnDecks(decks []learnDeckRow, how bool) {
	heads := []i18n.Message{msgLearnDeck, msgLearnPoints, msgLearnNew, msgLearnDue}
	if how {
		heads = append(heads, msgLearnSchedule, "")
	}
	var rows [][]string
	for _, d := range decks {
		row := []string{short(d.Name, deckWidth), strconv.Itoa(d.Points), strconv.Itoa(d.New), strconv.Itoa(d.Due)}
		if how {
			row = append(row, d.Settings.Schedule, short(ownSettings(d.Own), maxHeading))
		}
		rows = append(rows, row)
	}
	sh.table(heads, rows)
}
