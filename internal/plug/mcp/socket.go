package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/jsonrpc"
)

// doorSocket is the name, in traces and metrics, of the doors on which a message
// is a frame of a WebSocket.
const doorSocket = "xiaozhi-mcp"

const (
	// socketPing is how often the far side is asked for a sign of life, and
	// socketPong how long that may take.
	socketPing = 30 * time.Second
	socketPong = 20 * time.Second
)

// ServeSocket is /mcp_endpoint/call/: the tools of a key's owner for clients that
// speak MCP over a WebSocket, one message in a text frame, as robots do with
// relays of XiaoZhi's kind. The key is the token in the address, since these
// clients have no headers.
func (s *Server) ServeSocket(w http.ResponseWriter, r *http.Request) {
	if bearer(r) == "" {
		if token := r.URL.Query().Get("token"); token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	c, ok := s.enter(w, r, doorSocket)
	if !ok {
		return
	}
	in, leave, ok := s.stream(s.ctx, c)
	if !ok {
		leave()
		s.tooManyStreams(w)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // enter has looked at the origin
	if err != nil {
		leave()
		return // it has told the caller
	}
	// The work must not hold on to the request's memory for hours.
	s.work.Go(func() {
		defer leave()
		err := s.serveConn(in, conn, c, dialect{door: doorSocket})
		s.Logger.Debug("an MCP client on a WebSocket has gone", "key", c.access.Key, "reason", err)
	})
}

// serveConn answers what comes on a WebSocket until it ends, and says why it did.
func (s *Server) serveConn(ctx context.Context, conn *websocket.Conn, c caller, d dialect) error {
	defer conn.CloseNow() //nolint:errcheck // it is over either way
	conn.SetReadLimit(s.MaxBody)
	session, err := s.newPipe(c, d)
	if err != nil {
		conn.Close(websocket.StatusTryAgainLater, "too many sessions") //nolint:errcheck // it is refused either way
		return err
	}
	defer s.sessions.remove(session)
	defer s.listeners.add(session.listener, session.end)()
	outer := ctx
	defer context.AfterFunc(outer, func() { s.endIfRevoked(outer, session) })()
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	stop := context.AfterFunc(session.ctx, func() { cancel(errClosed) })
	defer stop()

	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel(nil)
	writing.Go(func() { cancel(session.writeFrames(ctx, conn)) })
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				err = cause
			}
			return err
		}
		if kind != websocket.MessageText {
			continue
		}
		session.touch()
		m, err := jsonrpc.Parse(data)
		if err != nil {
			code := jsonrpc.ParseError
			if errors.Is(err, jsonrpc.ErrMessage) {
				code = jsonrpc.InvalidRequest
			}
			session.pipe.send(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: err.Error()})) //nolint:errcheck // told in the log
			continue
		}
		session.receive(c, m, d)
	}
}

// writeFrames writes what the session has to say.
func (s *session) writeFrames(ctx context.Context, conn *websocket.Conn) error {
	tick := time.NewTicker(socketPing)
	defer tick.Stop()
	write := func(msg []byte) error {
		ctx, cancel := context.WithTimeout(ctx, writeLimit)
		defer cancel()
		return conn.Write(ctx, websocket.MessageText, msg)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case msg := <-s.pipe.queue:
			err = write(msg)
		case <-s.listener.wake:
			for _, msg := range s.listener.notices(nil) {
				if err == nil {
					err = write(msg)
				}
			}
		case <-tick.C:
			ping, cancel := context.WithTimeout(ctx, socketPong)
			err = conn.Ping(ping)
			cancel()
		}
		if err != nil {
			return err
		}
	}
}
