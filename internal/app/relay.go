package app

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/plug/mcp"
)

// relay connects the MCP servers of several instances.
type relay struct{ bus *bus.Bus }

// newRelay returns a relay over the bus, or nil if there can be no other instances on it.
func newRelay(b *bus.Bus) mcp.Relay {
	if b.IsStandalone() {
		return nil
	}
	return relay{b}
}

// relayFlush is the timeout until the bus has registered a subscription.
const relayFlush = time.Second

const (
	relayPrefix = "relay."
	tellSubject = "tell."
)

// Serve implements [mcp.Relay].
func (r relay) Serve(name string, handle func([]byte) []byte) (func(), error) {
	sub, err := r.bus.Subscribe(relayPrefix+name, func(m *nats.Msg) {
		r.bus.Respond(m, handle(m.Data)) //nolint:errcheck // the requester times out
	})
	if err != nil {
		return nil, err
	}
	if err := r.bus.FlushTimeout(relayFlush); err != nil {
		sub.Unsubscribe() //nolint:errcheck // the first error is returned
		return nil, err
	}
	return func() {
		sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	}, nil
}

// Request implements [mcp.Relay].
func (r relay) Request(ctx context.Context, name string, data []byte) ([]byte, error) {
	m, err := r.bus.Request(ctx, relayPrefix+name, data)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Broadcast implements [mcp.Relay].
func (r relay) Broadcast(data []byte) error {
	tell, _ := broadcaster(r.bus, tellSubject)
	return tell(data)
}

// Subscribe implements [mcp.Relay].
func (r relay) Subscribe(handle func([]byte)) error {
	_, hear := broadcaster(r.bus, tellSubject)
	return hear(handle)
}
