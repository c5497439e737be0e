package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgCheckShim     = i18n.Message("gateway %s")
	msgCheckShimNode = i18n.Message("node %[2]s at gateway %[1]s")
	msgShimGood      = i18n.Message("OpenClaw %s, nodes: %d, tools: %d")
	msgShimEmpty     = i18n.Message("no device joins it")
	msgShimGreets    = i18n.Message("a gateway answers; whether devices join it is known only while the server runs")
	msgNodeCommands  = i18n.Message("the gateway's owner has not approved what it can do")
	msgNodeNoTools   = i18n.Message("the gateway has taken none of its %d tools: something has to be approved, or its settings deny mcp.tools.call.v1")
	msgNodeSomeTools = i18n.Message("the gateway has taken %d of its %d tools")
	msgNodeCut       = i18n.Message("tools that are too many for the gateway: %d")

	adviceShim      = i18n.Message("When that is solved, see: patchbay shim status %s%s")
	adviceShimURL   = i18n.Message("Start that gateway, or correct its address: patchbay shim set %s url=ws://HOST:18789%s")
	adviceShimEmpty = i18n.Message("Approve a device, or choose others: patchbay shim set %s devices=%s")
	adviceShimEach  = i18n.Message("Let each device be a node of its own: patchbay shim set %s mode=each%s")
)

// shim checks an OpenClaw gateway that devices join as nodes.
func (d *doctor) shim(ctx context.Context, b *app.Base, u control.Upstream, live bool) {
	name := msgCheckShim.With(u.Slug)
	switch {
	case !live:
		d.shimAlone(ctx, b, name, u)
	case u.State == "":
		d.warn(name, msgUpstreamUnseen.In(d.sh.lang), adviceLookAgain)
	case u.State == control.UpstreamElsewhere:
		d.ok(name, msgBotConnected)
	case len(u.Nodes) == 0:
		d.warn(name, msgShimEmpty.In(d.sh.lang), adviceShimEmpty, u.Slug, d.retryFlags)
	default:
		ready, tools := 0, 0
		for _, n := range u.Nodes {
			if d.shimNode(msgCheckShimNode.With(u.Slug, sanitize(n.Name)), u, n) {
				ready++
				tools += n.Taken
			}
		}
		if ready > 0 {
			d.ok(name, msgShimGood, sanitize(u.ServerVersion), ready, tools)
		}
	}
}

// shimAlone checks, without a server, whether a gateway responds. To test more, it would have to
// connect in the name of the devices.
func (d *doctor) shimAlone(ctx context.Context, b *app.Base, name i18n.Text, u control.Upstream) {
	s, err := b.ReadUpstream(u.Upstream)
	if err == nil {
		err = s.Validate()
	}
	settings, ok := s.(*app.ShimSettings)
	if err == nil && ok {
		err = probeGateway(ctx, settings.URL, nil)
	}
	if err != nil {
		d.fail(name, d.errorText(err), adviceShimURL, u.Slug, d.retryFlags)
		return
	}
	d.warn(name, msgShimGreets.In(d.sh.lang), adviceServe, d.retryFlags)
}

// shimNode reports one node, unless it is fine.
func (d *doctor) shimNode(name i18n.Text, u control.Upstream, n control.ShimNode) (good bool) {
	switch n.State {
	case control.NodePairing:
		d.fail(name, msgUnapproved.In(d.sh.lang), adviceThere, n.Command)
	case control.NodeApproval:
		d.fail(name, msgNodeCommands.In(d.sh.lang), adviceThere, n.Command)
	case control.UpstreamFailed:
		d.fail(name, n.Problem, adviceShim, u.Slug, d.retryFlags)
	case control.UpstreamReady:
		d.shimTools(name, u, n)
		return true
	default:
		found := n.Problem
		if found == "" {
			found = msgConnecting.In(d.sh.lang)
		}
		d.warn(name, found, adviceShim, u.Slug, d.retryFlags)
	}
	return false
}

// shimTools reports whether the gateway has accepted a node's tools.
func (d *doctor) shimTools(name i18n.Text, u control.Upstream, n control.ShimNode) {
	command := n.Command
	if command == "" {
		command = "openclaw nodes pending"
	}
	switch {
	case n.Tools > 0 && n.Taken == 0:
		d.warn(name, msgNodeNoTools.In(d.sh.lang, n.Tools), adviceThere, command)
	case n.Taken < n.Tools:
		d.warn(name, msgNodeSomeTools.In(d.sh.lang, n.Taken, n.Tools), adviceThere, command)
	}
	if n.Cut > 0 {
		d.warn(name, msgNodeCut.In(d.sh.lang, n.Cut), adviceShimEach, u.Slug, d.retryFlags)
	}
}
