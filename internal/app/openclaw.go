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

	"patchbay/internal/bus"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/plug/eyeclaw"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// openClawSubject is the prefix of the subjects on which the gateways of the instances announce new
// peers and decisions.
const openClawSubject = "openclaw."

// ownerLimit is the timeout of looking up a bot's owner.
const ownerLimit = 5 * time.Second

// newGateway creates the gateway that OpenClaw programs connect to.
func newGateway(at deps) (*gateway.Gateway, error) {
	n := at.base.Config.Nodes
	o := gateway.Options{
		Accounts: at.base.Accounts, Store: at.base.Store, Hub: at.hub, Guard: at.guard, Logger: at.log,
		Registerer: at.reg, Tracer: at.base.tracer,
		Address: at.addresses.ClientAddress, Version: at.base.Version, Allow: n.Allow, Deny: n.Deny,
		AutoApproveLocal: n.ApproveLocal, MaxConns: n.Connections, Origin: at.origin, OnChange: at.changed,
		Decide:      at.decide,
		Fingerprint: selfSignedFingerprint(at.base.Config, at.tls),
	}
	if !at.messages.IsStandalone() {
		o.Broadcast, o.Subscribe = broadcaster(at.messages, openClawSubject)
	}
	g, err := gateway.New(o)
	if err != nil {
		return nil, fmt.Errorf("openclaw: %w", err)
	}
	at.hub.OnApproval(g.ApprovalAsked)
	at.hub.OnDecision(g.ApprovalDecided)
	return g, nil
}

// decisions are the decisions of OpenClaw's operators.
var decisions = map[string]string{wire.AllowOnce: control.DecideOnce, wire.AllowAlways: control.DecideAlways,
	wire.Deny: control.DecideNo}

// operatorDecides decides about a call that waits, as an operator wants it.
func operatorDecides(ctx context.Context, s *control.Service, d gateway.Decision) error {
	c := control.Caller{Person: d.Person, Key: d.Key, Address: d.Address, Program: "openclaw"}
	if d.Key != "" {
		key, err := s.Hub.Store.Keys.ByID(ctx, d.Key)
		if err != nil {
			return fmt.Errorf("read the key of an operator: %w", err)
		}
		c.Rules, c.Only, c.Ends = key.Rules, key.Bot, key.Expires
	}
	_, err := s.DecideApproval(ctx, c, control.ApprovalDecision{Approval: d.Approval, Decision: decisions[d.Decision]})
	return err
}

// operatorEvents are the admin events of what operators change over their connections.
var operatorEvents = map[string]string{
	wire.MethodNodeRename: control.EventNodeRenamed, wire.MethodDeviceRename: control.EventNodeRenamed,
	wire.MethodNodeRemove: control.EventNodeRemoved, wire.MethodDeviceRemove: control.EventNodeRemoved,
	wire.MethodNodeApprove: control.EventPairApproved, wire.MethodDeviceApprove: control.EventPairApproved,
	wire.MethodNodeReject: control.EventPairRejected, wire.MethodDeviceReject: control.EventPairRejected,
	wire.MethodTokenRotate: control.EventPairRevoked, wire.MethodTokenRevoke: control.EventPairRevoked,
	wire.MethodSetupCode: control.EventPairInvited, wire.MethodNodeExecPolicySet: control.EventNodePolicy,
}

// operatorChanged records what an operator has changed.
func operatorChanged(ctx context.Context, s *control.Service, c gateway.Change) {
	s.RecordAdminEvent(ctx, control.Caller{Person: c.Person, Key: c.Key, Address: c.Address, Program: "openclaw"},
		operatorEvents[c.Method], c.About)
}

// shutdownNow shuts a gateway down without waiting.
func shutdownNow(g *gateway.Gateway) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g.Shutdown(ctx) //nolint:errcheck // the error is that it did not wait
}

// broadcaster returns functions that publish to all other instances, and subscribe to what they
// publish.
func broadcaster(messages *bus.Bus, subject string) (tell func([]byte) error, hear func(func([]byte)) error) {
	mine := subject + messages.Instance
	tell = func(data []byte) error { return messages.Publish(mine, data) }
	hear = func(handle func([]byte)) error {
		_, err := messages.Subscribe(subject+"*", func(m *nats.Msg) { // ends with the bus
			if !messages.HasSubject(m, mine) {
				handle(m.Data)
			}
		})
		return err
	}
	return tell, hear
}

// isForeignOrigin reports whether a request comes from a page of another site. Browsers send an
// Origin header, programs do not.
func isForeignOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || !strings.EqualFold(u.Host, r.Host))
}

// orGateway passes WebSockets on paths without a handler to the gateway, because OpenClaw programs
// use whatever address they are given.
func orGateway(mux *http.ServeMux, g http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			if _, pattern := mux.Handler(r); pattern == "" || pattern == homePattern {
				if isForeignOrigin(r) {
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

// agentOptions returns the options of bots that agents of an OpenClaw gateway answer.
func (b *Base) agentOptions(log *slog.Logger) agents.Options {
	return agents.Options{
		SaveIdentity: func(ctx context.Context, number int64, url, identity string) error {
			_, err := b.Registry.Change(ctx, number, hub.Changes{Set: map[string]string{"device_identity": identity},
				ForAddress: url})
			return err
		},
		Dial: func(row store.Bot) func(context.Context, string, string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), ownerLimit)
			defer cancel()
			if b.trusts(ctx, row.Owner) {
				return nil // an administrator's gateway may well run on this machine
			}
			return b.dial
		},
		Version: b.Version, Logger: log,
	}
}

// botHealth returns a function that reports the connection state of a bot.
func botHealth(cable *eyeclaw.Server, base *Base) func(store.Bot) control.Health {
	return func(b store.Bot) control.Health {
		switch b.Kind {
		case agents.KindName:
			return agentHealth(base.Agents, b.Number)
		case modelKind:
			return base.models.health(b)
		}
		return eyeclawHealth(cable, b)
	}
}

// agentHealth returns the state of the gateway connection of a bot that an agent answers. It is
// zero before the first question and long after the last one.
func agentHealth(all *agents.Bots, bot int64) control.Health {
	s, ok := all.Status(bot)
	if !ok {
		return control.Health{}
	}
	h := control.Health{Since: s.Since, LastSeen: s.LastAnswer, Gateway: s.Version, Problem: s.Problem,
		Command: s.Command, Code: string(s.Code), Certificate: refusedCertificate(s.Certificate)}
	if s.Connected {
		h.Connections = 1
	}
	return h
}

// refusedCertificate returns a gateway's certificate that is not accepted, or nil.
func refusedCertificate(c *client.Certificate) *control.Certificate {
	if c == nil {
		return nil
	}
	return &control.Certificate{Shown: c.Shown, Pinned: c.Pinned}
}
