//go:build unix && !linux

package relay

import (
	"net"
	"syscall"
)

// moveBulk is not possible here.
func moveBulk(net.Conn, syscall.RawConn) (n int, possible bool, err error) { return 0, false, nil }
