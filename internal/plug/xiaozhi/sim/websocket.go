package sim

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// WebSocket opcodes (RFC 6455 §11.8).
const (
	opContinue = 0
	opText     = 1
	opBinary   = 2
	opClose    = 8
	opPing     = 9
	opPong     = 10
)

const (
	// maxMessage limits a message of the server, in bytes. A board has less memory than that.
	maxMessage = 1 << 20
	// writeLimit is the timeout of a write.
	writeLimit = 10 * time.Second
	readBuffer = 1 << 10
	maxHead    = 16 << 10 // of the handshake response
)

// errTooLong reports a frame that is too long for a board to send.
var errTooLong = errors.New("the frame is longer than 65535 bytes")

// webSocket is a WebSocket like that of the firmware: one masked frame per message, no extensions,
// no Close frame (esp-ml307 src/web_socket.cc).
type webSocket struct {
	conn    net.Conn
	in      *bufio.Reader
	framing wire.Framing

	mu  sync.Mutex
	out []byte
}

// openSocket connects, sends hello, and waits for the server's hello.
func (b *Board) openSocket(ctx context.Context) (*audioChannel, error) {
	b.mu.Lock()
	plan := b.flash.socketPlan()
	b.mu.Unlock()
	s, err := b.connectSocket(ctx, plan, b.identity())
	if err != nil {
		return nil, err
	}
	ch := b.newAudioChannel(false, s.framing)
	ch.link = s
	b.mu.Lock()
	if b.ctx.Err() != nil {
		b.mu.Unlock()
		s.drop(false)
		return nil, ErrClosed
	}
	b.ch = ch
	b.wg.Go(func() { b.readSocket(ch, s) })
	b.mu.Unlock()
	if err := s.sendText(b.helloMessage(int(s.framing), wire.WebSocket)); err != nil {
		return ch, err
	}
	return ch, b.awaitHello(ctx, ch)
}

// handshakeError is a handshake response other than 101.
type handshakeError struct{ status string }

func (r *handshakeError) Error() string { return "the server refuses the WebSocket: " + r.status }

// connectSocket connects and performs the handshake.
func (b *Board) connectSocket(ctx context.Context, plan wire.WebSocketConfig, who [][2]string) (*webSocket, error) {
	a, err := wire.ParseSocketURL(plan.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of the WebSocket: %w", err)
	}
	conn, err := b.dial(ctx, a)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(wire.HelloTimeout))
	framing := plan.Version
	if !framing.Valid() {
		framing = wire.FramingBare
	}
	var h strings.Builder
	fmt.Fprintf(&h, "GET %s HTTP/1.1\r\nHost: %s\r\n", a.Path, a.Host) // no port, as in the firmware
	if plan.Token != "" {
		token := plan.Token
		if !strings.Contains(token, " ") {
			token = "Bearer " + token
		}
		fmt.Fprintf(&h, "Authorization: %s\r\n", token)
	}
	var nonce [16]byte
	for i := range nonce {
		nonce[i] = byte(rand.Uint32())
	}
	fmt.Fprintf(&h, "%s: %s\r\nConnection: Upgrade\r\n%s: %s\r\n%s: %d\r\n", who[1][0], who[1][1], who[0][0], who[0][1],
		wire.HeaderFraming, framing)
	fmt.Fprintf(&h, "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n\r\n",
		base64.StdEncoding.EncodeToString(nonce[:]))
	if _, err := io.WriteString(conn, h.String()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	s := &webSocket{conn: conn, in: bufio.NewReaderSize(conn, readBuffer), framing: framing}
	if err := s.readHandshake(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return s, nil
}

// readHandshake reads the handshake response. Like boards, it checks nothing but the status
// (esp-ml307 src/web_socket.cc, WebSocket::OnTcpData).
func (s *webSocket) readHandshake() error {
	status, err := s.in.ReadString('\n')
	if err != nil {
		return err
	}
	for read := len(status); ; {
		line, err := s.in.ReadString('\n')
		if read += len(line); err != nil || read > maxHead {
			return errors.New("the answer to the handshake has no end")
		}
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	if !strings.HasPrefix(status, "HTTP/1.1 101") {
		return &handshakeError{strings.TrimSpace(status)}
	}
	return nil
}

func (s *webSocket) sendText(text []byte) error { return s.send(opText, text) }

func (s *webSocket) sendRaw(binary bool, data []byte) error {
	if binary {
		return s.send(opBinary, data)
	}
	return s.send(opText, data)
}

func (s *webSocket) sendAudio(opus []byte, timestamp uint32) error {
	return s.send(opBinary, s.framing.Append(nil, timestamp, opus))
}

// send writes a frame.
func (s *webSocket) send(op byte, data []byte) error {
	if len(data) > wire.MaxText {
		return errTooLong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = appendFrame(s.out[:0], op, data, rand.Uint32())
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_, err := s.conn.Write(s.out)
	return err
}

// appendFrame appends a whole message as one masked frame.
func appendFrame(b []byte, op byte, data []byte, mask uint32) []byte {
	b = append(b, 0x80|op)
	if len(data) < 126 {
		b = append(b, 0x80|byte(len(data)))
	} else {
		b = append(b, 0x80|126)
		b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
	}
	b = binary.BigEndian.AppendUint32(b, mask)
	at := len(b)
	b = append(b, data...)
	unmask(b[at:], b[at-4:at])
	return b
}

func unmask(data, mask []byte) {
	for i := range data {
		data[i] ^= mask[i&3]
	}
}

func (s *webSocket) drop(reset bool) { dropTCP(s.conn, reset) }

// dropTCP closes a connection without a goodbye, with reset by a TCP reset.
func dropTCP(conn net.Conn, reset bool) {
	inner := conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		inner = secure.NetConn() // no TLS close_notify either
	}
	if tcp, ok := inner.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = inner.Close()
}

// readFrame reads one frame.
func readFrame(in *bufio.Reader) (fin bool, op byte, data []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return false, 0, nil, err
	}
	if head[0]&0x70 != 0 {
		return false, 0, nil, errors.New("a frame uses an extension, and none was agreed upon")
	}
	n := uint64(head[1] & 0x7f)
	var long [8]byte
	switch n {
	case 126:
		if _, err := io.ReadFull(in, long[6:]); err != nil {
			return false, 0, nil, err
		}
		n = binary.BigEndian.Uint64(long[:])
	case 127:
		if _, err := io.ReadFull(in, long[:]); err != nil {
			return false, 0, nil, err
		}
		n = binary.BigEndian.Uint64(long[:])
	}
	if n > maxMessage {
		return false, 0, nil, errors.New("a frame is longer than " + strconv.Itoa(maxMessage) + " bytes")
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(in, mask[:]); err != nil {
			return false, 0, nil, err
		}
	}
	data = make([]byte, n)
	if _, err := io.ReadFull(in, data); err != nil {
		return false, 0, nil, err
	}
	unmask(data, mask[:])
	return head[0]&0x80 != 0, head[0] & 15, data, nil
}

// readSocket reads frames until the connection ends.
func (b *Board) readSocket(ch *audioChannel, s *webSocket) {
	defer context.AfterFunc(b.ctx, func() { s.drop(false) })()
	defer s.conn.Close() //nolint:errcheck // the connection has ended
	var message []byte
	var kind byte
	closing := false
	for {
		fin, op, data, err := readFrame(s.in)
		at := time.Now()
		if err != nil {
			b.socketEnded(ch, closing, err)
			return
		}
		switch op {
		case opPing:
			b.onPing(ch, s, data)
			continue
		case opPong:
			continue
		case opClose:
			// The board goes idle, but neither answers nor closes (esp-ml307 src/web_socket.cc,
			// WebSocket::OnTcpData).
			closing = true
			_ = s.conn.SetReadDeadline(at.Add(closeLimit + b.opt.Slack))
			b.mu.Lock()
			b.onDisconnect(ch, true, "the server closed the WebSocket")
			b.mu.Unlock()
			continue
		case opText, opBinary:
			kind, message = op, data
		case opContinue:
			message = append(message, data...)
		}
		if !fin {
			if len(message) > maxMessage {
				b.socketEnded(ch, closing, errors.New("a message is too long"))
				return
			}
			continue
		}
		b.mu.Lock()
		b.onSocket(ch, kind, message, at)
		b.mu.Unlock()
		message = nil
	}
}

// onSocket handles a message. Requires b.mu.
func (b *Board) onSocket(ch *audioChannel, kind byte, message []byte, at time.Time) {
	switch {
	case b.ctx.Err() != nil:
		return
	case ch.isHalfOpen:
		if b.ch != nil && b.ch.helloed && at.Sub(b.ch.openedAt) > b.opt.Slack {
			b.violate("C13", "the old connection gets data when there is a newer one")
		}
		return
	case ch.ended:
		b.violate("C12", "there is data after Close")
		return
	}
	ch.lastData = at
	if kind == opText {
		b.onText(ch, message, at)
		return
	}
	opus, timestamp, err := ch.framing.Parse(message)
	if err != nil || len(opus)+ch.framing.Header() != len(message) {
		b.violate("C4", "a frame of %d bytes is not in framing %d: boards read beyond its end", len(message),
			ch.framing)
		return
	}
	if ch.framing == wire.FramingBare && framed(message) {
		b.violate("C4", "a frame has a header, and the framing has none")
		return
	}
	b.onAudio(ch, opus, timestamp, at)
}

// framed reports whether a bare packet looks like one with a header.
func framed(message []byte) bool {
	for _, f := range []wire.Framing{wire.FramingTimed, wire.FramingShort} {
		if opus, _, err := f.Parse(message); err == nil && len(opus) > 1 && len(opus)+f.Header() == len(message) {
			return true
		}
	}
	return false
}

// onPing answers a ping, as most boards do.
func (b *Board) onPing(ch *audioChannel, s *webSocket, data []byte) {
	b.mu.Lock()
	b.report.Pings++
	pong := b.opt.Profile.Pong && !ch.isHalfOpen
	ch.pinged = !pong
	b.mu.Unlock()
	if pong {
		_ = s.send(opPong, data)
	}
}

// socketEnded handles the end of a connection, as seen by readSocket.
func (b *Board) socketEnded(ch *audioChannel, closing bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if closing {
		if errors.Is(err, os.ErrDeadlineExceeded) && b.ctx.Err() == nil {
			b.violate("C12", "the connection is still there %v after Close", closeLimit)
		}
		return
	}
	b.onDisconnect(ch, false, "the connection ended: "+err.Error())
}
