package wyoming

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"patchbay/internal/voice/engine"
)

// version is that of the protocol, as its events name it (rhasspy/wyoming wyoming/VERSION).
const version = "1.9.0"

// maxPart limits each part of an event, in bytes: the line, the data and the payload. A server that
// can download 200 voices lists them in 100 KiB; a second of sound has at most 200 KiB.
const maxPart = 1 << 20

// Types of events (rhasspy/wyoming README.md, "Event Types", and wyoming/{asr,tts,error}.py).
const (
	describe          = "describe"
	infoEvent         = "info"
	transcribe        = "transcribe"
	transcriptStart   = "transcript-start"
	transcriptChunk   = "transcript-chunk"
	transcriptEvent   = "transcript"
	transcriptStop    = "transcript-stop"
	audioStart        = "audio-start"
	audioChunk        = "audio-chunk"
	audioStop         = "audio-stop"
	synthesize        = "synthesize"
	synthesizeStart   = "synthesize-start"
	synthesizeChunk   = "synthesize-chunk"
	synthesizeStop    = "synthesize-stop"
	synthesizeStopped = "synthesize-stopped"
	errorEvent        = "error"
)

// header is the line before the other parts of an event (rhasspy/wyoming README.md, "Format").
type header struct {
	Type          string          `json:"type"`
	Version       string          `json:"version,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
	DataLength    int             `json:"data_length,omitempty"`
	PayloadLength int             `json:"payload_length,omitempty"`
}

// event is what a server says. It is valid until the next one is read.
type event struct {
	kind         string
	inline, data json.RawMessage // of the line and after it; the latter overrides the former
	payload      []byte
}

// decode parses the data of an event. The error does not quote it: it may be a transcript.
func (e *event) decode(into any) error {
	for _, part := range []json.RawMessage{e.inline, e.data} {
		if len(part) > 0 && json.Unmarshal(part, into) != nil {
			return errData
		}
	}
	return nil
}

// Violations of the protocol.
var (
	errHeader = engine.Errorf(engine.Broken, "an event of the server does not begin with the JSON that it should")
	errData   = engine.Errorf(engine.Broken, "an event of the server has other data than it should")
	errSize   = engine.Errorf(engine.Broken, "an event of the server has a part of more than %d MiB", maxPart>>20)
)

// eventReader reads events.
type eventReader struct {
	r       *bufio.Reader
	line    []byte
	data    []byte
	payload []byte
}

func newEventReader(r io.Reader) *eventReader { return &eventReader{r: bufio.NewReaderSize(r, 16<<10)} }

// next reads an event. The error is an [*engine.Error] or that of the connection.
func (r *eventReader) next() (*event, error) {
	if err := r.readLine(); err != nil {
		return nil, err
	}
	var h header
	if json.Unmarshal(r.line, &h) != nil || h.Type == "" || h.DataLength < 0 || h.PayloadLength < 0 {
		return nil, errHeader
	}
	if h.DataLength > maxPart || h.PayloadLength > maxPart {
		return nil, errSize
	}
	e := &event{kind: h.Type, inline: h.Data}
	var err error
	if r.data, err = r.part(r.data, h.DataLength); err != nil {
		return nil, err
	}
	if r.payload, err = r.part(r.payload, h.PayloadLength); err != nil {
		return nil, err
	}
	e.data, e.payload = r.data, r.payload
	return e, nil
}

// readLine reads a line of at most maxPart bytes.
func (r *eventReader) readLine() error {
	r.line = r.line[:0]
	for {
		piece, err := r.r.ReadSlice('\n')
		if len(r.line)+len(piece) > maxPart {
			return errSize
		}
		r.line = append(r.line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// part reads n bytes into a buffer, which it enlarges if necessary.
func (r *eventReader) part(b []byte, n int) ([]byte, error) {
	if cap(b) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	_, err := io.ReadFull(r.r, b)
	return b, err
}

// appendEvent appends an event. Its data follow the line, as all writers have it.
func appendEvent(b []byte, kind string, data any, payload []byte) ([]byte, error) {
	h := header{Type: kind, Version: version, PayloadLength: len(payload)}
	var body []byte
	if data != nil {
		var err error
		if body, err = json.Marshal(data); err != nil {
			return b, err
		}
		h.DataLength = len(body)
	}
	line, err := json.Marshal(h)
	if err != nil {
		return b, err
	}
	b = append(append(b, line...), '\n')
	return append(append(b, body...), payload...), nil
}

// Data of events (rhasspy/wyoming README.md, "Event Types").
type (
	soundFormat struct {
		Rate     int `json:"rate"`
		Width    int `json:"width"` // bytes
		Channels int `json:"channels"`
	}
	transcribeData struct {
		Language string `json:"language,omitempty"`
		Name     string `json:"name,omitempty"`
	}
	transcriptData struct {
		Text     string `json:"text"`
		Language string `json:"language"`
	}
	textData struct {
		Text  string     `json:"text"`
		Voice *voiceData `json:"voice,omitempty"`
	}
	startData struct {
		Voice *voiceData `json:"voice,omitempty"`
	}
	voiceData struct {
		Name     string `json:"name,omitempty"`
		Language string `json:"language,omitempty"`
		Speaker  string `json:"speaker,omitempty"`
	}
	errorData struct {
		Code string `json:"code"`
	}
)

// failure returns the error that a server reports. It has the code and not the text, which may
// repeat what was to be spoken.
func (e *event) failure() error {
	var d errorData
	_ = e.decode(&d) // without a code then
	if len(d.Code) > 64 || d.Code == "" {
		d.Code = "unknown"
	}
	return engine.Errorf(engine.Broken, "the server reports an error with the code %q", d.Code)
}
