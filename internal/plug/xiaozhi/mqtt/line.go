package mqtt

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// line is a socket whose Write does not wait. What the socket does not take at
// once waits in a queue, for which there is a goroutine as long as it is not empty.
// It lies below TLS, whose records must not be cut off in the middle.
type line struct {
	net.Conn
	raw   syscall.RawConn // nil if the connection is no socket
	try   func(fd uintptr) bool
	limit int           // bytes that may wait
	wait  time.Duration // for the socket to take what waits
	spawn func(func())  // runs flush

	mu       sync.Mutex
	now      []byte // what try writes
	took     int
	tryErr   error
	queue    []byte
	waiting  int  // bytes in the queue, and in the hands of flush
	flushing bool // there is a goroutine
	ending   bool // close once nothing waits
	err      error
}

func newLine(conn net.Conn, limit int, wait time.Duration, spawn func(func())) *line {
	l := &line{Conn: conn, limit: limit, wait: wait, spawn: spawn}
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			l.raw = raw
			l.try = func(fd uintptr) bool {
				l.took, l.tryErr = writeNow(fd, l.now)
				return true
			}
		}
	}
	return l
}

// Write takes all of p or closes the line. It does not wait. The error is
// [ErrSlow] if too much waits already, and [net.ErrClosed] on a closed line.
func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	if l.ending {
		return 0, net.ErrClosed
	}
	rest := p
	if !l.flushing && l.raw != nil {
		l.now = p
		err := l.raw.Write(l.try)
		l.now = nil
		if err == nil {
			err = l.tryErr
		}
		if err != nil {
			return 0, l.fail(err)
		}
		rest = p[l.took:]
	}
	if len(rest) == 0 {
		return len(p), nil
	}
	if l.waiting+len(rest) > l.limit {
		return 0, l.fail(ErrSlow)
	}
	l.queue = append(l.queue, rest...)
	l.waiting += len(rest)
	if !l.flushing {
		l.flushing = true
		l.spawn(l.flush)
	}
	return len(p), nil
}

// flush writes what waits, until nothing does.
func (l *line) flush() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.err != nil {
			l.flushing, l.queue, l.waiting = false, nil, 0
			_ = l.Conn.SetWriteDeadline(time.Time{}) // or it would be one for try
			if l.ending && l.err == nil {
				_ = l.fail(net.ErrClosed)
			}
			l.mu.Unlock()
			return
		}
		p := l.queue
		l.queue = nil
		l.mu.Unlock()

		_ = l.Conn.SetWriteDeadline(time.Now().Add(l.wait))
		_, err := l.Conn.Write(p)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrSlow
		}
		l.mu.Lock()
		l.waiting -= len(p)
		if err != nil {
			_ = l.fail(err)
		}
		l.mu.Unlock()
	}
}

// fail closes the line and remembers why. The caller holds l.mu.
func (l *line) fail(err error) error {
	if l.err == nil {
		l.err = err
		_ = l.Conn.Close()
	}
	return l.err
}

// why is the reason for which the line was closed by this side, or nil.
func (l *line) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close closes at once; what waits is lost.
func (l *line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.fail(net.ErrClosed)
	return nil
}

// finish closes once nothing waits.
func (l *line) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	if !l.flushing {
		_ = l.fail(net.ErrClosed)
	}
}

// SetWriteDeadline does nothing: TLS sets some when it says goodbye, which would
// hit those who flush.
func (l *line) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the one for reading.
func (l *line) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }
