package hub

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// What an instance announces about its providers is numbered, and at intervals it announces the
// current number. An instance that has missed something, or is new, notices that by the number and
// requests the full state, which is sent to it alone. So the messages while nothing changes do not
// grow with the number of devices.

const (
	// sequenceInterval is the interval at which an instance announces its current number.
	sequenceInterval = 2 * time.Second
	// stateRetry is how long an instance waits for a requested state.
	stateRetry = 3 * time.Second
)

// stateRequestSubject is the subject for requests of an instance's full state, and stateSubject
// that on which an instance receives those of others.
func stateRequestSubject(instance string) string { return "census." + instance }
func stateSubject(instance string) string        { return "held." + instance }

// peerState is how far the announcements of another instance were followed.
type peerState struct {
	last        uint64 // the last received number
	stale       bool   // something was missed: the full state is needed
	requestedAt time.Time
	// receivedUntil is how far the full state has arrived, and complete reports whether nothing of
	// it was missed so far.
	receivedUntil string
	complete      bool
}

// trackSequence records an announcement, and reports whether the full state of its instance is
// needed. Requires catalog.mu.
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
		f.complete = false // a state is not interrupted
	}
	f.last = a.Sequence
	if !f.stale || now.Sub(f.requestedAt) < stateRetry {
		return false
	}
	f.requestedAt = now
	return true
}

// empty reports whether an announcement has only a number.
func (a *toolsAnnouncement) empty() bool {
	return a.IsDelta && len(a.Providers)+len(a.Removed)+len(a.Absent) == 0
}

// announceSequence announces this instance's current number, so that instances notice what they
// have missed.
func (x *catalogSync) announceSequence() {
	x.hub.catalog.mu.Lock()
	defer x.hub.catalog.mu.Unlock()
	x.announceDue = true
	x.wakeUp()
}

// onStateRequest handles the request of another instance for the full state.
func (x *catalogSync) onStateRequest(m *nats.Msg) {
	x.hub.catalog.mu.Lock()
	defer x.hub.catalog.mu.Unlock()
	x.stateRequests[string(m.Data)] = true
	x.wakeUp()
}

// fullState returns everything that this instance holds. Requires catalog.mu.
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
