//go:build unix && !race

package learn

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// mostProcessorTime is what a comparison may use of the processor, although nobody stops it.
const mostProcessorTime = 250 * time.Millisecond

// processorTime is what this process has used, however busy the machine is.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// The longest answers and recalls are compared in no time, whatever they are written in.
func TestBoundedCost(t *testing.T) {
	for _, unit := range []string{"a. ", "甲。", "一", "12 ", "word, ", "{", "不\n", "\ufdfa", "\ufdfa ", "\ufdfa\n", "각", "각\n", "é", "㍿", "㍿\n", "\u0344", "①"} {
		long := strings.Repeat(unit, MaxText/len(unit))
		in := Recall{Question: long, Answer: long, Recall: long}
		for what, work := range map[string]func(){
			"comparing": func() { compare(t.Context(), in, "") }, //nolint:errcheck // its result is no matter
			"answering": func() { unsaid(in) },
			"indexing":  func() { Words(long, long) },
			"drafting":  func() { plainDrafts(long) },
		} {
			least := time.Hour // of a few, as the collector's work for others counts too
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
