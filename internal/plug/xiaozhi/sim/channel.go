package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// link carries a conversation: a WebSocket, or MQTT with UDP.
type link interface {
	sendText(text []byte) error
	// sendAudio sends a packet, with a timestamp if the link has such a thing.
	sendAudio(opus []byte, timestamp uint32) error
	sendRaw(binary bool, data []byte) error
	// drop ends it as boards do: without a word. With reset the server sees a reset
	// connection.
	drop(reset bool)
}

// channel is a conversation. The board's mutex guards it.
type channel struct {
	link     link
	udp      bool
	hello    chan error // the server's hello was taken, or not; room for one
	helloed  bool       // it has come, or will not
	plan     *wire.Link // what the hello says of datagrams
	session  string
	framing  wire.Framing
	openedAt time.Time // when the hello came
	lastData time.Time
	playedAt uint32 // timestamp of what came last

	play    playback
	inspect inspector
	inits   []string // what initialize said, to see it twice

	ghost      bool   // half open: the board has forgotten it
	over       bool   // the server has ended it
	provoked   string // the check that something odd was sent for
	provokedAt time.Time
	pinged     bool // and not answered
}

// provokedFor is how long after something odd the end of a conversation is put down
// to it.
const provokedFor = 2 * time.Second

// The limits of what a server may take, with the slack of the options on top.
const (
	helloLimit = 500 * time.Millisecond
	closeLimit = time.Second // between Close and the end of the connection
)

func (b *Board) newChannel(udp bool, framing wire.Framing) *channel {
	ch := &channel{udp: udp, hello: make(chan error, 1), framing: framing, lastData: time.Now()}
	p := b.opt.Profile
	ch.play = playback{frame: wire.DownlinkFrame, cap: p.Queue}
	ch.inspect = inspector{
		frame: wire.DownlinkFrame, udp: udp, steady: b.opt.Steady, tight: p.Tight, ahead: p.Ahead, allowance: b.opt.Slack, held: b.opt.Held,
		report: &b.report, violate: b.violate,
	}
	return ch
}

// open opens a conversation and waits for the server's hello, in the loop. A board
// does nothing else meanwhile.
func (b *Board) open(ctx context.Context) error {
	b.mu.Lock()
	if !b.set(Connecting) {
		state := b.state
		b.mu.Unlock()
		return fmt.Errorf("the board is %v", state)
	}
	overMQTT := b.overMQTT
	b.mu.Unlock()
	b.enter()
	var ch *channel
	var err error
	if overMQTT {
		ch, err = b.openUDP(ctx)
	} else {
		ch, err = b.openSocket(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && ch.over {
		err = errors.New("the server hung up at once")
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
	if b.state == Connecting { // and not booting by now
		b.set(Idle)
	}
	return err
}

// hello is what the board says first.
func (b *Board) hello(version int, transport string) []byte {
	h := wire.Hello{
		Version: version, Transport: transport, Audio: wire.Audio{Format: "opus", SampleRate: wire.UplinkRate, Channels: 1, FrameDuration: 60},
		Features: wire.Features{MCP: true, AEC: b.opt.ServerAEC, GlyphPush: b.opt.Profile.Glyphs},
	}
	if b.opt.Profile.Glyphs {
		h.Font = &wire.Font{Bundle: "noto-v1", Charset: "common", Size: 20, BPP: 4}
	}
	return h.AppendBoard(nil)
}

// awaitHello waits for the server's hello.
func (b *Board) awaitHello(ctx context.Context, ch *channel) error {
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

// onHello is the server's hello. The caller holds b.mu.
func (b *Board) onHello(ch *channel, data []byte) {
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

func (b *Board) takeHello(ch *channel, h wire.Hello) error {
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

// connected says whether a conversation is open, as far as the board knows. The
// caller holds b.mu.
func (b *Board) connected() bool {
	return b.ch != nil && !b.ch.over && time.Since(b.ch.lastData) <= wire.ChannelTimeout
}

// hangUp ends the conversation from the board's side. The caller holds b.mu.
func (b *Board) hangUp() {
	ch := b.ch
	if ch == nil {
		return
	}
	b.settle(ch)
	b.ch = nil
	if ch.udp && b.line != nil {
		m := wire.Message{Type: wire.TypeGoodbye, SessionID: ch.session}
		_ = b.line.publish(m.Append(nil))
	}
	ch.link.drop(false)
}

// settle counts what the server owes when a conversation ends. The caller holds
// b.mu.
func (b *Board) settle(ch *channel) {
	if b.ch == ch {
		b.overdue(time.Now())
		b.pages = pages{} // nobody can ask any more, or has to
	}
	if b.current != nil {
		b.finishAnswer()
	}
}

// gone is the end of a conversation that the board did not bring about. The caller
// holds b.mu.
func (b *Board) gone(ch *channel, clean bool, why string) {
	if ch.over || b.ctx.Err() != nil {
		return
	}
	ch.over = true
	greeted := ch.helloed
	if !greeted {
		ch.helloed = true
		ch.hello <- errors.New("the connection ended before the server's hello")
	}
	if ch.ghost || b.ch != ch {
		return
	}
	switch {
	case ch.provoked != "" && time.Since(ch.provokedAt) < provokedFor:
		b.violate(ch.provoked, "the server ends the conversation after %s", odd[ch.provoked])
	case !greeted:
		b.violate("C3", "the server hangs up instead of a hello")
	case !clean && ch.pinged:
		b.violate("C14", "the server drops a board that does not answer pings")
	case !clean:
		b.violate("C12", "the server drops the connection without a Close frame")
	}
	ch.inspect.over()
	b.event(EventGone, why)
	b.schedule(func(context.Context) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.ch != ch {
			return
		}
		b.settle(ch)
		b.ch = nil
		b.set(Idle)
		b.changed() // a board with a button was idle before
	})
}

// odd is what was sent to try a server, by check.
var odd = map[string]string{"C10": "odd audio", "C18": "an odd message"}
