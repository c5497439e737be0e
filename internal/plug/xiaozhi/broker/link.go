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
	// connectTimeout bounds connecting to the broker, and each answer of it after.
	connectTimeout = 10 * time.Second
	// writeTimeout bounds how long the broker may take nothing.
	writeTimeout = 5 * time.Second
	// keepalive is how often the broker is asked whether it is there when it says
	// nothing, and pingTimeout how long it may take.
	keepalive   = 15 * time.Second
	pingTimeout = 10 * time.Second
	// disconnectMillis is how long saying goodbye to the broker may take.
	disconnectMillis = 250
	// extra is added to the longest message for what is around it, in bytes.
	extra = 2 << 10
)

// link is one connection to the broker. It is not used again after it was lost.
type link struct {
	client paho.Client
	once   sync.Once
	lost   chan struct{} // closed when the connection has ended by itself
	why    error         // valid when lost is closed
}

func (l *link) lose(err error) {
	l.once.Do(func() {
		l.why = err
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

// life is the life of one connection. The error says why there is none any more; it
// is nil if the client is to stop.
func (c *Client) life() error {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	var holding sync.WaitGroup
	defer holding.Wait()
	defer cancel(nil) // or Wait would
	holding.Go(func() { c.keepHold(ctx, cancel) })

	l, err := c.connect(ctx)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	c.up(l)
	enough, written := make(chan struct{}), make(chan struct{})
	go func() { // it is waited for below
		defer close(written)
		c.send(l, enough)
	}()
	select {
	case <-l.lost:
		err = l.why
	case <-ctx.Done(): // what sessions push when they end has to go out yet
		err = context.Cause(ctx)
		c.farewell(err)
	}
	close(enough)
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
	c.down(l)
	l.client.Disconnect(disconnectMillis)
	<-written
	return err
}

// connect makes a connection, and subscribes.
func (c *Client) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l := &link{lost: make(chan struct{})}
	var hurry func() bool // stops watching the context
	o := paho.NewClientOptions().AddBroker(c.url.String()).
		SetClientID(c.opt.ClientID).SetUsername(c.opt.Username).SetPassword(c.opt.Password).
		SetProtocolVersion(4).SetCleanSession(true).SetAutoReconnect(false).SetConnectRetry(false).
		SetConnectTimeout(connectTimeout).SetWriteTimeout(writeTimeout).SetKeepAlive(keepalive).SetPingTimeout(pingTimeout).
		SetOrderMatters(true).
		SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { c.received(l, m) }).
		SetConnectionLostHandler(func(_ paho.Client, err error) { l.lose(err) }).
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			conn, err := c.dial(ctx)
			if err != nil {
				return nil, err
			}
			hurry = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return newSieve(conn, c.opt.MaxMessage+extra, func() { c.metrics.dropped.WithLabelValues("length").Inc() }), nil
		})
	l.client = paho.NewClient(o)
	token := l.client.Connect()
	<-token.Done() // soon, as the time for all of it is bounded
	if hurry != nil {
		defer hurry()
	}
	if err := token.Error(); err != nil {
		return nil, err
	}
	err := c.subscribe(ctx, l)
	if err == nil && !hurry() {
		err = ctx.Err()
	}
	if err != nil {
		l.client.Disconnect(disconnectMillis)
		return nil, err
	}
	return l, nil
}

// dial connects to where the broker is.
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
			// A redirect would carry the broker's password to somebody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("the WebSocket is refused: %s", resp.Status)
		}
		return nil, err
	}
	ws.SetReadLimit(-1) // it is read in pieces, and sieved
	return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
}

// subscribe asks for the messages of boards, and for the news.
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
		return l.why
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

// up makes a connection the one that is used.
func (c *Client) up(l *link) {
	c.mu.Lock()
	c.link, c.joinedAt, c.deaf = l, time.Now(), false
	if c.grace != nil {
		c.grace.Stop()
		c.grace = nil
	}
	c.mu.Unlock()
	c.metrics.up.Set(1)
	c.metrics.connects.Inc()
	c.opt.Logger.Info("connected to the MQTT broker", "broker", c.url.Host)
	select {
	case c.joined <- struct{}{}:
	default:
	}
}

// down is the end of up. The boards stay for a while.
func (c *Client) down(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return
	}
	c.link = nil
	c.metrics.up.Set(0)
	var t *time.Timer
	t = time.AfterFunc(c.waits.grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.grace == t {
			c.out.clear()
			c.endAllLocked(ErrBroker)
		}
	})
	c.grace = t
}

// farewell ends all boards, and waits for their sessions. There are no new ones
// before the next connection.
func (c *Client) farewell(why error) {
	c.mu.Lock()
	c.deaf = true
	c.mu.Unlock()
	if !errors.Is(why, ErrMoved) {
		why = mqtt.ErrShutdown
	}
	c.endAll(why)
	c.sessions.Wait()
}

// received is a message of the broker. It must not wait: all others wait for it.
func (c *Client) received(l *link, m paho.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A connection that was not made the used one yet is none to hear boards on, as
	// they could not be answered.
	if c.link != l || c.deaf {
		return
	}
	if m.Retained() { // nobody says it now
		c.metrics.dropped.WithLabelValues("retained").Inc()
		return
	}
	if rest, ok := strings.CutPrefix(m.Topic(), eventPrefix); ok {
		c.news(rest, m.Payload())
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
		if conn := c.seat(id, name); conn != nil {
			conn.put(m.Payload())
		}
	}
}
