package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/control"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/openclaw/shim"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// The kinds of upstreams.
const (
	// UpstreamMCP is an MCP server whose tools join the board.
	UpstreamMCP = control.KindServer
	// UpstreamDialsIn is a tool server that connects to us.
	UpstreamDialsIn = control.KindDialsIn
	// UpstreamCloud is a service that we connect to, and that calls our tools.
	UpstreamCloud = control.KindCloud
	// UpstreamShim is an OpenClaw gateway of somebody's that the owner's devices join
	// as nodes.
	UpstreamShim = control.KindShim
)

// errCommand keeps those who do not run the installation from running programs
// on its machine.
var errCommand = talk.Say{
	Zh: "只有管理员可以添加命令，因为它会在服务器的机器上运行",
	En: "only an admin may add a command, since it runs on the server's machine",
}.Wrong()

// What is wrong with what is said about an upstream.
var (
	sayUpstreamThere   = talk.Say{Zh: "已经有一个叫 %s 的上游了", En: "there is an upstream named %s already"}
	sayUpstreamNoToken = talk.Say{Zh: "%s 不会连接到本服务器，所以没有令牌", En: "%s does not connect to this server, so it has no token"}
)

// AddUpstream adds an upstream of an owner. Settings are of the kind's type, and
// valid. For a kind that connects to us it returns the token by which it does,
// which is not kept and cannot be shown again.
func (b *Base) AddUpstream(ctx context.Context, owner store.Person, slug, kind string, settings any) (u store.Upstream, token string, err error) {
	if err := board.CheckSlug(slug); err != nil {
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
		token = "pbt_" + seal.Token(32)
		u.TokenHash = seal.Hash(token)
	}
	u, err = b.Store.Upstreams.Add(ctx, u)
	if errors.Is(err, store.ErrExists) {
		err = sayUpstreamThere.Wrong(slug)
	}
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
	if u.TokenHash == "" {
		return "", sayUpstreamNoToken.Wrong(u.Slug)
	}
	token = "pbt_" + seal.Token(32)
	u.TokenHash = seal.Hash(token)
	return token, b.Store.Upstreams.Save(ctx, u)
}

// UpstreamSettings reads the settings of an upstream, secrets readable.
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

// sealed is settings as they are kept: as a whole, since addresses and
// environments hold secrets too.
func (b *Base) sealed(settings any) (json.RawMessage, error) {
	plain, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	return json.Marshal(b.Box.Seal(string(plain)))
}

// OutletOf is the id of the outlet that an upstream is plugged into.
func OutletOf(u store.Upstream) string { return "upstream:" + strconv.FormatInt(u.Number, 10) }

// dangerousTools remembers what a tool server calls destructive, by its outlet.
func (b *Base) dangerousTools(ctx context.Context, outlet string, now []string) ([]string, error) {
	number, err := strconv.ParseInt(strings.TrimPrefix(outlet, "upstream:"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the outlet of an upstream: %w", err)
	}
	return b.Store.Upstreams.Dangerous(ctx, number, now, upstream.MaxDangerous)
}

// plugUpstream plugs a tool server in.
func plugUpstream(hub *board.Board, log *slog.Logger) func(upstream.Spec, tool.Provider) upstream.Socket {
	return func(s upstream.Spec, p tool.Provider) upstream.Socket {
		socket, err := hub.Plug(board.Outlet{ID: s.ID, Owner: s.Owner, Slug: s.Slug, Kind: "upstream", Title: s.Title, Held: s.DialsIn}, p)
		if err != nil {
			log.Error("the tools of an upstream cannot be offered", "upstream", s.ID, "error", err)
			return noSocket{}
		}
		return socket
	}
}

// noSocket is where a provider is plugged in that cannot be.
type noSocket struct{}

func (noSocket) Offer([]tool.Tool) {}
func (noSocket) Unplug()           {}
func (noSocket) Hold(bool) int64   { return 0 }

// reconcile makes what is connected what the database says, again each time that
// changes. It may be called by many goroutines at once: what was read last counts.
func reconcile(b *Base, servers *upstream.Manager, clouds *mcp.Clouds, joined *shims, log *slog.Logger) func(context.Context) error {
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
		var specs []upstream.Spec
		var services []mcp.Cloud
		var gateways []shim.Spec
		for _, u := range rows {
			switch u.Kind {
			case UpstreamMCP, UpstreamDialsIn:
				s := upstream.Spec{
					ID: OutletOf(u), Slug: u.Slug, Title: u.Slug, Owner: u.Owner, Version: u.Version,
					Guarded: !admin[u.Owner], DialsIn: u.Kind == UpstreamDialsIn,
				}
				if err = b.UpstreamSettings(u, &s.Settings); err == nil {
					specs = append(specs, s)
				}
			case UpstreamCloud:
				var s CloudSettings
				if err = b.UpstreamSettings(u, &s); err == nil {
					services = append(services, mcp.Cloud{
						ID: OutletOf(u), Version: u.Version, Slug: u.Slug, Owner: u.Owner, URL: s.URL,
						Allow: s.Allow, Deny: s.Deny, Most: s.Most, Guarded: !admin[u.Owner],
					})
				}
			case UpstreamShim:
				var s ShimSettings
				if err = b.UpstreamSettings(u, &s); err == nil {
					gateways = append(gateways, s.spec(u, !admin[u.Owner]))
				}
			}
			if err != nil { // one of them must not keep the others away
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

// newClouds makes the keeper of connections to services that call our tools: one
// instance at a time has each.
func newClouds(b *Base, doors *mcp.Server, instance string, dial func(context.Context, string, string) (net.Conn, error)) *mcp.Clouds {
	return mcp.NewClouds(mcp.CloudOptions{
		Server: doors, Dial: dial,
		Lease: func(ctx context.Context, name string, d time.Duration) (bool, error) {
			now := time.Now()
			return b.Store.Leases.Take(ctx, name, instance, now, now.Add(d))
		},
		Release: func(ctx context.Context, name string) error { return b.Store.Leases.Release(ctx, name, instance) },
	})
}
