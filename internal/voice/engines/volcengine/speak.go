package volcengine

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
	"patchbay/internal/voice/engines/volcengine/wire"
)

const (
	// speakRate is the rate of speech, in Hz, and opusBits how many bits a second of Opus has.
	speakRate = 24000
	opusBits  = 32000
	// cancelTime limits how long a cancellation is written: nobody waits for a dead connection when
	// somebody interrupts.
	cancelTime = 200 * time.Millisecond
)

// namespace is that of a session.
const namespace = "BidirectionalTTS"

// additions filter Markdown, whatever the name says, and have bit_rate obeyed
// (volcengine.com/docs/6561/1329505, additions).
const additions = `{"disable_markdown_filter":true,"disable_default_bit_rate":true}`

// start is the payload of StartSession.
type start struct {
	User      user        `json:"user"`
	Event     wire.Event  `json:"event"`
	Namespace string      `json:"namespace"`
	Params    startParams `json:"req_params"`
}

type startParams struct {
	Speaker   string      `json:"speaker"`
	Audio     audioParams `json:"audio_params"`
	Additions string      `json:"additions"`
}

type audioParams struct {
	Format   string `json:"format"`
	Rate     int    `json:"sample_rate"`
	BitRate  int    `json:"bit_rate,omitempty"`
	Speed    int    `json:"speech_rate"` // from -50, half, to 100, double
	Loudness int    `json:"loudness_rate"`
}

// taskRequest is the payload of TaskRequest.
type taskRequest struct {
	Event  wire.Event `json:"event"`
	Params struct {
		Text string `json:"text"`
	} `json:"req_params"`
}

// speaker implements [engine.Speaker] and [engine.Warmer].
type speaker struct {
	*client
	format engine.Format
	audio  audioParams
	voice  string // the default
	// untold reports that sentences have no texts. Only the first model tells them all.
	untold bool
}

func newSpeaker(c *client) *speaker {
	s := &speaker{client: c, format: engine.PCM, audio: audioParams{Format: "pcm", Rate: speakRate},
		voice: DefaultVoice, untold: true}
	if strings.Contains(c.settings.SpeakModel, "-1.0") {
		s.voice, s.untold = firstVoice, false
	}
	if c.settings.Format == Opus {
		s.format, s.audio.Format, s.audio.BitRate = engine.OggOpus, "ogg_opus", opusBits
	}
	return s
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

// connect opens a connection that serves sessions.
func (c *client) connect(ctx context.Context) (*socket.Conn, error) {
	conn, err := open(ctx, c.speak)
	if err != nil {
		return nil, err
	}
	hello := wire.Frame{Type: wire.FullRequest, Flags: wire.WithEvent, JSON: true, Event: wire.StartConnection,
		Payload: []byte("{}")}
	if err := c.exchange(ctx, conn, hello, wire.ConnectionStarted); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// exchange sends a frame and waits for the event that answers it.
func (c *client) exchange(ctx context.Context, conn *socket.Conn, f wire.Frame, want wire.Event) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime,
		engine.Errorf(engine.Timeout, "the service did not answer the beginning of a session in time"))
	defer cancel()
	if err := conn.Write(ctx, message(f)); err != nil {
		return err
	}
	m, err := conn.Next(ctx)
	if err != nil {
		return err
	}
	got, err := c.parse(m)
	if err != nil {
		return err
	}
	switch {
	case got.Event == wire.ConnectionFailed, got.Event == wire.SessionFailed:
		return c.ended(got)
	case got.Flags != wire.WithEvent, got.Event != want, f.ID != "" && got.ID != f.ID:
		return engine.Errorf(engine.Broken, "the service answered the beginning of a session with another event")
	}
	return nil
}

// ended returns the error of the last event of a session or connection, or nil.
func (c *client) ended(f wire.Frame) error {
	var p struct {
		Code uint32 `json:"status_code"`
	}
	err := json.Unmarshal(f.Payload, &p)
	if f.Event == wire.SessionFinished && err == nil && (p.Code == codeOK || p.Code == 0) {
		return nil
	}
	return c.failure(p.Code, f.Payload)
}

// billed returns how many characters a session bills, according to its last event; 0: it does not
// tell.
func billed(f wire.Frame) int {
	var p struct {
		Usage struct {
			Characters int `json:"text_words"`
		} `json:"usage"`
	}
	if json.Unmarshal(f.Payload, &p) != nil {
		return 0 // ended says what is wrong
	}
	return p.Usage.Characters
}

func (s *speaker) begin(ctx context.Context, m engine.Manner) (*socket.Conn, socket.Voice, error) {
	audio := s.audio
	if speed := m.Speed; speed != 0 || s.settings.Speed != 0 {
		if speed == 0 {
			speed = s.settings.Speed
		}
		audio.Speed = int(math.Round((min(max(speed, minSpeed), maxSpeed) - 1) * 100))
	}
	payload := socket.JSON(start{patchbay, wire.StartSession, namespace, startParams{
		orDefault(m.Voice, orDefault(s.settings.Voice, s.voice)), audio, additions}}).Data
	var v *session
	c, err := s.speaking.Begin(ctx, func(ctx context.Context, c *socket.Conn) error {
		v = &session{s, newID()}
		return s.exchange(ctx, c, v.frame(wire.StartSession, payload), wire.SessionStarted)
	})
	if err != nil {
		s.failed(ctx, nil, err)
	}
	return c, v, err
}

// end keeps the connection of a session that has finished, and of one that is canceled as soon as
// the service confirms it.
func (s *speaker) end(ctx context.Context, c *socket.Conn, v socket.Voice, err error) {
	of, ok := v.(*session)
	switch {
	case err == nil:
		s.speaking.Put(c, nil)
		return
	case ok && ctx.Err() != nil:
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		if c.Write(limited, message(of.frame(wire.CancelSession, []byte("{}")))) == nil {
			s.speaking.Put(c, of.isOver)
			return
		}
	}
	s.failed(ctx, c, err)
	c.Close()
}

// session implements [socket.Voice].
type session struct {
	*speaker
	id string // is used once
}

func (v *session) frame(e wire.Event, payload []byte) wire.Frame {
	return wire.Frame{Type: wire.FullRequest, Flags: wire.WithEvent, JSON: true, Event: e, ID: v.id, Payload: payload}
}

// isOver reports whether a message is the last of the session.
func (v *session) isOver(m socket.Message) bool {
	f, err := v.parse(m)
	return err == nil && f.ID == v.id &&
		(f.Event == wire.SessionCanceled || f.Event == wire.SessionFinished || f.Event == wire.SessionFailed)
}

// Text implements [socket.Voice].
func (v *session) Text(text string) socket.Message {
	r := taskRequest{Event: wire.TaskRequest}
	r.Params.Text = text
	return message(v.frame(wire.TaskRequest, socket.JSON(r).Data))
}

// Finish implements [socket.Voice].
func (v *session) Finish() socket.Message { return message(v.frame(wire.FinishSession, []byte("{}"))) }

// Accept implements [socket.Voice].
func (v *session) Accept(m socket.Message, n *engine.Narration) (done bool, err error) {
	f, err := v.parse(m)
	if err != nil {
		return false, err
	}
	if f.Flags != wire.WithEvent || f.ID != v.id {
		return false, engine.Errorf(engine.Broken, "the service sent a frame of another session")
	}
	switch f.Event {
	case wire.SentenceStart:
		var s struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(f.Payload, &s) != nil {
			return false, engine.Errorf(engine.Broken, "a sentence of the service is not the JSON that it should be")
		}
		if v.untold {
			s.Text = ""
		}
		n.Begin(s.Text, v.format, speakRate)
	case wire.SentenceEnd:
		n.End()
	case wire.Audio:
		return false, n.Sound(f.Payload)
	case wire.SessionFinished, wire.SessionFailed:
		n.Bill(billed(f))
		return true, v.ended(f)
	case wire.SessionCanceled:
		return false, engine.Errorf(engine.Broken, "the service canceled the session")
	}
	return false, nil
}
