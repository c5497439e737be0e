package bus

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

const (
	msgCheckBus    = i18n.Message("bus")
	msgBusServer   = i18n.Message("the server is connected, other instances: %d")
	msgBusGood     = i18n.Message("NATS lets us in, instances that run: %d")
	msgBusCut      = i18n.Message("the server is cut off, so that other instances do not reach what is connected to it; NATS lets us in from here, other instances: %d")
	msgBusAway     = i18n.Message("NATS cannot be reached")
	msgBusRefuses  = i18n.Message("NATS does not let us in")
	msgBusOther    = i18n.Message("NATS cannot be used: %v")
	adviceBusAway  = i18n.Message("See whether it runs, and whether host and port in bus.url are right.")
	adviceBusUser  = i18n.Message("See whether user, password or token in bus.url are right.")
	adviceBusOther = i18n.Message("See whether bus.url, bus.cert, bus.key and bus.ca are right.")
	adviceBusCut   = i18n.Message("See the server's log, and whether a network leads from it to NATS; if that stays so, restart it.")
)

// Running is the state of the server on the data that is checked.
type Running struct {
	Cut    bool // it is cut off from the bus
	Others int  // other instances that it knows
}

// checkTimeout is the timeout of a connection to be checked.
const checkTimeout = 5 * time.Second

// Check checks the connection to the bus of several instances: that of the running server, or, if
// it is cut off or none runs (nil), a new one.
func Check(ctx context.Context, r *check.Report, o Options, running *Running) {
	name := msgCheckBus.With()
	if running != nil && !running.Cut {
		r.OK(name, msgBusServer.With(running.Others))
		return
	}
	instances, err := listInstances(ctx, o)
	switch {
	case errors.Is(err, ErrUnreachable):
		r.Fail(name, msgBusAway.With(), adviceBusAway.With())
	case errors.Is(err, ErrRefused):
		r.Fail(name, msgBusRefuses.With(), adviceBusUser.With())
	case err != nil:
		r.Fail(name, msgBusOther.With(r.Explained(err)), adviceBusOther.With())
	case running != nil:
		r.Fail(name, msgBusCut.With(len(instances)), adviceBusCut.With())
	default:
		r.OK(name, msgBusGood.With(len(instances)))
	}
}

// listInstances returns the instances whose heartbeats arrive, without joining them: they would
// repeat their announcements.
func listInstances(ctx context.Context, o Options) (map[string]bool, error) {
	opts, err := tlsOptions(o)
	if err != nil {
		return nil, err
	}
	b := &Bus{prefix: subjectPrefix(o), signer: o.Signer, log: slog.New(slog.DiscardHandler)}
	opts = append(opts, nats.Name("patchbay doctor"), nats.Timeout(checkTimeout), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // LastError has them
	if b.conn, err = nats.Connect(o.URL, opts...); err != nil {
		return nil, connectionError(err)
	}
	defer b.conn.Close()
	heard := make(chan string, 64) // more instances than anybody runs
	_, err = b.Subscribe(heartbeatSubject, func(m *nats.Msg) {
		select {
		case heard <- string(m.Data):
		default: // its next heartbeat counts
		}
	})
	if err != nil {
		return nil, err
	}
	instances, end := map[string]bool{}, time.NewTimer(peerTimeout)
	defer end.Stop()
	for {
		select {
		case name := <-heard:
			instances[name] = true
		case <-end.C:
			return instances, b.conn.LastError()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
