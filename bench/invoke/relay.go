package main

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/coder/websocket"
)

// The paths of the relay.
const (
	operatorPath = "/operator"
	nodePath     = "/node"
)

// relay is the bare hop: it forwards the messages of two clients to each other without parsing
// them.
type relay struct {
	operators chan *websocket.Conn // waiting for a node
}

func newRelay() *relay { return &relay{operators: make(chan *websocket.Conn, 16)} }

// ServeHTTP pairs a node with the operator that came before it.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	if req.URL.Path == operatorPath {
		r.operators <- conn
		return
	}
	operator := <-r.operators
	var both sync.WaitGroup
	both.Go(func() { pass(operator, conn) })
	pass(conn, operator)
	both.Wait()
}

// pass forwards messages in one direction until the connection ends.
func pass(from, to *websocket.Conn) {
	defer to.CloseNow() //nolint:errcheck // it has ended
	ctx := context.Background()
	buf := make([]byte, readBuffer)
	for {
		_, r, err := from.Reader(ctx)
		if err != nil {
			return
		}
		n, err := io.ReadFull(r, buf)
		if err != io.ErrUnexpectedEOF || to.Write(ctx, websocket.MessageText, buf[:n]) != nil {
			return // a full buffer means that the message is too long
		}
	}
}
