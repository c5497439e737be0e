package cli

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
)

const msgNoServer = i18n.Message("%s cannot be reached: %v. Start the server there (patchbay serve), or give the address of another one with --url")

// noServer names the server to an error of its connection, with what can be done. Other errors stay
// as they are.
func noServer(address string, err error) error {
	op, failed := errors.AsType[*net.OpError](err)
	if !failed || op.Op != "dial" {
		return err
	}
	u, wrong := url.Parse(address)
	if wrong == nil && op.Addr != nil && portOf(u) != portOf(&url.URL{Host: op.Addr.String()}) {
		address = op.Addr.String() // the server told the device to connect there
	}
	return msgNoServer.Errorf(address, app.Explain(err))
}

// portOf returns the port of a URL.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" || u.Scheme == "wss" {
		return "443"
	}
	return "80"
}

// knockTimeout is how long a server may take to accept the first connection.
const knockTimeout = 10 * time.Second

// knock checks that something listens at the address of a server. Without it, a simulated device
// would report as the server's violations of a protocol that nobody is there.
func knock(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, knockTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(limited, "tcp", net.JoinHostPort(u.Hostname(), portOf(u)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return noServer(address, err)
	}
	return conn.Close()
}
