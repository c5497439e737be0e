package sim

import (
	"context"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// onText handles a message of the server at its arrival. ch is nil without a conversation. Requires
// b.mu.
func (b *Board) onText(ch *audioChannel, data []byte, at time.Time) {
	m, err := wire.Parse(data)
	if err != nil {
		b.violate("", "a message is not JSON with a type: %.80s", data)
		return
	}
	if m.Type == wire.TypeMCP {
		b.onMCP(ch, m)
		return
	}
	switch m.Type {
	case wire.TypeHello:
		if ch != nil {
			b.onHello(ch, data)
		}
	case wire.TypeTTS:
		b.onTTS(ch, m, at)
	case wire.TypeSTT:
		b.onSTT(m)
	case wire.TypeLLM:
		b.schedule(func(context.Context) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.shown.emotion = m.Emotion
			b.answer().Emotion = m.Emotion
			b.event(EventEmotion, m.Emotion)
		})
	case wire.TypeGoodbye:
		b.onGoodbye(ch, m)
	default:
		b.onOther(m)
	}
}

// onTTS handles tts messages.
func (b *Board) onTTS(ch *audioChannel, m wire.Message, at time.Time) {
	if ch == nil {
		b.report.Ignored++
		return
	}
	switch m.State {
	case wire.TTSStart:
		ch.inspect.start(at)
		b.answer().StartedAt = at
		b.schedule(func(context.Context) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.ch == ch {
				b.setState(Speaking)
			}
		})
	case wire.TTSSentenceStart:
		ch.inspect.sentence(at)
		b.schedule(func(context.Context) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.answer().Sentences = append(b.answer().Sentences, m.Text)
			b.display(EventSentence, m.Text)
		})
	case wire.TTSStop:
		ch.inspect.stop(at)
		b.schedule(func(context.Context) { b.onStop(ch) })
	case wire.TTSSentenceEnd:
	default:
		b.report.Ignored++
	}
}

// onStop handles tts/stop in the loop.
func (b *Board) onStop(ch *audioChannel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != ch {
		return
	}
	if b.state == Speaking {
		next := Listening
		if b.mode == wire.ModeManual {
			next = Idle
		}
		b.fromSpeech = true
		b.setState(next)
	}
	if b.current != nil {
		b.finishAnswer()
	}
}

// onSTT handles the transcript.
func (b *Board) onSTT(m wire.Message) {
	if !b.spoken && m.Text != "" {
		b.violate("C11", "the server understood %q, and nobody has said anything since the wake word", m.Text)
	}
	b.schedule(func(context.Context) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.answer().Transcript = m.Text
		b.display(EventTranscript, m.Text)
	})
}

// onGoodbye handles the end of a conversation over MQTT.
func (b *Board) onGoodbye(ch *audioChannel, m wire.Message) {
	switch {
	case ch == nil:
		b.report.Ignored++
	case !ch.udp:
		b.report.Ignored++ // a WebSocket ends by a Close frame
	case m.SessionID != ch.session && m.SessionID != "":
		b.violate("C12", "the goodbye is for the session %q", m.SessionID)
	default:
		b.onDisconnect(ch, true, "the server said goodbye")
		ch.link.drop(false)
	}
}

// onOther handles the rarer messages.
func (b *Board) onOther(m wire.Message) {
	switch m.Type {
	case wire.TypeSystem:
		if m.Command == wire.CommandReboot {
			b.schedule(func(context.Context) { b.reboot() })
			return
		}
	case wire.TypeAlert:
		b.schedule(func(context.Context) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.shown.emotion = m.Emotion
			b.display(EventAlert, m.Status+": "+m.Message)
		})
		return
	case wire.TypeNotify:
		if b.opt.Profile.Notify && b.state == Idle && m.AudioURL != "" {
			b.wg.Go(func() { b.notify(b.ctx, m) })
			return
		}
	}
	b.report.Ignored++
}

// onAudio handles an audio packet at its arrival, and checks the state at that time. Requires b.mu.
func (b *Board) onAudio(ch *audioChannel, opus []byte, timestamp uint32, at time.Time) {
	b.report.Received++
	sounds, err := wire.Duration(opus)
	if err != nil {
		b.violate("C4", "a packet of %d bytes is not Opus", len(opus))
		return
	}
	ch.inspect.audio(at, sounds)
	ch.playedAt = timestamp
	if b.state != Speaking {
		b.report.DroppedState++
		return
	}
	ok, gap := ch.play.take(at)
	if !ok {
		b.report.DroppedQueue++
		b.violate("C7", "the queue of %d packets is full", ch.play.cap)
		return
	}
	if gap > 0 {
		b.report.Underruns++
		b.report.UnderrunTime += gap
	}
	a := b.answer()
	if a.Packets++; a.Packets == 1 {
		if !b.lastVoice.IsZero() {
			a.SpokenAt, a.FirstAudio = b.lastVoice, at.Sub(b.lastVoice)
		}
		b.changed()
	}
	if b.opt.Play != nil {
		b.opt.Play(ch.play.ends.Add(-ch.play.frame), opus)
	}
	if b.opt.KeepAudio {
		a.Audio = append(a.Audio, opus)
	}
}
