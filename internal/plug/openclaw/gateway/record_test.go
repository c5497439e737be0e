package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// recordedFrame is a frame between a client and the gateway.
type recordedFrame struct {
	conn int
	up   bool // sent by the client
	data []byte
}

// listener is a relay between clients and a gateway that records their frames.
type listener struct {
	to   string
	work sync.WaitGroup

	mu     sync.Mutex
	conns  int
	frames []recordedFrame
}

// listenIn records the frames of all connections from now on.
func (r *rig) listenIn() *listener {
	r.t.Helper()
	l := &listener{to: r.url}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		l.work.Add(1)
		defer l.work.Done()
		l.relay(ctx, w, req)
	}))
	r.t.Cleanup(func() {
		cancel()
		server.Close()
		l.work.Wait()
	})
	r.url = "ws" + strings.TrimPrefix(server.URL, "http")
	return l
}

func (l *listener) relay(ctx context.Context, w http.ResponseWriter, req *http.Request) {
	client, err := websocket.Accept(w, req, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer client.CloseNow()
	gate, _, err := websocket.Dial(ctx, l.to, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer gate.CloseNow()
	l.mu.Lock()
	l.conns++
	n := l.conns
	l.mu.Unlock()
	var up sync.WaitGroup
	up.Go(func() { l.pass(ctx, gate, client, n, true) })
	l.pass(ctx, client, gate, n, false)
	up.Wait()
}

// pass forwards frames of one side until it disconnects, and then closes the other side with the
// same code and reason.
func (l *listener) pass(ctx context.Context, to, from *websocket.Conn, conn int, up bool) {
	from.SetReadLimit(-1)
	for {
		kind, data, err := from.Read(ctx)
		if err == nil {
			l.mu.Lock()
			l.frames = append(l.frames, recordedFrame{conn, up, data})
			l.mu.Unlock()
			err = to.Write(ctx, kind, data)
		}
		var closing websocket.CloseError
		switch {
		case err == nil:
			continue
		case errors.As(err, &closing):
			_ = to.Close(closing.Code, closing.Reason) // it may have disconnected too
		default:
			_ = to.CloseNow()
		}
		return
	}
}

// heard returns all frames so far, in order.
func (l *listener) heard() []recordedFrame {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.frames)
}
