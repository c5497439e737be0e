package stream

import (
	"time"

	"patchbay/internal/voice/engine"
)

// Messages to a Vosk server (alphacep/vosk-server websocket/asr_server.py). It assumes 8 kHz
// without the first, and compares the second literally.
const (
	voskFirst = `{"config":{"sample_rate":16000}}`
	voskEnd   = `{"eof" : 1}`
)

// vosk is a dialect.
type vosk struct {
	answers int // messages of the server
	want    int // answers with the one to the end; 0 before
	text    string
	partial string
}

func (v *vosk) first() []byte                           { return []byte(voskFirst) }
func (v *vosk) encode(b []byte, samples []int16) []byte { return appendPCM(b, samples) }
func (v *vosk) end() []byte                             { return []byte(voskEnd) }
func (v *vosk) ended(messages int)                      { v.want = messages + 1 }

// patience: the end has an answer always.
func (v *vosk) patience(l limits) (time.Duration, bool) { return l.result, false }

func (v *vosk) transcript() engine.Transcript {
	return engine.Transcript{Text: engine.JoinTexts(v.text, v.partial)}
}

// accept counts answers, because the server answers each message with sound, and the end. A text
// ends where the server found a pause.
func (v *vosk) accept(message []byte) (last bool, err error) {
	var m struct {
		Partial *string `json:"partial"`
		Text    *string `json:"text"`
	}
	if err := decode(message, &m); err != nil {
		return false, err
	}
	switch {
	case m.Text != nil:
		v.text, v.partial = engine.JoinTexts(v.text, joinWords(*m.Text)), ""
	case m.Partial != nil:
		v.partial = joinWords(*m.Partial)
	default:
		return false, engine.Errorf(engine.Broken, "a message of the server has neither text nor partial")
	}
	v.answers++
	return v.want > 0 && v.answers >= v.want, nil
}
