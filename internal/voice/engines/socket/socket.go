// Package socket opens the WebSockets of engines, and classifies what goes wrong with them.
package socket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/voice/engine"
)

const (
	// maxHandshake limits the server's answer to the WebSocket request, in bytes.
	maxHandshake = 64 << 10
	// maxReason limits why a server refuses one, in bytes, and reasonTime the wait for it.
	maxReason  = 4 << 10
	reasonTime = 250 * time.Millisecond
)

// MaxMessage limits a message of a server, in bytes. Results of recognisers have a few hundred, and
// those with the times of each word some 10 KiB.
const MaxMessage = 1 << 20

// Server is where WebSockets are opened. Its fields are not changed.
type Server struct {
	URL          *url.URL // ws or wss
	Header       http.Header
	Subprotocols []string
	// SkipTLSVerify accepts every certificate.
	SkipTLSVerify bool
	Dial          func(ctx context.Context, network, address string) (net.Conn, error)
	Timeout       time.Duration // of a connection, until the WebSocket stands
	// Secrets are left out where a response is quoted. None: nothing is quoted.
	Secrets []string
}

// Connect opens a WebSocket. The error is an [*engine.Error].
func (s *Server) Connect(ctx context.Context) (*websocket.Conn, error) {
	ws, _, err := s.connect(ctx)
	return ws, err
}

// connect returns the header of the response, too.
func (s *Server) connect(ctx context.Context) (*websocket.Conn, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	conn, err := s.open(ctx)
	if err != nil {
		return nil, nil, connectError(ctx, err)
	}
	ws, res, err := websocket.Dial(ctx, s.URL.String(), &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport: handshake{conn},
			// A redirect would send the key to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		HTTPHeader: s.Header, Subprotocols: s.Subprotocols, CompressionMode: websocket.CompressionDisabled})
	switch {
	case err == nil:
		ws.SetReadLimit(MaxMessage)
		return ws, res.Header, nil
	case res != nil && res.StatusCode != http.StatusSwitchingProtocols:
		err = s.refused(res)
	}
	_ = conn.Close()
	return nil, nil, connectError(ctx, err)
}

// connectError classifies an error of a connection that was not opened.
func connectError(ctx context.Context, err error) *engine.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return engine.Errorf(engine.Timeout, "the server did not accept the connection in time")
	}
	return Classify(err)
}

// open opens the connection below the WebSocket.
func (s *Server) open(ctx context.Context) (net.Conn, error) {
	conn, err := s.Dial(ctx, "tcp", s.host())
	if err != nil || s.URL.Scheme != "wss" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.URL.Hostname(),
		InsecureSkipVerify: s.SkipTLSVerify}) //nolint:gosec // a decision of the owner
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// host returns the host with its port.
func (s *Server) host() string {
	if s.URL.Port() != "" {
		return s.URL.Host
	}
	port := "80"
	if s.URL.Scheme == "wss" {
		port = "443"
	}
	return net.JoinHostPort(s.URL.Hostname(), port)
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
	if res.StatusCode != http.StatusSwitchingProtocols {
		_ = h.conn.SetReadDeadline(time.Now().Add(reasonTime))
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxReason)) // as far as it comes
		res.Body = io.NopCloser(bytes.NewReader(body))
		return res, nil, nil
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
