package eyeclaw

import (
	"strings"
	"unicode/utf8"
)

// Kinds of anomaly, for metrics.
const (
	anomalySequence = "sequence" // a chunk's number was not the expected one
	anomalyMissing  = "missing"  // chunks were lost, and no summary came that contains them
	anomalySummary  = "summary"  // the summary does not match the received text
)

// receipt is the state of a turn when its answer has ended.
type receipt struct {
	emitted    string // text that was emitted
	buffered   string // text that was received after a gap
	chunks     int    // chunks received
	overlapped bool
	leftover   leftover
}

// reconcile compares the receipt with the plugin's summary, nil if none came. It returns the text
// to emit next. A non-empty anomaly means that the two do not match; then only received text is
// returned.
//
// The summary is the text that the plugin collected: possibly leftovers of earlier answers that
// failed, then this answer with all chunks, whether they arrived or not. If two answers ran at
// once, it is a mixture of both. Measured with plugin 2.4.0; see also accumulatedContent in
// sdk/src/websocket-client.ts.
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
		utf8.RuneCountInString(rest) < s.chunks-r.chunks, // each missing chunk has a character
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
	// There are leftovers of unknown text. The summary contains this answer, and therefore the
	// emitted text: if that occurs once, its position is certain.
	at := strings.Index(content, r.emitted)
	if r.emitted == "" || at != strings.LastIndex(content, r.emitted) {
		return -1
	}
	return at
}
