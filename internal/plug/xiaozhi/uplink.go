package xiaozhi

import (
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

const (
	// wakeAudioDelay is how long packets of the wake word may arrive after listen/start, which can
	// overtake datagrams. A microphone needs 120 ms to start (xiaozhi-esp32
	// main/audio/audio_service.cc, audio_input_need_warmup_).
	wakeAudioDelay = 100 * time.Millisecond
	// minWakePackets is the minimum number of packets in the sound of a wake word. Boards send up
	// to two seconds of it at once (xiaozhi-esp32 main/audio/engines/afe_audio_engine.cc,
	// wake_word_audio_cache_); a running microphone has made only two packets of 60 ms when
	// wakeAudioDelay is over.
	minWakePackets = 4
	// wakeAudioTTL is how long the sound of a wake word counts for the listen/detect that names it.
	// Boards send both together; TCP may have to retransmit the message.
	wakeAudioTTL = 2 * time.Second
	// wakeListenWindow is how long after listen/detect a listen/start belongs to it.
	wakeListenWindow = 500 * time.Millisecond
	// tailWindow is how long packets may arrive that were in transit when a board stopped
	// listening. They are not a wake word.
	tailWindow = 500 * time.Millisecond
	// maxAudioPacket limits a packet of a board, in bytes. Speech has some 150; 60 ms at the
	// highest rate have 3,800.
	maxAudioPacket = 4000
)

// onMessage handles a message of the board other than hello, mcp and goodbye. One goroutine calls
// it, in the order of arrival. It does not wait.
func (c *Conversation) onMessage(m *wire.Message) {
	switch {
	case m.Type == wire.TypeAbort:
		if m.Reason == wire.AbortWakeWord {
			c.StopPlayback()
		} else { // by the button
			c.StopEverything()
		}
		c.events.pushControl(Event{Kind: EventAbort, At: time.Now(), Text: m.Reason})
	case m.Type != wire.TypeListen:
		c.board.boards.metrics.malformed.Inc()
	case m.State == wire.ListenStart:
		c.onListenStart(m.Mode)
	case m.State == wire.ListenStop:
		c.mu.Lock()
		c.listening, c.interrupted, c.lastActivity = false, false, time.Now()
		c.stoppedAt = c.lastActivity
		c.mu.Unlock()
		c.intake.Pause()
		c.events.pushControl(Event{Kind: EventListenStop, At: time.Now()})
	case m.State == wire.ListenDetect:
		c.onDetect(m.Text)
	}
}

// onDetect handles listen/detect: a wake word, or a whole question, which web pages and py-xiaozhi
// send by it. Boards send the sound of the wake word before (xiaozhi-esp32 main/application.cc,
// Application::ContinueWakeWordInvoke).
func (c *Conversation) onDetect(text string) {
	now := time.Now()
	known := strings.TrimSpace(text) == "" || // an empty text is not a question
		c.board.boards.isWakeWord(text) || c.board.boards.hasWakeWord(c.board.current(), text)
	c.mu.Lock()
	c.lastActivity, c.wakeWordAt, c.heardAt = now, now, now
	if c.checkingWakeWord {
		c.mu.Unlock()
		return // the board repeats it
	}
	woken := known || c.takeWakeAudio(now)
	c.checkingWakeWord = !woken && c.via != store.TransportSocket
	waits := c.checkingWakeWord
	c.mu.Unlock()
	switch {
	case woken:
		c.events.pushControl(Event{Kind: EventWakeWord, At: now, Text: text})
	case !waits:
		c.events.pushControl(Event{Kind: EventText, At: now, Text: text})
	default: // audio goes over UDP and may still arrive
		c.board.boards.spawn(func() { c.resolveDetect(text, now) })
	}
}

// takeWakeAudio reports whether the sound of a wake word has just arrived, and resets it: the next
// listen/detect needs a sound of its own. Requires mu.
func (c *Conversation) takeWakeAudio(now time.Time) bool {
	woken := c.unsolicited >= minWakePackets && now.Sub(c.unsolicitedAt) < wakeAudioTTL
	if woken {
		c.unsolicited = 0
	}
	return woken
}

// countUnsolicited counts a packet that may belong to a wake word. Requires mu.
func (c *Conversation) countUnsolicited(at time.Time) {
	if at.Sub(c.unsolicitedAt) > wakeAudioTTL {
		c.unsolicited = 0
	}
	c.unsolicited++
	c.unsolicitedAt = at
}

// resolveDetect waits for the sound of a wake word, and then decides what the text was.
func (c *Conversation) resolveDetect(text string, at time.Time) {
	if netx.Wait(c.ctx, wakeAudioDelay) != nil {
		return
	}
	kind := EventText
	c.mu.Lock()
	c.checkingWakeWord = false
	if c.takeWakeAudio(time.Now()) {
		kind = EventWakeWord
	}
	c.unsolicited = 0
	c.mu.Unlock()
	c.events.pushControl(Event{Kind: kind, At: at, Text: text})
}

func (c *Conversation) onListenStart(mode string) {
	if mode != wire.ModeManual && mode != wire.ModeRealtime {
		mode = wire.ModeAuto
	}
	now := time.Now()
	c.mu.Lock()
	c.mode, c.listening, c.interrupted, c.lastActivity = mode, true, false, now
	if c.via != store.TransportSocket && now.Sub(c.wakeWordAt) < wakeListenWindow {
		c.wakeAudioUntil = now.Add(wakeAudioDelay)
	}
	if !c.checkingWakeWord {
		c.unsolicited = 0 // no listen/detect came, so it was no wake word
	}
	c.mu.Unlock()
	c.events.pushControl(Event{Kind: EventListenStart, At: now, Text: mode})
}

// onAudio handles a packet of the board. One goroutine calls it. It does not keep packet, and does
// not wait.
func (c *Conversation) onAudio(packet []byte, at time.Time) {
	if len(packet) > maxAudioPacket {
		c.intake.Dropped(1)
		return
	}
	if !c.intake.Packet(at, packet) {
		return // counted as malformed
	}
	c.mu.Lock()
	kind, resumed := EventAudio, false
	switch {
	case c.listening && at.Before(c.wakeAudioUntil):
		kind = EventWakeAudio
		if c.checkingWakeWord {
			c.countUnsolicited(at)
		}
	case c.listening, c.speaking && c.mode == wire.ModeRealtime:
	case !c.speaking && c.interrupted:
		c.listening, c.interrupted, resumed = true, false, true
	case !c.speaking && at.Sub(c.stoppedAt) > tailWindow:
		kind = EventWakeAudio
		c.countUnsolicited(at)
	default:
		// In transit when the board was told to speak, or released the button.
		c.mu.Unlock()
		c.intake.Dropped(1)
		return
	}
	taps := c.taps
	c.mu.Unlock()
	if resumed {
		c.events.pushControl(Event{Kind: EventListenStart, At: at, Text: wire.ModeAuto})
	}
	for _, t := range taps {
		t.push(packet, at)
	}
	if c.events.pushAudio(Event{Kind: kind, At: at}, packet) {
		c.intake.Dropped(1)
	}
}
