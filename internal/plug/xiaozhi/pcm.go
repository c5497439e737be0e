package xiaozhi

import (
	"context"
	"encoding/binary"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/opus"
)

const (
	// maxPCM limits the connections that speak PCM. Each keeps one of the server's encoders, which
	// answers need too.
	maxPCM = 16
	// pcmFrame is the length of the packets that samples are encoded into.
	pcmFrame = 60 * time.Millisecond
	// pcmRate is the sample rate if the hello names none: that of boards' microphones.
	pcmRate = 16000
)

// pcmCodec converts between the Opus packets of a conversation and the samples (16 bits, little
// endian) of a client without Opus. One goroutine may encode while another decodes.
type pcmCodec struct {
	encoder *opus.Encoder
	rest    []byte  // of the client's sound, less than a frame
	frame   []int16 // to encode
	packet  []byte

	decoder *opus.Decoder
	samples []int16 // decoded
	sound   []byte  // the same as bytes
}

// newPCMCodec returns a codec for the format in a hello; its Close must be called. It waits for an
// encoder until ctx ends.
func newPCMCodec(ctx context.Context, encoders *opus.EncoderPool, format wire.Audio) (*pcmCodec, error) {
	e := opus.Encoding{SampleRate: format.SampleRate, Frame: pcmFrame, Complexity: 5, Bitrate: 32000, DTX: true}
	decoder, err := opus.NewDecoder(format.SampleRate)
	if err != nil {
		return nil, err
	}
	encoder, err := encoders.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return &pcmCodec{encoder: encoder, frame: make([]int16, e.Samples()), decoder: decoder,
		samples: make([]int16, decoder.Samples(opus.MaxDuration))}, nil
}

// Encode calls each with the packets that the client's sound fills. It keeps the rest for the next
// call.
func (p *pcmCodec) Encode(sound []byte, each func(packet []byte)) (err error) {
	p.rest = append(p.rest, sound...)
	size, used := 2*len(p.frame), 0
	for ; used+size <= len(p.rest); used += size {
		for i := range p.frame {
			p.frame[i] = int16(binary.LittleEndian.Uint16(p.rest[used+2*i:]))
		}
		if p.packet, err = p.encoder.Encode(p.frame, p.packet[:0]); err != nil {
			return err
		}
		each(p.packet)
	}
	p.rest = p.rest[:copy(p.rest, p.rest[used:])]
	return nil
}

// Decode returns the sound of a packet. It is valid until the next call.
func (p *pcmCodec) Decode(packet []byte) ([]byte, error) {
	n, err := p.decoder.Decode(packet, p.samples)
	if err != nil {
		return nil, err
	}
	p.sound = p.sound[:0]
	for _, x := range p.samples[:n] {
		p.sound = binary.LittleEndian.AppendUint16(p.sound, uint16(x))
	}
	return p.sound, nil
}

// Close returns the encoder.
func (p *pcmCodec) Close() { p.encoder.Close() }

// negotiate determines the format of a connection from its hello. It returns what the server's
// hello announces and what the conversation makes; the alert is not nil if the format is refused.
func (s *webSocket) negotiate(b *Board, hello *wire.Hello) (announced, made wire.Audio, alert *wire.Message) {
	made = b.output()
	lang := s.lang()
	if !isPCM(hello) {
		return made, made, rejectFormat(hello, lang)
	}
	if hello.Audio.SampleRate == 0 {
		hello.Audio.SampleRate = pcmRate
	}
	made.SampleRate = hello.Audio.SampleRate
	if made.Playable() != nil || hello.Audio.Channels > 1 || s.boards.Encoders == nil {
		return made, made, formatAlert(msgFormatPCM.In(lang), lang)
	}
	if !s.boards.acquirePCM() {
		return made, made, formatAlert(msgFormatBusy.In(lang), lang)
	}
	var err error
	if s.pcm, err = newPCMCodec(s.boards.ctx, s.boards.Encoders, made); err != nil {
		s.boards.releasePCM()
		return made, made, formatAlert(msgFormatBusy.In(lang), lang)
	}
	announced = made
	announced.Format = hello.Audio.Format
	return announced, made, nil
}

func (h *Boards) acquirePCM() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pcm >= maxPCM {
		return false
	}
	h.pcm++
	return true
}

func (h *Boards) releasePCM() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pcm--
}
