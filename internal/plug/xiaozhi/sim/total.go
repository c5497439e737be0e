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

// Total sums up the reports of many boards.
type Total struct {
	Boards     int
	Report                     // sums, but the maximum of MaxBurst and MaxAhead
	OTATimes   []time.Duration // OTA response times, one per board that sent a request
	HelloTimes []time.Duration // times to the server's hello, one per board with a conversation
}

// Add adds the report of a board.
func (t *Total) Add(r Report) {
	t.Boards++
	s := &t.Report
	for _, n := range [][2]*int{
		{&s.Boots, &r.Boots}, {&s.Hellos, &r.Hellos}, {&s.Sent, &r.Sent}, {&s.SendDropped, &r.SendDropped},
		{&s.Received, &r.Received},
		{&s.DroppedState, &r.DroppedState}, {&s.DroppedQueue, &r.DroppedQueue}, {&s.DroppedReset, &r.DroppedReset},
		{&s.Underruns, &r.Underruns},
		{&s.TailCut, &r.TailCut}, {&s.BadDatagrams, &r.BadDatagrams}, {&s.Ignored, &r.Ignored},
		{&s.IllegalStates, &r.IllegalStates}, {&s.Pings, &r.Pings},
		{&s.Initializes, &r.Initializes}, {&s.Lists, &r.Lists}, {&s.Calls, &r.Calls}, {&s.Photos, &r.Photos},
		{&s.Notifications, &r.Notifications},
	} {
		*n[0] += *n[1]
	}
	s.UnderrunTime += r.UnderrunTime
	s.MaxBurst, s.MaxAhead = max(s.MaxBurst, r.MaxBurst), max(s.MaxAhead, r.MaxAhead)
	if r.CallHome > 0 {
		t.OTATimes = append(t.OTATimes, r.CallHome)
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
		t.addViolation(v)
	}
}

func (t *Total) addViolation(v Violation) {
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

// Interval returns a quantile of the times between two packets, rounded up to the next millisecond;
// part goes from 0 to 1. It returns 0 without packets.
func (t *Total) Interval(part float64) time.Duration {
	return quantile(t.Intervals, part)
}

// Jitter returns a quantile of the deviations from the nominal packet interval, as Interval does.
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

// quantile returns the upper end of the histogram step in which a quantile lies.
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

// Quantile returns a quantile of a sample; part goes from 0 to 1. It sorts the sample.
func Quantile[T cmp.Ordered](of []T, part float64) (q T) {
	if len(of) == 0 {
		return q
	}
	slices.Sort(of)
	return of[min(int(part*float64(len(of))), len(of)-1)]
}

// DialFrom returns a dial function for the board with a number. To servers on this machine it
// connects from a loopback address of the board's own, as boards of different households have: the
// server would refuse so many connections from one address, and there are not enough ports. This
// works on Linux, where all of 127.0.0.0/8 is local; elsewhere, and to other machines, it connects
// as usual.
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
