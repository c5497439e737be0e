// Package sim simulates a node and an operator of an OpenClaw gateway, for tests, load tests and
// the demo. They send the same messages as OpenClaw's own programs, and have the same timeouts.
package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/wire"
)

// ErrClosed means that the connection has ended.
var ErrClosed = errors.New("the connection to the gateway has ended")

// Client is a connection to a gateway. It is safe for concurrent use.
type Client struct {
	// Hello is the gateway's hello response.
	Hello wire.Hello

	conn         *websocket.Conn
	event        func(wire.Frame)
	ids          atomic.Int64
	lastReceived atomic.Int64  // Unix nanoseconds
	done         chan struct{} // closed when all received frames were passed on
	err          error         // why the connection ended; valid after done is closed

	mu      sync.Mutex
	pending map[string]chan wire.Frame
	ended   bool
}

// Dial connects and does the handshake, as the device if there is one. Events go to event, which
// may be nil, one at a time; it must not wait for responses. A refusal is a *wire.Error.
func Dial(ctx context.Context, url string, hello wire.Connect, device *wire.Identity,
	event func(wire.Frame)) (*Client, error) {
	return dial(ctx, nil, url, hello, device, event)
}

// dial is Dial over a transport; nil: the usual one.
func dial(ctx context.Context, transport http.RoundTripper, url string, hello wire.Connect, device *wire.Identity,
	event func(wire.Frame)) (*Client, error) {
	conn, res, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport},
		CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		if res != nil {
			return nil, fmt.Errorf("dial the gateway: status %d: %w", res.StatusCode, err)
		}
		return nil, fmt.Errorf("dial the gateway: %w", err)
	}
	conn.SetReadLimit(wire.MaxFrame)
	c := &Client{conn: conn, event: event, done: make(chan struct{}), pending: map[string]chan wire.Frame{}}
	if c.Hello, err = c.handshake(ctx, hello, device); err != nil {
		_ = conn.CloseNow() // frees its memory
		return nil, err
	}
	c.lastReceived.Store(time.Now().UnixNano())
	go c.read()
	return c, nil
}

func (c *Client) handshake(ctx context.Context, hello wire.Connect, device *wire.Identity) (wire.Hello, error) {
	f, err := c.next(ctx)
	if err != nil {
		return wire.Hello{}, err
	}
	challenge, err := wire.ParseChallenge(f.Payload)
	if err != nil {
		return wire.Hello{}, err
	}
	if device != nil {
		device.Sign(&hello, challenge)
	}
	params, err := json.Marshal(hello)
	if err != nil {
		return wire.Hello{}, err
	}
	if err := c.conn.Write(ctx, websocket.MessageText, wire.AppendRequest(nil, "connect", wire.MethodConnect,
		params)); err != nil {
		return wire.Hello{}, err
	}
	for {
		f, err := c.next(ctx)
		switch {
		case err != nil:
			return wire.Hello{}, err
		case f.Type != wire.TypeResponse:
			continue
		case f.Error != nil:
			return wire.Hello{}, f.Error
		}
		return wire.ParseHello(f.Payload)
	}
}

func (c *Client) next(ctx context.Context) (wire.Frame, error) {
	_, data, err := c.conn.Read(ctx)
	if err != nil {
		return wire.Frame{}, err
	}
	return wire.Parse(data)
}

// read passes on received frames until the connection ends. Frames do not share their buffer.
func (c *Client) read() {
	var buf bytes.Buffer
	for {
		_, r, err := c.conn.Reader(context.Background())
		if err == nil {
			buf.Reset()
			_, err = buf.ReadFrom(r)
		}
		if err != nil {
			c.end(err)
			return
		}
		c.lastReceived.Store(time.Now().UnixNano())
		f, err := wire.Parse(bytes.Clone(buf.Bytes()))
		switch {
		case err != nil:
		case f.Type == wire.TypeResponse:
			c.mu.Lock()
			answer := c.pending[f.ID]
			c.mu.Unlock()
			if answer != nil {
				select {
				case answer <- f:
				default: // the caller expects only one
				}
			}
		case c.event != nil:
			c.event(f)
		}
	}
}

func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.err = true, err
	close(c.done)
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended. It is valid after Done is closed.
func (c *Client) Err() error { return c.err }

// SinceLastFrame returns the time since the last frame of the gateway.
func (c *Client) SinceLastFrame() time.Duration {
	return time.Since(time.Unix(0, c.lastReceived.Load()))
}

// Close closes the connection and waits for its end.
func (c *Client) Close() {
	_ = c.conn.Close(websocket.StatusNormalClosure, "") // the gateway need not answer
	<-c.done
}

// Cut closes the connection without a Close frame, as a network failure does.
func (c *Client) Cut() {
	_ = c.conn.CloseNow() // the error has no meaning here
	<-c.done
}

// Write sends a frame unchanged.
func (c *Client) Write(ctx context.Context, frame []byte) error {
	return c.conn.Write(ctx, websocket.MessageText, frame)
}

// Request calls a method with parameters in JSON, nil for none. An error response is returned as a
// *wire.Error.
func (c *Client) Request(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	answers, forget, err := c.StartRequest(ctx, method, params)
	if err != nil {
		return nil, err
	}
	defer forget()
	return c.AwaitAnswer(ctx, answers)
}

// StartRequest calls a method that may have several responses. Call forget when no more are
// expected.
func (c *Client) StartRequest(ctx context.Context, method string,
	params []byte) (answers <-chan wire.Frame, forget func(), err error) {
	id := strconv.FormatInt(c.ids.Add(1), 10)
	ch := make(chan wire.Frame, 2)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, nil, ErrClosed
	}
	c.pending[id] = ch
	c.mu.Unlock()
	forget = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}
	if err := c.Write(ctx, wire.AppendRequest(nil, id, method, params)); err != nil {
		forget()
		return nil, nil, err
	}
	return ch, forget, nil
}

// AwaitAnswer waits for a response.
func (c *Client) AwaitAnswer(ctx context.Context, answers <-chan wire.Frame) (json.RawMessage, error) {
	var f wire.Frame
	select {
	case f = <-answers:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.done:
		select {
		case f = <-answers:
		default:
			return nil, ErrClosed
		}
	}
	if f.Error != nil {
		return nil, f.Error
	}
	return f.Payload, nil
}

// Call calls a method with parameters that are encoded to JSON, and decodes the payload of the
// response unless into is nil.
func (c *Client) Call(ctx context.Context, method string, params, into any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return err
	}
	payload, err := c.Request(ctx, method, data)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(payload, into)
}

// Operator returns the connect parameters of an operator program.
func Operator(token string, scopes ...string) wire.Connect {
	return wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleOperator, Scopes: scopes,
		Auth:   &wire.Auth{Token: token},
		Client: wire.Client{ID: wire.ClientGateway, Mode: wire.ModeBackend, Version: "1", Platform: "linux"},
	}
}
