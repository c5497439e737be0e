package bot

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
)

// Seen is what a look at a gateway has found.
type Seen struct {
	// Device is our device's id in the gateway's list.
	Device string
	// Version is that of the gateway.
	Version string
	// Agent says that the gateway has the agent of the settings, and Agents are the ids
	// of those that it has.
	Agent  bool
	Agents []string
}

// Look connects to the gateway once, as a turn would, and finds out whether it has the
// agent. Unlike a turn it does not wait for a gateway that is not there. Its error is
// a [*client.Trouble], a *[wire.Error] or that of ctx; Device is set nevertheless.
//
// A key that is made for that is kept, as the gateway's owner may be asked to approve
// it. So it is not for bots that are answering turns in this process.
func (b *Bot) Look(ctx context.Context) (Seen, error) {
	l := b.line
	l.mu.Lock()
	l.identify()
	o := l.options()
	l.mu.Unlock()
	s := Seen{Device: o.Identity.ID()}
	o.Event, o.Changed = nil, nil
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
	s.Agents = agentsIn(payload)
	s.Agent = slices.ContainsFunc(s.Agents, func(id string) bool { return strings.EqualFold(id, b.settings.agent()) })
	return s, nil
}

// agentsIn are the ids in a list of agents.
func agentsIn(payload []byte) []string {
	var list struct {
		Agents []struct {
			ID string `json:"id"`
		} `json:"agents"`
	}
	_ = json.Unmarshal(payload, &list) // then there are none
	ids := []string{}
	for _, a := range list.Agents {
		if agentForm.MatchString(a.ID) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}
