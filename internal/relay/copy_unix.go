//go:build unix

package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// buffers are taken while there is something to copy, so that idle streams have none.
var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// isOpen reports whether the other side of an idle connection has neither closed it nor said
// anything.
func isOpen(c net.Conn) bool {
	raw, err := rawOf(c)
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && open
}

func rawOf(c net.Conn) (syscall.RawConn, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return s.SyscallConn()
}

// move copies from one connection to another until its end. It calls passed after each piece.
func move(to, from net.Conn, passed func(int)) error {
	raw, err := rawOf(from)
	if err != nil {
		return err
	}
	bulk := false // a buffer was filled: much is coming
	for {
		if bulk {
			n, possible, err := moveBulk(to, raw)
			if err != nil {
				return err
			}
			if possible {
				passed(n)
				bulk = n >= copyBuffer
				continue
			}
		}
		var buffer *[copyBuffer]byte
		var n int
		var failed error
		// The function is called when there may be something to read, and again when there is.
		err := raw.Read(func(fd uintptr) bool {
			buffer = buffers.Get().(*[copyBuffer]byte)
			for {
				n, failed = syscall.Read(int(fd), buffer[:])
				if !errors.Is(failed, syscall.EINTR) {
					break
				}
			}
			if errors.Is(failed, syscall.EAGAIN) {
				buffers.Put(buffer)
				buffer = nil
				return false
			}
			return true
		})
		switch {
		case err != nil:
			return err
		case failed == nil && n > 0:
			_, failed = to.Write(buffer[:n])
			passed(n)
			bulk = n == copyBuffer
		case failed == nil:
			failed = io.EOF
		}
		buffers.Put(buffer)
		if failed != nil {
			return failed
		}
	}
}
