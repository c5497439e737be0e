package broker

import (
	"bufio"
	"errors"
	"net"
)

// errPacketTooLong reports a packet that is too long and is not a message of QoS 0, which could be
// dropped.
var errPacketTooLong = errors.New("the broker sends a packet that is too long")

// sizeFilter drops messages that are too long before memory is allocated for them: the MQTT library
// would allocate up to 256 MiB, the maximum remaining length (MQTT 3.1.1 §2.2.3). Messages have QoS
// 0, so they may get lost.
type sizeFilter struct {
	net.Conn
	limit  int // maximum remaining length of a packet, in bytes
	onDrop func()

	in   *bufio.Reader
	buf  [5]byte
	head []byte // part of buf that was not returned yet
	rest int    // bytes left of the packet after head
	skip int    // bytes left of a dropped packet
}

func newSizeFilter(conn net.Conn, limit int, dropped func()) *sizeFilter {
	return &sizeFilter{Conn: conn, limit: limit, onDrop: dropped, in: bufio.NewReaderSize(conn, 16<<10)}
}

// Read implements [net.Conn]. It must not be called concurrently. Errors are final.
func (s *sizeFilter) Read(p []byte) (int, error) {
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

// next reads the head of a packet.
func (s *sizeFilter) next() error {
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
			return errPacketTooLong
		default:
			s.skip = length
			s.onDrop()
		}
		return nil
	}
	return errors.New("the broker sends a packet without a length")
}
