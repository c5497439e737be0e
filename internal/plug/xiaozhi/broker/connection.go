package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	paho "github.com/eclipse/paho.mqtt.golang"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

const (
	// connectTimeout limits connecting to the broker, and each of its responses after that.
	connectTimeout = 10 * time.Second
	// writeTimeout limits a write to the broker.
	writeTimeout = 5 * time.Second
	// keepalive is the interval of pings without other traffic, and pingTimeout the time for the
	// response.
	keepalive   = 15 * time.Second
	pingTimeout = 10 * time.Second
	// disconnectMillis is the time for sending DISCONNECT, in ms.
	disconnectMillis = 250
	// packetOverhead is added to the longest message for topic and header, in bytes.
	packetOverhead = 2 << 10
)

// link is one connection to the broker. It is not reused after its loss.
type link struct {
	client paho.Client
	once   sync.Once
	lost   chan struct{} // closed when the connection was lost
	cause  error         // valid after lost is closed
}

func (l *link) fail(err error) {
	l.once.Do(func() {
		l.cause = err
		close(l.lost)
	})
}

func (l *link) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// runConnection makes one connection and serves it. The error is the reason of its end.
func (c *Client) runConnection() error {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	var holding sync.WaitGroup
	defer holding.Wait()
	defer cancel(nil) // before holding.Wait
	holding.Go(func() { c.renewLease(ctx, cancel) })

	l, err := c.connect(ctx)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	c.onConnected(l)
	flush, written := make(chan struct{}), make(chan struct{})
	go func() { // waited for below
		defer close(written)
		c.send(l, flush)
	}()
	select {
	case <-l.lost:
		err = l.cause
	case <-ctx.Done(): // the outbox is flushed after the sessions have ended
		err = context.Cause(ctx)
		c.endSessions(err)
	}
	close(flush)
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
	c.onDisconnected(l)
	l.client.Disconnect(disconnectMillis)
	<-written
	return err
}

// connect makes a connection, and subscribes.
func (c *Client) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l := &link{lost: make(chan struct{})}
	var stopWatching func() bool // stops watching ctx
	o := paho.NewClientOptions().AddBroker(c.url.String()).
		SetClientID(c.opt.ClientID).SetUsername(c.opt.Username).SetPassword(c.opt.Password).
		SetProtocolVersion(4).SetCleanSession(true).SetAutoReconnect(false).SetConnectRetry(false).
		SetConnectTimeout(connectTimeout).SetWriteTimeout(writeTimeout).SetKeepAlive(keepalive).
		SetPingTimeout(pingTimeout).
		SetOrderMatters(true).
		SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { c.onMessage(l, m) }).
		SetConnectionLostHandler(func(_ paho.Client, err error) { l.fail(err) }).
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			conn, err := c.dial(ctx)
			if err != nil {
				return nil, err
			}
			stopWatching = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return newSizeFilter(conn, c.opt.MaxMessage+packetOverhead,
				func() { c.metrics.dropped.WithLabelValues("length").Inc() }), nil
		})
	l.client = paho.NewClient(o)
	token := l.client.Connect()
	<-token.Done() // bounded by connectTimeout
	if stopWatching != nil {
		defer stopWatching()
	}
	if err := token.Error(); err != nil {
		return nil, err
	}
	err := c.subscribe(ctx, l)
	if err == nil && !stopWatching() {
		err = ctx.Err()
	}
	if err != nil {
		l.client.Disconnect(disconnectMillis)
		return nil, err
	}
	return l, nil
}

// dial connects to the broker's address.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	switch c.url.Scheme {
	case "mqtt":
		return d.DialContext(ctx, "tcp", c.url.Host)
	case "mqtts":
		return (&tls.Dialer{NetDialer: &d, Config: c.opt.TLS}).DialContext(ctx, "tcp", c.url.Host)
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.opt.TLS, DisableKeepAlives: true}
	ws, resp, err := websocket.Dial(ctx, c.url.String(), &websocket.DialOptions{ //nolint:bodyclose // Dial does
		Subprotocols: []string{"mqtt"}, HTTPClient: &http.Client{
			Transport: t, Timeout: connectTimeout,
			// A redirect would send the broker's password to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("the WebSocket is refused: %s", resp.Status)
		}
		return nil, err
	}
	ws.SetReadLimit(-1) // sizeFilter limits packets
	return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
}

// subscribe subscribes to the messages of boards, and to presence events.
func (c *Client) subscribe(ctx context.Context, l *link) error {
	topic := c.opt.PublishPrefix + "/+"
	wanted := map[string]byte{topic: 0}
	if c.opt.Events {
		wanted[eventPrefix+"+/clients/+/connected"] = 0
		wanted[eventPrefix+"+/clients/+/disconnected"] = 0
	}
	token := l.client.SubscribeMultiple(wanted, nil)
	select {
	case <-token.Done():
	case <-l.lost:
		return l.cause
	case <-ctx.Done():
		return errors.New("the broker does not answer SUBSCRIBE")
	}
	if err := token.Error(); err != nil {
		return err
	}
	for filter, code := range token.(*paho.SubscribeToken).Result() {
		switch {
		case code < 0x80:
		case filter == topic:
			return fmt.Errorf("the broker refuses a subscription to %s", topic)
		default:
			c.opt.Logger.Warn("the MQTT broker does not tell who comes and goes", "filter", filter)
		}
	}
	return nil
}

// onConnected makes l the current connection.
func (c *Client) onConnected(l *link) {
	c.mu.Lock()
	c.link, c.connectedAt, c.refusing = l, time.Now(), false
	if c.grace != nil {
		c.grace.Stop()
		c.grace = nil
	}
	c.mu.Unlock()
	c.metrics.up.Set(1)
	c.metrics.connects.Inc()
	c.opt.Logger.Info("connected to the MQTT broker", "broker", c.url.Host)
	select {
	case c.reconnected <- struct{}{}:
	default:
	}
}

// onDisconnected clears the current connection. The boards end if there is no new one after
// timings.grace.
func (c *Client) onDisconnected(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return
	}
	c.link = nil
	c.metrics.up.Set(0)
	var t *time.Timer
	t = time.AfterFunc(c.timings.grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.grace == t {
			c.outbox.clear()
			c.endAllLocked(ErrBrokerUnreachable)
		}
	})
	c.grace = t
}

// endSessions ends all boards and waits for their sessions. New boards are refused until the next
// connection.
func (c *Client) endSessions(why error) {
	c.mu.Lock()
	c.refusing = true
	c.mu.Unlock()
	if !errors.Is(why, ErrOtherInstance) {
		why = mqtt.ErrShutdown
	}
	c.endAll(why)
	c.sessions.Wait()
}

// onMessage handles a message of the broker. It must not block, since it is called for all messages
// in order.
func (c *Client) onMessage(l *link, m paho.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Messages before onConnected are ignored, since the boards could not be answered yet.
	if c.link != l || c.refusing {
		return
	}
	if m.Retained() { // old content
		c.metrics.dropped.WithLabelValues("retained").Inc()
		return
	}
	if rest, ok := strings.CutPrefix(m.Topic(), eventPrefix); ok {
		c.onBrokerEvent(rest, m.Payload())
		return
	}
	name, ok := strings.CutPrefix(m.Topic(), c.opt.PublishPrefix+"/")
	id, good := identify(name)
	switch {
	case !ok || !good:
		c.metrics.dropped.WithLabelValues("topic").Inc()
	case len(m.Payload()) > c.opt.MaxMessage:
		c.metrics.dropped.WithLabelValues("length").Inc()
	default:
		if conn := c.connFor(id, name); conn != nil {
			conn.enqueue(m.Payload())
		}
	}
}
