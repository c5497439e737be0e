package cli

import (
	"context"
	"fmt"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type shimAddCmd struct {
	Name           string        `arg:"" help:"Name of the gateway: 1 to 32 lowercase letters, digits and -."`
	URL            string        `name:"url" help:"URL of the gateway, such as wss://gateway.example.com, or ws:// in a local network; @FILE reads it from a file." placeholder:"URL" required:""`
	Token          string        `help:"Token of the gateway, gateway.auth.token in its settings; @FILE reads it from a file (@- from standard input)." placeholder:"TOKEN"`
	TLSFingerprint string        `name:"tls-fingerprint" help:"SHA-256 fingerprint of the gateway's certificate, if no public authority has issued it." placeholder:"FINGERPRINT"`
	Mode           string        `help:"Mode: each (every board is a node) or one (all boards are one node); default: each." enum:"each,one" default:"each" placeholder:"MODE"`
	Devices        []string      `help:"Boards to connect: names, or patterns with the wildcard *; default: all. Repeatable." placeholder:"PATTERN"`
	Title          string        `help:"With --mode one: name of the node at the gateway; default: Patchbay." placeholder:"NAME"`
	Notices        bool          `help:"Forward device notifications, which wake the gateway's agent."`
	Wait           time.Duration `help:"How long to wait for a running server to report the result; default: 10s." placeholder:"TIME" default:"10s"`
	User           string        `help:"Owner of the boards; optional if there is only one account." placeholder:"NAME"`
	targetFlags    `embed:""`
}

// Help returns the command's detailed help with examples.
func (shimAddCmd) Help() string {
	return `The agents of that gateway can then use your boards. The gateway's owner has to approve each node twice: first its connection, then its commands. The commands to run on the gateway's machine are printed here and by shim status. Dangerous tools and tools intended for people are not offered.

Examples:

    patchbay shim add home --url ws://192.168.1.20:18789 --token @token.txt
    patchbay shim add office --url wss://gateway.example.com --token @token.txt --mode one --title Boards
    patchbay shim add home --url ws://127.0.0.1:18789 --devices kitchen --devices 'bed*' --notices
    patchbay shim add lab --url wss://192.168.1.20:18789 --token @token.txt --tls-fingerprint 3f8a…`
}

// shimAdded is the result of joining a gateway.
type shimAdded struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind"`
	// State and Nodes are set if a server runs.
	State string             `json:"state,omitempty"`
	Nodes []control.ShimNode `json:"nodes,omitempty"`
}

const (
	msgShimAdded = i18n.Message("The gateway %s is added.")
	msgShimLater = i18n.Message("Patchbay connects to it as soon as a server runs: patchbay serve%s")
	msgShimNext  = i18n.Message("To see its status: patchbay shim status %s%s")
)

// Run adds the gateway, and waits for the result.
func (c *shimAddCmd) Run(ctx context.Context, sh *shell) error {
	if err := checkWait(c.Wait); err != nil {
		return err
	}
	settings, err := c.settings(sh)
	if err != nil {
		return err
	}
	return c.connect(ctx, sh, func(at *conn) error {
		u, err := api.AddUpstream.Call(ctx, at.Client, control.NewUpstream{Name: c.Name, Kind: control.KindShim,
			Settings: settings, User: c.User})
		if err != nil {
			return err
		}
		added := shimAdded{ID: u.ID, Name: u.Name, Kind: u.Kind}
		var row control.Upstream
		if !at.local {
			seen, err := at.awaitShim(ctx, u.ID, c.Wait)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				return i18n.Message("the gateway is added, but its status is not known: %v").Errorf(err)
			case seen != nil:
				row, added.State, added.Nodes = *seen, seen.State, seen.Nodes
			}
		}
		return sh.result(added, func() { c.show(sh, row, !at.local) })
	})
}

// settings returns the settings of the gateway.
func (c *shimAddCmd) settings(sh *shell) (control.SettingTexts, error) {
	const single = "one"
	if c.Mode != single && c.Title != "" {
		return nil, usage(i18n.Message("--title requires --mode one; otherwise each board uses its own name"))
	}
	url, err := sh.value(c.URL)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	token, err := sh.value(c.Token)
	if err != nil {
		return nil, fmt.Errorf("--token: %w", err)
	}
	set := control.SettingTexts{"url": url, "token": token, "title": c.Title,
		"tls_fingerprint": c.TLSFingerprint}
	if c.Mode == single {
		set["mode"] = single
	}
	if len(c.Devices) > 0 {
		set["devices"] = control.SettingText(c.Devices)
	}
	if c.Notices {
		set["notices"] = "true"
	}
	return set, nil
}

func (c *shimAddCmd) show(sh *shell, u control.Upstream, served bool) {
	sh.say(msgShimAdded, c.Name)
	if !served {
		sh.say(msgShimLater, c.retryFlags())
		return
	}
	sh.showShimNodes(u, c.dataFlags.retryFlags(), c.retryFlags())
	if u.State != control.UpstreamReady || !isSettled(&u) {
		sh.say(msgShimNext, c.Name, c.retryFlags())
	}
}
