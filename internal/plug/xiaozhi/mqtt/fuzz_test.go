package mqtt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// fed is a connection with fixed input and then EOF.
type fed struct {
	net.Conn
	in  *bytes.Reader
	out int
}

func (f *fed) Read(p []byte) (int, error)       { return f.in.Read(p) }
func (f *fed) Write(p []byte) (int, error)      { f.out += len(p); return len(p), nil }
func (f *fed) Close() error                     { return nil }
func (f *fed) SetReadDeadline(time.Time) error  { return nil }
func (f *fed) SetWriteDeadline(time.Time) error { return nil }
func (f *fed) RemoteAddr() net.Addr             { return &net.UnixAddr{} }

// limits is a session that checks the limits of messages.
type limits struct {
	t    *testing.T
	most int
	gone int
}

func (l *limits) Message(p []byte) {
	if len(p) > l.most || l.gone > 0 {
		l.t.Errorf("a message of %d bytes", len(p))
	}
}
func (l *limits) Closed(error) { l.gone++ }

// Whatever is received, before or after a CONNECT, the connection ends once, and no message exceeds
// the limit.
func FuzzConn(f *testing.F) {
	f.Add(false, connectFor("board", 60))
	f.Add(true, message("device-server", "hello"))
	f.Add(true, append(packet(kindPublish, 2, append(appendText(nil, "device-server"), "\x01\x02two"...)),
		kindPingReq<<4, 0))
	f.Add(true, append(packet(kindSubscribe, 2, append(append([]byte{0, 9}, appendText(nil, "#")...), 0)),
		message("device-server", "x")...))
	f.Add(true, packet(kindUnsubscribe, 2, append([]byte{0, 9}, appendText(nil, "#")...)))
	f.Add(true, []byte{kindDisconnect << 4, 0})
	f.Add(true, []byte{kindPublish << 4, 0xff, 0xff, 0x03})
	f.Fuzz(func(t *testing.T, connected bool, data []byte) {
		if connected {
			data = append(connectFor("board", 60), data...)
		}
		session := &limits{t: t, most: 1 << 10}
		begun := 0
		s := New(Options{
			Auth: byPassword, MaxMessage: session.most, Rate: 1e9, Burst: 1e9,
			NewSession: func(*Conn) Session { begun++; return session },
		})
		in := &fed{in: bytes.NewReader(data)}
		s.admit(in, nil)
		s.wg.Wait()
		if session.gone != begun || connected && begun != 1 || len(s.conns)+len(s.slots)+s.pending != 0 {
			t.Errorf("%d sessions, %d ends, %d connections", begun, session.gone, len(s.conns))
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// readHead reads what appendHead writes, and fails if it is incomplete.
func FuzzHead(f *testing.F) {
	f.Add(byte(kindPublish), byte(2), 20_000)
	f.Fuzz(func(t *testing.T, kind, flags byte, length int) {
		kind, flags, length = kind&15, flags&15, length&(1<<28-1)
		b := appendHead(nil, kind, flags, length)
		var buf [2]byte
		if h, err := readHead(bytes.NewReader(b), &buf); err != nil || h != (head{kind, flags, length}) {
			t.Errorf("%x is %v, %v", b, h, err)
		}
		for n := 1; n < len(b); n++ {
			if _, err := readHead(bytes.NewReader(b[:n]), &buf); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%x is %v", b[:n], err)
			}
		}
	})
}
