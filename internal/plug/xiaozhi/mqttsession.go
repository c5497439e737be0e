package xiaozhi

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

// MQTTConn is a board's connection to an MQTT broker, built in or external.
type MQTTConn interface {
	ID() string // the MAC address
	Push(payload []byte) error
	Close()
	RemoteAddr() netip.AddrPort
	// LocalAddr is the address that the board connected to; zero with an external broker.
	LocalAddr() netip.AddrPort
}

// AuthenticateMQTT checks the login of a board that connects by MQTT and returns its id, the MAC
// address. It is for [mqtt.Options].Auth.
func (h *Boards) AuthenticateMQTT(ctx context.Context, who mqtt.ConnectInfo) (string, error) {
	d, err := h.Accounts.CheckMQTT(ctx, Kind, account.MQTTLogin{ClientID: who.ClientID, Username: who.Username,
		Password: who.Password})
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
	if h.isStopping() {
		return "", mqtt.Unavailable
	}
	if _, err := h.admit(ctx, d); err != nil {
		return "", err
	}
	return d.Hardware, nil
}

// IsApprovedMQTT reports whether the board with a client id at an external broker is approved. The
// id is its MAC address.
func (h *Boards) IsApprovedMQTT(ctx context.Context, id, clientID string) (bool, error) {
	who, ok := account.MQTTDevice(Kind, clientID)
	if !ok || who.Hardware != id {
		return false, nil
	}
	d, err := h.Store.Devices.ByHardware(ctx, Kind, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || !d.IsApprovedClient(who.Client) {
		return false, err
	}
	if _, err := h.admit(ctx, d); err != nil {
		return false, err
	}
	return true, nil
}

// MQTTClientIDs returns the client ids of all boards whose owners chose MQTT, and with all also of
// those whose owners chose nothing.
func (h *Boards) MQTTClientIDs(all bool) []string {
	var roll []string
	for _, b := range h.list() {
		b.mu.Lock()
		if t := b.device.Transport; t == store.TransportMQTT || all && t == "" {
			roll = append(roll, account.MQTTClientID(b.device))
		}
		b.mu.Unlock()
	}
	return roll
}

// NewMQTTSession returns the handler of an admitted board's messages, or nil if the board was
// removed meanwhile or the server stops.
func (h *Boards) NewMQTTSession(conn MQTTConn) mqtt.Session {
	h.mu.Lock()
	b := h.byMAC[conn.ID()]
	h.mu.Unlock()
	if b == nil {
		return nil
	}
	x := &mqttSession{board: b, conn: conn}
	x.connection = b.newConnection(store.TransportMQTT, conn.RemoteAddr(), h.localServerURL(conn.LocalAddr()),
		conn.Push, func(error) { conn.Close() })
	if !b.attach(x.connection) {
		return nil
	}
	h.spawn(func() { b.onConnect(x.connection, true) })
	return x
}

// mqttSession handles the messages of a board on MQTT. It outlives its conversations.
type mqttSession struct {
	board      *Board
	conn       MQTTConn
	connection *connection
	conv       *Conversation // used only by the goroutine that calls Message and Closed; may have ended
}

// Message implements [mqtt.Session].
func (x *mqttSession) Message(payload []byte) {
	h := x.board.boards
	m, err := wire.Parse(payload)
	if err != nil {
		h.metrics.malformed.Inc()
		return
	}
	switch m.Type {
	case wire.TypeHello:
		x.onHello(payload)
	case wire.TypeMCP:
		if m.Payload != nil {
			x.connection.remote.HandleMessage(bytes.Clone(m.Payload))
		}
	case wire.TypeGoodbye:
		if c := x.conv; c != nil && (m.SessionID == "" || m.SessionID == c.id) {
			x.conv = nil
			c.end(errGoodbye, false)
		}
	default:
		c := x.conv
		if c == nil || c.ctx.Err() != nil || m.SessionID != "" && m.SessionID != c.id {
			// The board assumes a conversation that is over: the server was restarted, or the
			// goodbye was lost. Only another goodbye ends it.
			bye := wire.Message{Type: wire.TypeGoodbye, SessionID: m.SessionID}
			_ = x.conn.Push(bye.Append(nil)) // Closed reports a broken connection
			return
		}
		c.onMessage(&m)
	}
}

// onHello begins a conversation.
func (x *mqttSession) onHello(payload []byte) {
	began := time.Now()
	b, h := x.board, x.board.boards
	hello, err := wire.ParseHello(payload)
	if err != nil {
		h.metrics.malformed.Inc()
		return // the board gives up after 10 s without an answer
	}
	// The transport can only be UDP, whatever the hello says: older documents say "mqtt".
	if refusal := rejectFormat(&hello, i18n.ParseLang(x.lang(), h.Lang)); refusal != nil {
		h.metrics.refused.WithLabelValues("format").Inc()
		h.Logger.Warn("a board wants to talk in a format that is not spoken", "device", b.number,
			"format", hello.Audio.Format)
		_ = x.conn.Push(refusal.Append(nil)) // Closed reports a broken connection
		return
	}
	if h.Audio == nil {
		h.Logger.Warn("a board on MQTT wants to talk, and there is no UDP port for its sound; set xiaozhi.audio",
			"device", b.number)
		h.metrics.refused.WithLabelValues("audio").Inc()
		return
	}
	if old := x.conv; old != nil {
		x.conv = nil
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
	session := newSessionID()
	answer := wire.Hello{Version: 3, Transport: wire.UDP, SessionID: session, Audio: out, Link: &link}
	carrier := &mqttTransport{mqttSession: x, audio: audio, sessionID: session, began: began}
	c := newConversation(b, d, session, store.TransportMQTT, hello, out, carrier)
	// The hello is sent first: other goroutines may play as soon as c is attached.
	if err := x.conn.Push(answer.AppendServer(nil)); err != nil {
		c.end(err, false)
		return
	}
	if !b.attachConversation(x.connection, c) {
		c.end(errReconnected, false)
		return
	}
	x.conv = c
	h.metrics.hello.Observe(time.Since(began).Seconds())
	c.run()
	h.spawn(func() { carrier.receive(c) })
	h.spawn(b.deliver)
}

// lang returns the language of the board.
func (x *mqttSession) lang() string {
	x.board.mu.Lock()
	defer x.board.mu.Unlock()
	return x.board.device.Language
}

// Closed implements [mqtt.Session].
func (x *mqttSession) Closed(err error) {
	if err == nil {
		err = errGoodbye
	}
	if c := x.conv; c != nil {
		c.end(errors.Join(errBoardDisconnected, err), false)
	}
	x.board.detach(x.connection, err)
}

// mqttTransport is the transport of one conversation: messages over MQTT, audio over UDP.
type mqttTransport struct {
	mqttSession *mqttSession
	audio       *udp.Session
	sessionID   string
	began       time.Time

	mu     sync.Mutex // held while a message is pushed, which does not block
	closed bool
}

var errConversationOver = errors.New("the conversation is over")

// Text implements transport. It fails after Close: boards do not check the session id of a message
// (except goodbye), and the next session may have begun.
func (p *mqttTransport) Text(message []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errConversationOver
	}
	return p.mqttSession.conn.Push(message)
}

// Audio implements transport. A packet to a board whose UDP address is not known yet is counted
// and dropped.
func (p *mqttTransport) Audio(packet []byte, _ time.Duration) error {
	err := p.audio.Send(packet, uint32(time.Since(p.began).Milliseconds()))
	if errors.Is(err, udp.ErrClosed) {
		return err
	}
	if err != nil {
		p.mqttSession.board.boards.metrics.unsent.Inc()
	}
	return nil
}

// Close implements transport.
func (p *mqttTransport) Close(quietly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if !quietly {
		bye := wire.Message{Type: wire.TypeGoodbye, SessionID: p.sessionID}
		_ = p.mqttSession.conn.Push(bye.Append(nil)) // Closed reports a broken connection
	}
	p.audio.Close()
}

// receive passes the audio of a conversation on.
func (p *mqttTransport) receive(c *Conversation) {
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
			c.intake.Missing(-1) // counted as missing before, and came late
		}
		if d, err := wire.Duration(packet.Opus); err == nil && d != said && !told {
			told = true
			c.board.boards.Logger.Warn("a board sends packets of another length than its hello says",
				"device", c.board.number, "hello", said, "sends", d)
		}
		c.onAudio(packet.Opus, time.Now())
	}
}
