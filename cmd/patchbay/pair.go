package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// pairing lists the pending requests.
type pairing struct {
	app.Pairs
	// Codes is the number of boards that show a pairing code, by which they are approved.
	Codes int `json:"codes"`
}

// pairs lists the pending requests that the key may see.
func (r *remote) pairs(ctx context.Context) (p pairing, err error) {
	if err = r.do(ctx, http.MethodGet, "/api/v1/pairs", nil, &p.Pairs); err != nil {
		return p, err
	}
	var w control.Waiting
	err = r.do(ctx, http.MethodGet, "/api/v1/devices/waiting", nil, &w)
	p.Codes = w.Count
	return p, err
}

// localPairs lists the pending requests of a data directory on which no server runs.
func localPairs(ctx context.Context, b *app.Base) (p pairing, err error) {
	now := time.Now()
	p.Devices, p.Nodes = []wire.DeviceRequest{}, []wire.NodeRequest{}
	devices, err := b.Store.Peers.Requests(ctx, store.RequestDevice, "", now)
	if err != nil {
		return p, err
	}
	for _, r := range devices {
		p.Devices = append(p.Devices, wire.DeviceRequest{
			RequestID: r.ID, DeviceID: r.Peer, PublicKey: r.Ask.PublicKey, DisplayName: r.Ask.Name,
			Platform: r.Ask.Platform, DeviceFamily: r.Ask.Family,
			ClientID: r.Ask.ClientID, ClientMode: r.Ask.ClientMode, Roles: r.Ask.Roles, Scopes: r.Ask.Scopes,
			RemoteIP: r.Address, TS: millisOf(r.Created),
		})
	}
	surfaces, err := b.Store.Peers.Requests(ctx, store.RequestSurface, "", now)
	if err != nil {
		return p, err
	}
	for _, r := range surfaces {
		p.Nodes = append(p.Nodes, wire.NodeRequest{
			RequestID: r.ID, NodeID: r.Peer, ClientID: r.Ask.ClientID, ClientMode: r.Ask.ClientMode,
			DisplayName: r.Ask.Name, Platform: r.Ask.Platform,
			Version: r.Ask.Version, DeviceFamily: r.Ask.Family, Caps: r.Ask.Caps, Commands: r.Ask.Commands,
			Scopes:   wire.ApproveScopes(r.Ask.Commands),
			RemoteIP: r.Address, TS: millisOf(r.Created),
		})
	}
	boards, err := b.Store.Devices.Waiting(ctx, now)
	p.Codes = len(boards)
	return p, err
}

// find returns the request that ref names.
func (p *pairing) find(ref string) (app.PairRef, error) {
	found := p.Find(ref)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return app.PairRef{},
			i18n.Message("no request %q waits; patchbay pair list shows those that do. One that has expired comes again when the device tries again").Errorf(ref)
	}
	ids := make([]string, len(found))
	for i, f := range found {
		ids[i] = shortID(f.ID, shortRequest)
	}
	return app.PairRef{}, i18n.Message("%d requests may be meant by %q; give the id of one: %s").Errorf(len(found), ref,
		join(ids))
}

// decision is the decision about a request.
type decision struct {
	Request  string `json:"requestId"`
	Decision string `json:"decision"` // wire.DecisionApproved or wire.DecisionRejected
	// Node is the ID of the device, which is also its ID as a node.
	Node string `json:"nodeId"`
	Name string `json:"displayName,omitempty"`
	// Roles and Scopes are what it may connect as, if it asked for that.
	Roles  []string `json:"roles,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	// Commands are the approved commands, if the request was about any; Kept are those that the
	// settings still block.
	Commands []string `json:"commands,omitempty"`
	Kept     []string `json:"not_allowed,omitempty"`

	surface bool // the request was about commands
	again   bool // it was connected before
}

// about returns a decision about a request, as requested.
func (p *pairing) about(ref app.PairRef, verdict string) decision {
	d := decision{Request: ref.ID, Decision: verdict, surface: ref.Node}
	for _, r := range p.Devices {
		if !ref.Node && r.RequestID == ref.ID {
			d.Node, d.Name, d.Roles, d.Scopes, d.again = r.DeviceID, r.DisplayName, r.Roles, r.Scopes, r.Repair
		}
	}
	for _, r := range p.Nodes {
		if ref.Node && r.RequestID == ref.ID {
			d.Node, d.Name, d.Commands = r.NodeID, r.DisplayName, r.Commands
		}
	}
	return d
}

// effective records which of the commands can be called.
func (d *decision) effective(commands []string) {
	d.Kept = slices.DeleteFunc(slices.Clone(d.Commands), func(c string) bool { return slices.Contains(commands, c) })
	d.Commands = commands
}

// decide decides about the request that ref names, on the server or locally.
func (f targetFlags) decide(ctx context.Context, sh *shell, ref, verdict string) (d decision, err error) {
	act := "approve"
	if verdict == wire.DecisionRejected {
		act = "reject"
	}
	err = f.withTarget(ctx, sh, func(r *remote) error {
		p, err := r.pairs(ctx)
		if err != nil {
			return err
		}
		found, err := p.find(ref)
		if err != nil {
			return err
		}
		d = p.about(found, verdict)
		var answer wire.ApprovedNode
		err = r.do(ctx, http.MethodPost, "/api/v1/pairs/"+found.ID+"/"+act, nil, &answer)
		if err == nil && found.Node && verdict == wire.DecisionApproved {
			d.effective(answer.Node.Commands)
		}
		return err
	}, func(b *app.Base) error {
		p, err := localPairs(ctx, b)
		if err != nil {
			return err
		}
		found, err := p.find(ref)
		if err != nil {
			return err
		}
		d = p.about(found, verdict)
		return decideLocal(ctx, b, &d)
	})
	return d, err
}

// decideLocal decides in a data directory. A server that is started later or uses the same database
// applies it.
func decideLocal(ctx context.Context, b *app.Base, d *decision) error {
	verdict := store.PeerDecision{ID: d.Request, At: time.Now()}
	var err error
	if d.Decision == wire.DecisionRejected {
		_, err = b.Store.Peers.Reject(ctx, verdict)
	} else {
		if _, err := b.Store.Peers.ByID(ctx, d.Node); err == nil {
			d.again = true
		}
		var p store.Peer
		p, _, err = b.Store.Peers.Approve(ctx, verdict)
		if err == nil && d.surface {
			d.effective(policyOf(b).Effective(surfaceOf(p)))
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return i18n.Message("the request has expired just now; it comes again when the device tries again").Errorf()
	case errors.Is(err, store.ErrOccupied):
		return i18n.Message("the device is paired with somebody else; that one has to remove it first: patchbay node rm NODE").Errorf()
	case errors.Is(err, store.ErrFull):
		return i18n.Message("too many devices are paired already; remove some: patchbay node rm NODE").Errorf()
	}
	return err
}

// requestedAccess describes what a device requests.
func (sh *shell) requestedAccess(roles, scopes []string) string {
	what := join(roles)
	if len(scopes) > 0 {
		what += " (" + join(scopes) + ")"
	}
	return msgWantsIn.In(sh.lang, plain(what))
}

// requestedCommands describes the commands that a node wants to run.
func (sh *shell) requestedCommands(commands []string) string {
	if len(commands) == 0 {
		return msgWantsNothing.In(sh.lang)
	}
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = sh.commandLabel(c)
	}
	return msgWantsRun.In(sh.lang, strings.Join(names, ", "))
}

const (
	msgWantsIn      = i18n.Message("to connect as %s")
	msgWantsRun     = i18n.Message("to run the commands %s")
	msgWantsNothing = i18n.Message("to be a node without commands")
)
