package xiaozhi

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
	"patchbay/internal/voice"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/opus"
)

// maxRepeat is how much somebody may say at once to be repeated, in packets of 60 ms:
// a minute.
const maxRepeat = 1000

var (
	sayHeard  = talk.Say{Zh: "听到 %s 秒", En: "%s s of speech"}
	sayRepeat = talk.Say{Zh: "还没有设置语音引擎。我听到的是：", En: "No speech engine is set up yet. This is what I heard:"}
)

// Repeat is the [Voice] of a server without speech engines: boards say back what they
// heard, so that people know that microphone, network and speaker work. What is typed
// is put to the board's bot.
type Repeat struct{}

// Converse implements [Voice].
func (Repeat) Converse(ctx context.Context, c *Conversation) {
	p := parrot{c: c, ends: endpoint.New(endpoint.Options{})}
	for {
		h, err := c.Next()
		if err != nil {
			return
		}
		p.heard(ctx, h)
	}
}

// parrot is one conversation in which everything is said back.
type parrot struct {
	c      *Conversation
	ends   *endpoint.Detector
	said   spoken
	manual bool
	// speaking says that something is being said back, or answered. What is heard
	// meanwhile is the board itself.
	speaking atomic.Bool
}

// before is how many packets before the beginning of speech are said back too, since
// it takes some to notice.
const before = 12

func (p *parrot) heard(ctx context.Context, h Heard) {
	switch h.Kind {
	case HeardBegin:
		p.manual = h.Text == wire.ModeManual
		p.forget()
	case HeardSound:
		p.sound(ctx, h)
	case HeardEnd:
		if p.manual {
			p.repeat(ctx)
		}
	case HeardText:
		p.forget()
		p.speak(func() error { return p.c.Ask(ctx, h.Text) })
	case HeardAbort:
		p.forget()
	}
}

// speak says something while what is heard goes on to be taken in.
func (p *parrot) speak(say func() error) {
	p.speaking.Store(true)
	if !p.c.board.house.spawn(func() {
		defer p.speaking.Store(false)
		_ = say() // the end of the conversation is seen by Next
	}) {
		p.speaking.Store(false)
	}
}

func (p *parrot) forget() {
	p.said.keep(0)
	p.ends.Reset()
}

// spoken is packets one after the other, in memory that is used again.
type spoken struct {
	data []byte
	ends []int // of each packet in data
}

// maxKept is how much memory, in bytes, is kept for the next time: ten seconds of
// speech.
const maxKept = 32 << 10

func (s *spoken) add(packet []byte) {
	s.data = append(s.data, packet...)
	s.ends = append(s.ends, len(s.data))
}

// keep forgets all but the last n packets.
func (s *spoken) keep(n int) {
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

func (p *parrot) sound(ctx context.Context, h Heard) {
	if p.speaking.Load() || len(p.said.ends) >= maxRepeat {
		return
	}
	p.said.add(h.Opus)
	event := p.ends.Packet(h.Opus)
	if p.manual {
		return
	}
	switch event {
	case endpoint.Began:
		p.said.keep(before)
	case endpoint.Ended:
		p.repeat(ctx)
	case endpoint.None:
		if !p.ends.Speaking() && len(p.said.ends) > 4*before {
			p.said.keep(before)
		}
	}
}

// repeat says back what was said.
func (p *parrot) repeat(ctx context.Context) {
	c := p.c
	spoke := p.ends.Voiced()
	defer p.forget()
	if spoke == 0 {
		return
	}
	generation := c.Generation()
	if err := c.Understood(sayHeard.In(c.lang, fmt.Sprintf("%.1f", spoke.Seconds()))); err != nil {
		return
	}
	packets := fitting(&p.said, c.Frame())
	if len(packets) == 0 {
		return
	}
	p.speak(func() error {
		_, err := c.Speak(ctx, generation, &captioned{Source: voice.Packets(packets), text: sayRepeat.In(c.lang)})
		return err
	})
}

// fitting makes packets of the length that the board plays, as far as that can be done
// without decoding.
func fitting(said *spoken, frame time.Duration) [][]byte {
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
