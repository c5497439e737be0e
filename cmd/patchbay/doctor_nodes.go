package main

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayCheckNodes  = talk.Say{Zh: "OpenClaw 节点", En: "OpenClaw nodes"}
	sayNodesPaired = talk.Say{Zh: "已配对的节点 %d 个，操作程序 %d 个", En: "paired nodes: %d, operators: %d"}
	sayNodesGood   = talk.Say{Zh: "地址 %s；已配对的节点 %d 个，在线 %d 个；操作程序 %d 个",
		En: "%s; paired nodes: %d, connected: %d; operators: %d"}
	sayNodesMute    = talk.Say{Zh: "%s 没有像网关那样应答：%s", En: "%s does not greet as a gateway does: %s"}
	sayPairsWait    = talk.Say{Zh: "有 %d 个程序等待配对，例如 %s", En: "programs that ask to be paired: %d, such as %s"}
	saySurfacesWait = talk.Say{Zh: "有 %d 个节点的命令等待批准，例如 %s",
		En: "nodes whose commands wait to be approved: %d, such as %s"}
	sayAllowUseless = talk.Say{Zh: "没有节点声明 %s", En: "no node declares %s"}
	sayNodesNoTLS   = talk.Say{Zh: "%s 没有加密，OpenClaw 的程序只对附近的地址这样连接",
		En: "%s is not encrypted, which OpenClaw's programs accept from addresses nearby alone"}
	sayNodesNoSocket = talk.Say{Zh: "WebSocket 到不了 %s：%s", En: "WebSockets do not get to %s: %s"}

	advicePairApprove = talk.Say{Zh: "批准：patchbay pair approve %s%s", En: "Approve it with: patchbay pair approve %s%s"}
	adviceNodeList    = talk.Say{Zh: "检查拼写；各节点声明了什么：patchbay node list%s",
		En: "See whether it is spelt right, and what nodes declare: patchbay node list%s"}
	adviceNodesTLS = talk.Say{Zh: "在前面加上 TLS，然后：patchbay serve --public-url https://主机名%s",
		En: "Put TLS in front, then: patchbay serve --public-url https://HOST%s"}
	adviceNodesSocket = talk.Say{Zh: "让反向代理转发 Upgrade 头，再检查：patchbay doctor%s",
		En: "Have the reverse proxy pass the header Upgrade on, and look again: patchbay doctor%s"}
	adviceNodesMute = talk.Say{Zh: "重新启动服务：patchbay serve%s", En: "Start the server anew: patchbay serve%s"}
)

// peersAtOnce is how many peers are read at once.
const peersAtOnce = 1000

// nodes checks what concerns OpenClaw programs that connect to the server. Without any, and without
// a key or setting for them, there is nothing to check.
func (d *doctor) nodes(ctx context.Context, b *app.Base) {
	peers, asks, wanted, err := nodeState(ctx, b)
	if err != nil {
		d.fail(sayCheckNodes, d.errorText(err), adviceLook)
		return
	}
	if len(peers)+len(asks) == 0 && !wanted {
		return
	}
	d.checkOwnNodes(ctx, peers)
	d.checkNodeEndpoint(ctx)
	d.reportPending(asks, store.RequestDevice, sayPairsWait)
	d.reportPending(asks, store.RequestSurface, saySurfacesWait)
	d.allowed(peers, asks)
}

// nodeState reads all peers and their requests. wanted means that there is a key or a setting for
// nodes.
func nodeState(ctx context.Context, b *app.Base) (peers []store.Peer, asks []store.PeerRequest, wanted bool,
	err error) {
	for after := ""; ; {
		page, err := b.Store.Peers.ByOwner(ctx, "", after, peersAtOnce)
		if err != nil {
			return nil, nil, false, err
		}
		peers = append(peers, page...)
		if len(page) < peersAtOnce {
			break
		}
		after = page[len(page)-1].ID
	}
	for _, kind := range []string{store.RequestDevice, store.RequestSurface} {
		some, err := b.Store.Peers.Requests(ctx, kind, "", time.Now())
		if err != nil {
			return nil, nil, false, err
		}
		asks = append(asks, some...)
	}
	keys, err := b.Store.Keys.ByPerson(ctx, "")
	wanted = len(b.Config.Nodes.Allow)+len(b.Config.Nodes.Deny) > 0 ||
		slices.ContainsFunc(keys, func(k store.Key) bool {
			return k.Revoked.IsZero() && slices.Contains(k.Scopes, account.ScopeNode)
		})
	return peers, asks, wanted, err
}

// checkOwnNodes checks that the running server responds like a gateway, and counts the connected
// nodes.
func (d *doctor) checkOwnNodes(ctx context.Context, peers []store.Peer) {
	nodes, operators := map[string]bool{}, 0
	for _, p := range peers {
		if slices.Contains(p.Roles, wire.RoleNode) {
			nodes[p.ID] = true
		}
		if slices.Contains(p.Roles, wire.RoleOperator) {
			operators++
		}
	}
	r, err := findRunning(ctx, d.sh, d.settings)
	if err != nil || r == nil { // the check of the server reports it
		d.ok(sayCheckNodes, sayNodesPaired, len(nodes), operators)
		return
	}
	address := "ws" + strings.TrimPrefix(r.url, "http")
	if err := probeGateway(ctx, address, localTransport()); err != nil {
		d.fail(sayCheckNodes, sayNodesMute.In(d.sh.lang, address, err), adviceNodesMute, d.retryFlags)
		return
	}
	var list wire.NodeList
	if err := r.do(ctx, http.MethodGet, "/api/v1/nodes", nil, &list); err != nil {
		d.fail(sayCheckNodes, d.errorText(err), adviceLook)
		return
	}
	connected := 0
	for _, n := range list.Nodes {
		if n.Connected && nodes[n.NodeID] {
			connected++
		}
	}
	d.ok(sayCheckNodes, sayNodesGood, address, len(nodes), connected, operators)
}

// checkNodeEndpoint checks that remote nodes can use the public URL.
func (d *doctor) checkNodeEndpoint(ctx context.Context) {
	address := d.settings.PublicURL
	if address == "" {
		return
	}
	address, err := client.ParseURL(address)
	if err != nil {
		d.warn(sayCheckNodes, sayNodesNoTLS.In(d.sh.lang, d.settings.PublicURL), adviceNodesTLS, d.retryFlags)
		return
	}
	if err := probeGateway(ctx, address, nil); err != nil {
		d.warn(sayCheckNodes, sayNodesNoSocket.In(d.sh.lang, address, err), adviceNodesSocket, d.retryFlags)
	}
}

// reportPending reports pending requests of a kind.
func (d *doctor) reportPending(asks []store.PeerRequest, kind string, found talk.Say) {
	n := 0
	var first store.PeerRequest
	for _, r := range asks {
		if r.Kind == kind {
			if n++; n == 1 {
				first = r
			}
		}
	}
	if n > 0 {
		d.warn(sayCheckNodes, found.In(d.sh.lang, n, sanitize(cmp.Or(first.Ask.Name, first.Ask.ClientID))),
			advicePairApprove, first.ID, d.retryFlags)
	}
}

// allowed reports commands of nodes.allow that no node declares, usually typing errors. Without
// nodes it cannot tell.
func (d *doctor) allowed(peers []store.Peer, asks []store.PeerRequest) {
	declared, nodes := map[string]bool{}, false
	for _, p := range peers {
		nodes = nodes || slices.Contains(p.Roles, wire.RoleNode)
		for _, c := range slices.Concat(p.Commands, p.DeclaredCommands) {
			declared[c] = true
		}
	}
	for _, r := range asks {
		for _, c := range r.Ask.Commands {
			declared[c] = true
		}
	}
	var useless []string
	for _, c := range d.settings.Nodes.Allow {
		if !declared[c] {
			useless = append(useless, c)
		}
	}
	if nodes && len(useless) > 0 {
		d.warn(talk.Say{Zh: "nodes.allow", En: "nodes.allow"}, sayAllowUseless.In(d.sh.lang, join(useless)),
			adviceNodeList, d.retryFlags)
	}
}

var errNotGateway = talk.Say{Zh: "那里应答的不是 OpenClaw 网关", En: "what answers there is no gateway of OpenClaw"}.Wrong()

// probeGateway returns an error unless an address responds like a gateway. It does not identify
// itself. transport may be nil.
func probeGateway(ctx context.Context, address string, transport http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: &http.Client{
		Timeout: probeLimit, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return talk.Say{Zh: "得到的是状态 %s，而不是 WebSocket", En: "status %s instead of a WebSocket"}.Wrong(resp.Status)
		}
		return unwrapURL(err)
	}
	defer ws.CloseNow() //nolint:errcheck // nothing was sent
	_, data, err := ws.Read(ctx)
	if err != nil {
		return errNotGateway
	}
	f, err := wire.Parse(data)
	if err == nil && f.Event == wire.EventChallenge {
		_, err = wire.ParseChallenge(f.Payload)
		return err
	}
	return errNotGateway
}
