package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/voice/engine"
)

// maxHandshake limits the server's answer to the WebSocket request, in bytes.
const maxHandshake = 64 << 10

// connect opens a WebSocket within limits.connect. The error is an [*engine.Error].
func (l *listener) connect(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limits.connect)
	defer cancel()
	conn, err := l.open(ctx)
	if err != nil {
		return nil, connectError(ctx, err)
	}
	ws, res, err := websocket.Dial(ctx, l.address.String(), &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport: handshake{conn},
			// A redirect would send the key to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		HTTPHeader: l.header, Subprotocols: l.subprotocols, CompressionMode: websocket.CompressionDisabled})
	switch {
	case err == nil:
		ws.SetReadLimit(maxMessage)
		return ws, nil
	case res != nil && res.StatusCode != http.StatusSwitchingProtocols:
		err = statusError(res)
	}
	_ = conn.Close()
	return nil, connectError(ctx, err)
}

// connectError classifies an error of a connection that was not opened.
func connectError(ctx context.Context, err error) *engine.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return engine.Errorf(engine.Timeout, "the server did not accept the connection in time")
	}
	return classify(err)
}

// open opens the connection below the WebSocket.
func (l *listener) open(ctx context.Context) (net.Conn, error) {
	conn, err := l.dial(ctx, "tcp", l.host())
	if err != nil || l.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, l.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// handshake is an [http.RoundTripper] for the one request that opens a WebSocket. Unlike
// [http.Transport] it needs no goroutines, which nobody could wait for.
type handshake struct{ conn net.Conn }

// RoundTrip implements [http.RoundTripper]. The body of a response that upgrades is the connection.
func (h handshake) RoundTrip(req *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(req.Context(), func() { _ = h.conn.SetDeadline(time.Unix(1, 0)) })
	res, rest, err := h.exchange(req)
	if !stop() {
		return nil, req.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = http.NoBody // it would not be used
		return res, nil
	}
	res.Body = upgraded{rest, h.conn}
	return res, nil
}

// exchange sends the request and reads the header of the response. Rest reads what follows.
func (h handshake) exchange(req *http.Request) (res *http.Response, rest io.Reader, err error) {
	if err := req.Write(h.conn); err != nil {
		return nil, nil, err
	}
	limited := &io.LimitedReader{R: h.conn, N: maxHandshake}
	r := bufio.NewReader(limited)
	if res, err = http.ReadResponse(r, req); err != nil { //nolint:bodyclose // replaced by the caller
		return nil, nil, err
	}
	// What r has read of the first messages comes before what follows on the connection.
	early := make([]byte, r.Buffered())
	if _, err = io.ReadFull(r, early); err != nil {
		return nil, nil, err
	}
	return res, &prefixed{early, h.conn}, nil
}

// prefixed reads early, then r.
type prefixed struct {
	early []byte
	r     io.Reader
}

// Read implements [io.Reader].
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.early) == 0 {
		return p.r.Read(b)
	}
	n := copy(b, p.early)
	p.early = p.early[n:]
	return n, nil
}

// upgraded is a connection whose first bytes were already read.
type upgraded struct {
	io.Reader
	conn net.Conn
}

func (u upgraded) Write(b []byte) (int, error) { return u.conn.Write(b) }
func (u upgraded) Close() error                { return u.conn.Close() }
