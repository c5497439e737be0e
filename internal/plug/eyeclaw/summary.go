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
	emitted    string // what the person was told
	buffered   string // what was received after a hole
	chunks     int    // pieces received
	overlapped bool
	leftover   leftover
}

// reconcile compares the receipt with the plugin's summary, nil if none came. The
// result is the text to emit next. A nonempty anomaly says that the two do not
// match; then only received text is emitted.
//
// The summary is the text that the plugin collected: perhaps the leavings of
// earlier answers that failed, then this answer, with all pieces, whether they
// reached us or not. If two answers ran at once it is a mixture of both.
func (r receipt) reconcile(s *summary) (rest, anomaly string) {
	switch {
	case s == nil && r.buffered == "":
		return "", ""
	case s == nil:
		return r.buffered, anomalyMissing
	case s.chunks == r.chunks:
		return r.buffered, ""
	case r.overlapped:
		return r.buffered, anomalySummary
	}
	at := r.emittedOffset(s.content)
	if at < 0 {
		return r.buffered, anomalySummary
	}
	rest = s.content[at+len(r.emitted):]
	switch {
	case s.chunks >= 0 && s.chunks < r.chunks, // it counts something else
		utf8.RuneCountInString(rest) < s.chunks-r.chunks, // each missing piece has a character
		len(rest) < len(r.buffered):
		return r.buffered, anomalySummary
	}
	return rest, ""
}

// emittedOffset returns the offset of the emitted text in the summary's content, or -1 if it is
// not certain.
func (r receipt) emittedOffset(content string) int {
	if known := string(r.leftover.text); known != "" && !r.leftover.uncertain && strings.HasPrefix(content, known) {
		if strings.HasPrefix(content[len(known):], r.emitted) {
			return len(known)
		}
		return -1
	}
	if !r.leftover.uncertain && strings.HasPrefix(content, r.emitted) {
		return 0
	}
	// There are leavings that we do not know. This answer, and so the told text,
	// is in there: if that occurs once, it is there.
	at := strings.Index(content, r.emitted)
	if r.emitted == "" || at != strings.LastIndex(content, r.emitted) {
		return -1
	}
	return at
}
