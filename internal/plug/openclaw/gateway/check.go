package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

const (
	msgCheckNodes    = i18n.Message("OpenClaw nodes")
	msgCheckAllow    = i18n.Message("nodes.allow")
	msgNodesPaired   = i18n.Message("paired nodes: %d, operators: %d")
	msgNodesGood     = i18n.Message("%s; paired nodes: %d, connected: %d; operators: %d")
	msgNodesMute     = i18n.Message("%s does not greet as a gateway does: %s")
	msgPairsWait     = i18n.Message("programs that ask to be paired: %d, such as %s")
	msgSurfacesWait  = i18n.Message("nodes whose commands wait to be approved: %d, such as %s")
	msgAllowUseless  = i18n.Message("no node declares %s")
	msgNodesPin      = i18n.Message("%s has a certificate of its own; OpenClaw's programs take it with --tls-fingerprint %s")
	msgNodesRunAll   = i18n.Message("%s runs any program without asking, so whoever may call system.run can do with it what its user can")
	msgNodesNoTLS    = i18n.Message("%s is not encrypted, which OpenClaw's programs accept from addresses nearby alone")
	msgNodesNoSocket = i18n.Message("WebSockets do not get to %s: %s")

	advicePairApprove = i18n.Message("Approve it with: patchbay pair approve %s%s")
	adviceNodePolicy  = i18n.Message("Have it ask you first: patchbay node policy %s --set ask%s")
	adviceNodeList    = i18n.Message("See whether it is spelt right, and what nodes declare: patchbay node list%s")
	adviceNodesTLS    = i18n.Message("Put TLS in front, then: patchbay serve --public-url https://HOST%s")
	adviceNodesSocket = i18n.Message("Have the reverse proxy pass the header Upgrade on, and look again: patchbay doctor%s")
	adviceNodesMute   = i18n.Message("Start the server anew: patchbay serve%s")
)

// CheckOptions are what [Check] needs.
type CheckOptions struct {
	Store *store.DB
	// Allow are the commands that the settings allow. Configured reports whether anything is set
	// for nodes.
	Allow      []string
	Configured bool
	PublicURL  string
	// Fingerprint is that of the certificate of the server itself; empty: it speaks no TLS.
	Fingerprint string
	// URL is the address of the running server as seen from this machine, and Transport connects to
	// it. Connected returns the ids of its connected nodes. Empty: no server runs.
	URL       string
	Transport http.RoundTripper
	Connected func(context.Context) ([]string, error)
	// RunsAll reports whether a connected node runs any program without asking.
	RunsAll func(ctx context.Context, node string) bool
}

// checker checks what concerns OpenClaw programs that connect to the server.
type checker struct {
	CheckOptions
	*check.Report
	peers []store.Peer
	asks  []store.PeerRequest
}

// Check checks what concerns OpenClaw programs that connect to the server. Without any, and without
// a key or setting for them, there is nothing to check.
func Check(ctx context.Context, r *check.Report, o CheckOptions) {
	c := &checker{CheckOptions: o, Report: r}
	wanted, err := c.read(ctx)
	if err != nil {
		r.Error(msgCheckNodes.With(), err, check.AdviceLog.With())
		return
	}
	if len(c.peers)+len(c.asks) == 0 && !wanted {
		return
	}
	c.checkServer(ctx)
	c.checkPublicURL(ctx)
	c.reportPending(store.RequestDevice, msgPairsWait)
	c.reportPending(store.RequestSurface, msgSurfacesWait)
	c.checkAllowed()
}

// peersAtOnce is how many peers are read at once.
const peersAtOnce = 1000

// read reads all peers and their requests. wanted means that there is a key or a setting for nodes.
func (c *checker) read(ctx context.Context) (wanted bool, err error) {
	for after := ""; ; {
		page, err := c.Store.Peers.ByOwner(ctx, "", after, peersAtOnce)
		if err != nil {
			return false, err
		}
		c.peers = append(c.peers, page...)
		if len(page) < peersAtOnce {
			break
		}
		after = page[len(page)-1].ID
	}
	for _, kind := range []string{store.RequestDevice, store.RequestSurface} {
		some, err := c.Store.Peers.Requests(ctx, kind, "", time.Now())
		if err != nil {
			return false, err
		}
		c.asks = append(c.asks, some...)
	}
	keys, err := c.Store.Keys.ByPerson(ctx, "")
	return c.Configured || slices.ContainsFunc(keys, func(k store.Key) bool {
		return k.Revoked.IsZero() && slices.Contains(k.Scopes, account.ScopeNode)
	}), err
}

// checkServer checks that the running server responds like a gateway, and counts the connected
// nodes.
func (c *checker) checkServer(ctx context.Context) {
	name, nodes, operators := msgCheckNodes.With(), map[string]bool{}, 0
	for _, p := range c.peers {
		if slices.Contains(p.Roles, wire.RoleNode) {
			nodes[p.ID] = true
		}
		if slices.Contains(p.Roles, wire.RoleOperator) {
			operators++
		}
	}
	if c.URL == "" {
		c.OK(name, msgNodesPaired.With(len(nodes), operators))
		return
	}
	address := "ws" + strings.TrimPrefix(c.URL, "http")
	if err := client.Probe(ctx, address, "", c.Transport); err != nil {
		c.Fail(name, msgNodesMute.With(address, c.Explained(err)), adviceNodesMute.With(c.Flags))
		return
	}
	list, err := c.Connected(ctx)
	if err != nil {
		c.Error(name, err, check.AdviceLog.With())
		return
	}
	connected := 0
	for _, id := range list {
		if nodes[id] {
			connected++
		}
	}
	c.OK(name, msgNodesGood.With(address, len(nodes), connected, operators))
	c.checkPolicies(ctx, list)
}

const (
	// maxPolicies limits the nodes that are asked for their policy, and policyTimeout each answer.
	maxPolicies   = 20
	policyTimeout = 3 * time.Second
)

// checkPolicies reports connected nodes that run any program without asking. A node that does not
// answer is not reported.
func (c *checker) checkPolicies(ctx context.Context, connected []string) {
	asked := 0
	for _, p := range c.peers {
		if asked == maxPolicies || !slices.Contains(connected, p.ID) || !slices.Contains(p.Commands, wire.CommandRun) ||
			!slices.Contains(p.Commands, wire.CommandPolicyGet) {
			continue
		}
		asked++
		limited, cancel := context.WithTimeout(ctx, policyTimeout)
		all := c.RunsAll(limited, p.ID)
		cancel()
		if all {
			c.Warn(msgCheckNodes.With(), msgNodesRunAll.With(check.Foreign(cmp.Or(p.Name, p.ID))),
				adviceNodePolicy.With(p.ID[:min(len(p.ID), 12)], c.Flags))
		}
	}
}

// checkPublicURL checks that remote nodes can use the public URL.
func (c *checker) checkPublicURL(ctx context.Context) {
	if c.PublicURL == "" {
		return
	}
	address, err := client.ParseURL(c.PublicURL)
	if err != nil {
		c.Warn(msgCheckNodes.With(), msgNodesNoTLS.With(c.PublicURL), adviceNodesTLS.With(c.Flags))
		return
	}
	err = client.Probe(ctx, address, "", nil)
	e, ok := errors.AsType[*client.ConnectionError](err)
	switch {
	case ok && e.Certificate != nil && e.Certificate.Shown == c.Fingerprint:
		c.OK(msgCheckNodes.With(), msgNodesPin.With(address, c.Fingerprint))
	case err != nil:
		c.Warn(msgCheckNodes.With(), msgNodesNoSocket.With(address, c.Explained(err)), adviceNodesSocket.With(c.Flags))
	}
}

// reportPending reports pending requests of a kind.
func (c *checker) reportPending(kind string, found i18n.Message) {
	n := 0
	var first store.PeerRequest
	for _, a := range c.asks {
		if a.Kind == kind {
			if n++; n == 1 {
				first = a
			}
		}
	}
	if n > 0 {
		c.Warn(msgCheckNodes.With(), found.With(n, check.Foreign(cmp.Or(first.Ask.Name, first.Ask.ClientID))),
			advicePairApprove.With(first.ID, c.Flags))
	}
}

// checkAllowed reports allowed commands that no node declares, usually typing errors. Without nodes
// it cannot tell.
func (c *checker) checkAllowed() {
	declared, nodes := map[string]bool{}, false
	for _, p := range c.peers {
		nodes = nodes || slices.Contains(p.Roles, wire.RoleNode)
		for _, command := range slices.Concat(p.Commands, p.DeclaredCommands) {
			declared[command] = true
		}
	}
	for _, a := range c.asks {
		for _, command := range a.Ask.Commands {
			declared[command] = true
		}
	}
	useless := slices.DeleteFunc(slices.Clone(c.Allow), func(command string) bool { return declared[command] })
	if nodes && len(useless) > 0 {
		c.Warn(msgCheckAllow.With(), msgAllowUseless.With(strings.Join(useless, ", ")), adviceNodeList.With(c.Flags))
	}
}
