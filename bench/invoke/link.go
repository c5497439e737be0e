package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// patience is the timeout of everything that is not measured.
	patience = 30 * time.Second
	// readBuffer has room for a greeting, and for the responses of many calls.
	readBuffer = 64 << 10
	// maxFrame is the maximum size of a frame, in bytes. No gateway here should send more.
	maxFrame = 4 << 20
)

// link is the client side of a WebSocket (RFC 6455). It uses no library, so that on a small machine
// the clients cost little, and requests that arrive together are answered together.
type link struct {
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
	behind int // bytes of in to discard before the next frame
}

// dial connects to a WebSocket. buffer is the size of the read buffer, in bytes.
func dial(ctx context.Context, at string, buffer int) (*link, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience)) // TCP supports deadlines
	_, err = fmt.Fprintf(conn,
		"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", u.RequestURI(), u.Host)
	in := bufio.NewReaderSize(conn, buffer)
	var res *http.Response
	if err == nil {
		res, err = http.ReadResponse(in, nil)
	}
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%s: %s", at, res.Status)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &link{conn: conn, in: in}, nil
}

// limit sets the deadline of reads and writes.
func (l *link) limit(at time.Time) { _ = l.conn.SetDeadline(at) } // TCP supports deadlines

func (l *link) close() { l.conn.Close() }

// more reports whether received data is buffered.
func (l *link) more() bool { return l.in.Buffered() > l.behind }

// read reads a message, and answers pings. The data is valid until the next call.
func (l *link) read() ([]byte, error) {
	for {
		op, data, err := l.frame()
		if err != nil {
			return nil, err
		}
		switch op {
		case 0x81:
			return data, nil
		case 0x89:
			l.append(0x8a, data)
			if err := l.flush(); err != nil {
				return nil, err
			}
		case 0x8a:
		case 0x88:
			return nil, fmt.Errorf("closed: %q", data[min(2, len(data)):])
		default:
			return nil, fmt.Errorf("a frame of kind %#x", op)
		}
	}
}

func (l *link) frame() (op byte, data []byte, err error) {
	if _, err := l.in.Discard(l.behind); err != nil {
		return 0, nil, err
	}
	l.behind = 0
	head, err := l.in.Peek(2)
	if err != nil {
		return 0, nil, err
	}
	op, n, more := head[0], int(head[1]), 2
	switch n {
	case 126:
		more += 2
	case 127:
		more += 8
	}
	if head, err = l.in.Peek(more); err != nil {
		return 0, nil, err
	}
	switch n {
	case 126:
		n = int(binary.BigEndian.Uint16(head[2:]))
	case 127:
		n = int(min(binary.BigEndian.Uint64(head[2:]), maxFrame+1))
	}
	if n > maxFrame {
		return 0, nil, errors.New("a frame that is too long")
	}
	if more+n <= l.in.Size() {
		data, err = l.in.Peek(more + n)
		if err != nil {
			return 0, nil, err
		}
		l.behind = more + n
		return op, data[more:], nil
	}
	data = make([]byte, more+n)
	_, err = io.ReadFull(l.in, data)
	return op, data[more:], err
}

// put appends a message to the output buffer, which flush sends.
func (l *link) put(data []byte) { l.append(0x81, data) }

func (l *link) append(op byte, data []byte) {
	n := len(data)
	switch {
	case n < 126:
		l.out = append(l.out, op, 0x80|byte(n))
	case n < 1<<16:
		l.out = binary.BigEndian.AppendUint16(append(l.out, op, 0x80|126), uint16(n))
	default:
		l.out = binary.BigEndian.AppendUint64(append(l.out, op, 0x80|127), uint64(n))
	}
	l.out = append(l.out, 0, 0, 0, 0) // a mask of zeros (RFC 6455 §5.3) changes nothing
	l.out = append(l.out, data...)
}

// flush sends the output buffer.
func (l *link) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	_, err := l.conn.Write(l.out)
	l.out = l.out[:0]
	return err
}

// send sends a message at once.
func (l *link) send(data []byte) error {
	l.put(data)
	return l.flush()
}
