// Package udp carries the audio of XiaoZhi voice boards that speak MQTT. One socket
// serves all conversations; a number in every datagram, which the server issued,
// says which one it belongs to.
//
// Nothing proves that a datagram comes from the board. What can be checked is
// checked: the length, the type, the number of the conversation, that the sequence
// was not there before and is near, and that what was decrypted is audio as this
// board sends it. Only then its address is believed. Somebody who can read the
// datagrams of a conversation can still disturb that one; strangers can disturb
// none.
//
// One goroutine reads all. It waits for nobody, and allocates nothing per datagram:
// one of a board takes it a quarter of a microsecond and most garbage a tenth of
// that, which is less than the system takes to hand them over.
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
	// readBuffer is asked of the system for datagrams that were not read yet, in
	// bytes: a tenth of a second of a flood. Linux gives at most net.core.rmem_max.
	readBuffer = 4 << 20
	// writeBuffer is the same for datagrams that were not sent yet.
	writeBuffer = 1 << 20
	// readPause is how long reading pauses after an error of the socket, so that one
	// that stays does not take a processor.
	readPause = 10 * time.Millisecond
)

var (
	// ErrNoAddress says that the board has sent nothing yet, so that nobody knows
	// where it is.
	ErrNoAddress = errors.New("the board has not sent a datagram yet")
	// ErrClosed says that a session, or the server, was closed.
	ErrClosed = errors.New("the audio connection is closed")
	// ErrFull says that there are MaxSessions sessions.
	ErrFull = errors.New("there are too many audio connections")
	// ErrPacket says that a packet is empty, or too long for a datagram.
	ErrPacket = errors.New("the packet does not fit into a datagram")
	// ErrUsedUp says that a session has no timestamp left with which a packet could
	// be encrypted safely.
	ErrUsedUp = errors.New("the timestamps of the audio connection are used up")
)

// Options say how a [Server] works. A zero field means its default.
type Options struct {
	// PublicHost is what boards are told as the address of the server: IPv4, or a
	// name with such an address. They take nothing from any other address. If it is
	// empty, whoever opens a session fills it into the [Session.Link].
	PublicHost string
	// PublicPort is the port that they are told; that of the socket.
	PublicPort int
	// MaxSessions bounds the sessions, each of which holds 64 packets; 10,000.
	MaxSessions int
	// Logger is told of failures, never of audio. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil keeps them private.
	Registerer prometheus.Registerer
}

// Server is a socket and its sessions. Its methods may be called from many
// goroutines.
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

// Listen opens a socket, such as ":8884", and reads it until Close.
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
	// Smaller buffers than asked for are no error.
	_ = conn.SetReadBuffer(readBuffer)
	_ = conn.SetWriteBuffer(writeBuffer)
	opt.MaxSessions = cmp.Or(opt.MaxSessions, 10_000)
	opt.PublicPort = cmp.Or(opt.PublicPort, localPort(conn))
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opt: opt, conn: conn, metrics: newMetrics(opt.Registerer), closing: make(chan struct{}), sessions: map[uint32]*Session{}}
	s.wg.Go(s.read)
	return s, nil
}

func localPort(conn *net.UDPConn) int {
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return a.Port
	}
	return 0
}

// Addr is where the socket is.
func (s *Server) Addr() netip.AddrPort {
	a, _ := netip.ParseAddrPort(s.conn.LocalAddr().String())
	return a
}

// Open begins a session, with a new key. Frame is the length of the packets that
// the board said it would send; zero: it did not say. Others are taken and counted, but
// prove no change of the board's address.
// Whoever opens a session has to close it. The error is [ErrFull] or [ErrClosed].
func (s *Server) Open(frame time.Duration) (*Session, error) {
	var key [16]byte
	_, _ = rand.Read(key[:]) // it does not fail
	in, err := wire.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	out, err := wire.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	x := &Session{s: s, frame: frame, open: in, seal: out, ready: make(chan struct{}, 1), done: make(chan struct{})}
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

func (s *Server) forget(x *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[x.ssrc] == x {
		delete(s.sessions, x.ssrc)
		s.metrics.sessions.Set(float64(len(s.sessions)))
	}
}

// read is the reader.
func (s *Server) read() {
	// One byte more than boards take, to see what is too long.
	datagram := make([]byte, wire.MaxDatagram+1)
	plain := make([]byte, 0, wire.MaxDatagram)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(datagram)
		if err == nil {
			s.metrics.verdicts[s.take(datagram[:n], plain, from)].Inc()
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

// take looks at a datagram. Plain is where it may decrypt.
func (s *Server) take(datagram, plain []byte, from netip.AddrPort) verdict {
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
	return x.take(datagram, plain, from)
}
