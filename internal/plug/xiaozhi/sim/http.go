package sim

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// maxBody limits the stored part of a response body, in bytes. Firmware images have some MiB.
const maxBody = 16 << 20

// connectLimit is the timeout for connecting.
const connectLimit = 10 * time.Second

// request is an HTTP request like those of the firmware: one connection each, no compression, no
// redirects.
type request struct {
	method, url string
	header      [][2]string
	body        []byte
	// chunks, if not nil, writes a chunked body; each call of write sends a chunk.
	chunks func(write func([]byte) error) error
	limit  time.Duration // for the whole exchange; with chunks, for the response
}

// response is the response to a request.
type response struct {
	status int
	header http.Header
	length int64 // -1 if unknown
	body   []byte
}

// dial connects, with TLS if the address says so.
func (b *Board) dial(ctx context.Context, a wire.Address) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := b.opt.Dial(ctx, "tcp", a.HostPort())
	if err != nil || !a.TLS {
		return conn, err
	}
	config := &tls.Config{}
	if b.opt.TLS != nil {
		config = b.opt.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = a.Host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// do sends a request and reads the response.
func (b *Board) do(ctx context.Context, r request) (response, error) {
	a, err := wire.ParseHTTPURL(r.url)
	if err != nil {
		return response{}, fmt.Errorf("the address of a request: %w", err)
	}
	conn, err := b.dial(ctx, a)
	if err != nil {
		return response{}, err
	}
	defer conn.Close() //nolint:errcheck // everything was read
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(r.limit))
	if _, err := conn.Write(append(r.head(a), r.body...)); err != nil {
		return response{}, err
	}
	if r.chunks != nil {
		if err := r.chunks(func(p []byte) error { return writeChunk(conn, p) }); err != nil {
			return response{}, err
		}
		if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
			return response{}, err
		}
		_ = conn.SetDeadline(time.Now().Add(r.limit))
	}
	return readAnswer(conn, r.method)
}

// head returns the request line and the headers.
func (r *request) head(a wire.Address) []byte {
	var s strings.Builder
	host := a.Host
	if a.Port != 80 && a.Port != 443 {
		host += ":" + strconv.Itoa(a.Port)
	}
	fmt.Fprintf(&s, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, a.Path, host)
	for _, h := range r.header {
		fmt.Fprintf(&s, "%s: %s\r\n", h[0], h[1])
	}
	if r.chunks != nil {
		s.WriteString("Transfer-Encoding: chunked\r\n")
	} else if r.body != nil {
		fmt.Fprintf(&s, "Content-Length: %d\r\n", len(r.body))
	}
	s.WriteString("Connection: close\r\n\r\n")
	return []byte(s.String())
}

func writeChunk(w io.Writer, p []byte) error {
	if len(p) == 0 {
		return nil // an empty chunk ends the body
	}
	b := append(strconv.AppendInt(nil, int64(len(p)), 16), "\r\n"...)
	b = append(append(b, p...), "\r\n"...)
	_, err := w.Write(b)
	return err
}

func readAnswer(conn net.Conn, method string) (response, error) {
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close() //nolint:errcheck // it only reads
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	return response{res.StatusCode, res.Header, res.ContentLength, body}, err
}

// identity returns the headers that identify the board.
func (b *Board) identity() [][2]string {
	return [][2]string{{wire.HeaderDevice, b.opt.MAC}, {wire.HeaderClient, b.opt.UUID}}
}
