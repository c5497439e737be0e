package stream

import (
	"time"

	"patchbay/internal/voice/engine"
)

// Messages of the streaming WebSocket server of sherpa-onnx (k2-fsa.github.io/sherpa/onnx,
// Streaming WebSocket server and client). Some versions send sherpaDone after the last result, the
// others close the connection.
const (
	sherpaEnd  = "Done"
	sherpaDone = "Done!"
)

// maxSegments limits the number of pauses that a server finds in one utterance.
const maxSegments = 1000

// sherpa is a dialect.
type sherpa struct {
	before         string // finished segments
	current        string
	segment        int
	afterEnd, late bool // late: there was a result after the end
}

func (s *sherpa) first() []byte                           { return nil }
func (s *sherpa) encode(b []byte, samples []int16) []byte { return appendFloats(b, samples) }
func (s *sherpa) end() []byte                             { return []byte(sherpaEnd) }
func (s *sherpa) ended(int)                               { s.afterEnd = true }

// patience: a server that has answered the end may leave the connection open.
func (s *sherpa) patience(l limits) (time.Duration, bool) {
	if s.late {
		return l.silence, true
	}
	return l.result, false
}

func (s *sherpa) transcript() engine.Transcript {
	return engine.Transcript{Text: engine.JoinTexts(s.before, s.current)}
}

// accept replaces the text of a segment. A new segment begins after a pause.
func (s *sherpa) accept(message []byte) (last bool, err error) {
	if string(message) == sherpaDone {
		return s.afterEnd, nil
	}
	var m struct {
		Text    *string `json:"text"`
		Segment int     `json:"segment"`
	}
	if err := decode(message, &m); err != nil {
		return false, err
	}
	if m.Text == nil || m.Segment < s.segment || m.Segment > maxSegments {
		return false, engine.Errorf(engine.Broken, "a message of the server has no text, or a segment out of order")
	}
	if m.Segment > s.segment {
		s.before = engine.JoinTexts(s.before, s.current)
		s.segment = m.Segment
	}
	s.current, s.late = *m.Text, s.afterEnd
	return false, nil
}
