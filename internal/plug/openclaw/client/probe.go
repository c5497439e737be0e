package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// Texts of checks about gateways of others.
const (
	MsgUnapproved  = i18n.Message("the gateway's owner has not approved Patchbay yet")
	AdviceRunThere = i18n.Message("Run on the gateway's machine: %s")
)

// probeTimeout is the timeout of [Probe].
const probeTimeout = 5 * time.Second

var errNotGateway = i18n.Message("what answers there is no gateway of OpenClaw").Errorf()

// Probe returns an error unless an address responds like a gateway. It does not identify itself.
// Pin is as in [Options]; a transport, if it is not nil, verifies certificates itself.
func Probe(ctx context.Context, address, pin string, transport http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if transport == nil {
		transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: tlsConfig(address, pin, nil)}
	}
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: &http.Client{
		Timeout: probeTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return i18n.Message("status %s instead of a WebSocket").Errorf(resp.Status)
		}
		if e, ok := errors.AsType[*ConnectionError](err); ok {
			return e
		}
		if e, ok := errors.AsType[*url.Error](err); ok { // what is around it repeats the address
			return e.Err
		}
		return err
	}
	defer ws.CloseNow() //nolint:errcheck // nothing was sent
	_, data, err := ws.Read(ctx)
	if err != nil {
		return errNotGateway
	}
	f, err := wire.Parse(data)
	if err == nil && f.Event == wire.EventChallenge {
		_, err = wire.ParseChallenge(f.Payload)
		return err
	}
	return errNotGateway
}
