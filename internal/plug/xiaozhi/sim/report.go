package sim

import (
	"fmt"
	"slices"
	"time"
)

// Violation is a rule that the server broke.
type Violation struct {
	// Check is the rule's number, or "" for what breaks no numbered one. C1: the
	// call home. C2: tokens. C3: the hello. C4: frames. C5: tools. C6: audio between
	// start and stop. C7: pace. C8: the moment of stop. C9: abort. C10: odd audio.
	// C11: the wake word is no request. C12: how a conversation ends. C13: the newest
	// connection counts. C14: pings. C15: MQTT. C16: datagrams. C17: photos. C18: odd
	// messages. C20: firmware.
	Check string
	What  string // the first time that it happened, in words
	Times int
}

func (v Violation) String() string {
	s := v.What
	if v.Check != "" {
		s = v.Check + ": " + s
	}
	if v.Times > 1 {
		s = fmt.Sprintf("%s (%d times)", s, v.Times)
	}
	return s
}

// maxViolations bounds what is kept. One more kind of mistake says nothing new.
const maxViolations = 100

// Report is what a board saw of its server.
type Report struct {
	Violations []Violation

	Boots    int           // calls home
	CallHome time.Duration // how long the last one took
	Hellos   int           // conversations
	Hello    time.Duration // how long the last server's hello took

	Sent          int // packets of audio
	SendDropped   int // packets that the board could not send in time
	Received      int // packets of audio
	DroppedState  int // because the board did not speak
	DroppedQueue  int // because the queue was full
	DroppedReset  int // because speaking began after they had come
	Underruns     int // times that there was nothing to play within an answer
	UnderrunTime  time.Duration
	TailCut       int     // packets that were not played because of stop
	MaxBurst      int     // most packets within 10 ms
	MaxAhead      float64 // how far the server was ahead of what was due, in packets
	BadDatagrams  int
	Ignored       int // messages that mean nothing to the board
	IllegalStates int // changes of state that firmware refuses
	Pings         int

	Initializes, Lists, Calls int // of tools
	Photos, Notices           int

	// Intervals are how many packets came so long after the one before, in steps of
	// [IntervalStep]; the last is for everything longer. The first of an answer, which
	// come at once, do not count. Nil if there was no audio.
	Intervals []int
}

// Report is what the board saw so far. What the server still owes is counted as
// broken if its time is over.
func (b *Board) Report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overdue(time.Now())
	r := b.report
	r.Violations = slices.Clone(r.Violations)
	r.Intervals = slices.Clone(r.Intervals)
	return r
}

// Broke says whether a rule was broken.
func (r *Report) Broke(check string) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Check == check })
}

// violate notes a broken rule. The same rule broken in the same way counts once
// more: the way is the format. The caller holds b.mu.
func (b *Board) violate(check, format string, args ...any) {
	b.report.violate(check, format, args...)
	b.event(EventViolation, Violation{Check: check, What: fmt.Sprintf(format, args...)}.String())
}

func (r *Report) violate(check, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	for i := range r.Violations {
		if v := &r.Violations[i]; v.Check == check && sameWay(v.What, what) {
			v.Times++
			return
		}
	}
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, Violation{Check: check, What: what, Times: 1})
	}
}

// sameWay compares two texts without the numbers in them.
func sameWay(a, b string) bool {
	i, j := 0, 0
	for {
		i, j = skipNumber(a, i), skipNumber(b, j)
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if a[i] != b[j] {
			return false
		}
		i, j = i+1, j+1
	}
}

// skipNumber is where a number, with the unit of a duration, ends.
func skipNumber(s string, i int) int {
	begin := i
	for i < len(s) && ('0' <= s[i] && s[i] <= '9' || i > begin && (s[i] == '.' || s[i] == 'm' || s[i] == 's')) {
		i++
	}
	return i
}

// overdue looks for what the server should have done by now. The caller holds
// b.mu.
func (b *Board) overdue(now time.Time) {
	if p := &b.pages; p.next != "" && now.Sub(p.at) > cursorPatience {
		b.violate("C5", "the tools after %s were never asked for", p.next)
		p.next = ""
	}
	if b.ch == nil {
		return
	}
	if at := b.ch.inspect.abortedAt; !at.IsZero() && now.Sub(at) > abortStop+b.opt.Slack {
		b.violate("C9", "there is no stop %v after an abort", now.Sub(at).Round(time.Millisecond))
		b.ch.inspect.abortedAt = time.Time{}
	}
}

// cursorPatience is how long a server may take to ask for the next page.
const cursorPatience = 2 * time.Second
