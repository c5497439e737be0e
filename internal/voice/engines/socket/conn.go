package socket

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/voice/engine"
)

// writeTimeout limits the write of a message.
const writeTimeout = 3 * time.Second

// Message is a message of a WebSocket.
type Message struct {
	Binary bool
	Data   []byte
}

// JSON returns a text message. The value can be encoded.
func JSON(v any) Message {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only texts, numbers and structs of them are sent
	}
	return Message{Data: data}
}

// Conn is a WebSocket from which a goroutine reads until Close, so that pings are answered and the
// end is noticed while nobody waits for a message. At most one message is read ahead.
type Conn struct {
	Header   http.Header // of the response that opened it
	ws       *websocket.Conn
	cancel   context.CancelFunc
	messages chan Message
	done     chan struct{} // closed when the goroutine has returned
	err      error         // read after done
}

// Open opens a connection. The error is an [*engine.Error].
func (s *Server) Open(ctx context.Context) (*Conn, error) {
	ws, header, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{Header: header, ws: ws, messages: make(chan Message), done: make(chan struct{})}
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	go c.read(reading)
	return c, nil
}

func (c *Conn) read(ctx context.Context) {
	defer close(c.done)
	for {
		kind, data, err := c.ws.Read(ctx)
		if err != nil {
			c.err = Classify(err)
			return
		}
		select {
		case c.messages <- Message{kind == websocket.MessageBinary, data}:
		case <-ctx.Done():
			c.err = context.Cause(ctx)
			return
		}
	}
}

// Messages returns the messages of the server.
func (c *Conn) Messages() <-chan Message { return c.messages }

// Done is closed after the last message. Err then returns why there are no more.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns the error of the connection, an [*engine.Error].
func (c *Conn) Err() error { return c.err }

// Next waits for a message. The error is that of ctx, or an [*engine.Error].
func (c *Conn) Next(ctx context.Context) (Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.done:
		return Message{}, c.err
	case <-ctx.Done():
		return Message{}, context.Cause(ctx)
	}
}

// Write sends a message within a few seconds. The error is that of ctx, or an [*engine.Error]; the
// connection is lost then.
func (c *Conn) Write(ctx context.Context, m Message) error {
	kind := websocket.MessageText
	if m.Binary {
		kind = websocket.MessageBinary
	}
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.ws.Write(limited, kind, m.Data)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return engine.Errorf(engine.Timeout, "the server did not read in time")
	}
	return Classify(err)
}

// Close closes the connection. It waits for the goroutine, and not for the server.
func (c *Conn) Close() {
	c.cancel()
	_ = c.ws.CloseNow() // the server may have closed it
	<-c.done
}
