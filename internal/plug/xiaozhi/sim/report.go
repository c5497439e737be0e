package sim

import (
	"fmt"
	"slices"
	"time"
)

// Violation is a rule that the server broke.
type Violation struct {
	// Check is the rule's number, or "" for a rule without one. C1: OTA responses. C2: tokens. C3:
	// hello. C4: frames. C5: MCP. C6: audio outside tts start and stop. C7: pacing. C8: time of
	// tts/stop. C9: abort. C10: odd audio. C11: wake word taken for a question. C12: end of a
	// conversation. C13: newest connection wins. C14: pings. C15: MQTT. C16: datagrams. C17:
	// photos. C18: odd messages. C20: firmware.
	Check string
	What  string // description of the first occurrence
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

// maxViolations limits the kinds of violations in a report.
const maxViolations = 100

// Report is what a board observed of its server.
type Report struct {
	Violations []Violation

	Boots    int           // number of boots
	CallHome time.Duration // response time of the last OTA request
	Hellos   int           // conversations opened
	Hello    time.Duration // time to the last server hello

	Sent          int // audio packets
	SendDropped   int // audio packets dropped because the send queue was full
	Received      int // audio packets
	DroppedState  int // audio packets outside the speaking state
	DroppedQueue  int // audio packets that found the queue full
	DroppedReset  int // audio packets that were cleared by a state change to speaking
	Underruns     int // gaps within answers
	UnderrunTime  time.Duration
	TailCut       int     // audio packets that tts/stop cut off
	MaxBurst      int     // most audio packets within 10 ms
	MaxAhead      float64 // largest lead of the server, in packets
	BadDatagrams  int
	Ignored       int // messages without meaning for the board
	IllegalStates int // state changes that firmware refuses
	Pings         int

	Initializes, Lists, Calls int // MCP requests
	Photos, Notifications     int
	LastInitialize            string   // its params
	Heard                     []string // notifications of the server: method and params; the last 16

	// Aborts has the answers that the board aborted, at most the first maxAborts.
	Aborts []Abort

	// Intervals is a histogram of the times between packets, in steps of [IntervalStep]; the last
	// step has all longer ones. The first packets of an answer, which arrive at once, are not
	// counted. Nil: no audio.
	Intervals []int
}

// maxAborts limits Report.Aborts.
const maxAborts = 1000

// Abort is how long the server went on after a board had aborted an answer. The time that this
// process did not run, as [Options].Stalled says, is not counted.
type Abort struct {
	Sound time.Duration // to the last audio packet; 0: there was none
	Stop  time.Duration // to tts/stop
}

// Report returns what the board observed so far. Overdue reactions of the server count as
// violations.
func (b *Board) Report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overdue(time.Now())
	r := b.report
	r.Violations, r.Heard = slices.Clone(r.Violations), slices.Clone(r.Heard)
	r.Intervals, r.Aborts = slices.Clone(r.Intervals), slices.Clone(r.Aborts)
	return r
}

// Broke reports whether a rule was broken.
func (r *Report) Broke(check string) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Check == check })
}

// violate records a violation. Texts that differ only in numbers count as the same violation.
// Requires b.mu.
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

// sameWay reports whether two texts are equal apart from the numbers in them.
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

// skipNumber returns the index after a number and its unit of duration.
func skipNumber(s string, i int) int {
	begin := i
	for i < len(s) && ('0' <= s[i] && s[i] <= '9' || i > begin && (s[i] == '.' || s[i] == 'm' || s[i] == 's')) {
		i++
	}
	return i
}

// overdue records a violation for each reaction of the server that is overdue. Requires b.mu.
func (b *Board) overdue(now time.Time) {
	if p := &b.listing; p.next != "" && now.Sub(p.at) > cursorPatience {
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

// cursorPatience is how long a server may take to request the next page of tools.
const cursorPatience = 2 * time.Second
