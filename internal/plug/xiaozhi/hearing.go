package xiaozhi

import (
	"strings"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

const (
	// lateWake is how long packets of the wake word may come after the message that
	// listening begins, which overtakes datagrams. A microphone needs 120 ms to begin.
	lateWake = 100 * time.Millisecond
	// wakeLeast is how many packets the sound of a wake word has at least. Boards send up to
	// two seconds of it at once; a microphone that is on has made two of 60 ms by the time
	// that lateWake is over.
	wakeLeast = 4
	// wakeFresh is how long the sound of a wake word counts as that of the message which
	// names it. Boards send both in one go; the message may have to be sent again by TCP.
	wakeFresh = 2 * time.Second
	// wakeNamed is how long after that message listening begins because of it.
	wakeNamed = 500 * time.Millisecond
	// tailEnd is how long packets may come that were under way when a board stopped to
	// listen. They are no wake word.
	tailEnd = 500 * time.Millisecond
	// maxSound bounds a packet of a board, in bytes. Speech has some 150; 60 ms at
	// the highest rate have 3,800.
	maxSound = 4000
)

// message is what the board said, in its order. It is called by one goroutine, and
// does not wait.
func (c *Conversation) message(m *wire.Message) {
	switch {
	case m.Type == wire.TypeAbort:
		c.Hush()
		c.events.control(Heard{Kind: HeardAbort, At: time.Now(), Text: m.Reason})
	case m.Type != wire.TypeListen:
		c.board.house.metrics.odd.Inc()
	case m.State == wire.ListenStart:
		c.listen(m.Mode)
	case m.State == wire.ListenStop:
		c.mu.Lock()
		c.listening, c.interrupted, c.heardAt = false, false, time.Now()
		c.stoppedAt = c.heardAt
		c.mu.Unlock()
		c.intake.Pause()
		c.events.control(Heard{Kind: HeardEnd, At: time.Now()})
	case m.State == wire.ListenDetect:
		c.detected(m.Text)
	}
}

// detected is a wake word, or what web pages and py-xiaozhi put in its place: whole
// questions. Boards send the sound of a wake word before.
func (c *Conversation) detected(text string) {
	now := time.Now()
	known := strings.TrimSpace(text) == "" || c.board.house.wakeWord(text) // no words are no question
	c.mu.Lock()
	c.heardAt, c.namedAt = now, now
	if c.waking {
		c.mu.Unlock()
		return // the board says it over and over
	}
	woken := known || c.takeWoken(now)
	c.waking = !woken && c.via != store.TransportSocket
	waits := c.waking
	c.mu.Unlock()
	switch {
	case woken:
		c.events.control(Heard{Kind: HeardWake, At: now, Text: text})
	case !waits:
		c.events.control(Heard{Kind: HeardText, At: now, Text: text})
	default: // the sound goes another way, and may come yet
		c.board.house.spawn(func() { c.settle(text, now) })
	}
}

// takeWoken reports whether the sound of a wake word came just before, and uses that up:
// what is named next needs a sound of its own. With mu held.
func (c *Conversation) takeWoken(now time.Time) bool {
	woken := c.unasked >= wakeLeast && now.Sub(c.unaskedAt) < wakeFresh
	if woken {
		c.unasked = 0
	}
	return woken
}

// countUnasked counts a packet that may be the wake word's. With mu held.
func (c *Conversation) countUnasked(at time.Time) {
	if at.Sub(c.unaskedAt) > wakeFresh {
		c.unasked = 0
	}
	c.unasked++
	c.unaskedAt = at
}

// settle waits for the sound of a wake word, and says then what the text was.
func (c *Conversation) settle(text string, at time.Time) {
	timer := time.NewTimer(lateWake)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
		return
	}
	kind := HeardText
	c.mu.Lock()
	c.waking = false
	if c.takeWoken(time.Now()) {
		kind = HeardWake
	}
	c.unasked = 0
	c.mu.Unlock()
	c.events.control(Heard{Kind: kind, At: at, Text: text})
}

func (c *Conversation) listen(mode string) {
	if mode != wire.ModeManual && mode != wire.ModeRealtime {
		mode = wire.ModeAuto
	}
	now := time.Now()
	c.mu.Lock()
	c.mode, c.listening, c.interrupted, c.heardAt = mode, true, false, now
	if c.via != store.TransportSocket && now.Sub(c.namedAt) < wakeNamed {
		c.quietTill = now.Add(lateWake)
	}
	if !c.waking {
		c.unasked = 0 // nothing was named, so it was no wake word
	}
	c.mu.Unlock()
	c.events.control(Heard{Kind: HeardBegin, At: now, Text: mode})
}

// sound is a packet of the board. It is called by one goroutine, keeps nothing of
// the packet, and does not wait.
func (c *Conversation) sound(packet []byte, at time.Time) {
	if len(packet) > maxSound {
		c.intake.Dropped(1)
		return
	}
	if !c.intake.Packet(at, packet) {
		return // counted
	}
	c.mu.Lock()
	kind, resumed := HeardSound, false
	switch {
	case c.listening && at.Before(c.quietTill):
		kind = HeardWakeSound
		if c.waking {
			c.countUnasked(at)
		}
	case c.listening, c.speaking && c.mode == wire.ModeRealtime:
	case !c.speaking && c.interrupted:
		c.listening, c.interrupted, resumed = true, false, true
	case !c.speaking && at.Sub(c.stoppedAt) > tailEnd:
		kind = HeardWakeSound
		c.countUnasked(at)
	default:
		// What was under way when the board was told to speak, or let go of the button.
		c.mu.Unlock()
		c.intake.Dropped(1)
		return
	}
	if kind == HeardSound && c.voiced(packet) {
		c.heardAt = at
	}
	taps := c.taps
	c.mu.Unlock()
	if resumed {
		c.events.control(Heard{Kind: HeardBegin, At: at, Text: wire.ModeAuto})
	}
	for _, t := range taps {
		t.take(packet, at)
	}
	if c.events.sound(Heard{Kind: kind, At: at}, packet) {
		c.intake.Dropped(1)
	}
}

// voiced says whether somebody speaks in a packet, as far as that can be told
// without decoding it.
func (c *Conversation) voiced(packet []byte) bool {
	if len(packet) < 2 || c.parsed.Parse(packet) != nil || c.parsed.Silent() {
		return false
	}
	active, of := c.parsed.Voice()
	return of == 0 || 2*active > of
}
