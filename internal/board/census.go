package board

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// What an instance says about its outlets is numbered, and now and then it says what number it
// has come to. Whoever has missed something, or is new, sees that by the number and asks for a
// census, which goes to whoever asked alone. So what is said while nothing changes does not
// grow with the number of devices.

const (
	// heartbeat is how often an instance says what number it has come to.
	heartbeat = 2 * time.Second
	// askAgain is how long is waited for a census.
	askAgain = 3 * time.Second
)

// censusSubject is where an instance is asked for its census, and answerSubject where it is
// told those of others.
func censusSubject(instance string) string { return "census." + instance }
func answerSubject(instance string) string { return "held." + instance }

// followed is how far an instance is followed that says what it holds.
type followed struct {
	last   uint64 // the number of what was heard last
	missed bool   // something was not heard: a census is needed
	asked  time.Time
	// upTo is how far the census has come that is being heard, and whole that nothing of it
	// was missed so far.
	upTo  string
	whole bool
}

// follow takes note of an announcement, and reports whether its instance is to be asked for a
// census. With catalog.mu held.
func (x *exchanger) follow(a *toolsAnnouncement, now time.Time) (ask bool) {
	f := x.followed[a.Instance]
	if f == nil {
		f = &followed{missed: true}
		x.followed[a.Instance] = f
		x.greets = true // it may be new and know nothing of us
		x.nudge()
	}
	switch {
	case !a.Part:
		f.whole = a.After == "" || f.whole && a.After == f.upTo
		f.upTo = a.Until
		if f.whole && a.Until == "" {
			f.missed, f.asked = false, time.Time{}
		}
	case a.empty():
		f.missed = f.missed || a.Number != f.last
	default:
		f.missed = f.missed || a.Number != f.last+1
		f.whole = false // a census is not interrupted
	}
	f.last = a.Number
	if !f.missed || now.Sub(f.asked) < askAgain {
		return false
	}
	f.asked = now
	return true
}

// empty reports whether an announcement has nothing but a number.
func (a *toolsAnnouncement) empty() bool {
	return a.Part && len(a.Held)+len(a.Gone)+len(a.Left) == 0
}

// greet says to all what number this instance has come to, so that those who are new, and those
// who have missed something, ask.
func (x *exchanger) greet() {
	x.board.catalog.mu.Lock()
	defer x.board.catalog.mu.Unlock()
	x.greets = true
	x.nudge()
}

// asked hears that another instance needs a census.
func (x *exchanger) asked(m *nats.Msg) {
	x.board.catalog.mu.Lock()
	defer x.board.catalog.mu.Unlock()
	x.askedBy[string(m.Data)] = true
	x.nudge()
}

// census tells of all that is held here. With catalog.mu held.
func (x *exchanger) census() (out []toolsAnnouncement) {
	var all []held
	for _, s := range x.board.catalog.here {
		if s.offer.Held {
			all = append(all, s.announced())
		}
	}
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.ID, b.ID) })
	a := toolsAnnouncement{Instance: x.board.Bus.Instance, Number: x.number}
	for len(all) > announcedAtOnce {
		a.Held, a.Until = all[:announcedAtOnce], all[announcedAtOnce-1].ID
		out = append(out, a)
		all, a.After = all[announcedAtOnce:], a.Until
	}
	a.Held, a.Until = append([]held{}, all...), ""
	return append(out, a)
}
