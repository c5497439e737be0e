package relay

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// copyBuffer is how much is copied at once.
const copyBuffer = 64 << 10

// copy passes one direction of a stream on until its end, and then ends that direction at the other
// side. An error ends both.
func (s *Server) copy(t *stream, to, from net.Conn, bytes prometheus.Counter) {
	err := move(to, from, func(n int) {
		t.last.Store(int64(time.Since(t.began)))
		t.uncounted.Add(int64(n))
		bytes.Add(float64(n))
	})
	tcp, ok := to.(*net.TCPConn)
	if errors.Is(err, io.EOF) && ok && tcp.CloseWrite() == nil {
		return
	}
	t.end()
}
