package hub

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// What an instance says about its providers is numbered, and now and then it says what number it
// has come to. Whoever has missed something, or is new, sees that by the number and asks for a
// census, which goes to whoever asked alone. So what is said while nothing changes does not
// grow with the number of devices.

const (
	// sequenceInterval is how often an instance says what number it has come to.
	sequenceInterval = 2 * time.Second
	// stateRetry is how long is waited for a census.
	stateRetry = 3 * time.Second
)

// stateRequestSubject is where an instance is asked for its census, and stateSubject where it is
// told those of others.
func stateRequestSubject(instance string) string { return "census." + instance }
func stateSubject(instance string) string        { return "held." + instance }

// peerState is how far an instance is followed that says what it holds.
type peerState struct {
	last        uint64 // the number of what was heard last
	stale       bool   // something was not heard: a census is needed
	requestedAt time.Time
	// receivedUntil is how far the census has come that is being heard, and whole that nothing of
	// it was missed so far.
	receivedUntil string
	complete      bool
}

// trackSequence takes note of an announcement, and reports whether its instance is to be asked for
// a census. With catalog.mu held.
func (x *catalogSync) trackSequence(a *toolsAnnouncement, now time.Time) (ask bool) {
	f := x.peers[a.Instance]
	if f == nil {
		f = &peerState{stale: true}
		x.peers[a.Instance] = f
		x.announceDue = true // it may be new and know nothing of us
		x.wakeUp()
	}
	switch {
	case !a.IsDelta:
		f.complete = a.After == "" || f.complete && a.After == f.receivedUntil
		f.receivedUntil = a.Until
		if f.complete && a.Until == "" {
			f.stale, f.requestedAt = false, time.Time{}
		}
	case a.empty():
		f.stale = f.stale || a.Sequence != f.last
	default:
		f.stale = f.stale || a.Sequence != f.last+1
		f.complete = false // a census is not interrupted
	}
	f.last = a.Sequence
	if !f.stale || now.Sub(f.requestedAt) < stateRetry {
		return false
	}
	f.requestedAt = now
	return true
}

// empty reports whether an announcement has nothing but a number.
func (a *toolsAnnouncement) empty() bool {
	return a.IsDelta && len(a.Providers)+len(a.Removed)+len(a.Absent) == 0
}

// announceSequence says to all what number this instance has come to, so that those who are new,
// and those who have missed something, ask.
func (x *catalogSync) announceSequence() {
	x.hub.catalog.mu.Lock()
	defer x.hub.catalog.mu.Unlock()
	x.announceDue = true
	x.wakeUp()
}

// onStateRequest hears that another instance needs a census.
func (x *catalogSync) onStateRequest(m *nats.Msg) {
	x.hub.catalog.mu.Lock()
	defer x.hub.catalog.mu.Unlock()
	x.stateRequests[string(m.Data)] = true
	x.wakeUp()
}

// fullState tells of all that is held here. With catalog.mu held.
func (x *catalogSync) fullState() (out []toolsAnnouncement) {
	var all []heldProvider
	for _, s := range x.hub.catalog.local {
		if s.offer.Held {
			all = append(all, s.announcement())
		}
	}
	slices.SortFunc(all, func(a, b heldProvider) int { return cmp.Compare(a.ID, b.ID) })
	a := toolsAnnouncement{Instance: x.hub.Bus.Instance, Sequence: x.sequence}
	for len(all) > maxAnnounced {
		a.Providers, a.Until = all[:maxAnnounced], all[maxAnnounced-1].ID
		out = append(out, a)
		all, a.After = all[maxAnnounced:], a.Until
	}
	a.Providers, a.Until = append([]heldProvider{}, all...), ""
	return append(out, a)
}
