package socket_test

import (
	"bufio"
	"bytes"
	"net"
	"net/http/httptest"
)

func bufioReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }

// hijacker is a response over a connection.
type hijacker struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

// Hijack implements http.Hijacker. The response is written first.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = h.Header().Write(&head) // into memory
	head.WriteString("\r\n")
	if _, err := h.conn.Write(head.Bytes()); err != nil {
		return nil, nil, err
	}
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}
