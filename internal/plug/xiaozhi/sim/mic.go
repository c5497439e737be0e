package sim

import (
	"context"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	realtime = wire.ModeRealtime
	// micWarmup is the delay of the microphone's first packet (xiaozhi-esp32
	// main/audio/audio_service.cc, audio_input_need_warmup_).
	micWarmup = 120 * time.Millisecond
	// maxSendQueue is how many packets a board queues for sending; then it drops the oldest
	// (xiaozhi-esp32 main/audio/audio_service.h, MAX_SEND_PACKETS_IN_QUEUE).
	maxSendQueue = 40
)

// packet is audio in the send queue.
type packet struct {
	opus []byte
	at   uint32 // timestamp of the packet that played meanwhile, for server AEC
}

// microphone is a running recording.
type microphone struct{ off context.CancelFunc }

// startMic starts the microphone. Requires b.mu.
func (b *Board) startMic() {
	if b.mic != nil || b.ctx.Err() != nil {
		return
	}
	ctx, off := context.WithCancel(b.ctx)
	b.mic = &microphone{off}
	b.wg.Go(func() { b.record(ctx) })
	b.changed()
}

// stopMic stops the microphone and drops the rest of the speech. Requires b.mu.
func (b *Board) stopMic() {
	if b.mic != nil {
		b.mic.off()
		b.mic = nil
		b.speech = nil
		b.changed()
	}
}

// record makes a packet every 60 ms.
func (b *Board) record(ctx context.Context) {
	due := time.Now()
	if !b.opt.Program {
		due = due.Add(micWarmup)
	}
	for i := 0; netx.Wait(ctx, time.Until(due)) == nil; i++ {
		due = due.Add(wire.UplinkFrame)
		opus := silence(i)
		if b.opt.Record != nil {
			opus = b.opt.Record(due.Add(-wire.UplinkFrame))
		}
		b.mu.Lock()
		if ctx.Err() != nil {
			b.mu.Unlock()
			return
		}
		b.spoken = b.spoken || b.opt.Record != nil
		if len(b.speech) > 0 {
			opus = b.speech[0]
			b.speech = b.speech[1:]
			b.lastVoice = time.Now()
			b.spoken = true
			b.changed()
		}
		b.queue(opus)
		b.mu.Unlock()
	}
}

// queue appends a packet to the send queue and wakes the loop. Requires b.mu.
func (b *Board) queue(opus []byte) {
	p := packet{opus: opus}
	if b.opt.ServerAEC && b.ch != nil && b.state == Speaking {
		p.at = b.ch.playedAt
	}
	if len(b.sendQueue) >= maxSendQueue {
		b.sendQueue = b.sendQueue[1:]
		b.report.SendDropped++
	}
	b.sendQueue = append(b.sendQueue, p)
	if !b.sending {
		b.sending = true
		b.schedule(b.sendAudio)
	}
}

// sendAudio sends the queued packets.
func (b *Board) sendAudio(context.Context) {
	b.mu.Lock()
	packets, ch := b.sendQueue, b.ch
	b.sendQueue, b.sending = nil, false
	b.mu.Unlock()
	if ch == nil {
		return
	}
	sent := 0
	for _, p := range packets {
		if ch.link.sendAudio(p.opus, p.at) != nil {
			break
		}
		sent++
	}
	b.mu.Lock()
	b.report.Sent += sent
	b.changed()
	b.mu.Unlock()
}

// micStaysOn reports whether the microphone stays on while the server speaks. Requires b.mu.
func (b *Board) micStaysOn() bool { return b.mode == realtime || b.opt.Program }
