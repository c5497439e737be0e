package socket_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// server is a WebSocket server on connections in memory.
type server struct {
	opened int
	conns  chan *websocket.Conn // the server's side of each connection
}

// newPool returns a pool of connections to a server that serve runs for.
func newPool(t *testing.T) (*socket.Pool, *server) {
	s := &server{conns: make(chan *websocket.Conn, 16)}
	open := &socket.Server{URL: &url.URL{Scheme: "ws", Host: "speech"}, Timeout: 3 * time.Second, Dial: s.dial}
	p := &socket.Pool{Open: func(ctx context.Context) (*socket.Conn, error) {
		s.opened++
		return open.Open(ctx)
	}}
	t.Cleanup(p.Close)
	return p, s
}

// dial accepts a WebSocket over a pipe.
func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	client, peer := net.Pipe()
	go func() {
		req, err := http.ReadRequest(bufioReader(peer))
		if err != nil {
			return
		}
		ws, err := websocket.Accept(hijacker{httptest.NewRecorder(), peer}, req, nil)
		if err == nil {
			s.conns <- ws
		}
	}()
	return client, nil
}

func ok(context.Context, *socket.Conn) error { return nil }

// echo sends a message and waits for the answer.
func echo(ctx context.Context, c *socket.Conn) error {
	if err := c.Write(ctx, socket.Message{Data: []byte("hello")}); err != nil {
		return err
	}
	_, err := c.Next(ctx)
	return err
}

// answer answers one message.
func answer(t *testing.T, ws *websocket.Conn) {
	t.Helper()
	if _, data, err := ws.Read(t.Context()); err == nil {
		_ = ws.Write(t.Context(), websocket.MessageText, data)
	}
}

// TestPool checks when a connection is used again.
func TestPool(t *testing.T) {
	for _, c := range []struct {
		name    string
		between func(p *socket.Pool, ws *websocket.Conn) // between two uses of a connection
		opened  int
		took    time.Duration // the second use
	}{
		{"used again", func(*socket.Pool, *websocket.Conn) { time.Sleep(49 * time.Second) }, 1, 0},
		{"too old", func(*socket.Pool, *websocket.Conn) { time.Sleep(51 * time.Second) }, 2, 0},
		{"closed by the server", func(_ *socket.Pool, ws *websocket.Conn) { _ = ws.CloseNow() }, 2, 0},
		{"said something", func(_ *socket.Pool, ws *websocket.Conn) {
			_ = ws.Write(context.Background(), websocket.MessageText, []byte("bye"))
		}, 2, 0},
		{"warmed early", func(p *socket.Pool, _ *websocket.Conn) {
			time.Sleep(10 * time.Second)
			p.Warm(context.Background())
		}, 1, 0},
		{"warmed late", func(p *socket.Pool, _ *websocket.Conn) {
			time.Sleep(40 * time.Second)
			p.Warm(context.Background())
			time.Sleep(20 * time.Second)
		}, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := newPool(t)
				conn, err := p.Begin(t.Context(), ok)
				if err != nil {
					t.Fatal(err)
				}
				ws := <-s.conns
				p.Put(conn, nil)
				synctest.Wait()
				c.between(p, ws)
				synctest.Wait()
				begin := time.Now()
				conn, err = p.Begin(t.Context(), ok)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); s.opened != c.opened || took != c.took {
					t.Errorf("%d connections, want %d; the second use began after %s", s.opened, c.opened, took)
				}
				conn.Close()
				p.Close()
			})
		})
	}
}

// TestPoolStale checks that a connection that does not answer is replaced, and what an engine
// refuses is not tried again.
func TestPoolStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newPool(t)
		conn, err := p.Begin(t.Context(), ok)
		if err != nil {
			t.Fatal(err)
		}
		dead := <-s.conns
		p.Put(conn, nil)
		synctest.Wait()
		go func() {
			_, _, _ = dead.Read(t.Context()) // and no answer
			answer(t, <-s.conns)
		}()
		begin := time.Now()
		if conn, err = p.Begin(t.Context(), echo); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); s.opened != 2 || took != time.Second {
			t.Errorf("%d connections, %s", s.opened, took)
		}
		p.Put(conn, nil)
		synctest.Wait()
		refuse := func(context.Context, *socket.Conn) error { return engine.Errorf(engine.Auth, "no") }
		if _, err = p.Begin(t.Context(), refuse); engine.AsError(err).Class != engine.Auth || s.opened != 2 {
			t.Error(err, s.opened)
		}
		p.Close()
	})
}

// TestPoolDrain checks that a connection whose use still ends is used again when it has ended.
func TestPoolDrain(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, s := newPool(t)
			conn, err := p.Begin(t.Context(), ok)
			if err != nil {
				t.Fatal(err)
			}
			ws := <-s.conns
			p.Put(conn, func(m socket.Message) bool { return string(m.Data) == "end" })
			synctest.Wait()
			_ = ws.Write(t.Context(), websocket.MessageText, []byte("late"))
			if ends {
				_ = ws.Write(t.Context(), websocket.MessageText, []byte("end"))
			}
			time.Sleep(3 * time.Second)
			conn, err = p.Begin(t.Context(), ok)
			if want := map[bool]int{true: 1, false: 2}[ends]; err != nil || s.opened != want {
				t.Errorf("%d connections, %v", s.opened, err)
			}
			conn.Close()
			p.Close()
		})
	}
}

// TestPoolFull checks how many connections wait, and that none does after Close.
func TestPoolFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t)
		var conns []*socket.Conn
		for range 6 {
			conn, err := p.Begin(t.Context(), ok)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		for _, c := range conns {
			p.Put(c, nil)
			synctest.Wait()
		}
		open := 0
		for _, c := range conns {
			select {
			case <-c.Done():
			default:
				open++
			}
		}
		if open != 4 {
			t.Errorf("%d connections wait", open)
		}
		p.Close()
		for _, c := range conns {
			if <-c.Done(); c.Err() == nil {
				t.Error("a connection without an error")
			}
		}
		late, err := p.Begin(t.Context(), ok)
		if err != nil {
			t.Fatal(err)
		}
		p.Put(late, nil)
		<-late.Done()
	})
}

// A canceled wait returns the cause.
func TestConnCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t)
		conn, err := p.Begin(t.Context(), ok)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		cancel(cause)
		if _, err := conn.Next(ctx); !errors.Is(err, cause) {
			t.Error(err)
		}
		if err := conn.Write(ctx, socket.Message{Data: []byte(strings.Repeat("x", 1000))}); !errors.Is(err, cause) {
			t.Error(err)
		}
	})
}
