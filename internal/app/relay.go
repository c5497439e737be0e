package app

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/plug/mcp"
)

// relay lets the MCP doors of several instances work as one.
type relay struct{ bus *bus.Bus }

// relayOn is a relay over the bus, or nil if no other instance can be on it.
func relayOn(b *bus.Bus) mcp.Relay {
	if b.Alone() {
		return nil
	}
	return relay{b}
}

// relayFlush bounds the wait until the bus knows of something that is served.
const relayFlush = time.Second

const (
	relayPrefix = "relay."
	tellSubject = "tell."
)

// Serve implements [mcp.Relay].
func (r relay) Serve(name string, handle func([]byte) []byte) (func(), error) {
	sub, err := r.bus.Subscribe(relayPrefix+name, func(m *nats.Msg) {
		r.bus.Respond(m, handle(m.Data)) //nolint:errcheck // the asker finds out by itself
	})
	if err != nil {
		return nil, err
	}
	if err := r.bus.FlushTimeout(relayFlush); err != nil {
		sub.Unsubscribe() //nolint:errcheck // the first error is the one that counts
		return nil, err
	}
	return func() {
		sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	}, nil
}

// Ask implements [mcp.Relay].
func (r relay) Ask(ctx context.Context, name string, data []byte) ([]byte, error) {
	m, err := r.bus.Request(ctx, relayPrefix+name, data)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Tell implements [mcp.Relay].
func (r relay) Tell(data []byte) error {
	tell, _ := tellsOthers(r.bus, tellSubject)
	return tell(data)
}

// Hear implements [mcp.Relay].
func (r relay) Hear(handle func([]byte)) error {
	_, hear := tellsOthers(r.bus, tellSubject)
	return hear(handle)
}
