package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// link carries a conversation: a WebSocket, or MQTT and UDP.
type link interface {
	sendText(text []byte) error
	// sendAudio sends a packet; framings without timestamps ignore timestamp.
	sendAudio(opus []byte, timestamp uint32) error
	sendRaw(binary bool, data []byte) error
	// drop ends the link as boards do, without a goodbye. With reset, the server sees a connection
	// reset.
	drop(reset bool)
}

// audioChannel is the state of a conversation. The board's mutex guards it.
type audioChannel struct {
	link     link
	udp      bool
	hello    chan error // result of the server's hello; capacity 1
	helloed  bool       // a result was sent to hello
	plan     *wire.Link // the UDP part of the server's hello
	session  string
	framing  wire.Framing
	openedAt time.Time // when the server's hello arrived
	lastData time.Time
	playedAt uint32 // timestamp of the last received packet

	play    playback
	inspect inspector
	inits   []string // params of initialize requests, to detect a repeated one

	isHalfOpen bool   // the board has forgotten the connection
	ended      bool   // the server has ended it
	provoked   string // the check for which odd input was sent
	provokedAt time.Time
	pinged     bool // a ping was left unanswered
}

// provokedFor is how long after odd input the end of a conversation is attributed to it.
const provokedFor = 2 * time.Second

// Time limits for the server, to which Options.Slack is added. They are this package's: boards wait
// longer (wire.HelloTimeout).
const (
	helloLimit = 500 * time.Millisecond
	closeLimit = time.Second // from the Close frame to the end of the connection
)

func (b *Board) newAudioChannel(udp bool, framing wire.Framing) *audioChannel {
	ch := &audioChannel{udp: udp, hello: make(chan error, 1), framing: framing, lastData: time.Now()}
	p := b.opt.Profile
	ch.play = playback{frame: wire.DownlinkFrame, cap: p.Queue}
	ch.inspect = inspector{
		frame: wire.DownlinkFrame, udp: udp, steady: b.opt.Steady, tight: p.Tight, ahead: p.Ahead,
		allowance: b.opt.Slack, stalledTime: b.opt.Stalled,
		report: &b.report, violate: b.violate,
	}
	return ch
}

// open opens a conversation and waits for the server's hello, in the loop, which is blocked
// meanwhile.
func (b *Board) open(ctx context.Context) error {
	b.mu.Lock()
	if !b.setState(Connecting) {
		state := b.state
		b.mu.Unlock()
		return fmt.Errorf("the board is %v", state)
	}
	overMQTT := b.overMQTT
	b.mu.Unlock()
	b.enterStates()
	var ch *audioChannel
	var err error
	if overMQTT {
		ch, err = b.openUDP(ctx)
	} else {
		ch, err = b.openSocket(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && ch.ended {
		err = errors.New("the server disconnected at once")
	}
	if err == nil {
		b.report.Hellos++
		return nil
	}
	if ch != nil {
		ch.link.drop(false)
		if b.ch == ch {
			b.ch = nil
		}
	}
	if b.state == Connecting { // a reboot may have begun
		b.setState(Idle)
	}
	return err
}

// helloMessage returns the board's hello.
func (b *Board) helloMessage(version int, transport string) []byte {
	h := wire.Hello{
		Version: version, Transport: transport, Audio: wire.Audio{Format: "opus", SampleRate: wire.UplinkRate,
			Channels: 1, FrameDuration: 60},
		Features: wire.Features{MCP: true, AEC: b.opt.ServerAEC, GlyphPush: b.opt.Profile.Glyphs},
	}
	if b.opt.Profile.Glyphs {
		h.Font = &wire.Font{Bundle: "noto-v1", Charset: "common", Size: 20, BPP: 4}
	}
	return h.AppendBoard(nil)
}

// awaitHello waits for the result of the server's hello.
func (b *Board) awaitHello(ctx context.Context, ch *audioChannel) error {
	t := time.NewTimer(wire.HelloTimeout)
	defer t.Stop()
	begin := time.Now()
	select {
	case err := <-ch.hello:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.report.Hello = time.Since(begin)
		if b.report.Hello > helloLimit+b.opt.Slack {
			b.violate("C3", "the hello comes after %v", b.report.Hello.Round(time.Millisecond))
		}
		return err
	case <-t.C:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.violate("C3", "there is no hello after %v", wire.HelloTimeout)
		return errors.New("the server sent no hello")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// onHello handles the server's hello. Requires b.mu.
func (b *Board) onHello(ch *audioChannel, data []byte) {
	if ch.helloed {
		b.report.Ignored++
		return
	}
	ch.helloed, ch.openedAt = true, time.Now()
	h, err := wire.ParseHello(data)
	if err == nil {
		err = b.takeHello(ch, h)
	}
	ch.hello <- err
}

func (b *Board) takeHello(ch *audioChannel, h wire.Hello) error {
	want := wire.WebSocket
	if ch.udp {
		want = wire.UDP
	}
	if h.Transport != want {
		b.violate("C3", "the transport in the hello is %q", h.Transport)
		if h.Transport == "" && !ch.udp {
			return &Crash{"the server's hello has no transport"}
		}
		return errors.New("the server's hello is for another transport")
	}
	switch {
	case h.SessionID == "":
		b.violate("C3", "there is no session_id in the hello")
	case slices.Contains(b.recent[:], h.SessionID):
		b.violate("C3", "the session_id was there before")
	}
	ch.session = h.SessionID
	b.recent[b.recentAt%len(b.recent)] = h.SessionID
	b.recentAt++
	if err := h.Audio.Playable(); err != nil {
		b.violate("C3", "the audio_params in the hello have %v", err)
	}
	ch.play.frame = h.Audio.Frame()
	ch.inspect.frame = ch.play.frame
	ch.plan = h.Link
	return nil
}

// connected reports whether the board considers its conversation open: a channel without data for
// wire.ChannelTimeout counts as dead. Requires b.mu.
func (b *Board) connected() bool {
	return b.ch != nil && !b.ch.ended && time.Since(b.ch.lastData) <= wire.ChannelTimeout
}

// hangUp ends the conversation from the board's side. Requires b.mu.
func (b *Board) hangUp() {
	ch := b.ch
	if ch == nil {
		return
	}
	b.settleChecks(ch)
	b.ch = nil
	if ch.udp && b.mqtt != nil {
		m := wire.Message{Type: wire.TypeGoodbye, SessionID: ch.session}
		_ = b.mqtt.publish(m.Append(nil))
	}
	ch.link.drop(false)
}

// settleChecks evaluates pending checks when a conversation ends. Requires b.mu.
func (b *Board) settleChecks(ch *audioChannel) {
	if b.ch == ch {
		b.overdue(time.Now())
		b.listing = listProgress{} // the server can no longer ask for the next page
	}
	if b.current != nil {
		b.finishAnswer()
	}
}

// onDisconnect handles the end of a conversation from the server's side. Requires b.mu.
func (b *Board) onDisconnect(ch *audioChannel, clean bool, why string) {
	if ch.ended || b.ctx.Err() != nil {
		return
	}
	ch.ended = true
	greeted := ch.helloed
	if !greeted {
		ch.helloed = true
		ch.hello <- errors.New("the connection ended before the server's hello")
	}
	if ch.isHalfOpen || b.ch != ch {
		return
	}
	switch {
	case ch.provoked != "" && time.Since(ch.provokedAt) < provokedFor:
		b.violate(ch.provoked, "the server ends the conversation after %s", oddInputs[ch.provoked])
	case !greeted:
		b.violate("C3", "the server disconnects instead of sending a hello")
	case !clean && ch.pinged:
		b.violate("C14", "the server drops a board that does not answer pings")
	case !clean:
		b.violate("C12", "the server drops the connection without a Close frame")
	}
	ch.inspect.over()
	b.event(EventDisconnected, why)
	b.schedule(func(context.Context) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.ch != ch {
			return
		}
		b.settleChecks(ch)
		b.ch = nil
		b.setState(Idle)
		b.changed() // a board in manual mode was idle before
	})
}

// oddInputs describes the odd input that was sent, by check.
var oddInputs = map[string]string{"C10": "odd audio", "C18": "an odd message"}
