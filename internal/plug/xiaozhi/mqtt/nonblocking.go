package mqtt

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// nonblockingConn is a socket whose Write does not wait. What the socket does not take at once is
// queued, and written by a goroutine that runs only while the queue is not empty. It is below TLS,
// since TLS records must not be cut off in the middle.
type nonblockingConn struct {
	net.Conn
	raw          syscall.RawConn // nil if the connection has no file descriptor
	try          func(fd uintptr) bool
	limit        int           // bytes that may be queued
	writeTimeout time.Duration // for the socket to take queued bytes
	spawn        func(func())  // runs flush

	mu         sync.Mutex
	tryBuf     []byte // argument of try
	tryWritten int
	tryErr     error
	queue      []byte
	waiting    int  // bytes in the queue or being written by flush
	flushing   bool // flush is running
	ending     bool // close when the queue is empty
	err        error
}

func newNonblockingConn(conn net.Conn, limit int, wait time.Duration, spawn func(func())) *nonblockingConn {
	l := &nonblockingConn{Conn: conn, limit: limit, writeTimeout: wait, spawn: spawn}
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			l.raw = raw
			l.try = func(fd uintptr) bool {
				l.tryWritten, l.tryErr = writeNow(fd, l.tryBuf)
				return true
			}
		}
	}
	return l
}

// Write takes all of p or closes the connection. It does not wait. The error is [ErrSlow] if the
// queue is full, and [net.ErrClosed] on a closed connection.
func (l *nonblockingConn) Write(p []byte) (int, error) {
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
		l.tryBuf = p
		err := l.raw.Write(l.try)
		l.tryBuf = nil
		if err == nil {
			err = l.tryErr
		}
		if err != nil {
			return 0, l.fail(err)
		}
		rest = p[l.tryWritten:]
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

// flush writes the queue until it is empty.
func (l *nonblockingConn) flush() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.err != nil {
			l.flushing, l.queue, l.waiting = false, nil, 0
			_ = l.Conn.SetWriteDeadline(time.Time{}) // otherwise it would apply to try
			if l.ending && l.err == nil {
				_ = l.fail(net.ErrClosed)
			}
			l.mu.Unlock()
			return
		}
		p := l.queue
		l.queue = nil
		l.mu.Unlock()

		_ = l.Conn.SetWriteDeadline(time.Now().Add(l.writeTimeout))
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

// fail closes the connection and records the reason. The caller holds l.mu.
func (l *nonblockingConn) fail(err error) error {
	if l.err == nil {
		l.err = err
		_ = l.Conn.Close()
	}
	return l.err
}

// closeError returns why this side closed the connection, or nil.
func (l *nonblockingConn) closeError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close closes at once and drops the queue.
func (l *nonblockingConn) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.fail(net.ErrClosed)
	return nil
}

// closeAfterFlush closes when the queue is empty.
func (l *nonblockingConn) closeAfterFlush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	if !l.flushing {
		_ = l.fail(net.ErrClosed)
	}
}

// SetWriteDeadline does nothing: crypto/tls sets one for close_notify, which would affect flush.
func (l *nonblockingConn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the read deadline.
func (l *nonblockingConn) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }
