package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// connectTimeout limits connecting up to the hello response. A gateway that has received wrong
	// tokens answers up to 5 seconds more slowly (src/gateway/auth-rate-limit.ts,
	// LOOPBACK_FAILURE_DELAY_MAX_MS).
	connectTimeout = 20 * time.Second
	// dialTimeout limits the TCP connect.
	dialTimeout = 10 * time.Second
	// maxFramesBefore limits the frames skipped before an expected one; no gateway sends any.
	maxFramesBefore = 16
	// connectID is the id of the connect request.
	connectID = "connect"
)

// Errors in the address of a gateway.
const (
	msgNoAddress = i18n.Message("url is no address of a gateway; it looks like wss://gateway.example.com or ws://127.0.0.1:18789")
	msgScheme    = i18n.Message("url begins with wss://, or with ws:// for a gateway nearby")
	msgUserInfo  = i18n.Message("url holds a user name or password; the gateway's token is a setting of its own")
	msgReadable  = i18n.Message("url is ws://, which everybody on the way to %s can read; use wss://")
)

// ParseURL validates the address of a gateway and returns it as [Options] need it. It allows ws://
// only on this machine and in private networks, as OpenClaw's clients do
// (src/gateway/connection-details.ts).
func ParseURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || u.Opaque != "" {
		// Do not show it: an address that cannot be parsed may hold a token.
		return "", msgNoAddress.Errorf()
	}
	switch u.Scheme {
	case "https":
		u.Scheme = "wss"
	case "http":
		u.Scheme = "ws"
	case "ws", "wss":
	default:
		return "", msgScheme.Errorf()
	}
	if u.User != nil {
		return "", msgUserInfo.Errorf()
	}
	if u.Scheme == "ws" && !isNearby(u.Hostname()) {
		return "", msgReadable.Errorf(u.Hostname())
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String(), nil
}

// isNearby reports whether OpenClaw's own clients talk to a host without encryption.
func isNearby(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	return host == "localhost" || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".ts.net")
}

// isTrusted reports whether the gateway is on this machine or identifies itself by TLS, so
// that nobody else gets the token.
func (o *Options) isTrusted() bool {
	u, err := url.Parse(o.URL)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "wss" || u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// Connect opens a connection. The error is a [*ConnectionError], or that of ctx.
func Connect(ctx context.Context, o *Options) (*Conn, error) {
	own := ""
	if o.LoadToken != nil {
		var err error
		if own, err = o.LoadToken(ctx); err != nil {
			return nil, newConnectionError(Broken, msgBroken.With(), fmt.Errorf("the device's token: %w", err))
		}
	}
	c, err := o.attempt(ctx, own, o.Token == "")
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Next() == wire.NextRetryDeviceToken && own != "" && o.Token != "" &&
		o.isTrusted() {
		// The gateway's shared token was changed, but the device token is still valid.
		c, err = o.attempt(ctx, own, true)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, asConnectionError(err)
	}
	if given := c.hello.Auth.DeviceToken; o.SaveToken != nil && given != "" && given != own {
		if err := o.SaveToken(ctx, given); err != nil {
			o.log().WarnContext(ctx, "openclaw: the device's token was not kept", "error", err)
		}
	}
	c.start()
	return c, nil
}

// attempt makes one attempt to connect.
func (o *Options) attempt(ctx context.Context, own string, useOwn bool) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	ws, err := o.dial(ctx)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(wire.MaxFrame)
	hello, err := o.handshake(ctx, ws, own, useOwn)
	if err != nil {
		ws.CloseNow()
		return nil, err
	}
	c := &Conn{opt: o, ws: ws, hello: hello, connectedAt: time.Now(), stopped: make(chan struct{}),
		pending: map[string]chan wire.Frame{}}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c, nil
}

// dial opens the WebSocket.
func (o *Options) dial(ctx context.Context) (*websocket.Conn, error) {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	// The transport is only used for the handshake; afterwards the WebSocket owns the
	// connection.
	transport := &http.Transport{
		DialContext: dial, TLSHandshakeTimeout: dialTimeout, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: tlsConfig(o.URL, o.Pin, o.roots),
	}
	client := &http.Client{
		Transport: transport, Timeout: connectTimeout,
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ws, res, err := websocket.Dial(ctx, o.URL, &websocket.DialOptions{HTTPClient: client,
		CompressionMode: websocket.CompressionDisabled})
	if err != nil && res != nil && res.StatusCode != http.StatusSwitchingProtocols {
		return nil, &statusError{res.StatusCode}
	}
	return ws, err
}

// statusError is a response that does not upgrade to a WebSocket.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s instead of a WebSocket", e.status, http.StatusText(e.status))
}

// handshake sends connect and returns the gateway's hello response.
func (o *Options) handshake(ctx context.Context, ws *websocket.Conn, own string, useOwn bool) (Hello, error) {
	f, err := readUntil(ctx, ws, func(f wire.Frame) bool { return f.Event == wire.EventChallenge })
	if err != nil {
		return Hello{}, err
	}
	challenge, err := wire.ParseChallenge(f.Payload)
	if err != nil {
		return Hello{}, err
	}
	request, err := json.Marshal(o.connectParams(challenge, own, useOwn))
	if err != nil {
		return Hello{}, err
	}
	if err := ws.Write(ctx, websocket.MessageText, wire.AppendRequest(nil, connectID, wire.MethodConnect,
		request)); err != nil {
		return Hello{}, err
	}
	if f, err = readUntil(ctx, ws, func(f wire.Frame) bool { return f.ID == connectID }); err != nil {
		return Hello{}, err
	}
	if f.Error != nil {
		return Hello{}, f.Error
	}
	hello, err := parseHello(f.Payload)
	if err == nil {
		err = o.checkScopes(&hello)
	}
	return hello, err
}

// connectParams returns the parameters of connect.
func (o *Options) connectParams(challenge wire.Challenge, own string, useOwn bool) *wire.Connect {
	c := o.Connect
	c.MinProtocol, c.MaxProtocol = wire.Protocol, wire.Protocol
	switch {
	case useOwn && own != "":
		c.Auth = &wire.Auth{Token: own, DeviceToken: own}
	case o.Token != "":
		c.Auth = &wire.Auth{Token: o.Token}
	}
	if o.Identity != nil {
		o.Identity.Sign(&c, challenge)
	}
	return &c
}

// readUntil reads frames until a wanted one arrives.
func readUntil(ctx context.Context, ws *websocket.Conn, wanted func(wire.Frame) bool) (wire.Frame, error) {
	for range maxFramesBefore {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return wire.Frame{}, err
		}
		f, err := wire.Parse(data)
		if err != nil {
			return wire.Frame{}, err
		}
		if wanted(f) {
			return f, nil
		}
	}
	return wire.Frame{}, wire.ErrFrame
}

func parseHello(payload []byte) (Hello, error) {
	h, err := wire.ParseHello(payload)
	if err != nil {
		return Hello{}, err
	}
	var more struct {
		Policy struct {
			Attachments struct {
				Most  int64 `json:"maxBytes"`
				Image int64 `json:"maxImageBytes"`
			} `json:"attachments"`
		} `json:"policy"`
	}
	_ = json.Unmarshal(payload, &more) // absent: unknown
	a := more.Policy.Attachments
	return Hello{h, max(0, a.Most), max(0, a.Image)}, nil
}

// checkScopes reports an error if the gateway did not grant the scopes that the client needs.
// Gateways accept operators without a device and then grant them nothing.
func (o *Options) checkScopes(h *Hello) error {
	if h.Auth.Scopes == nil {
		return nil // unknown
	}
	i := slices.IndexFunc(o.Connect.Scopes, func(s string) bool { return !wire.HasScope(h.Auth.Scopes, s) })
	if i < 0 {
		return nil
	}
	return newConnectionError(Scopes, msgScopes.With(o.Connect.Scopes[i]), nil)
}
