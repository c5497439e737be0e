package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// shimFlags name a joined gateway.
type shimFlags struct {
	Name        string `arg:"" help:"Name of the gateway, as given to shim add."`
	User        string `help:"Owner, if several accounts have one with this name." placeholder:"NAME"`
	targetFlags `embed:""`
}

// find connects, finds the gateway, and calls use with both.
func (f *shimFlags) find(ctx context.Context, sh *shell, use func(*conn, control.Upstream) error) error {
	return f.connect(ctx, sh, func(at *conn) error {
		all, err := at.upstreams(ctx, f.User)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(u control.Upstream) bool { return u.Slug != f.Name })
		some := onlyShims(slices.Clone(all))
		switch {
		case len(some) == 1:
			return use(at, some[0])
		case len(some) > 1:
			return usage(i18n.Message("%d people have a gateway named %s; choose one with --user NAME"),
				len(some), f.Name)
		case len(all) > 0:
			return i18n.Message("%s is an upstream of kind %s; see: patchbay upstream show %s").Errorf(f.Name,
				all[0].Kind, f.Name)
		}
		return i18n.Message("there is no gateway %q; patchbay shim list lists the gateways").Errorf(f.Name)
	})
}

// onlyShims removes upstreams of other kinds.
func onlyShims(all []control.Upstream) []control.Upstream {
	return slices.DeleteFunc(all, func(u control.Upstream) bool { return u.Kind != control.KindShim })
}

// isSettled reports whether the state of all nodes at a gateway is known.
func isSettled(u *control.Upstream) bool {
	if u.State == "" || u.State == control.UpstreamElsewhere || len(u.Nodes) == 0 {
		return false
	}
	return !slices.ContainsFunc(u.Nodes, func(n control.ShimNode) bool { return n.State == control.UpstreamConnecting })
}

// shimEvery is how often a running server is asked for the state of the nodes at a gateway.
const shimEvery = 250 * time.Millisecond

// awaitShim waits until the state of all nodes at a gateway is known or wait is over, and returns
// the last known state.
func (c *conn) awaitShim(ctx context.Context, number int64, wait time.Duration) (*control.Upstream, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	again := time.NewTicker(shimEvery)
	defer again.Stop()
	for {
		all, err := c.upstreams(ctx, "")
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(u control.Upstream) bool { return u.Number == number })
		if i >= 0 && isSettled(&all[i]) {
			return &all[i], nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			if i < 0 {
				return nil, nil
			}
			return &all[i], nil
		case <-again.C:
		}
	}
}

const (
	msgShimPairing  = i18n.Message("pairing")
	msgShimApproval = i18n.Message("pending approval")
	msgUntrusted    = i18n.Message("certificate not accepted")
	msgCertChanged  = i18n.Message("certificate changed")
	msgDevice       = i18n.Message("DEVICE")
	msgNode         = i18n.Message("NODE")
	msgTaken        = i18n.Message("ACCEPTED")
	msgAllDevices   = i18n.Message("all")
	msgShimNoNodes  = i18n.Message("No device has joined: none matches the setting devices.")
	msgShimUnknown  = i18n.Message("The status of its nodes is known only while a server runs: patchbay serve%s")
	msgShimOther    = i18n.Message("Another instance has joined it, or the server has not loaded it yet.")
	msgRunHere      = i18n.Message("If that gateway is a Patchbay: patchbay pair list")
	msgRunThere     = i18n.Message("\nThe gateway's owner must run this on the gateway's machine:")
	msgCertShown    = i18n.Message("\nThe gateway's certificate has this SHA-256 fingerprint:")
	msgCertPinned   = i18n.Message("Accepted was the one with this fingerprint:")
	msgCertCompare  = i18n.Message("To see it on the gateway's machine:")
	msgCertAccept   = i18n.Message("If they are the same, accept it:")
)

// shimState returns the name of a state of a node at a gateway.
func (sh *shell) shimState(state string) string {
	switch state {
	case control.NodePairing:
		return msgShimPairing.In(sh.lang)
	case control.NodeApproval:
		return msgShimApproval.In(sh.lang)
	case control.NodeUntrusted:
		return msgUntrusted.In(sh.lang)
	case control.NodeChanged:
		return msgCertChanged.In(sh.lang)
	}
	return sh.upstreamState(state)
}

// showShimNodes prints the state of the nodes at a gateway, and what the owner has to do. Again and
// retry are the flags of a command that concerns the data folder, or the server.
func (sh *shell) showShimNodes(u control.Upstream, again, retry string) {
	switch {
	case u.State == "":
		sh.say(msgShimUnknown, again)
		return
	case u.State == control.UpstreamElsewhere:
		sh.say(msgShimOther)
		return
	case len(u.Nodes) == 0:
		sh.say(msgShimNoNodes)
		return
	}
	var cells [][]string
	var run []string
	var refused *control.Certificate
	for _, n := range u.Nodes {
		device := n.Device
		if device == "" {
			device = msgAllDevices.In(sh.lang)
		}
		note := n.Problem
		if n.Command != "" || n.Certificate != nil {
			note = "" // the state and what to run say it
		}
		if n.Certificate != nil {
			refused = n.Certificate
		}
		if !n.NextTry.IsZero() {
			note = strings.TrimSpace(note + " " + msgNextTry.In(sh.lang, n.NextTry.Local().Format("15:04:05")))
		}
		cells = append(cells, []string{
			plain(n.Name), plain(device), shortID(n.Node, shortNode), sh.shimState(n.State), fmt.Sprint(n.Tools),
			fmt.Sprint(n.Taken), singleLine(plain(note)),
		})
		if n.Command != "" && !slices.Contains(run, n.Command) {
			run = append(run, n.Command)
		}
	}
	sh.table([]i18n.Message{msgName, msgDevice, msgNode, msgState, msgToolCount, msgTaken, i18n.Message("")}, cells)
	if len(run) > 0 {
		sh.say(msgRunThere)
	}
	for _, command := range run {
		sh.printf("  %s\n", plain(command))
	}
	if len(run) > 0 {
		sh.say(msgRunHere)
	}
	if refused != nil {
		sh.showCertificate(*refused, fmt.Sprintf("patchbay shim set %s tls_fingerprint=%s%s", u.Slug, refused.Shown,
			retry))
	}
}

// fingerprintCommand prints the fingerprint of the certificate that OpenClaw has made for its
// gateway.
const fingerprintCommand = "openssl x509 -noout -fingerprint -sha256 -in ~/.openclaw/gateway/tls/gateway-cert.pem"

// showCertificate prints the fingerprints of a gateway's certificate that is not accepted, and the
// command that accepts it.
func (sh *shell) showCertificate(c control.Certificate, accept string) {
	sh.say(msgCertShown)
	sh.printf("  %s\n", plain(c.Shown))
	if c.Pinned != "" {
		sh.say(msgCertPinned)
		sh.printf("  %s\n", plain(c.Pinned))
	}
	sh.say(msgCertCompare)
	sh.printf("  %s\n", fingerprintCommand)
	sh.say(msgCertAccept)
	sh.printf("  %s\n", plain(accept))
}
