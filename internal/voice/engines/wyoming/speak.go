package wyoming

import (
	"context"
	"io"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pcm"
)

// speak is an [engine.SpeakOnce]. The clip is played while it is received.
func (c *client) speak(ctx context.Context, text string, m engine.Manner) (engine.Clip, error) {
	in, err := c.describe(ctx)
	if err != nil {
		return engine.Clip{}, c.failed(err)
	}
	voice, err := in.voice(&c.settings, m)
	if err != nil {
		return engine.Clip{}, c.failed(err)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return engine.Clip{}, c.failed(err)
	}
	s := &sound{conn: conn, end: audioStop}
	if in.streams() {
		s.end = synthesizeStopped
	}
	if err := s.begin(text, voice); err != nil {
		conn.close()
		return engine.Clip{}, c.failed(err)
	}
	return engine.Clip{Format: engine.PCM, Rate: s.rate, Sound: s}, nil
}

// sound is the sound of a sentence. Servers that take text in pieces cut it into sentences of their
// own, of which each begins and ends.
type sound struct {
	conn  *connection
	end   string // the event after the last sound
	rate  int    // in Hz; 0 before the first sound
	rest  []byte // of the last event
	ended bool
}

// begin sends the text and waits for the first sound.
func (s *sound) begin(text string, voice *voiceData) error {
	s.conn.expect(s.conn.limits.result)
	if err := s.request(text, voice); err != nil {
		return s.conn.failure(err)
	}
	for len(s.rest) == 0 && !s.ended {
		if err := s.next(); err != nil {
			return err
		}
	}
	if s.rate == 0 {
		s.rate = engine.Rate // of no sound
	}
	return nil
}

// request sends the text. A text in pieces is followed by the whole, which is for servers that do
// not know pieces (home-assistant/core homeassistant/components/wyoming/tts.py).
func (s *sound) request(text string, voice *voiceData) error {
	if s.end == audioStop {
		return s.conn.send(synthesize, textData{text, voice}, nil)
	}
	for _, e := range []struct {
		kind string
		data any
	}{{synthesizeStart, startData{voice}}, {synthesizeChunk, textData{Text: text}}, {synthesize, textData{text, voice}},
		{synthesizeStop, nil}} {
		if err := s.conn.send(e.kind, e.data, nil); err != nil {
			return err
		}
	}
	return nil
}

// next receives an event.
func (s *sound) next() error {
	e, err := s.conn.events.next()
	if err != nil {
		return s.conn.failure(err)
	}
	switch e.kind {
	case errorEvent:
		return e.failure()
	case audioStart, audioChunk:
		var f soundFormat
		if err := e.decode(&f); err != nil {
			return err
		}
		if s.rate == 0 {
			s.rate = f.Rate
		}
		if f.Width != 2 || f.Channels != 1 || f.Rate != s.rate || f.Rate < pcm.MinRate || f.Rate > pcm.MaxRate {
			return engine.Errorf(engine.Input, "the server sends sound of %d channels, %d bytes and %d Hz, which cannot be played",
				f.Channels, f.Width, f.Rate)
		}
		s.rest = e.payload
	case s.end:
		s.ended = true
	}
	return nil
}

// Read implements [io.Reader].
func (s *sound) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		s.conn.expect(s.conn.limits.chunk)
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (s *sound) Close() error {
	s.conn.close()
	return nil
}
