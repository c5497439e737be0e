package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/board"
	"patchbay/internal/bus"
	"patchbay/internal/control"
	"patchbay/internal/plug/eyeclaw"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/store"
)

// openClawSubject is where the gateways of the instances tell one another who has
// come, and what was decided.
const openClawSubject = "openclaw."

// ownerLimit bounds the look at who owns a bot.
const ownerLimit = 5 * time.Second

// gatewayOn makes the gateway that OpenClaw's programs connect to.
func gatewayOn(at surroundings) (*gateway.Gateway, error) {
	n := at.base.Config.Nodes
	o := gateway.Options{
		Accounts: at.base.Accounts, Store: at.base.Store, Hub: at.hub, Guard: at.guard, Logger: at.log, Registerer: at.reg,
		Address: at.addresses.Of, Version: at.base.Version, Allow: n.Allow, Deny: n.Deny, AutoApproveLocal: n.ApproveLocal, Conns: n.Connections,
	}
	if !at.messages.Alone() {
		o.Tell, o.Hear = tellsOthers(at.messages, openClawSubject)
	}
	g, err := gateway.New(o)
	if err != nil {
		return nil, fmt.Errorf("openclaw: %w", err)
	}
	return g, nil
}

// shutdownNow ends a gateway that is not shut down yet, without waiting for anybody.
func shutdownNow(g *gateway.Gateway) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g.Shutdown(ctx) //nolint:errcheck // that it did not wait
}

// tellsOthers is a way to tell all other instances something, and to hear it.
func tellsOthers(messages *bus.Bus, subject string) (tell func([]byte) error, hear func(func([]byte)) error) {
	mine := subject + messages.Instance
	tell = func(data []byte) error { return messages.Publish(mine, data) }
	hear = func(handle func([]byte)) error {
		_, err := messages.Subscribe(subject+"*", func(m *nats.Msg) { // ends with the bus
			if !messages.Is(m, mine) {
				handle(m.Data)
			}
		})
		return err
	}
	return tell, hear
}

// foreignPage reports whether a page of another site asks: browsers say whose page it is,
// programs say nothing.
func foreignPage(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || !strings.EqualFold(u.Host, r.Host))
}

// orGateway hands WebSockets to the gateway that come to an address that is nobody
// else's: OpenClaw's programs use whatever address they are given.
func orGateway(mux *http.ServeMux, g http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			if _, pattern := mux.Handler(r); pattern == "" || pattern == homePattern {
				if foreignPage(r) {
					http.Error(w, "a page of another site may not connect here", http.StatusForbidden)
					return
				}
				g.ServeHTTP(w, r)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// agentOptions are for the bots that agents of somebody's gateway answer for.
func (b *Base) agentOptions(log *slog.Logger) agents.Options {
	return agents.Options{
		Keep: func(ctx context.Context, number int64, url, identity string) error {
			_, err := b.Registry.Change(ctx, number, board.Changes{Set: map[string]string{"device_identity": identity}, For: url})
			return err
		},
		Dial: func(row store.Bot) func(context.Context, string, string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), ownerLimit)
			defer cancel()
			if b.trusts(ctx, row.Owner) {
				return nil // it runs the installation, and its gateway may well be on this machine
			}
			return b.dial
		},
		Version: b.Version, Logger: log,
	}
}

// botHealth tells how the connection of a bot is.
func botHealth(cable *eyeclaw.Server, base *Base) func(store.Bot) control.Health {
	return func(b store.Bot) control.Health {
		switch b.Kind {
		case agents.KindName:
			return agentHealth(base.Agents, b.Number)
		case modelKind:
			return base.models.health(b)
		}
		return cableHealth(cable, b)
	}
}

// agentHealth is what the connection to a gateway tells about a bot that an agent
// answers for. There is none before the first question, nor long after the last.
func agentHealth(all *agents.Bots, bot int64) control.Health {
	s, ok := all.Status(bot)
	if !ok {
		return control.Health{}
	}
	h := control.Health{Since: s.Since, LastSeen: s.Heard, Gateway: s.Version, Trouble: s.Trouble, Command: s.Command}
	if s.Connected {
		h.Connections = 1
	}
	return h
}
