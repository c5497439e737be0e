package realtime

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engines/socket"
)

// connectTimeout limits a connection, until the WebSocket stands.
const connectTimeout = 3 * time.Second

// Texts about invalid addresses.
const (
	msgNoURL   = i18n.Message("url is missing: give the address of the service, for example wss://api.openai.com/v1/realtime")
	msgURL     = i18n.Message("url is not the address of a realtime service; it has to look like wss://api.openai.com/v1/realtime")
	msgURLUser = i18n.Message("url holds a user name or password; put the secret into api_key or headers instead")
)

// ParseURL parses the address of a service. Errors do not quote it: a query may hold a secret.
func ParseURL(address string) (*url.URL, error) {
	address = strings.TrimSpace(address)
	if address == "" {
		return nil, msgNoURL.Errorf()
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" {
		return nil, msgURL.Errorf()
	}
	if u.User != nil {
		return nil, msgURLUser.Errorf()
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// ReservedHeaders belong to the WebSocket request (RFC 6455, 4.1).
var ReservedHeaders = []string{"upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol",
	"sec-websocket-extensions", "sec-websocket-accept"}

// CheckCredentials validates a key and headers of settings.
func CheckCredentials(key string, headers map[string]string) error {
	if err := settings.CheckCredential("api_key", key); err != nil {
		return err
	}
	return settings.CheckHeaders(headers, ReservedHeaders...)
}

// Options define a connection.
type Options struct {
	URL      *url.URL // from ParseURL
	Spelling Spelling
	Purpose  Purpose
	Model    string
	Key      string
	Headers  map[string]string // override our own
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	Timeout  time.Duration // 0: three seconds
}

// Conn is a connection. One goroutine calls Send and one calls Next.
type Conn struct{ *socket.Conn }

// Open connects, and configures the session. The error is an [*engine.Error], or that of ctx.
func Open(ctx context.Context, o Options, s *Session) (*Conn, error) {
	if o.Timeout == 0 {
		o.Timeout = connectTimeout
	}
	header := http.Header{}
	if o.Key != "" {
		header.Set("Authorization", "Bearer "+o.Key)
	}
	if o.Spelling == Qwen {
		header.Set("OpenAI-Beta", "realtime=v1") // Qwen-ASR-Realtime, client events
	}
	for name, value := range o.Headers {
		header.Set(name, value)
	}
	server := socket.Server{URL: o.address(), Header: header, Dial: o.Dial, Timeout: o.Timeout}
	ws, err := server.Open(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{ws}
	if err := c.Send(ctx, s.Update(o.Spelling)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// address returns the URL with the model, which OpenAI's transcription has in the session instead
// (guide "Realtime transcription").
func (o *Options) address() *url.URL {
	u := *o.URL
	q := u.Query()
	switch {
	case o.Purpose == Transcribe && o.Spelling == OpenAI:
		q.Set("intent", "transcription")
		q.Del("model")
	case o.Model != "":
		q.Set("model", o.Model)
	}
	u.RawQuery = q.Encode()
	return &u
}

// Send sends events. The error is an [*engine.Error], or that of ctx; the connection is lost then.
func (c *Conn) Send(ctx context.Context, events ...any) error {
	for _, e := range events {
		if err := c.Write(ctx, socket.JSON(e)); err != nil {
			return err
		}
	}
	return nil
}

// Next waits for an event. The error is an [*engine.Error], or that of ctx.
func (c *Conn) Next(ctx context.Context) (Event, error) {
	m, err := c.Conn.Next(ctx)
	if err != nil {
		return Event{}, err
	}
	return Decode(m.Data)
}
