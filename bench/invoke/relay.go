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

// relay is the bare hop: what one client says is told the other one, message by
// message, and nothing is looked at.
type relay struct {
	operators chan *websocket.Conn // that wait for a node
}

func newRelay() *relay { return &relay{operators: make(chan *websocket.Conn, 16)} }

// ServeHTTP makes a pair of a node and the operator that came before it.
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

// pass passes on what one says until it goes.
func pass(from, to *websocket.Conn) {
	defer to.CloseNow() //nolint:errcheck // it is over
	ctx := context.Background()
	buf := make([]byte, readBuffer)
	for {
		_, r, err := from.Reader(ctx)
		if err != nil {
			return
		}
		n, err := io.ReadFull(r, buf)
		if err != io.ErrUnexpectedEOF || to.Write(ctx, websocket.MessageText, buf[:n]) != nil {
			return // a full buffer is a message that is too long
		}
	}
}
