package dashscope

import (
	"context"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// speakRate is the rate of speech, in Hz.
const speakRate = 24000

// maxText limits a text, in characters (Model Studio, CosyVoice WebSocket API, continue-task).
const maxText = 20000

// Types of a result of CosyVoice (Model Studio, CosyVoice server-side events).
const (
	sentenceBegin = "sentence-begin"
	sentenceEnd   = "sentence-end"
)

// speaking are the parameters of CosyVoice.
type speaking struct {
	TextType string  `json:"text_type"`
	Voice    string  `json:"voice"`
	Format   string  `json:"format"`
	Rate     int     `json:"sample_rate"`
	Volume   int     `json:"volume"`
	Speed    float64 `json:"rate"`
	Pitch    float64 `json:"pitch"`
}

// synthesis returns the definition of the task of a speech.
func (s *Settings) synthesis(m engine.Manner) *definition {
	speed := m.Speed
	if speed == 0 {
		speed = s.Speed
	}
	if speed == 0 {
		speed = 1
	}
	return &definition{Group: "audio", Task: "tts", Function: "SpeechSynthesizer",
		Model: orDefault(s.SpeakModel, DefaultSpeakModel),
		Parameters: speaking{"PlainText", orDefault(m.Voice, orDefault(s.Voice, DefaultVoice)),
			orDefault(s.Format, PCM), speakRate, 50, min(max(speed, minSpeed), maxSpeed), 1}}
}

// speaker implements [engine.Speaker] and [engine.Warmer].
type speaker struct {
	*client
	format engine.Format
}

// Speak implements [engine.Speaker].
func (s *speaker) Speak(ctx context.Context, m engine.Manner) (engine.Speech, error) {
	sessions := &socket.Sessions{Begin: s.begin, End: s.end, Format: s.format, Rate: speakRate}
	return engine.SpeakLive(sessions.Speak).Speak(ctx, m)
}

// Streams implements [engine.Streamer].
func (s *speaker) Streams() {}

// Warm implements [engine.Warmer].
func (s *speaker) Warm(ctx context.Context) { s.speaking.Warm(ctx) }

func (s *speaker) begin(ctx context.Context, m engine.Manner) (*socket.Conn, socket.Voice, error) {
	var v *speech
	c, err := s.speaking.Begin(ctx, func(ctx context.Context, c *socket.Conn) error {
		v = &speech{task: newTask(s.settings.APIKey), format: s.format}
		return v.start(ctx, c, s.settings.synthesis(m))
	})
	if err != nil {
		s.failed(ctx, err)
	}
	return c, v, err
}

// end keeps the connection of a task that has finished. A task cannot be canceled: only closing the
// connection ends it.
func (s *speaker) end(ctx context.Context, c *socket.Conn, _ socket.Voice, err error) {
	if err == nil {
		s.speaking.Put(c, nil)
		return
	}
	c.Close()
	s.failed(ctx, err)
}

// speech implements [socket.Voice].
type speech struct {
	*task
	format engine.Format
	billed int // characters
}

// Text implements [socket.Voice].
func (s *speech) Text(text string) socket.Message {
	if r := []rune(text); len(r) > maxText {
		text = string(r[:maxText])
	}
	var in input
	in.Input.Text = text
	return s.command(continueTask, in)
}

// Finish implements [socket.Voice].
func (s *speech) Finish() socket.Message { return s.command(finishTask, input{}) }

// Accept implements [socket.Voice].
func (s *speech) Accept(m socket.Message, n *engine.Narration) (done bool, err error) {
	if m.Binary {
		return false, n.Sound(m.Data)
	}
	e, err := s.event(m)
	if err != nil {
		return false, err
	}
	if billed := e.Payload.Usage.Characters; billed > s.billed {
		n.Bill(billed - s.billed)
		s.billed = billed
	}
	switch out := &e.Payload.Output; {
	case e.Header.Event == taskFinished:
		return true, nil
	case e.Header.Event != resultGenerated:
	case out.Type == sentenceBegin:
		n.Begin(out.OriginalText, s.format, speakRate)
	case out.Type == sentenceEnd:
		n.End()
	}
	return false, nil
}
