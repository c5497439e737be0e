package broker

import (
	"bufio"
	"errors"
	"net"
)

// errLong ends a connection on which the broker sends something else than a message
// that is too long.
var errLong = errors.New("the broker sends a packet that is too long")

// sieve leaves messages out that are too long, before memory is needed for them: who
// reads from it would take 256 MiB. They have a QoS of 0, which may get lost.
type sieve struct {
	net.Conn
	limit   int // bytes of a packet after its length
	dropped func()

	in   *bufio.Reader
	buf  [5]byte
	head []byte // of buf: what was read and not given yet
	rest int    // of the packet after head
	skip int    // of a packet that is left out
}

func newSieve(conn net.Conn, limit int, dropped func()) *sieve {
	return &sieve{Conn: conn, limit: limit, dropped: dropped, in: bufio.NewReaderSize(conn, 16<<10)}
}

// Read is called by one goroutine at a time. An error is the end.
func (s *sieve) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case len(s.head) > 0:
			n := copy(p, s.head)
			s.head = s.head[n:]
			return n, nil
		case s.rest > 0:
			n, err := s.in.Read(p[:min(len(p), s.rest)])
			s.rest -= n
			return n, err
		case s.skip > 0:
			n, err := s.in.Discard(s.skip)
			if s.skip -= n; err != nil {
				return 0, err
			}
		default:
			if err := s.next(); err != nil {
				return 0, err
			}
		}
	}
}

// next reads the beginning of a packet.
func (s *sieve) next() error {
	length := 0
	for i := range s.buf {
		b, err := s.in.ReadByte()
		if err != nil {
			return err
		}
		s.buf[i] = b
		if i == 0 {
			continue
		}
		length |= int(b&0x7f) << (7 * (i - 1))
		if b&0x80 != 0 {
			continue
		}
		const publish, qos = 3, 0x06
		switch {
		case length <= s.limit:
			s.head, s.rest = s.buf[:i+1], length
		case s.buf[0]>>4 != publish || s.buf[0]&qos != 0:
			return errLong
		default:
			s.skip = length
			s.dropped()
		}
		return nil
	}
	return errors.New("the broker sends a packet without a length")
}
