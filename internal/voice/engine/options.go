package engine

import (
	"context"
	"log/slog"
	"net"
)

// Options are what the server gives to its engines.
type Options struct {
	// Dial opens connections. It refuses addresses that engines may not have; nil: it opens all.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets details of failures, without secrets, transcripts or texts; nil: nobody does.
	Logger *slog.Logger
}

// WithDefaults returns the options with its nil fields set.
func (o Options) WithDefaults() Options {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
