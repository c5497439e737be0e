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
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

const (
	msgCheckNodes    = i18n.Message("OpenClaw nodes")
	msgNodesPaired   = i18n.Message("paired nodes: %d, operators: %d")
	msgNodesGood     = i18n.Message("%s; paired nodes: %d, connected: %d; operators: %d")
	msgNodesMute     = i18n.Message("%s does not greet as a gateway does: %s")
	msgPairsWait     = i18n.Message("programs that ask to be paired: %d, such as %s")
	msgSurfacesWait  = i18n.Message("nodes whose commands wait to be approved: %d, such as %s")
	msgAllowUseless  = i18n.Message("no node declares %s")
	msgNodesNoTLS    = i18n.Message("%s is not encrypted, which OpenClaw's programs accept from addresses nearby alone")
	msgNodesNoSocket = i18n.Message("WebSockets do not get to %s: %s")

	advicePairApprove = i18n.Message("Approve it with: patchbay pair approve %s%s")
	adviceNodeList    = i18n.Message("See whether it is spelt right, and what nodes declare: patchbay node list%s")
	adviceNodesTLS    = i18n.Message("Put TLS in front, then: patchbay serve --public-url https://HOST%s")
	adviceNodesSocket = i18n.Message("Have the reverse proxy pass the header Upgrade on, and look again: patchbay doctor%s")
	adviceNodesMute   = i18n.Message("Start the server anew: patchbay serve%s")
)

// peersAtOnce is how many peers are read at once.
const peersAtOnce = 1000

// nodes checks what concerns OpenClaw programs that connect to the server. Without any, and without
// a key or setting for them, there is nothing to check.
func (d *doctor) nodes(ctx context.Context, b *app.Base) {
	peers, asks, wanted, err := nodeState(ctx, b)
	if err != nil {
		d.fail(msgCheckNodes.With(), d.errorText(err), adviceLook)
		return
	}
	if len(peers)+len(asks) == 0 && !wanted {
		return
	}
	d.checkOwnNodes(ctx, peers)
	d.checkNodeEndpoint(ctx)
	d.reportPending(asks, store.RequestDevice, msgPairsWait)
	d.reportPending(asks, store.RequestSurface, msgSurfacesWait)
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
		d.ok(msgCheckNodes.With(), msgNodesPaired, len(nodes), operators)
		return
	}
	address := "ws" + strings.TrimPrefix(r.url, "http")
	if err := probeGateway(ctx, address, localTransport()); err != nil {
		d.fail(msgCheckNodes.With(), msgNodesMute.In(d.sh.lang, address, err), adviceNodesMute, d.retryFlags)
		return
	}
	var list wire.NodeList
	if err := r.do(ctx, http.MethodGet, "/api/v1/nodes", nil, &list); err != nil {
		d.fail(msgCheckNodes.With(), d.errorText(err), adviceLook)
		return
	}
	connected := 0
	for _, n := range list.Nodes {
		if n.Connected && nodes[n.NodeID] {
			connected++
		}
	}
	d.ok(msgCheckNodes.With(), msgNodesGood, address, len(nodes), connected, operators)
}

// checkNodeEndpoint checks that remote nodes can use the public URL.
func (d *doctor) checkNodeEndpoint(ctx context.Context) {
	address := d.settings.PublicURL
	if address == "" {
		return
	}
	address, err := client.ParseURL(address)
	if err != nil {
		d.warn(msgCheckNodes.With(), msgNodesNoTLS.In(d.sh.lang, d.settings.PublicURL), adviceNodesTLS, d.retryFlags)
		return
	}
	if err := probeGateway(ctx, address, nil); err != nil {
		d.warn(msgCheckNodes.With(), msgNodesNoSocket.In(d.sh.lang, address, err), adviceNodesSocket, d.retryFlags)
	}
}

// reportPending reports pending requests of a kind.
func (d *doctor) reportPending(asks []store.PeerRequest, kind string, found i18n.Message) {
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
		d.warn(msgCheckNodes.With(), found.In(d.sh.lang, n, sanitize(cmp.Or(first.Ask.Name, first.Ask.ClientID))),
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
		d.warn(i18n.Message("nodes.allow").With(), msgAllowUseless.In(d.sh.lang, join(useless)),
			adviceNodeList, d.retryFlags)
	}
}

var errNotGateway = i18n.Message("what answers there is no gateway of OpenClaw").Errorf()

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
			return i18n.Message("status %s instead of a WebSocket").Errorf(resp.Status)
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
