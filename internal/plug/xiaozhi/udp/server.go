// Package udp carries the audio of XiaoZhi voice boards on MQTT. One socket serves all
// conversations; every datagram has a number, issued by the server, that identifies its
// conversation.
//
// Datagrams are not authenticated. The server checks what it can: length, type, the number of the
// conversation, that the sequence is new and near, and that the decrypted data is Opus audio as
// this board sends it. Only then it trusts the sender's address. An attacker who can read the
// datagrams of a conversation can still disturb it; others cannot.
//
// One goroutine reads all datagrams. It never blocks, and allocates nothing per datagram: a
// datagram of a board takes a quarter of a microsecond and most garbage a tenth of that, less than
// the system call.
//
// Package wire names the revisions of the sources that comments cite.
package udp

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	// readBuffer is the requested size of the socket's receive buffer, in bytes: a tenth of a
	// second of a flood. Linux limits it to net.core.rmem_max.
	readBuffer = 4 << 20
	// writeBuffer is the same for the send buffer.
	writeBuffer = 1 << 20
	// readPause is the pause after a read error, so that a persistent one does not take a
	// processor.
	readPause = 10 * time.Millisecond
)

var (
	// ErrNoAddress reports that the board's address is unknown, since it has sent nothing yet.
	ErrNoAddress = errors.New("the board has not sent a datagram yet")
	// ErrClosed reports that a session, or the server, was closed.
	ErrClosed = errors.New("the audio connection is closed")
	// ErrFull reports that there are MaxSessions sessions.
	ErrFull = errors.New("there are too many audio connections")
	// ErrPacket reports a packet that is empty, or too long for a datagram.
	ErrPacket = errors.New("the packet does not fit into a datagram")
	// ErrTimestampsExhausted reports that a session has no unused timestamp left, without which a
	// packet cannot be encrypted safely.
	ErrTimestampsExhausted = errors.New("the timestamps of the audio connection are used up")
)

// Options configure a [Server]. A zero field means its default.
type Options struct {
	// PublicHost is the server's address for boards: IPv4, or a name that resolves to it. Boards
	// accept datagrams from no other address, since their socket is connected (esp-ml307
	// src/esp/esp_udp.cc, EspUdp::Connect). If it is empty, the caller of Open sets it in the
	// [Session.Link].
	PublicHost string
	// PublicPort is the server's port for boards; default: that of the socket.
	PublicPort int
	// MaxSessions limits the sessions, each of which holds 64 packets; 10,000.
	MaxSessions int
	// Logger logs failures, never audio. Nil discards.
	Logger *slog.Logger
	// Registerer registers the metrics. Nil keeps them unregistered.
	Registerer prometheus.Registerer
}

// Server is a socket and its sessions. Its methods are safe for concurrent use.
type Server struct {
	opt     Options
	conn    *net.UDPConn
	metrics *metrics
	wg      sync.WaitGroup // the reader
	closing chan struct{}

	mu       sync.RWMutex
	closed   bool
	sessions map[uint32]*Session
}

// Listen opens a socket at an address such as ":8884", and reads it until Close.
func Listen(address string, opt Options) (*Server, error) {
	if a, err := netip.ParseAddr(opt.PublicHost); err == nil && !a.Is4() {
		return nil, fmt.Errorf("boards do not know addresses like %s", opt.PublicHost)
	}
	at, err := net.ResolveUDPAddr("udp4", address)
	if err != nil {
		return nil, fmt.Errorf("the address for audio: %w", err)
	}
	conn, err := net.ListenUDP("udp4", at)
	if err != nil {
		return nil, fmt.Errorf("listening for audio: %w", err)
	}
	// The system may grant smaller buffers.
	_ = conn.SetReadBuffer(readBuffer)
	_ = conn.SetWriteBuffer(writeBuffer)
	opt.MaxSessions = cmp.Or(opt.MaxSessions, 10_000)
	opt.PublicPort = cmp.Or(opt.PublicPort, localPort(conn))
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opt: opt, conn: conn, metrics: newMetrics(opt.Registerer), closing: make(chan struct{}),
		sessions: map[uint32]*Session{}}
	s.wg.Go(s.read)
	return s, nil
}

func localPort(conn *net.UDPConn) int {
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return a.Port
	}
	return 0
}

// Addr returns the local address of the socket.
func (s *Server) Addr() netip.AddrPort {
	a, _ := netip.ParseAddrPort(s.conn.LocalAddr().String())
	return a
}

// Open begins a session, with a new key. frame is the packet length announced by the board; 0:
// none. Packets of another length are accepted and counted, but do not prove a change of the
// board's address. The caller closes the session. The error is [ErrFull] or [ErrClosed].
func (s *Server) Open(frame time.Duration) (*Session, error) {
	var key [16]byte
	_, _ = rand.Read(key[:]) // it never fails
	in, err := wire.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	out, err := wire.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	x := &Session{s: s, frame: frame, decrypter: in, encrypter: out, ready: make(chan struct{}, 1),
		done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if len(s.sessions) >= s.opt.MaxSessions {
		return nil, ErrFull
	}
	for x.ssrc == 0 || s.sessions[x.ssrc] != nil {
		var b [4]byte
		_, _ = rand.Read(b[:])
		x.ssrc = binary.BigEndian.Uint32(b[:])
	}
	nonce := wire.Nonce(x.ssrc)
	x.link = wire.Link{
		Server: s.opt.PublicHost, Port: s.opt.PublicPort, Encryption: "aes-128-ctr",
		Key: hex.EncodeToString(key[:]), Nonce: hex.EncodeToString(nonce[:]),
	}
	s.sessions[x.ssrc] = x
	s.metrics.sessions.Set(float64(len(s.sessions)))
	return x, nil
}

// Close closes the socket and all sessions, and waits for the reader.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		_ = s.conn.Close()
	}
	all := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		all = append(all, x)
	}
	s.mu.Unlock()
	for _, x := range all {
		x.Close()
	}
	s.wg.Wait()
}

func (s *Server) remove(x *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[x.ssrc] == x {
		delete(s.sessions, x.ssrc)
		s.metrics.sessions.Set(float64(len(s.sessions)))
	}
}

// read reads datagrams until Close.
func (s *Server) read() {
	// One byte more than boards accept, to detect longer datagrams.
	datagram := make([]byte, wire.MaxDatagram+1)
	plain := make([]byte, 0, wire.MaxDatagram)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(datagram)
		if err == nil {
			s.metrics.verdicts[s.handleDatagram(datagram[:n], plain, from)].Inc()
			continue
		}
		timer := time.NewTimer(readPause)
		select {
		case <-s.closing:
			timer.Stop()
			return
		case <-timer.C:
			s.opt.Logger.Warn("reading datagrams failed", "error", err)
		}
	}
}

// handleDatagram checks a datagram and passes it to its session. plain is scratch space.
func (s *Server) handleDatagram(datagram, plain []byte, from netip.AddrPort) verdict {
	if len(datagram) < wire.HeaderSize || len(datagram) > wire.MaxDatagram ||
		int(binary.BigEndian.Uint16(datagram[2:])) != len(datagram)-wire.HeaderSize {
		return badLength
	}
	if datagram[0] != wire.DatagramType {
		return badType
	}
	s.mu.RLock()
	x := s.sessions[binary.BigEndian.Uint32(datagram[4:])]
	s.mu.RUnlock()
	if x == nil {
		return unknown
	}
	return x.handleDatagram(datagram, plain, from)
}
