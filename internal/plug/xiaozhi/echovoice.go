package xiaozhi

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/opus"
)

// maxEchoPackets limits what is repeated at once, in packets: a minute at 60 ms.
const maxEchoPackets = 1000

const (
	msgHeard  = i18n.Message("%s s of speech")
	msgRepeat = i18n.Message("No speech engine is set up yet. This is what I heard:")
)

// EchoVoice is the [Voice] of a server without speech engines: boards play back what they heard, as
// a test of microphone, network and speaker. Typed text goes to the board's bot.
type EchoVoice struct {
	// Instead means that people expect the board's bot: that it was not asked is recorded, once for
	// each conversation, so that a noisy room does not fill the records.
	Instead bool
}

// Converse implements [Voice].
func (v EchoVoice) Converse(ctx context.Context, c *Conversation) {
	p := echoSession{c: c, instead: v.Instead, ends: endpoint.New(endpoint.Options{})}
	for {
		h, err := c.Next()
		if err != nil {
			return
		}
		p.onEvent(ctx, h)
	}
}

// echoSession is the state of one conversation of an [EchoVoice].
type echoSession struct {
	c      *Conversation
	ends   *endpoint.Detector
	said   packetBuffer
	manual bool
	// instead is that of the EchoVoice, until it is recorded.
	instead bool
	// speaking is set while an echo or an answer plays. Audio that arrives meanwhile is the
	// board's own sound and is dropped.
	speaking atomic.Bool
}

// prerollPackets is how many packets before the detected beginning of speech are repeated too:
// detection lags behind.
const prerollPackets = 12

func (p *echoSession) onEvent(ctx context.Context, h Event) {
	switch h.Kind {
	case EventListenStart:
		p.manual = h.Text == wire.ModeManual
		p.reset()
	case EventAudio:
		p.onAudio(ctx, h)
	case EventListenStop:
		if p.manual {
			p.playBack(ctx)
		}
	case EventText:
		p.reset()
		p.speak(func() error { return p.c.Ask(ctx, h.Text) })
	case EventAbort:
		p.reset()
	}
}

// speak runs say in the background, so that events are still read.
func (p *echoSession) speak(say func() error) {
	p.speaking.Store(true)
	if !p.c.board.boards.spawn(func() {
		defer p.speaking.Store(false)
		_ = say() // Next returns the end of the conversation
	}) {
		p.speaking.Store(false)
	}
}

func (p *echoSession) reset() {
	p.said.keepLast(0)
	p.ends.Reset()
}

// packetBuffer holds packets one after the other, in reused memory.
type packetBuffer struct {
	data []byte
	ends []int // offset in data of each packet's end
}

// maxKept is how much memory a packetBuffer keeps when it is emptied, in bytes: ten seconds of
// speech.
const maxKept = 32 << 10

func (s *packetBuffer) add(packet []byte) {
	s.data = append(s.data, packet...)
	s.ends = append(s.ends, len(s.data))
}

// keepLast drops all but the last n packets.
func (s *packetBuffer) keepLast(n int) {
	if n >= len(s.ends) {
		return
	}
	if n == 0 {
		s.data, s.ends = s.data[:0], s.ends[:0]
		if cap(s.data) > maxKept {
			s.data, s.ends = nil, nil
		}
		return
	}
	first := len(s.ends) - n
	cut := s.ends[first-1]
	s.data = append(s.data[:0], s.data[cut:]...)
	for i, end := range s.ends[first:] {
		s.ends[i] = end - cut
	}
	s.ends = s.ends[:n]
}

func (p *echoSession) onAudio(ctx context.Context, h Event) {
	if p.speaking.Load() || len(p.said.ends) >= maxEchoPackets {
		return
	}
	p.said.add(h.Opus)
	event := p.ends.Packet(h.Opus)
	if p.ends.IsSpeaking() {
		p.c.HeardSpeech()
	}
	if p.manual {
		return
	}
	switch event {
	case endpoint.Began:
		p.said.keepLast(prerollPackets)
	case endpoint.Ended:
		p.playBack(ctx)
	case endpoint.None:
		if !p.ends.IsSpeaking() && len(p.said.ends) > 4*prerollPackets {
			p.said.keepLast(prerollPackets)
		}
	}
}

// playBack plays what was recorded.
func (p *echoSession) playBack(ctx context.Context) {
	c := p.c
	spoke := p.ends.VoicedDuration()
	defer p.reset()
	if spoke < endpoint.MinVoice {
		return
	}
	generation := c.Generation()
	if err := c.ShowTranscript(msgHeard.In(c.Lang(), fmt.Sprintf("%.1f", spoke.Seconds()))); err != nil {
		return
	}
	packets := reframe(&p.said, c.Frame())
	if len(packets) == 0 {
		return
	}
	unasked := p.instead
	p.instead = false
	p.speak(func() error {
		if unasked {
			defer c.notHeard(errNoEngine)
		}
		_, err := c.Speak(ctx, generation, &captioned{Source: voice.Packets(packets), text: msgRepeat.In(c.Lang())})
		return err
	})
}

// reframe joins packets to the frame length that the board plays, as far as that is possible
// without decoding.
func reframe(said *packetBuffer, frame time.Duration) [][]byte {
	framer := opus.NewFramer(frame)
	var out [][]byte
	begin := 0
	for i, end := range said.ends {
		packet := said.data[begin:end]
		begin = end
		if framer.Push(packet) != nil && i < len(said.ends)-1 {
			continue
		}
		if i == len(said.ends)-1 {
			framer.Flush()
		}
		for {
			packet, ok := framer.Pop(nil)
			if !ok {
				break
			}
			out = append(out, packet)
		}
	}
	return out
}
