package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// A setup code pairs one node without asking its owner again, and approves the commands that it
// declares first. It contains the address of the gateway and a token. A join URL fetches it once
// (docs/cli/node.md, docs/cli/connect.md).

// JoinPath begins the path of join URLs; the rest is a code.
const JoinPath = "/j/"

// setupCode serves device.pair.setupCode.
func (g *Gateway) setupCode(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var in struct {
		URL     string `json:"publicUrl"`
		Profile string `json:"bootstrapProfile"`
		Join    bool   `json:"joinUrl"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, wire.Invalid("invalid " + wire.MethodSetupCode + " params") // the shape has been checked
	}
	if in.Profile != wire.SetupProfileNode {
		return nil, wire.Invalid("this gateway makes setup codes for nodes only (bootstrapProfile=node); " +
			"phones connect with its address and a key")
	}
	if !c.hasScopeFor(wire.ScopeAdmin, c.person.ID) {
		return nil, wire.MissingScope(wire.ScopeAdmin)
	}
	if c.person.ID == "" {
		return nil, wire.Invalid("several people use this server, so a setup code is made with the key of one of them")
	}
	out := wire.SetupCode{Auth: "token", URLSource: "request.publicUrl", Access: wire.SetupProfileNode}
	if in.URL == "" {
		in.URL, out.URLSource = c.origin, "connection"
	}
	base, ok := gatewayURL(in.URL)
	if !ok {
		return nil, wire.Invalid("publicUrl is no address of this gateway, such as wss://patchbay.example.org")
	}
	if c.keyExpires {
		return nil, wire.Invalid("a key that expires makes no setup codes, as the node would go on without it")
	}
	i, err := g.Accounts.InviteNode(ctx, c.person.ID, c.access.Key, base)
	switch {
	case errors.Is(err, store.ErrFull):
		return nil, &wire.Error{Code: wire.Unavailable, Message: "too many setup codes are valid; use one, or wait until they expire"}
	case err != nil:
		return nil, g.internalError(err)
	}
	g.Logger.Info("openclaw: a setup code was made", "id", i.ID, "by", c.person.ID)
	out.SetupID, out.GatewayURL, out.ExpiresAtMS = i.ID, base, millis(i.Expires)
	out.SetupCode = g.setup(i).Code()
	if in.Join {
		out.JoinURL = "http" + strings.TrimPrefix(base, "ws") + JoinPath + i.Code
	}
	return out, nil
}

// setup returns what a setup code for an invitation contains.
func (g *Gateway) setup(i account.Invite) wire.Setup {
	s := wire.Setup{URL: i.URL, BootstrapToken: i.Token, ExpiresAtMS: millis(i.Expires)}
	if strings.HasPrefix(i.URL, "wss:") {
		s.Fingerprint = g.Fingerprint
	}
	return s
}

// maxURL limits the address of a gateway, in bytes.
const maxURL = 2048

// gatewayURL returns the address of a gateway for setup codes, from one with any of the schemes ws,
// wss, http and https. It has no default port and no slash at the end, since OpenClaw accepts setup
// codes with normalized addresses only.
func gatewayURL(text string) (string, bool) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || len(text) > maxURL || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	scheme := map[string]string{"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}[u.Scheme]
	host := strings.ToLower(u.Host)
	if scheme == "ws" {
		host = strings.TrimSuffix(host, ":80")
	} else {
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), scheme != ""
}

// ServeJoin answers a join URL with the setup code, once (src/gateway/device-pairing-join-http.ts).
func (g *Gateway) ServeJoin(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	ctx, cancel := context.WithTimeout(r.Context(), databaseTimeout)
	defer cancel()
	address := g.Address(r)
	if r.Method != http.MethodGet { // HEAD, which must not use the code up
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	i, err := g.Accounts.FetchInvite(ctx, strings.TrimPrefix(r.URL.Path, JoinPath))
	switch {
	case errors.Is(err, store.ErrNotFound):
		g.Logger.Warn("openclaw: a join URL was refused", "address", address)
		if g.Guard != nil && g.Guard.Refuse(address) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":"rate_limited"}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"not_found"}`))
		return
	case err != nil:
		g.Logger.Error("openclaw: a join URL could not be looked up", "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"unavailable"}`))
		return
	}
	g.Logger.Info("openclaw: a setup code was fetched", "id", i.ID, "address", address)
	_, _ = w.Write(encoded(g.setup(i)))
}

// byInvite authenticates a node with the token of a setup code.
func (c *conn) byInvite(ctx context.Context, p *wire.Connect) (login, error) {
	if p.Role != wire.RoleNode {
		return login{}, account.ErrUnknown
	}
	person, i, err := c.g.Accounts.CheckInvite(ctx, p.Auth.BootstrapToken, p.Device.ID)
	return login{person: person, invite: i}, err
}

// approveUnasked approves a request for which nobody is asked. via says why.
func (g *Gateway) approveUnasked(ctx context.Context, r store.PeerRequest, via string) (store.Peer, error) {
	p, _, err := g.Store.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, Owner: r.Owner, Via: via, At: time.Now()})
	if err == nil {
		g.metrics.pairings.WithLabelValues(r.Kind, via).Inc()
		g.Logger.Info("openclaw: approved without asking", "kind", r.Kind, "device", r.Peer, "owner", r.Owner, "by", via,
			"commands", r.Ask.Commands)
		g.announceResolved(r, wire.DecisionApproved)
	}
	return p, err
}
