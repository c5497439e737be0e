package schedule

import "time"

// Names of the schedules.
const (
	Classic = "classic" // fixed days after creation: 1, 7, 16, 35
	FSRS    = "fsrs"    // as well as it is remembered
)

// Settings say how a deck is learned. The zero value is not usable; begin with
// [Default].
type Settings struct {
	Schedule string `json:"schedule"`
	// Retention is how likely a point should be recalled when it comes again, from
	// 0.80 to 0.97.
	Retention float64 `json:"retention"`
	// MaxInterval is the longest time between two reviews, in days.
	MaxInterval int `json:"max_interval"`
	// Steps are the minutes between the first reviews of a new point, Relearn those
	// of a forgotten one. Without any, every grade leads to whole days.
	Steps   []int `json:"steps"`
	Relearn []int `json:"relearn"`
	// Weights are the 21 parameters of FSRS-6; empty: the published ones.
	Weights []float64 `json:"weights,omitempty"`

	NewPerDay     int `json:"new_per_day"`     // new points a day
	ReviewsPerDay int `json:"reviews_per_day"` // other points a day

	// Leech is how many lapses make a point a leech; 0: none ever is. LeechSuspend
	// suspends it then; else it is only tagged.
	Leech        int  `json:"leech"`
	LeechSuspend bool `json:"leech_suspend"`
	// Bury keeps kin of a point that was reviewed away until the next day.
	Bury bool `json:"bury"`
	// Balance spreads due dates over days with less to do, by a few percent of
	// the interval.
	Balance bool `json:"balance"`
	// EasyDays are how much of a usual day's work may fall on a weekday, in percent,
	// by "mon" to "sun"; a day that is missing is a usual one (100).
	EasyDays map[string]int `json:"easy_days,omitempty"`
}

// Default are the settings of whoever changed none.
func Default() Settings {
	return Settings{
		Schedule: FSRS, Retention: 0.9, MaxInterval: 36500, Steps: []int{1, 10}, Relearn: []int{10},
		NewPerDay: 20, ReviewsPerDay: 200, Leech: 6, Bury: true, Balance: true,
	}
}

// Calendar is a learner's: where they live, and when their day begins.
type Calendar struct {
	Zone  *time.Location
	Start time.Duration // after midnight, less than a day; at night it is still yesterday
}
