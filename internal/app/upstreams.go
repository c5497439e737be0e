package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/mcpregistry"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/openclaw/shim"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Kinds of upstreams.
const (
	// UpstreamMCP is an MCP server whose tools are offered by the hub.
	UpstreamMCP = control.KindServer
	// UpstreamDialsIn is a tool server that connects to us.
	UpstreamDialsIn = control.KindDialsIn
	// UpstreamCloud is a service that we connect to, and that calls our tools.
	UpstreamCloud = control.KindCloud
	// UpstreamShim is an OpenClaw gateway that the owner's devices join as nodes.
	UpstreamShim = control.KindShim
)

// errCommand prevents people who are not administrators from running programs on the server's
// machine.
var errCommand = i18n.Message("only an admin may add a command, since it runs on the server's machine").Errorf()

// AddUpstream adds an upstream of an owner. Settings have the kind's type and are valid. For a kind
// that connects to us it returns the token, which is not stored and cannot be shown again.
func (b *Base) AddUpstream(ctx context.Context, owner store.Person, slug, kind string,
	settings any) (u store.Upstream, token string, err error) {
	if err := hub.CheckSlug(slug); err != nil {
		return u, "", err
	}
	if s, ok := settings.(*upstream.Settings); ok && s.Command != "" && owner.Role != account.RoleAdmin {
		return u, "", errCommand
	}
	u = store.Upstream{Owner: owner.ID, Slug: slug, Kind: kind, Created: time.Now()}
	if u.Settings, err = b.sealed(settings); err != nil {
		return u, "", err
	}
	if kind == UpstreamDialsIn {
		token = "pbt_" + seal.NewToken(32)
		u.TokenHash = seal.Hash(token)
	}
	u, err = b.Store.Upstreams.Add(ctx, u)
	return u, token, err
}

// SetUpstream replaces the settings of an upstream.
func (b *Base) SetUpstream(ctx context.Context, u store.Upstream, settings any) (err error) {
	if u.Settings, err = b.sealed(settings); err != nil {
		return err
	}
	return b.Store.Upstreams.Save(ctx, u)
}

// RotateUpstream gives an upstream that connects to us a new token.
func (b *Base) RotateUpstream(ctx context.Context, u store.Upstream) (token string, err error) {
	token = "pbt_" + seal.NewToken(32)
	u.TokenHash = seal.Hash(token)
	return token, b.Store.Upstreams.Save(ctx, u)
}

// UpstreamSettings decodes the settings of an upstream, with their secrets, into a struct.
func (b *Base) UpstreamSettings(u store.Upstream, into any) error {
	var text string
	if err := json.Unmarshal(u.Settings, &text); err != nil {
		return fmt.Errorf("upstream %s: %w", u.Slug, err)
	}
	plain, err := b.Box.Open(text)
	if err != nil {
		return fmt.Errorf("upstream %s: %w", u.Slug, err)
	}
	return json.Unmarshal([]byte(plain), into)
}

// sealed returns settings as they are stored: sealed as a whole, because addresses and environments
// hold secrets too.
func (b *Base) sealed(settings any) (json.RawMessage, error) {
	plain, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	return json.Marshal(b.Box.Seal(string(plain)))
}

// UpstreamProviderID returns the provider id of an upstream.
func UpstreamProviderID(u store.Upstream) string {
	return "upstream:" + strconv.FormatInt(u.Number, 10)
}

// providerIDFor returns the provider id of an upstream for a person: others than its owner, with
// whom it is shared, have providers of their own.
func providerIDFor(u store.Upstream, person string) string {
	if person == "" || person == u.Owner {
		return UpstreamProviderID(u)
	}
	return UpstreamProviderID(u) + ":" + person
}

// upstreamNumber returns the number of the upstream with a provider id.
func upstreamNumber(provider string) (int64, error) {
	number, _, err := parseProviderID(provider)
	return number, err
}

// parseProviderID returns the number of the upstream with a provider id, and the person with whom
// it is shared; empty: the provider is the owner's.
func parseProviderID(provider string) (number int64, person string, err error) {
	digits, person, _ := strings.Cut(strings.TrimPrefix(provider, "upstream:"), ":")
	number, err = strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, "", fmt.Errorf("the provider of an upstream: %w", err)
	}
	return number, person, nil
}

// dangerousTools stores which tools a server declares as destructive, by its provider id.
func (b *Base) dangerousTools(ctx context.Context, provider string, now []string) ([]string, error) {
	number, err := upstreamNumber(provider)
	if err != nil {
		return nil, err
	}
	return b.Store.Upstreams.RememberDangerous(ctx, number, now, upstream.MaxDangerous)
}

// registerUpstream returns a function that registers a tool server with the hub.
func registerUpstream(h *hub.Hub, log *slog.Logger) func(upstream.Spec, tool.Provider) upstream.Registration {
	return func(s upstream.Spec, p tool.Provider) upstream.Registration {
		socket, err := h.Register(hub.ProviderRef{ID: s.ID, Owner: s.Owner, Slug: s.Slug,
			Kind: "upstream", Title: s.Title, Held: s.Inbound}, p)
		if err != nil {
			log.Error("the tools of an upstream cannot be offered", "upstream", s.ID, "error", err)
			return noRegistration{}
		}
		return socket
	}
}

// noRegistration stands in for a registration that failed.
type noRegistration struct{}

func (noRegistration) SetTools([]tool.Tool)         {}
func (noRegistration) Unregister()                  {}
func (noRegistration) Hold(bool) int64              { return 0 }
func (noRegistration) NotifyContentChanged()        {}
func (noRegistration) NotifyResourceUpdated(string) {}
func (noRegistration) NotifyLog(tool.Log)           {}

// reconcile returns a function that makes the connections match the database. It is called after
// every change and is safe for concurrent use.
func reconcile(b *Base, servers *upstream.Manager, clouds *mcp.Clouds, joined *shims,
	log *slog.Logger) func(context.Context) error {
	var one sync.Mutex
	return func(ctx context.Context) error {
		one.Lock()
		defer one.Unlock()
		people, err := b.Store.People.All(ctx)
		if err != nil {
			return err
		}
		admin := map[string]bool{}
		for _, p := range people {
			admin[p.ID] = p.Role == account.RoleAdmin
		}
		rows, err := b.Store.Upstreams.ByOwner(ctx, "")
		if err != nil {
			return err
		}
		connections, err := b.Store.UpstreamSignIns.Connections(ctx)
		if err != nil {
			return err
		}
		var specs []upstream.Spec
		shared := newSharing(rows, connections)
		var services []mcp.Cloud
		var gateways []shim.Spec
		for _, u := range rows {
			switch u.Kind {
			case UpstreamMCP, UpstreamDialsIn:
				s := upstream.Spec{
					ID: UpstreamProviderID(u), Slug: u.Slug, Title: u.Slug, Owner: u.Owner, Version: u.Version,
					Pins: u.Pins, SignIns: shared.told[u.Number],
					Untrusted: !admin[u.Owner], Inbound: u.Kind == UpstreamDialsIn,
				}
				if err = b.UpstreamSettings(u, &s.Settings); err == nil {
					specs = append(append(specs, s), shared.specs(u, s)...)
				}
			case UpstreamCloud:
				var s CloudSettings
				if err = b.UpstreamSettings(u, &s); err == nil {
					services = append(services, mcp.Cloud{
						ID: UpstreamProviderID(u), Version: u.Version, Slug: u.Slug, Owner: u.Owner, URL: s.URL,
						Allow: s.Allow, Deny: s.Deny, MaxTools: s.Most, Untrusted: !admin[u.Owner],
					})
				}
			case UpstreamShim:
				var s ShimSettings
				if err = b.UpstreamSettings(u, &s); err == nil {
					gateways = append(gateways, s.spec(u, !admin[u.Owner]))
				}
			}
			if err != nil { // one invalid upstream must not affect the others
				log.Error("the settings of an upstream cannot be read", "upstream", u.Slug, "error", err)
				err = nil
			}
		}
		clouds.Set(services)
		joined.set(gateways)
		servers.Set(specs)
		return nil
	}
}

// newRegistry returns the registry of tool servers; nil if none is configured.
func newRegistry(c *config.Config) *mcpregistry.Client {
	if c.MCP.Registry == "" {
		return nil
	}
	return mcpregistry.New(c.MCP.Registry)
}

// newClouds returns the manager of connections to services that call our tools. One instance at a
// time holds each connection.
func newClouds(b *Base, handler *mcp.Server, instance string,
	dial func(context.Context, string, string) (net.Conn, error)) *mcp.Clouds {
	l := leases{b.Store.Leases, instance}
	return mcp.NewClouds(mcp.CloudOptions{Server: handler, Dial: dial, Lease: l.take, Release: l.release})
}
