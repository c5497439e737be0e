//go:build unix && !race

package learn

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// mostProcessorTime is the processor time that a comparison without cancellation may use.
const mostProcessorTime = 250 * time.Millisecond

// processorTime returns the processor time used by this process, which does not depend on the load
// of the machine.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// The longest answers and recalls are compared quickly, in any script.
func TestBoundedCost(t *testing.T) {
	for _, unit := range []string{"a. ", "甲。", "一", "12 ", "word, ", "{", "不\n", "\ufdfa", "\ufdfa ", "\ufdfa\n", "각",
		"각\n", "é", "㍿", "㍿\n", "\u0344", "①"} {
		long := strings.Repeat(unit, MaxText/len(unit))
		in := Recall{Question: long, Answer: long, Recall: long}
		for what, work := range map[string]func(){
			"comparing": func() { compare(t.Context(), in, "") }, //nolint:errcheck // the result does not matter
			"answering": func() { notAttempted(in) },
			"indexing":  func() { IndexWords(long, long) },
			"drafting":  func() { plainDrafts(long) },
		} {
			least := time.Hour // of several runs, as the garbage collector's work for other tests counts too
			for range 3 {
				before := processorTime()
				work()
				if least = min(least, processorTime()-before); least < mostProcessorTime {
					break
				}
			}
			if least > mostProcessorTime {
				t.Errorf("%s %q takes %v of the processor", what, unit, least)
			}
		}
	}
}
