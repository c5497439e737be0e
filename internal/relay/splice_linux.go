package relay

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipe carries bytes between two sockets inside the kernel (splice(2)). It is empty between uses.
type pipe struct{ r, w int }

// pipeSize is the capacity of a pipe, in bytes. Users other than root have 64 MiB for all
// (pipe(7), pipe-user-pages-soft); with less the pipes stay small, and work.
const pipeSize = 256 << 10

// pipes are those that are not in use: only streams that are moving much have one.
var pipes = make(chan *pipe, 64)

func takePipe() (*pipe, error) {
	select {
	case p := <-pipes:
		return p, nil
	default:
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) //nolint:errcheck // it works with less
	return &pipe{fds[0], fds[1]}, nil
}

// give returns an empty pipe.
func (p *pipe) give() {
	select {
	case pipes <- p:
	default:
		p.close()
	}
}

func (p *pipe) close() {
	unix.Close(p.r) //nolint:errcheck // it is over
	unix.Close(p.w) //nolint:errcheck // it is over
}

// moveBulk moves what is there from one connection to another without copying it, and waits for
// something first. It returns the number of bytes, or an error, which is [io.EOF] at the end.
// False: it is not possible here.
func moveBulk(to net.Conn, from syscall.RawConn) (n int, possible bool, err error) {
	raw, err := rawOf(to)
	if err != nil {
		return 0, false, nil //nolint:nilerr // it is copied then
	}
	var p *pipe
	var failed error
	err = from.Read(func(fd uintptr) bool {
		if p, failed = takePipe(); failed != nil {
			return true
		}
		if n, failed = splice(int(fd), p.w, pipeSize); errors.Is(failed, unix.EAGAIN) {
			p.give()
			p = nil
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return 0, true, err
	case p == nil:
		return 0, false, nil // no files are left for a pipe
	case failed != nil || n == 0:
		p.give()
		if failed == nil {
			failed = io.EOF
		}
		return 0, true, failed
	}
	for left := n; left > 0 && err == nil; {
		err = raw.Write(func(fd uintptr) bool {
			var m int
			m, failed = splice(p.r, int(fd), left)
			left -= max(m, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		err = errors.Join(err, failed)
	}
	runtime.KeepAlive(to)
	if err != nil {
		p.close() // it is not empty
		return 0, true, err
	}
	p.give()
	return n, true, nil
}

func splice(from, to, most int) (int, error) {
	for {
		n, err := unix.Splice(from, nil, to, nil, most, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if !errors.Is(err, unix.EINTR) {
			return int(n), err
		}
	}
}
