package xiaozhi

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Post is a board's connection to an MQTT server, ours or somebody else's.
type Post interface {
	ID() string // its MAC address
	Push(payload []byte) error
	Close()
	RemoteAddr() netip.AddrPort
	// LocalAddr is where the board found the server; zero if that is not ours.
	LocalAddr() netip.AddrPort
}

// AdmitMQTT says which board it is that connects to MQTT. It is for
// [mqtt.Options].Auth; the id is the MAC address.
func (h *Boards) AdmitMQTT(ctx context.Context, who mqtt.ConnectInfo) (string, error) {
	d, err := h.Accounts.CheckMQTT(ctx, Kind, account.MQTTLogin{ClientID: who.ClientID, Username: who.Username, Password: who.Password})
	switch {
	case account.Refused(err):
		h.metrics.refused.WithLabelValues("login").Inc()
		if h.Guard != nil && who.RemoteAddr.IsValid() && h.Guard.Refuse(who.RemoteAddr.Addr()) {
			return "", mqtt.Unavailable
		}
		return "", mqtt.BadCredentials
	case err != nil:
		return "", err
	}
	if h.stops() {
		return "", mqtt.Unavailable
	}
	if _, err := h.admit(ctx, d); err != nil {
		return "", err
	}
	return d.Hardware, nil
}

// KnownMQTT says whether the board with a client id at somebody else's MQTT server is
// approved. The id is its MAC address.
func (h *Boards) KnownMQTT(ctx context.Context, id, clientID string) (bool, error) {
	who, ok := account.MQTTDevice(Kind, clientID)
	if !ok || who.Hardware != id {
		return false, nil
	}
	d, err := h.Store.Devices.ByHardware(ctx, Kind, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || !d.Is(who.Client) {
		return false, err
	}
	if _, err := h.admit(ctx, d); err != nil {
		return false, err
	}
	return true, nil
}

// RollMQTT is the client ids of all boards that are to use MQTT: those whose owners
// want that, and with all those too that have not decided.
func (h *Boards) RollMQTT(all bool) []string {
	var roll []string
	for _, b := range h.all() {
		b.mu.Lock()
		if t := b.device.Transport; t == store.TransportMQTT || all && t == "" {
			roll = append(roll, account.MQTTClientID(b.device))
		}
		b.mu.Unlock()
	}
	return roll
}

// ConnectedMQTT is what a board that was admitted says goes to; nil if it was removed
// meanwhile.
func (h *Boards) ConnectedMQTT(conn Post) mqtt.Session {
	h.mu.Lock()
	b := h.byMAC[conn.ID()]
	h.mu.Unlock()
	if b == nil {
		return nil
	}
	x := &exchange{board: b, conn: conn}
	x.line = b.newLine(store.TransportMQTT, conn.RemoteAddr(), h.localPlace(conn.LocalAddr()), conn.Push, func(error) { conn.Close() })
	if !b.attach(x.line) {
		return nil
	}
	h.spawn(func() { b.greet(x.line, true) })
	return x
}

// exchange is the messages of a board on MQTT. Conversations come and go.
type exchange struct {
	board *Board
	conn  Post
	line  *line
	talk  *Conversation // of the goroutine that calls Message; may have ended
}

// Message implements [mqtt.Session].
func (x *exchange) Message(payload []byte) {
	h := x.board.house
	m, err := wire.Parse(payload)
	if err != nil {
		h.metrics.odd.Inc()
		return
	}
	switch m.Type {
	case wire.TypeHello:
		x.hello(payload)
	case wire.TypeMCP:
		if m.Payload != nil {
			x.line.remote.Heard(bytes.Clone(m.Payload))
		}
	case wire.TypeGoodbye:
		if c := x.talk; c != nil && (m.SessionID == "" || m.SessionID == c.id) {
			x.talk = nil
			c.end(errSaid, false)
		}
	default:
		c := x.talk
		if c == nil || c.ctx.Err() != nil || m.SessionID != "" && m.SessionID != c.id {
			// The board believes in a conversation that is over: we were restarted, or it
			// did not hear the goodbye. It gets out of that only by another.
			bye := wire.Message{Type: wire.TypeGoodbye, SessionID: m.SessionID}
			_ = x.conn.Push(bye.Append(nil)) // a connection that ended says so by Gone
			return
		}
		c.message(&m)
	}
}

// hello begins a conversation.
func (x *exchange) hello(payload []byte) {
	began := time.Now()
	b, h := x.board, x.board.house
	hello, err := wire.ParseHello(payload)
	if err != nil {
		h.metrics.odd.Inc()
		return // a board that is not answered says so after 10 s
	}
	// What else it can mean by a transport is this one: older documents say "mqtt".
	if refusal := refused(&hello, talk.ParseLang(x.lang(), h.Lang)); refusal != nil {
		h.metrics.refused.WithLabelValues("format").Inc()
		h.Logger.Warn("a board wants to talk in a format that is not spoken", "device", b.number, "format", hello.Audio.Format)
		_ = x.conn.Push(refusal.Append(nil)) // a connection that ended says so by Gone
		return
	}
	if h.Audio == nil {
		h.Logger.Warn("a board on MQTT wants to talk, and there is no UDP port for its sound; set xiaozhi.audio", "device", b.number)
		h.metrics.refused.WithLabelValues("audio").Inc()
		return
	}
	if old := x.talk; old != nil {
		x.talk = nil
		old.end(errReplaced, false)
	}
	audio, err := h.Audio.Open(hello.Audio.Frame())
	if err != nil {
		h.Logger.Warn("a board on MQTT cannot talk", "device", b.number, "error", err)
		h.metrics.refused.WithLabelValues("audio").Inc()
		return
	}
	link := audio.Link()
	if at := x.conn.LocalAddr(); link.Server == "" && at.IsValid() {
		link.Server = at.Addr().Unmap().String()
	}
	if link.Server == "" {
		h.Logger.Warn("a board cannot be told where to send its sound; set xiaozhi.audio_host", "device", b.number)
		h.metrics.refused.WithLabelValues("audio").Inc()
		audio.Close()
		return
	}
	b.mu.Lock()
	d := b.device
	b.mu.Unlock()
	out := b.output()
	session := newSession()
	answer := wire.Hello{Version: 3, Transport: wire.UDP, SessionID: session, Audio: out, Link: &link}
	way := &post{exchange: x, audio: audio, session: session, began: began}
	c := newConversation(b, d, session, store.TransportMQTT, hello, out, way)
	// Whatever is played as soon as the conversation is known comes after the hello.
	if err := x.conn.Push(answer.AppendServer(nil)); err != nil {
		c.end(err, false)
		return
	}
	if !b.begins(x.line, c) {
		c.end(errNewer, false)
		return
	}
	x.talk = c
	h.metrics.hello.Observe(time.Since(began).Seconds())
	c.run()
	h.spawn(func() { way.receive(c) })
	h.spawn(b.deliver)
}

// lang is the language of the board.
func (x *exchange) lang() string {
	x.board.mu.Lock()
	defer x.board.mu.Unlock()
	return x.board.device.Language
}

// Gone implements [mqtt.Session].
func (x *exchange) Gone(err error) {
	if err == nil {
		err = errSaid
	}
	if c := x.talk; c != nil {
		c.end(errors.Join(errBoardGone, err), false)
	}
	x.board.detach(x.line, err)
}

// post is the way of one conversation: messages over MQTT, sound over UDP.
type post struct {
	exchange *exchange
	audio    *udp.Session
	session  string
	began    time.Time

	mu     sync.Mutex // held while something is pushed, which does not wait
	closed bool
}

var errOver = errors.New("the conversation is over")

// Text implements channel. Nothing is said after Close: boards do not look whose
// session it is, and the next one may have begun.
func (p *post) Text(message []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errOver
	}
	return p.exchange.conn.Push(message)
}

// Audio implements channel. A board that was not heard of cannot be sent anything:
// that is a packet lost, of which there are others.
func (p *post) Audio(packet []byte, _ time.Duration) error {
	err := p.audio.Send(packet, uint32(time.Since(p.began).Milliseconds()))
	if errors.Is(err, udp.ErrClosed) {
		return err
	}
	if err != nil {
		p.exchange.board.house.metrics.unsent.Inc()
	}
	return nil
}

// Close implements channel.
func (p *post) Close(quietly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if !quietly {
		bye := wire.Message{Type: wire.TypeGoodbye, SessionID: p.session}
		_ = p.exchange.conn.Push(bye.Append(nil)) // a connection that ended says so by Gone
	}
	p.audio.Close()
}

// receive takes the sound of a conversation.
func (p *post) receive(c *Conversation) {
	buf := make([]byte, wire.MaxDatagram)
	var last uint32
	said, told := c.hello.Audio.Frame(), false
	for {
		packet, err := p.audio.Receive(c.ctx, buf)
		if err != nil {
			return
		}
		if missing := packet.Sequence - last - 1; packet.Sequence > last {
			if missing > 0 {
				c.intake.Missing(int(min(missing, 1000)))
			}
			last = packet.Sequence
		} else {
			c.intake.Missing(-1) // it was counted as missing, and comes late
		}
		if d, err := wire.Duration(packet.Opus); err == nil && d != said && !told {
			told = true
			c.board.house.Logger.Warn("a board sends packets of another length than its hello says", "device", c.board.number, "hello", said, "sends", d)
		}
		c.sound(packet.Opus, time.Now())
	}
}
