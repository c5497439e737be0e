package eyeclaw

import (
	"strings"
	"unicode/utf8"
)

// Kinds of anomaly, for metrics.
const (
	anomalySequence = "sequence" // a chunk's number was not the expected one
	anomalyMissing  = "missing"  // pieces were lost, and no summary came to tell them
	anomalySummary  = "summary"  // the summary does not fit what was received
)

// receipt is what a turn knows when its answer has ended.
type receipt struct {
	told       string // what the person was told
	held       string // what was received after a hole
	chunks     int    // pieces received
	overlapped bool
	spill      spill
}

// settle compares the receipt with the plugin's summary, nil if none came. The
// result is what the person is still to be told. A nonempty anomaly says that
// the two do not fit; then nothing is told that was not received.
//
// The summary is the text that the plugin collected: perhaps the leavings of
// earlier answers that failed, then this answer, with all pieces, whether they
// reached us or not. If two answers ran at once it is a mixture of both.
func (r receipt) settle(s *summary) (rest, anomaly string) {
	switch {
	case s == nil && r.held == "":
		return "", ""
	case s == nil:
		return r.held, anomalyMissing
	case s.chunks == r.chunks:
		return r.held, ""
	case r.overlapped:
		return r.held, anomalySummary
	}
	at := r.find(s.content)
	if at < 0 {
		return r.held, anomalySummary
	}
	rest = s.content[at+len(r.told):]
	switch {
	case s.chunks >= 0 && s.chunks < r.chunks, // it counts something else
		utf8.RuneCountInString(rest) < s.chunks-r.chunks, // each missing piece has a character
		len(rest) < len(r.held):
		return r.held, anomalySummary
	}
	return rest, ""
}

// find is where the told text begins in the summary's content, or -1 if that
// cannot be said for certain.
func (r receipt) find(content string) int {
	if known := string(r.spill.text); known != "" && !r.spill.unsure && strings.HasPrefix(content, known) {
		if strings.HasPrefix(content[len(known):], r.told) {
			return len(known)
		}
		return -1
	}
	if !r.spill.unsure && strings.HasPrefix(content, r.told) {
		return 0
	}
	// There are leavings that we do not know. This answer, and so the told text,
	// is in there: if that occurs once, it is there.
	at := strings.Index(content, r.told)
	if r.told == "" || at != strings.LastIndex(content, r.told) {
		return -1
	}
	return at
}
