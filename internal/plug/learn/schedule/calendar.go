package schedule

import (
	"time"

	"patchbay/internal/store"
)

// day is how long a day is by the clock on the wall, whatever really passes.
const day = 24 * time.Hour

// earliest is how long before a clock set to UTC any clock on Earth may show a time;
// in the years before standard time some were 16 hours ahead.
const earliest = 27 * time.Hour

// Day is the learner's date at the moment t, by the clock on their wall: before
// Start it is still yesterday. A day that has begun does not end because the clock
// is put back over Start.
func (c Calendar) Day(t time.Time) store.Day {
	_, offset := t.In(c.zone()).Zone()
	d := store.DateOf(t.UTC().Add(time.Duration(offset)*time.Second - c.Start))
	for !c.Begins(d + 1).After(t) {
		d++
	}
	return d
}

// Begins is the first moment of the learner's day d: when their clock first shows
// Start or, put forward over it, later. So a date that their zone left out begins
// where it would have.
func (c Calendar) Begins(d store.Day) time.Time {
	wall := d.Time().Add(c.Start) // what the clock must show, as if it were UTC
	from := wall.Add(-earliest).In(c.zone())
	for {
		_, offset := from.Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		_, end := from.ZoneBounds()
		switch {
		case at.Before(from): // the clock was put forward over it
			return from
		case end.IsZero() || at.Before(end) || !end.After(from):
			return at.In(c.zone())
		}
		from = end
	}
}

// zone is UTC for a calendar without.
func (c Calendar) zone() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}
