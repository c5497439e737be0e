package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

type simulateNodeCmd struct {
	Server    string        `help:"URL of the server or OpenClaw gateway (ws://… or http://…); default: the server on the data folder." placeholder:"URL"`
	Key       string        `help:"A key with scope node, or the gateway's token; @FILE reads it from a file. Default: the server on the data folder creates a key that is valid for up to one day." placeholder:"KEY"`
	Name      string        `help:"Name of the node." default:"Simulated node" placeholder:"NAME"`
	Commands  []string      `help:"Commands of the node; default: system.notify and system.which. Unknown commands return their parameters." default:"system.notify,system.which" placeholder:"NAME"`
	Tools     bool          `help:"Also simulate a lamp with tools."`
	Platform  string        `help:"Platform that the node reports: linux, macos, windows, android or ios; default: linux. It determines which commands are allowed." enum:"linux,macos,windows,android,ios" default:"linux" placeholder:"NAME"`
	Identity  string        `help:"File that stores the node's key, by which servers recognize it; default: simulated-nodes.json in the data folder." placeholder:"FILE"`
	Count     int           `help:"Number of idle nodes to simulate, instead of one." placeholder:"N"`
	Ramp      string        `help:"With --count: start rate; default: 50/s." placeholder:"N/s" default:"50/s"`
	For       time.Duration `help:"End after this time; default: at Ctrl-C." placeholder:"TIME"`
	User      string        `help:"Owner of the node, if its key is created here; optional if there is only one account." placeholder:"NAME"`
	dataFlags `embed:""`

	perSecond float64
}

// Help returns the command's detailed help with examples.
func (simulateNodeCmd) Help() string {
	return `Behaves like OpenClaw's own node host, and prints received commands without executing them. If it needs approval, it prints the command for that, and continues automatically afterwards. Its key is stored, so it has to be approved only once. With --json, each line is an event.

Examples:

    patchbay simulate node
    patchbay simulate node --name Kitchen --tools --commands kitchen.echo
    patchbay simulate node --server wss://board.example.org --key @key.txt
    patchbay simulate node --server ws://127.0.0.1:18789 --key $TOKEN --platform android --commands camera.list
    patchbay simulate node --count 1000 --ramp 100/s --for 5m`
}

// Run connects one node or many.
func (c *simulateNodeCmd) Run(ctx context.Context, sh *shell) error {
	if err := c.validate(); err != nil {
		return err
	}
	p, err := c.target(ctx, sh)
	if err != nil {
		return err
	}
	defer p.revokeKey(ctx, sh)
	ids, err := openIdentities(p.file)
	if err != nil {
		return err
	}
	if c.Count > 0 {
		return c.many(ctx, sh, p, ids)
	}
	limited, cancel := c.limited(ctx)
	defer cancel()
	err = newDesktopNode(sh, c, p, ids).runUntilDone(limited)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil // the requested duration is over
	}
	return err
}

// limited returns a context that ends when the requested duration is over.
func (c *simulateNodeCmd) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.For > 0 {
		return context.WithTimeout(ctx, c.For)
	}
	return ctx, func() {}
}

// maxNodes is the maximum of --count: each node has a connection.
const maxNodes = 50000

func (c *simulateNodeCmd) validate() error {
	rate, err := strconv.ParseFloat(strings.TrimSuffix(c.Ramp, "/s"), 64)
	c.perSecond = rate
	switch {
	case err != nil || !(rate > 0 && rate < 1e6):
		return usage(i18n.Message("--ramp is %q; it must have the form 50/s"), c.Ramp)
	case c.Count < 0 || c.Count > maxNodes:
		return usage(i18n.Message("--count is %d; it must be between 1 and %d"),
			c.Count, maxNodes)
	case c.For < 0:
		return usage(i18n.Message("--for is %s; it must be a duration such as 5m"), c.For)
	}
	return nil
}

// nodeTarget is the server that simulated nodes connect to.
type nodeTarget struct {
	url   string
	over  http.RoundTripper // nil means the default
	file  string            // file with their identities
	again string            // flags to append to suggested commands
	here  bool              // it is the server that runs on the data directory

	key string // with scope node; empty if there is none yet
	// make creates such a key, and returns how to revoke it; nil if it cannot be created here.
	make   func(context.Context) (key string, revoke func(context.Context) error, err error)
	revoke func(context.Context) error // nil if none was created
}

// target finds the server.
func (c *simulateNodeCmd) target(ctx context.Context, sh *shell) (*nodeTarget, error) {
	settings, err := c.load(sh)
	if err != nil {
		return nil, err
	}
	p := &nodeTarget{file: c.Identity, again: c.retryFlags()}
	if p.file == "" {
		p.file = filepath.Join(settings.Data, "simulated-nodes.json")
	}
	if p.key, err = sh.value(c.Key); err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	if c.Server != "" {
		if p.url, err = client.ParseURL(c.Server); err != nil {
			return nil, usage(i18n.Message("--server: %v"), err)
		}
		return p, nil
	}
	r, err := app.ConnectRunning(ctx, settings, sh.lang)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, i18n.Message("no server runs on this data folder; start one with patchbay serve%s, or give --server").Errorf(c.retryFlags())
	}
	p.here, p.url, p.over = true, "ws"+strings.TrimPrefix(r.URL, "http"), app.LocalTransport()
	p.make = func(ctx context.Context) (string, func(context.Context) error, error) { return c.makeKey(ctx, r) }
	return p, nil
}

// keyLife is the lifetime of the key of simulated nodes. The key is revoked when they end; the
// lifetime is for killed processes.
const keyLife = 24 * time.Hour

// makeKey creates a key for nodes.
func (c *simulateNodeCmd) makeKey(ctx context.Context, at *api.Client) (key string,
	revoke func(context.Context) error, err error) {
	k, err := api.AddKey.Call(ctx, at, control.NewKey{User: c.User, Name: "simulated node", Scopes: []string{"node"},
		Expire: time.Now().Add(keyLife)})
	return k.Secret, func(ctx context.Context) error {
		_, err := api.RevokeKey.Call(ctx, at, control.KeyRevocation{Key: k.ID})
		return err
	}, err
}

// needKey creates a key if there is none.
func (p *nodeTarget) needKey(ctx context.Context) error {
	switch {
	case p.key != "":
		return nil
	case p.make == nil:
		return usage(i18n.Message("--key is missing: give a key with scope node (patchbay key add --name node --scope node creates one), or the gateway's token"))
	}
	key, revoke, err := p.make(ctx)
	if err == nil {
		p.key, p.revoke = key, revoke
	}
	return err
}

// revokeLimit is the timeout for revoking a key.
const revokeLimit = 10 * time.Second

// revokeKey revokes the created key: paired nodes have tokens of their own.
func (p *nodeTarget) revokeKey(ctx context.Context, sh *shell) {
	if p.revoke == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeLimit)
	defer cancel()
	if err := p.revoke(ctx); err != nil {
		fmt.Fprintf(sh.stderr, "patchbay: the key of the simulated nodes is good for a day yet: %v\n", err)
	}
}

// machines maps platforms to device names.
var machines = map[string]string{wire.Linux: "Linux", wire.MacOS: "Mac", wire.Windows: "Windows",
	wire.Android: "Android", wire.IOS: "iPhone"}

// options returns the options of a node.
func (c *simulateNodeCmd) options(p *nodeTarget, name string, of nodeIdentity) sim.Options {
	o := sim.Options{
		URL: p.url, Transport: p.over, Token: p.key, DeviceToken: of.Tokens[p.url], Identity: of.Identity, Name: name,
		Platform: c.Platform, Family: machines[c.Platform],
		Caps: []string{"system"}, Commands: c.Commands, SkipIntro: true,
	}
	if c.Tools {
		o.Caps, o.Commands = append(o.Caps, wire.CapMCP), append(slices.Clone(c.Commands), wire.CommandTool)
	}
	return o
}
