package bot

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
)

// GatewayInfo is the result of [Bot.Probe].
type GatewayInfo struct {
	// Device is the device id in the gateway's list.
	Device string
	// Version is the gateway's version.
	Version string
	// HasAgent means that the gateway has the agent of the settings; Agents are the ids of all
	// its agents.
	HasAgent bool
	Agents   []string
}

// Probe connects to the gateway once, as a turn would, and checks whether it has the agent.
// Unlike a turn it does not wait for an unreachable gateway. The error is a
// [*client.ConnectionError], a *[wire.Error] or that of ctx; Device is set nevertheless.
//
// It stores a newly created key, because the gateway's owner may be asked to approve it. Do not
// call it for bots that are answering turns in this process.
func (b *Bot) Probe(ctx context.Context) (GatewayInfo, error) {
	l := b.gateway
	l.mu.Lock()
	l.ensureIdentity()
	o := l.options()
	l.mu.Unlock()
	s := GatewayInfo{Device: o.Identity.ID()}
	o.OnEvent, o.OnStateChange = nil, nil
	c, err := client.Connect(ctx, &o)
	if err != nil {
		return s, err
	}
	defer c.Close()
	s.Version = c.Hello().Server.Version
	payload, err := c.Call(ctx, wire.MethodAgentsList, struct{}{})
	if err != nil {
		return s, err
	}
	s.Agents = agentIDs(payload)
	s.HasAgent = slices.ContainsFunc(s.Agents, func(id string) bool {
		return strings.EqualFold(id,
			b.settings.agent())
	})
	return s, nil
}

// agentIDs returns the ids in a list of agents.
func agentIDs(payload []byte) []string {
	var list struct {
		Agents []struct {
			ID string `json:"id"`
		} `json:"agents"`
	}
	_ = json.Unmarshal(payload, &list) // then there are none
	ids := []string{}
	for _, a := range list.Agents {
		if agentPattern.MatchString(a.ID) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}
