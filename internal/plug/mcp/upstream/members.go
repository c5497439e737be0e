package upstream

import (
	"errors"
	"time"

	"patchbay/internal/i18n"
)

// DefaultMembers is the default of [Options].MaxMembers. A connection needs about 100 KiB here, and
// a session at the server.
const DefaultMembers = 1000

const msgNoSeat = i18n.Message("Too many people use tool servers that are shared with them at the moment. It connects as soon as another connection is not used.")

// errNoSeat is the state of an upstream that waits for a connection to end.
var errNoSeat = newConnectionError(msgNoSeat, "")

// errIdle ends a connection that is not used.
var errIdle = errors.New("the connection is not used")

// seats are the open connections of people with whom upstreams are shared.
type seats struct {
	taken chan struct{} // one entry per connection
	// wanted wakes one of those whose connection is not used; holds 1.
	wanted chan struct{}
}

func newSeats(most int) seats {
	if most <= 0 {
		most = DefaultMembers
	}
	return seats{taken: make(chan struct{}, most), wanted: make(chan struct{}, 1)}
}

// takeSeat waits until there may be a connection. It returns false if the upstream was stopped.
func (u *upstream) takeSeat() bool {
	if u.spec.SharedBy == "" {
		return true
	}
	select {
	case u.m.seats.taken <- struct{}{}:
		return true
	default:
	}
	u.setState(Waiting, errNoSeat, time.Time{})
	again := time.NewTicker(u.times.seatInterval)
	defer again.Stop()
	for {
		signal(u.m.seats.wanted)
		select {
		case u.m.seats.taken <- struct{}{}:
			u.setState(Connecting, nil, time.Time{})
			return true
		case <-again.C: // who was woken is perhaps in use
		case <-u.ctx.Done():
			return false
		}
	}
}

// freeSeat is called when there is no connection any more.
func (u *upstream) freeSeat() {
	if u.spec.SharedBy != "" {
		<-u.m.seats.taken
	}
}

// idleness reports to supervise that a connection may not be used.
type idleness struct {
	check  <-chan time.Time
	wanted <-chan struct{} // somebody waits for a connection
	stop   func()
}

// watchIdleness begins to see whether the connection is used. That of an owner always stays.
func (u *upstream) watchIdleness() idleness {
	if u.spec.SharedBy == "" {
		return idleness{stop: func() {}}
	}
	t := time.NewTicker(u.times.idleAfter)
	return idleness{t.C, u.m.seats.wanted, t.Stop}
}

// checkIdle returns errIdle if the connection has not been used for a while. Calls that begin from
// then on wait for the next one.
func (u *upstream) checkIdle(after time.Duration) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.slots) > 0 || len(u.watched) > 0 || len(u.parked) > 0 || time.Since(u.used) < after {
		return nil
	}
	u.useSession(nil)
	return errIdle
}

// use notes that the connection is used.
func (u *upstream) use() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used = time.Now()
}

// rest waits until the connection is needed. Its tools stay listed. It returns false if the
// upstream was stopped.
func (u *upstream) rest() bool {
	u.setState(Idle, nil, time.Time{})
	for {
		select {
		case <-u.connectNow:
			return true
		case <-u.signedIn:
			return true // to see whether that still holds
		case <-u.pinsChanged:
			u.applyApproval()
		case <-u.ctx.Done():
			return false
		}
	}
}
