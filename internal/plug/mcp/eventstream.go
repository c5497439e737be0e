package mcp

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"time"
)

// eventStream is a stream of events that mostly waits: notifications, or the answers of an HTTP+SSE
// session. It belongs to a key, which may have so many of them.
type eventStream struct {
	server  *Server
	ctx     context.Context // ends with the client, its key, and the server
	cancel  context.CancelFunc
	release func()
}

// beginStream counts one more stream of the caller, until [eventStream.end]; [eventStream.serve]
// calls that. If there are too many, it answers the request itself.
func (s *Server) beginStream(w http.ResponseWriter, c caller) (*eventStream, bool) {
	base, cancel := context.WithCancel(s.ctx)
	ctx, release, ok := s.acquireStream(base, c)
	e := &eventStream{server: s, ctx: ctx, cancel: cancel, release: release}
	if !ok {
		e.end()
		s.tooManyStreams(w)
	}
	return e, ok
}

func (e *eventStream) end() {
	e.cancel()
	e.release()
}

// serve answers the request with what write writes, until that returns. Over HTTP/1 it takes the
// connection out of net/http and returns at once, so that neither the buffers nor the deep stacks
// of a request remain while the stream waits.
func (e *eventStream) serve(w http.ResponseWriter, r *http.Request, write func(*sseWriter)) {
	conn := e.detach(w)
	if conn == nil {
		defer e.end()
		stop := context.AfterFunc(r.Context(), e.cancel)
		defer stop()
		write(newSSEWriter(w))
		return
	}
	out := &sseWriter{conn: conn, buf: detachedHead(w.Header())}
	e.server.work.Go(func() {
		defer e.end()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			awaitClose(conn)
			e.cancel()
		}()
		write(out)
		conn.Close()
		<-gone
	})
}

// detach takes a connection out of net/http. It returns nil if that is not possible, as with
// HTTP/2.
func (e *eventStream) detach(w http.ResponseWriter) net.Conn {
	if e.server.ctx.Err() != nil {
		return nil // nobody waits for new goroutines any more
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	return conn
}

// awaitClose returns when the client has closed the connection, or sends more, which it must not
// after "Connection: close" (RFC 9112 §9.6).
func awaitClose(conn net.Conn) {
	var b [1]byte
	conn.Read(b[:]) //nolint:errcheck // it ends either way
}

// detachedHead returns the head of an event stream that ends with its connection (RFC 9112 §6.3).
func detachedHead(h http.Header) []byte {
	setStreamHeader(h)
	h.Set("Connection", "close")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	h.Write(&b) //nolint:errcheck // to memory
	b.WriteString("\r\n")
	return b.Bytes()
}
