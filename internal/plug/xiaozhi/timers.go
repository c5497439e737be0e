package xiaozhi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/voice/pace"
)

const (
	// timerPoll is how often the database is asked for timers, which other instances may have set.
	timerPoll = time.Second
	// holdTime is how long an instance may take to ring once: the longest text is spoken within.
	holdTime = 2 * time.Minute
	// ringTimes is how often a timer rings unless somebody stops it, with ringPause between, and
	// notifyPause if nobody talks with the board.
	ringTimes   = 3
	ringPause   = 5 * time.Second
	notifyPause = 20 * time.Second
	// ringTTL is how long a timer waits for a board that cannot be reached.
	ringTTL = time.Hour
	// lateAfter is the delay after which a timer says for when it was set.
	lateAfter = time.Minute
	// toolRing is the kind of pushes for timers. It is no tool.
	toolRing = "ring"
)

const (
	msgTimer     = i18n.Message("Timer")
	msgTimeIsUp  = i18n.Message("The time is up.")
	msgReminder  = i18n.Message("Reminder: %s")
	msgLateTimer = i18n.Message("This was for %s: %s")
)

// RunTimers rings the timers of boards until ctx ends.
//
// A timer rings once, at the instance to which its board is connected, or anywhere if the board is
// asleep: the row is reserved in the database before. It is finished when it has been heard, so a
// timer whose instance was killed rings again, at another one or after the start.
func (h *Boards) RunTimers(ctx context.Context) error {
	for {
		wait, err := h.ringDue(ctx)
		if err != nil && ctx.Err() == nil {
			h.Logger.Warn("timers could not be looked up", "error", err)
		}
		if netx.Wait(ctx, wait) != nil {
			return nil
		}
	}
}

// ringDue begins to ring the timers that are due, and returns how long to wait for the next ones.
func (h *Boards) ringDue(ctx context.Context) (wait time.Duration, err error) {
	now := time.Now()
	list, err := h.Store.Timers.Due(ctx, now.Add(timerPoll), now)
	for _, r := range list {
		b := h.find(r.Device)
		if b == nil || !b.rings() {
			continue
		}
		if left := r.Due.Sub(now); left > 0 {
			return left, nil // the others are due later
		}
		ok, err := h.Store.Timers.Hold(ctx, r, now, now.Add(holdTime))
		if err != nil {
			return timerPoll, err
		}
		if ok {
			h.spawn(func() { b.ring(r) })
		}
	}
	return timerPoll, err
}

// rings reports whether this instance rings the board's timers.
func (b *Board) rings() bool {
	if b.connection() != nil {
		return true
	}
	_, elsewhere, _ := b.boards.Hub.FindProvider(ProviderID(b.number))
	return !elsewhere
}

// ring rings a timer that this instance holds.
func (b *Board) ring(r store.Timer) {
	h := b.boards
	err := b.ringUntilStopped(h.ctx, r, func() { b.finishTimer(r) })
	if errors.Is(err, errNoConversation) {
		if err = b.ringLater(r); err == nil {
			b.finishTimer(r)
			h.metrics.timers.WithLabelValues("waits").Inc()
			return
		}
	}
	if err == nil {
		h.metrics.timers.WithLabelValues("rung").Inc()
		return
	}
	h.metrics.timers.WithLabelValues("failed").Inc()
	ctx, cancel := h.background()
	defer cancel()
	if h.ctx.Err() == nil {
		h.Logger.Warn("a timer could not ring, and will try again", "device", b.number, "timer", r.Number, "error", err)
		err = h.Store.Timers.Release(ctx, r)
	}
	if err != nil && h.ctx.Err() == nil {
		h.Logger.Warn("a timer was not released", "device", b.number, "timer", r.Number, "error", err)
	}
}

// finishTimer deletes a timer, or sets it to its next time.
func (b *Board) finishTimer(r store.Timer) {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout) // although the server stops
	defer cancel()
	if err := b.boards.Store.Timers.Finish(ctx, r, r.Next(time.Now())); err != nil {
		b.boards.Logger.Warn("a timer that has rung may ring again", "device", b.number, "timer", r.Number,
			"error", err)
	}
}

// ringLater stores a timer until the board can be reached.
func (b *Board) ringLater(r store.Timer) error {
	body, err := json.Marshal(toolArgs{Timer: &r})
	if err != nil {
		return err
	}
	ctx, cancel := b.boards.background()
	defer cancel()
	now := time.Now()
	err = b.boards.Store.Outbox.Add(ctx, store.Push{
		// Like a UUID of version 7, it sorts by time; it is the same if the timer is stored twice.
		ID: fmt.Sprintf("%012x-timer-%d", r.Due.UnixMilli(), r.Number), Device: b.number, Kind: toolRing,
		Body: body, Created: now, Expires: now.Add(ringTTL),
	})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	if err == nil && b.connection() != nil { // the board woke meanwhile
		b.boards.spawn(b.deliver)
	}
	return err
}

// ringUntilStopped rings until somebody stops it, but no more than ringTimes. It calls heard after
// the first time. It fails with errNoConversation if the board is asleep.
func (b *Board) ringUntilStopped(ctx context.Context, r store.Timer, heard func()) error {
	began := time.Now()
	for i := range ringTimes {
		stopped, pause, err := b.ringOnce(ctx, r)
		switch {
		case err != nil && i == 0:
			return err
		case err != nil:
			return nil // it was heard before
		case i == 0:
			heard()
		}
		if stopped || netx.Wait(ctx, pause) != nil || b.somebodySpoke(began) {
			return nil
		}
	}
	return nil
}

// somebodySpoke reports whether somebody has spoken with the board, or stopped it, since then.
func (b *Board) somebodySpoke(since time.Time) bool {
	c := b.conversation()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heardAt.After(since)
}

// ringOnce rings in the conversation, by a notification, or by an alert.
func (b *Board) ringOnce(ctx context.Context, r store.Timer) (stopped bool, pause time.Duration, err error) {
	l, c := b.connection(), b.conversation()
	if l == nil {
		return false, 0, errNoConversation
	}
	text := b.timerText(r)
	switch {
	case c != nil:
		_, err := c.Play(ctx, Alarm, c.Generation(), b.ringSource(ctx, text, c.output))
		if errors.Is(err, pace.ErrAborted) {
			return true, 0, nil
		}
		return false, ringPause, err
	case b.canNotify(l):
		src := b.ringSource(ctx, text, notificationAudio)
		defer closeSource(src)
		clip, err := encodeClip(ctx, src)
		if err == nil {
			_, err = b.notify(ctx, l, clip)
		}
		return false, clip.length + notifyPause, err
	case l.via == store.TransportSocket: // its conversation is about to begin, or has just ended
		return false, 0, errNoConversation
	}
	b.mu.Lock()
	lang := i18n.ParseLang(b.device.Language, b.boards.Lang)
	b.mu.Unlock()
	m := wire.Message{Type: wire.TypeAlert, Status: msgTimer.In(lang), Message: text, Emotion: "neutral"}
	return false, notifyPause, l.send(m.Append(nil))
}

// timerText returns what a timer says now.
func (b *Board) timerText(r store.Timer) string {
	b.mu.Lock()
	lang := i18n.ParseLang(b.device.Language, b.boards.Lang)
	b.mu.Unlock()
	text := msgTimeIsUp.In(lang)
	if r.Text != "" {
		text = msgReminder.In(lang, r.Text)
	}
	if time.Since(r.Due) < lateAfter {
		return text
	}
	zone, err := time.LoadLocation(r.Zone)
	if err != nil {
		zone = time.UTC
	}
	return msgLateTimer.In(lang, r.Due.In(zone).Format("15:04"), strings.TrimSpace(text))
}
