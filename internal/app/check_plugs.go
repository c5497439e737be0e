package app

import (
	"context"
	"encoding/json"

	"patchbay/internal/api"
	"patchbay/internal/check"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/shim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/xiaozhi"
)

// isRunning reports whether a server runs, or may run.
func (e *examination) isRunning() bool { return e.server != nil || e.serverErr != nil }

// botStates returns a function that gets what the running server knows about bots; nil: none runs.
func (e *examination) botStates() func(context.Context) (map[int64]hub.BotState, error) {
	if !e.isRunning() {
		return nil
	}
	return func(ctx context.Context) (map[int64]hub.BotState, error) {
		if e.serverErr != nil {
			return nil, e.serverErr
		}
		list, err := api.Bots.Call(ctx, e.server, struct{}{})
		states := map[int64]hub.BotState{}
		for _, b := range list.Bots {
			states[b.Number] = hub.BotState{Online: b.Online, Connections: b.Connections, LastSeen: b.LastSeen,
				Gateway: b.Gateway, Problem: b.Problem}
		}
		return states, err
	}
}

// checkTools checks what concerns tools.
func (e *examination) checkTools(ctx context.Context) {
	bots.CheckOpen(ctx, e.Report, e.base.Store, e.base.Registry)
	list, err := e.upstreams(ctx)
	if err != nil {
		e.Error(control.CheckTools.With(), err, check.AdviceLog.With())
		return
	}
	for _, u := range list {
		if u.Kind == UpstreamShim {
			e.checkShim(ctx, u)
		} else {
			control.CheckUpstream(e.Report, u, e.server != nil)
			if shown, err := e.base.ShownUpstream(u.Upstream); err != nil || string(shown["pin"]) != `"off"` {
				control.CheckPins(ctx, e.Report, e.base.Store, u.Upstream)
			}
		}
	}
	if e.server == nil {
		return
	}
	tools, err := api.ListTools.Call(ctx, e.server, control.ToolQuery{})
	if err != nil {
		e.Error(control.CheckTools.With(), err, check.AdviceLog.With())
		return
	}
	control.CheckRules(ctx, e.Report, e.base.Store, tools.Tools, list)
}

// upstreams lists all upstreams, with the states that the running server reports, if one runs.
func (e *examination) upstreams(ctx context.Context) ([]control.Upstream, error) {
	if e.serverErr != nil {
		return nil, e.serverErr
	}
	if e.server != nil {
		list, err := api.ListUpstreams.Call(ctx, e.server, control.UpstreamQuery{})
		return list.Upstreams, err
	}
	rows, err := e.base.Store.Upstreams.ByOwner(ctx, "")
	list := make([]control.Upstream, len(rows))
	for i, u := range rows {
		list[i].Upstream = u
	}
	return list, err
}

// checkShim checks an OpenClaw gateway that devices join as nodes.
func (e *examination) checkShim(ctx context.Context, u control.Upstream) {
	switch {
	case e.server == nil:
		var s ShimSettings
		err := e.base.UpstreamSettings(u.Upstream, &s)
		if err == nil {
			err = s.Validate()
		}
		shim.CheckAlone(ctx, e.Report, u.Slug, s.URL, s.TLSFingerprint, err)
	case u.State == "", u.State == control.UpstreamElsewhere:
		shim.CheckElsewhere(e.Report, u.Slug, u.State != "")
	default:
		nodes := make([]shim.Status, len(u.Nodes))
		for i, n := range u.Nodes {
			nodes[i] = shim.Status{Name: n.Name, State: shim.State(n.State), Command: n.Command, Tools: n.Tools,
				Accepted: n.Taken, Omitted: n.Cut}
			if p := n.Certificate; p != nil {
				nodes[i].Certificate = &client.Certificate{Shown: check.SingleLine(p.Shown)}
			}
			if n.Problem != "" {
				nodes[i].Message = check.Verbatim(n.Problem)
			}
		}
		shim.CheckNodes(e.Report, u.Slug, u.ServerVersion, nodes)
	}
}

// checkBoards checks what concerns boards.
func (e *examination) checkBoards(ctx context.Context) {
	c, x := e.settings, e.settings.XiaoZhi
	o := xiaozhi.CheckOptions{
		Store: e.base.Store, Accounts: e.base.Accounts, PublicURL: c.PublicURL, Listen: c.Listen, Cert: c.TLS.Cert,
		Key: c.TLS.Key, Secure: c.ServesTLS(),
		Transport: x.Transport, MQTT: x.MQTT, MQTTTLS: x.MQTTTLS, Broker: x.Broker, Join: x.Join,
		Audio: x.Audio, AudioHost: x.AudioHost, AudioPort: x.AudioPort, Firmware: x.Firmware,
	}
	if e.running.Listen != "" {
		o.Listen = e.running.Listen // it may have been started with other settings
	}
	if e.isRunning() {
		o.Awake = e.awakeBoards
	}
	xiaozhi.Check(ctx, e.Report, o)
}

// awakeBoards returns the numbers of the boards that are connected to the running server.
func (e *examination) awakeBoards(ctx context.Context) (map[int64]bool, error) {
	if e.serverErr != nil {
		return nil, e.serverErr
	}
	awake := map[int64]bool{}
	for after := int64(0); ; {
		page, err := api.Devices.Call(ctx, e.server, control.DeviceQuery{After: after})
		if err != nil {
			return nil, err
		}
		for _, d := range page.Devices {
			if d.Online && d.Owner != "" {
				awake[d.Number] = true
			}
		}
		if page.Next <= after {
			return awake, nil
		}
		after = page.Next
	}
}

// checkNodes checks what concerns OpenClaw programs.
func (e *examination) checkNodes(ctx context.Context) {
	c := e.settings
	o := gateway.CheckOptions{Store: e.base.Store, Allow: c.Nodes.Allow,
		Configured: len(c.Nodes.Allow)+len(c.Nodes.Deny) > 0, PublicURL: c.PublicURL,
		Fingerprint: fileFingerprint(c)}
	if e.server != nil {
		o.URL, o.Transport, o.Connected = e.server.URL, LocalTransport(), e.connectedNodes
		o.RunsAll = func(ctx context.Context, node string) bool {
			p, err := api.RunPolicy.Call(ctx, e.server, control.RunPolicyRef{Node: node})
			return err == nil && p.Mode == control.RunEverything
		}
	}
	gateway.Check(ctx, e.Report, o)
}

// connectedNodes returns the ids of the nodes that are connected to the running server.
func (e *examination) connectedNodes(ctx context.Context) (ids []string, err error) {
	raw, err := api.Nodes.Call(ctx, e.server, control.Empty{})
	if err != nil {
		return nil, err
	}
	var list wire.NodeList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, n := range list.Nodes {
		if n.Connected {
			ids = append(ids, n.NodeID)
		}
	}
	return ids, nil
}
