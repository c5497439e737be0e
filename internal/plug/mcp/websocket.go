package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tracing"
)

// channelWebSocket is the name, in traces and metrics, of the endpoints that carry one message
// per WebSocket frame.
const channelWebSocket = "xiaozhi-mcp"

const (
	// pingInterval is how often the peer is pinged, and pongTimeout how long it may take to
	// answer.
	pingInterval = 30 * time.Second
	pongTimeout  = 20 * time.Second
)

// ServeWebSocket serves /mcp_endpoint/call/: the tools of a key's owner for clients that speak
// MCP over a WebSocket, one message per text frame, as XiaoZhi's relays do. The path is that of
// github.com/xinnan-tech/mcp-endpoint-server. The key is the token in the address, because these
// clients set no headers.
func (s *Server) ServeWebSocket(w http.ResponseWriter, r *http.Request) {
	if bearer(r) == "" {
		if token := r.URL.Query().Get("token"); token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	c, ok := s.authenticate(w, r, channelWebSocket)
	if !ok {
		return
	}
	c.trace = tracing.Link{} // the requests are not part of the one that opened the connection
	in, release, ok := s.acquireStream(s.ctx, c)
	if !ok {
		release()
		s.tooManyStreams(w)
		return
	}
	// authenticate has checked the origin
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		release()
		return // Accept has responded
	}
	// A separate goroutine lets the request's memory be freed; the connection may last for
	// hours.
	s.work.Go(func() {
		defer release()
		err := s.serveConn(in, conn, c, dialect{channel: channelWebSocket})
		s.Logger.Debug("an MCP client on a WebSocket has gone", "key", c.access.Key, "reason", err)
	})
}

// serveConn answers the messages of a WebSocket until it ends, and returns the reason.
func (s *Server) serveConn(ctx context.Context, conn *websocket.Conn, c caller, d dialect) error {
	defer conn.CloseNow() //nolint:errcheck // closed in any case
	conn.SetReadLimit(s.MaxBody)
	session, err := s.newPipe(c, d)
	if err != nil {
		conn.Close(websocket.StatusTryAgainLater, "too many sessions") //nolint:errcheck // refused in any case
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
			session.pipe.send(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: err.Error()})) //nolint:errcheck // the pipe logs it
			continue
		}
		session.handleMessage(c, m, d)
	}
}

// writeFrames writes the session's messages.
func (s *session) writeFrames(ctx context.Context, conn *websocket.Conn) error {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	write := func(msg []byte) error {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		return conn.Write(ctx, websocket.MessageText, msg)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.pipe.ready:
			err = s.pipe.writeQueue(ctx, write)
		case <-s.listener.wake:
			for _, msg := range s.listener.takeNotifications(nil) {
				if err == nil {
					err = write(msg)
				}
			}
		case <-tick.C:
			ping, cancel := context.WithTimeout(ctx, pongTimeout)
			err = conn.Ping(ping)
			cancel()
		}
		if err != nil {
			return err
		}
	}
}
