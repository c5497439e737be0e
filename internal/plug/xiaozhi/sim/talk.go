package sim

import (
	"context"
	"errors"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
)

// Answer is what a board received from the server until tts/stop.
type Answer struct {
	Transcript string // transcript of the person's speech
	Emotion    string
	Sentences  []string
	Packets    int      // packets played
	Audio      [][]byte // the packets, with Options.KeepAudio
	FirstAudio time.Duration
	// When the last packet of the person's speech was recorded, and when tts/start arrived; zero:
	// there was none.
	SpokenAt, StartedAt time.Time
}

// answerState holds the current and the last answer.
type answerState struct {
	current    *Answer
	last       Answer
	answers    int
	fromSpeech bool // Listening was entered from Speaking
}

// answer returns the current answer, and begins one if there is none. Requires b.mu.
func (b *Board) answer() *Answer {
	if b.current == nil {
		b.current = &Answer{}
	}
	return b.current
}

// finishAnswer ends the current answer and counts it, unless it is empty. Requires b.mu.
func (b *Board) finishAnswer() {
	if b.current.Packets > 0 || len(b.current.Sentences) > 0 || b.current.Transcript != "" {
		b.last = *b.current
		b.answers++
	}
	b.current = nil
	b.changed()
}

// LastAnswer returns the last complete answer.
func (b *Board) LastAnswer() Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Wake simulates the wake word: the board opens a conversation, or interrupts the server and
// listens.
func (b *Board) Wake(ctx context.Context) error {
	return b.onLoop(ctx, func(ctx context.Context) error {
		b.mu.Lock()
		state := b.state
		b.mu.Unlock()
		switch state {
		case Idle:
			return b.wake(ctx)
		case Listening, Speaking:
			return b.bargeIn(state)
		}
		return errors.New("the board is " + state.String())
	})
}

// wake opens a conversation with the wake word.
func (b *Board) wake(ctx context.Context) error {
	if err := b.ensureOpen(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	ch := b.ch
	b.mu.Unlock()
	if ch == nil {
		return ErrIdle
	}
	if b.opt.Profile.WakeAudio {
		for _, p := range b.opt.WakeAudio[:min(len(b.opt.WakeAudio), 33)] {
			if err := ch.link.sendAudio(p, 0); err != nil {
				return err
			}
		}
		b.mu.Lock()
		b.report.Sent += min(len(b.opt.WakeAudio), 33)
		b.mu.Unlock()
		if err := ch.link.sendText(wire.AppendDetect(nil, ch.session, b.opt.WakeWord)); err != nil {
			return err
		}
	}
	return b.listen(b.opt.Mode)
}

// bargeIn handles the wake word during a conversation.
func (b *Board) bargeIn(state State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.sendAbort(wire.AbortWakeWord); err != nil {
		return err
	}
	b.sendQueue = nil
	if state == Listening {
		return b.sendListen(wire.Message{State: wire.ListenStart, Mode: b.mode})
	}
	b.spoken, b.fromSpeech = false, false
	if b.ch != nil {
		b.ch.play.reset(time.Now())
	}
	b.setState(Listening)
	return nil
}

// Press simulates the button of most boards: it opens a conversation, interrupts the server, or
// ends the conversation.
func (b *Board) Press(ctx context.Context) error {
	return b.onLoop(ctx, func(ctx context.Context) error {
		b.mu.Lock()
		state := b.state
		switch state {
		case Speaking:
			defer b.mu.Unlock()
			return b.sendAbort("")
		case Listening:
			defer b.mu.Unlock()
			b.hangUp()
			b.setState(Idle)
			return nil
		}
		b.mu.Unlock()
		if state != Idle {
			return errors.New("the board is " + state.String())
		}
		if err := b.ensureOpen(ctx); err != nil {
			return err
		}
		return b.listen(b.opt.Mode)
	})
}

// Abort interrupts the server, if it speaks. The board stays in the speaking state until tts/stop.
func (b *Board) Abort(ctx context.Context) error {
	return b.onLoop(ctx, func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.state != Speaking {
			return errors.New("the board is " + b.state.String())
		}
		return b.sendAbort("")
	})
}

// Hold presses the push-to-talk button: the board listens until [Board.Release].
func (b *Board) Hold(ctx context.Context) error {
	return b.onLoop(ctx, func(ctx context.Context) error {
		b.mu.Lock()
		if b.state == Speaking {
			defer b.mu.Unlock()
			if err := b.sendAbort(""); err != nil {
				return err
			}
			b.mode, b.spoken, b.fromSpeech = wire.ModeManual, false, false
			b.setState(Listening)
			return nil
		}
		b.mu.Unlock()
		if err := b.ensureOpen(ctx); err != nil {
			return err
		}
		return b.listen(wire.ModeManual)
	})
}

// Release releases the push-to-talk button: the board is idle, and the conversation stays open for
// the answer.
func (b *Board) Release(ctx context.Context) error {
	return b.onLoop(ctx, func(ctx context.Context) error {
		b.sendAudio(ctx) // audio recorded before the release
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.state != Listening {
			return errors.New("the board is " + b.state.String())
		}
		b.setState(Idle)
		return b.sendListen(wire.Message{State: wire.ListenStop})
	})
}

// ensureOpen opens a conversation unless there is one that the board considers open.
func (b *Board) ensureOpen(ctx context.Context) error {
	b.mu.Lock()
	open := b.connected()
	if !open && b.ch != nil { // no data for wire.ChannelTimeout
		b.settleChecks(b.ch)
		b.ch.link.drop(false)
		b.ch = nil
	}
	b.mu.Unlock()
	if open {
		return nil
	}
	return b.open(ctx)
}

// listen begins to listen.
func (b *Board) listen(mode string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil || b.ch.ended {
		return ErrIdle
	}
	b.mode, b.spoken, b.fromSpeech = mode, false, false
	if !b.setState(Listening) {
		return errors.New("the board is " + b.state.String())
	}
	return nil
}

// enterListening is the entry action of Listening, in the loop. In auto mode the board plays its
// queue to the end first.
func (b *Board) enterListening(ctx context.Context) {
	b.mu.Lock()
	ch := b.ch
	if ch == nil || b.state != Listening || b.micStaysOn() && b.mic != nil {
		b.mu.Unlock()
		return
	}
	var rest time.Duration
	if b.fromSpeech && b.opt.Profile.CutTail {
		b.report.TailCut += ch.play.reset(time.Now())
	} else if b.fromSpeech && b.mode == wire.ModeAuto {
		rest = time.Until(ch.play.ends)
	}
	b.fromSpeech = false
	b.mu.Unlock()
	_ = netx.Wait(ctx, rest)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != Listening || b.ch != ch || ctx.Err() != nil {
		return
	}
	if b.sendListen(wire.Message{State: wire.ListenStart, Mode: b.mode}) == nil {
		b.startMic()
	}
}

func (b *Board) sendListen(m wire.Message) error {
	m.Type = wire.TypeListen
	return b.send(m)
}

func (b *Board) sendAbort(reason string) error {
	if b.ch != nil {
		b.ch.inspect.abort(time.Now())
	}
	return b.send(wire.Message{Type: wire.TypeAbort, Reason: reason})
}

// send sends a message of the conversation. Requires b.mu.
func (b *Board) send(m wire.Message) error {
	if b.ch == nil {
		return ErrIdle
	}
	m.SessionID = b.ch.session
	return b.ch.link.sendText(m.Append(nil))
}

// Talk simulates speech, in packets of 60 ms as boards record them. It waits until the board
// listens, and returns when all packets were recorded, or when the board stopped listening. It
// fails with [ErrIdle] if the conversation ends.
func (b *Board) Talk(ctx context.Context, packets [][]byte) error {
	idle := false
	err := b.waitUntil(ctx, func() bool {
		idle = b.ch == nil
		if b.mic != nil {
			b.speech = append([][]byte(nil), packets...)
		}
		return idle || b.mic != nil
	})
	if err == nil && !idle {
		err = b.waitUntil(ctx, func() bool { idle = b.ch == nil; return idle || len(b.speech) == 0 })
	}
	if err == nil && idle {
		err = ErrIdle
	}
	return err
}

// Ask opens a conversation unless there is one, speaks, and waits for the end of the answer. Boards
// with a wake word use it.
func (b *Board) Ask(ctx context.Context, packets [][]byte) (Answer, error) {
	b.mu.Lock()
	before, open := b.answers, b.connected() && b.state != Idle
	b.mu.Unlock()
	manual := b.opt.Mode == wire.ModeManual
	var err error
	switch {
	case manual:
		err = b.Hold(ctx)
	case open:
	case b.opt.Profile.WakeAudio:
		err = b.Wake(ctx)
	default:
		err = b.Press(ctx)
	}
	if err == nil {
		err = b.Talk(ctx, packets)
	}
	if err == nil && manual {
		err = b.Release(ctx)
	}
	if err != nil {
		return Answer{}, err
	}
	idle := false
	err = b.waitUntil(ctx, func() bool {
		idle = b.ch == nil
		return b.answers > before && b.state != Speaking || idle
	})
	if err != nil {
		return Answer{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == before {
		return Answer{}, ErrIdle
	}
	return b.last, nil
}

// SendRaw sends data unchanged in the conversation: as a text frame or message, or with binary as a
// binary frame or a datagram. If the server ends the conversation soon afterwards, that is a
// violation.
func (b *Board) SendRaw(binary bool, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		return ErrIdle
	}
	b.ch.provoked, b.ch.provokedAt = "C18", time.Now()
	if binary {
		b.ch.provoked = "C10"
	}
	return b.ch.link.sendRaw(binary, data)
}

// Loss is a way to lose a connection.
type Loss int8

// The ways to lose a connection.
const (
	Dropped  Loss = iota // closed without a goodbye, as boards end conversations
	Reset                // TCP reset: the server notices at once
	Vanished             // half open: the server does not notice
)

// Lose loses the connection of the conversation and, over MQTT, the MQTT connection. The board is
// idle afterwards. Over MQTT it reconnects later, or with [Board.Boot].
func (b *Board) Lose(how Loss) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch := b.ch; ch != nil {
		b.settleChecks(ch)
		b.ch = nil
		if how == Vanished {
			ch.isHalfOpen = true
			b.halfOpen = append(b.halfOpen, ch)
		} else {
			ch.link.drop(how == Reset)
		}
		b.setState(Idle)
		b.stopMic()
		if !ch.udp {
			return nil
		}
	}
	l := b.mqtt
	if l == nil {
		return ErrIdle
	}
	b.mqtt = nil
	l.isHalfOpen = how == Vanished
	if l.timer != nil {
		l.timer.Stop()
	}
	if how != Vanished {
		l.drop(how == Reset)
	}
	b.reconnectLater()
	b.changed()
	return nil
}
