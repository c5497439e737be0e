package schedule

import (
	"time"

	"patchbay/internal/store"
)

// day is the length of a day in wall-clock time, ignoring clock changes.
const day = 24 * time.Hour

// maxClockLead is the maximum time by which any local clock runs ahead of UTC; before standard
// time, some clocks were 16 hours ahead.
const maxClockLead = 27 * time.Hour

// Day returns the learner's date at the moment t by local time: before Start it is still the day
// before. A day that has begun does not end because the clock is put back past Start.
func (c Calendar) Day(t time.Time) store.Day {
	_, offset := t.In(c.zone()).Zone()
	d := store.DateOf(t.UTC().Add(time.Duration(offset)*time.Second - c.Start))
	for !c.StartOf(d + 1).After(t) {
		d++
	}
	return d
}

// StartOf returns the first moment of the learner's day d: when the local clock first shows Start
// or, if it skips Start, a later time. A date that the zone skipped thus begins where it would
// have.
func (c Calendar) StartOf(d store.Day) time.Time {
	wall := d.Time().Add(c.Start) // the required wall-clock time, as if it were UTC
	from := wall.Add(-maxClockLead).In(c.zone())
	for {
		_, offset := from.Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		_, end := from.ZoneBounds()
		switch {
		case at.Before(from): // the clock skips this time
			return from
		case end.IsZero() || at.Before(end) || !end.After(from):
			return at.In(c.zone())
		}
		from = end
	}
}

// zone returns the calendar's zone, UTC by default.
func (c Calendar) zone() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}
