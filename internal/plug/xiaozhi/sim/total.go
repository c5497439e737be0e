package sim

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Total is what many boards saw together.
type Total struct {
	Boards     int
	Report                     // the sums; what was largest, of MaxBurst and MaxAhead
	HomeTimes  []time.Duration // how long calls home took, of boards that made one
	HelloTimes []time.Duration // how long the server's hello took, of boards that talked
}

// Add adds what a board saw.
func (t *Total) Add(r Report) {
	t.Boards++
	s := &t.Report
	for _, n := range [][2]*int{
		{&s.Boots, &r.Boots}, {&s.Hellos, &r.Hellos}, {&s.Sent, &r.Sent}, {&s.SendDropped, &r.SendDropped}, {&s.Received, &r.Received},
		{&s.DroppedState, &r.DroppedState}, {&s.DroppedQueue, &r.DroppedQueue}, {&s.DroppedReset, &r.DroppedReset}, {&s.Underruns, &r.Underruns},
		{&s.TailCut, &r.TailCut}, {&s.BadDatagrams, &r.BadDatagrams}, {&s.Ignored, &r.Ignored}, {&s.IllegalStates, &r.IllegalStates}, {&s.Pings, &r.Pings},
		{&s.Initializes, &r.Initializes}, {&s.Lists, &r.Lists}, {&s.Calls, &r.Calls}, {&s.Photos, &r.Photos}, {&s.Notices, &r.Notices},
	} {
		*n[0] += *n[1]
	}
	s.UnderrunTime += r.UnderrunTime
	s.MaxBurst, s.MaxAhead = max(s.MaxBurst, r.MaxBurst), max(s.MaxAhead, r.MaxAhead)
	if r.CallHome > 0 {
		t.HomeTimes = append(t.HomeTimes, r.CallHome)
	}
	if r.Hello > 0 {
		t.HelloTimes = append(t.HelloTimes, r.Hello)
	}
	if r.Intervals != nil && s.Intervals == nil {
		s.Intervals = make([]int, len(r.Intervals))
	}
	for i, n := range r.Intervals {
		s.Intervals[i] += n
	}
	for _, v := range r.Violations {
		t.violated(v)
	}
}

func (t *Total) violated(v Violation) {
	for i := range t.Violations {
		if was := &t.Violations[i]; was.Check == v.Check && sameWay(was.What, v.What) {
			was.Times += v.Times
			return
		}
	}
	if len(t.Violations) < maxViolations {
		t.Violations = append(t.Violations, v)
	}
}

// Interval is the time between two packets that a part of them, 0 to 1, did not
// exceed, to the next millisecond; 0 if there were none.
func (t *Total) Interval(part float64) time.Duration {
	return quantile(t.Intervals, part)
}

// Jitter is how far the times between two packets were from what they should be, as
// Interval is.
func (t *Total) Jitter(part float64) time.Duration {
	off := make([]int, intervals)
	due := int(wire.DownlinkFrame / IntervalStep)
	for i, n := range t.Intervals {
		if i < due {
			off[min(due-i, intervals)-1] += n
		} else {
			off[i-due] += n
		}
	}
	return quantile(off, part)
}

// quantile is the upper end of the step in which a part of what was counted ends.
func quantile(steps []int, part float64) time.Duration {
	all := 0
	for _, n := range steps {
		all += n
	}
	if all == 0 {
		return 0
	}
	seen := 0
	for i, n := range steps {
		if seen += n; n > 0 && float64(seen) >= part*float64(all) {
			return time.Duration(i+1) * IntervalStep
		}
	}
	return time.Duration(len(steps)) * IntervalStep
}

// Quantile is what a part of some figures, 0 to 1, does not exceed. It sorts them.
func Quantile[T cmp.Ordered](of []T, part float64) (q T) {
	if len(of) == 0 {
		return q
	}
	slices.Sort(of)
	return of[min(int(part*float64(len(of))), len(of)-1)]
}

// DialFrom makes connections to servers on this machine from an address that only the
// board with this number has, as boards of different households do: so many from one
// address would be refused, and there are no ports for them. It works where every
// address from 127.0.0.0/8 is this machine's, as on Linux; elsewhere, and to servers
// on other machines, connections are made as usual.
func DialFrom(number int) func(ctx context.Context, network, address string) (net.Conn, error) {
	const households = 1 << 16
	from := net.IP{127, byte(1 + number/households%200), byte(number % households >> 8), byte(number)}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		to, err := netip.ParseAddrPort(address)
		if err == nil && to.Addr().Is4() && to.Addr().IsLoopback() && runtime.GOOS == "linux" {
			d.LocalAddr = &net.TCPAddr{IP: from}
			if network[0] == 'u' {
				d.LocalAddr = &net.UDPAddr{IP: from}
			}
		}
		return d.DialContext(ctx, network, address)
	}
}
