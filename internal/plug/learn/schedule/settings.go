package schedule

import "time"

// Names of the schedules.
const (
	Classic = "classic" // fixed days after creation
	FSRS    = "fsrs"    // by memory model
)

// Settings define how a deck is learned. The zero value is not usable; start from [Default].
type Settings struct {
	Schedule string `json:"schedule"`
	// Retention is the desired probability of recall when a point is due, from 0.80 to 0.97.
	Retention float64 `json:"retention"`
	// MaxInterval is the longest time between two reviews, in days.
	MaxInterval int `json:"max_interval"`
	// Steps are the minutes between the first reviews of a new point, Relearn those of a forgotten
	// one. If empty, every grade leads to an interval of whole days.
	Steps   []int `json:"steps"`
	Relearn []int `json:"relearn"`
	// Weights are the 21 parameters of FSRS-6; empty: the published ones.
	Weights []float64 `json:"weights,omitempty"`

	NewPerDay     int `json:"new_per_day"`     // new points a day
	ReviewsPerDay int `json:"reviews_per_day"` // other points a day

	// Leech is the number of lapses that makes a point a leech; 0 disables leeches. LeechSuspend
	// suspends a leech instead of only tagging it.
	Leech        int  `json:"leech"`
	LeechSuspend bool `json:"leech_suspend"`
	// Bury hides the kin of a reviewed point until the next day.
	Bury bool `json:"bury"`
	// Balance moves due dates to days with less work, by a few percent of the interval.
	Balance bool `json:"balance"`
	// EasyDays maps weekdays, "mon" to "sun", to the percentage of a usual day's work that may fall
	// on them; missing days count as 100.
	EasyDays map[string]int `json:"easy_days,omitempty"`
}

// Default returns the default settings.
func Default() Settings {
	return Settings{
		Schedule: FSRS, Retention: 0.9, MaxInterval: 36500, Steps: []int{1, 10}, Relearn: []int{10},
		NewPerDay: 20, ReviewsPerDay: 200, Leech: 6, Bury: true, Balance: true,
	}
}

// Calendar is a learner's calendar: time zone and start of the day.
type Calendar struct {
	Zone  *time.Location
	Start time.Duration // after midnight, less than a day; before it, it is still the previous day
}
