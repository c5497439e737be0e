package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

var (
	sayCheckShim     = talk.Say{Zh: "网关 %s", En: "gateway %s"}
	sayCheckShimNode = talk.Say{Zh: "网关 %s 的节点 %s", En: "node %[2]s at gateway %[1]s"}
	sayShimGood      = talk.Say{Zh: "OpenClaw %s，节点 %d 个，工具 %d 个", En: "OpenClaw %s, nodes: %d, tools: %d"}
	sayShimEmpty     = talk.Say{Zh: "没有设备加入", En: "no device joins it"}
	sayShimGreets    = talk.Say{Zh: "网关有应答；设备是否加入，服务运行时才知道",
		En: "a gateway answers; whether devices join it is known only while the server runs"}
	sayNodeCommands = talk.Say{Zh: "网关的主人还没有批准它能做的事", En: "the gateway's owner has not approved what it can do"}
	sayNodeNoTools  = talk.Say{Zh: "网关没有接受它的 %d 个工具：还有能力没有批准，或设置不允许 mcp.tools.call.v1",
		En: "the gateway has taken none of its %d tools: something has to be approved, or its settings deny mcp.tools.call.v1"}
	sayNodeSomeTools = talk.Say{Zh: "网关只接受了 %[2]d 个工具中的 %[1]d 个", En: "the gateway has taken %d of its %d tools"}
	sayNodeCut       = talk.Say{Zh: "有 %d 个工具太多，没有公布", En: "tools that are too many for the gateway: %d"}

	adviceShim = talk.Say{Zh: "解决后再看：patchbay shim status %s%s",
		En: "When that is solved, see: patchbay shim status %s%s"}
	adviceShimURL = talk.Say{Zh: "启动那个网关，或更正地址：patchbay shim set %s url=ws://主机:18789%s",
		En: "Start that gateway, or correct its address: patchbay shim set %s url=ws://HOST:18789%s"}
	adviceShimEmpty = talk.Say{Zh: "批准一台设备，或改变选择：patchbay shim set %s devices=%s",
		En: "Approve a device, or choose others: patchbay shim set %s devices=%s"}
	adviceShimEach = talk.Say{Zh: "让每台设备各自成为节点：patchbay shim set %s mode=each%s",
		En: "Let each device be a node of its own: patchbay shim set %s mode=each%s"}
)

// shim checks an OpenClaw gateway that devices join as nodes.
func (d *doctor) shim(ctx context.Context, b *app.Base, u control.Upstream, live bool) {
	name := localizeBoth(sayCheckShim, u.Slug)
	switch {
	case !live:
		d.shimAlone(ctx, b, name, u)
	case u.State == "":
		d.warn(name, sayUpstreamUnseen.In(d.sh.lang), adviceLookAgain)
	case u.State == control.UpstreamElsewhere:
		d.ok(name, sayBotConnected)
	case len(u.Nodes) == 0:
		d.warn(name, sayShimEmpty.In(d.sh.lang), adviceShimEmpty, u.Slug, d.retryFlags)
	default:
		ready, tools := 0, 0
		for _, n := range u.Nodes {
			if d.shimNode(localizeBoth(sayCheckShimNode, u.Slug, sanitize(n.Name)), u, n) {
				ready++
				tools += n.Taken
			}
		}
		if ready > 0 {
			d.ok(name, sayShimGood, sanitize(u.ServerVersion), ready, tools)
		}
	}
}

// shimAlone checks, without a server, whether a gateway responds. To test more, it would have to
// connect in the name of the devices.
func (d *doctor) shimAlone(ctx context.Context, b *app.Base, name talk.Say, u control.Upstream) {
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
	d.warn(name, sayShimGreets.In(d.sh.lang), adviceServe, d.retryFlags)
}

// shimNode reports one node, unless it is fine.
func (d *doctor) shimNode(name talk.Say, u control.Upstream, n control.ShimNode) (good bool) {
	switch n.State {
	case control.NodePairing:
		d.fail(name, sayUnapproved.In(d.sh.lang), adviceThere, n.Command)
	case control.NodeApproval:
		d.fail(name, sayNodeCommands.In(d.sh.lang), adviceThere, n.Command)
	case control.UpstreamFailed:
		d.fail(name, n.Problem, adviceShim, u.Slug, d.retryFlags)
	case control.UpstreamReady:
		d.shimTools(name, u, n)
		return true
	default:
		found := n.Problem
		if found == "" {
			found = sayConnecting.In(d.sh.lang)
		}
		d.warn(name, found, adviceShim, u.Slug, d.retryFlags)
	}
	return false
}

// shimTools reports whether the gateway has accepted a node's tools.
func (d *doctor) shimTools(name talk.Say, u control.Upstream, n control.ShimNode) {
	command := n.Command
	if command == "" {
		command = "openclaw nodes pending"
	}
	switch {
	case n.Tools > 0 && n.Taken == 0:
		d.warn(name, sayNodeNoTools.In(d.sh.lang, n.Tools), adviceThere, command)
	case n.Taken < n.Tools:
		d.warn(name, sayNodeSomeTools.In(d.sh.lang, n.Taken, n.Tools), adviceThere, command)
	}
	if n.Cut > 0 {
		d.warn(name, sayNodeCut.In(d.sh.lang, n.Cut), adviceShimEach, u.Slug, d.retryFlags)
	}
}
