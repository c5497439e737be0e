package main

import (
	"context"
	"errors"
	"strings"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/openclaw/client"
)

const (
	msgAgentTalks   = i18n.Message("is connected to OpenClaw %s, whose agent last spoke at %s")
	msgAgentGood    = i18n.Message("OpenClaw %s lets us in and has the agent %s")
	msgAgentMissing = i18n.Message("the gateway has no agent %s, but %s")
	msgAgentBefore  = i18n.Message("it can be connected to now, but the server has met this: %s")
	msgUnapproved   = i18n.Message("the gateway's owner has not approved Patchbay yet")

	adviceAgent     = i18n.Message("Choose another: patchbay bot set %d agent=%s%s")
	adviceAgentList = i18n.Message("See which there are, on the gateway's machine: openclaw agents list")
	adviceAgentAsk  = i18n.Message("Ask it once more: patchbay ask %d \"hello\"%s")
	adviceAgentURL  = i18n.Message("Start that gateway, or correct its address: patchbay bot set %d url=ws://HOST:18789%s")
	adviceAgentKey  = i18n.Message("Its owner sees the token with openclaw gateway auth-token --show; then: patchbay bot set %d token=@FILE%s")

	adviceThere       = i18n.Message("Run on the gateway's machine: %s")
	adviceScopes      = i18n.Message("Have it ask anew; run on the gateway's machine: openclaw devices remove %s")
	adviceClocks      = i18n.Message("Set the clocks of both machines; on Linux with: timedatectl set-ntp true")
	adviceUpdateThere = i18n.Message("Update OpenClaw; run on the gateway's machine: openclaw update")
	adviceStateThere  = i18n.Message("See how it is, on the gateway's machine: openclaw gateway status")
)

// maxSanitized is the maximum length of a text from outside, in characters.
const maxSanitized = 60

// sanitize makes a text from outside safe for a terminal.
func sanitize(text string) string {
	r := []rune(plain(singleLine(strings.TrimSpace(text))))
	if len(r) > maxSanitized {
		r = append(r[:maxSanitized], '…')
	}
	if len(r) == 0 {
		return "?"
	}
	return string(r)
}

// agent checks a bot that is an agent of an OpenClaw gateway. The state in a running server counts;
// without a server it connects once.
func (d *doctor) agent(ctx context.Context, b *app.Base, name i18n.Text, r botRow) {
	if r.Connections > 0 && !r.LastSeen.IsZero() {
		d.ok(name, msgAgentTalks, sanitize(r.Gateway), d.sh.when(r.LastSeen))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, modelLimit)
	defer cancel()
	var s agents.Settings
	var bot *agents.Bot
	err := b.Registry.Settings(r.Bot, &s)
	if err == nil {
		bot, err = b.Agents.Build(r.Bot, s)
	}
	if err != nil {
		d.fail(name, d.errorText(err), adviceSettings, r.Number, d.retryFlags)
		return
	}
	agent := s.Agent
	if agent == "" {
		agent = agents.DefaultAgent
	}
	seen, err := bot.Probe(ctx)
	switch {
	case err != nil:
		d.reportAgentError(name, r.Number, seen.Device, err)
	case !seen.HasAgent && len(seen.Agents) > 0:
		d.fail(name, msgAgentMissing.In(d.sh.lang, agent, join(seen.Agents[:min(len(seen.Agents), namedAgents)])),
			adviceAgent, r.Number, seen.Agents[0], d.retryFlags)
	case !seen.HasAgent:
		d.fail(name, msgAgentMissing.In(d.sh.lang, agent, "–"), adviceAgentList)
	case r.Problem != "":
		d.warn(name, msgAgentBefore.In(d.sh.lang, r.Problem), adviceAgentAsk, r.Number, d.retryFlags)
	default:
		d.ok(name, msgAgentGood, sanitize(seen.Version), agent)
	}
}

// namedAgents is how many agents of a gateway are listed by name.
const namedAgents = 5

// reportAgentError reports why an agent cannot be asked, and which command to run.
func (d *doctor) reportAgentError(name i18n.Text, bot int64, device string, err error) {
	t, ok := errors.AsType[*client.ConnectionError](err)
	if !ok {
		d.fail(name, sanitize(d.errorText(err)), adviceStateThere)
		return
	}
	found := problemText(t.Message.In(d.sh.lang), t.Cause)
	switch t.Problem {
	case client.Pairing:
		d.fail(name, msgUnapproved.In(d.sh.lang), adviceThere, t.Command)
	case client.Token:
		d.fail(name, found, adviceAgentKey, bot, d.retryFlags)
	case client.Unreachable, client.Private, client.Insecure, client.NoGateway:
		d.fail(name, found, adviceAgentURL, bot, d.retryFlags)
	case client.Scopes:
		d.fail(name, found, adviceScopes, device)
	case client.Identity:
		d.fail(name, found, adviceClocks)
	case client.Version:
		d.fail(name, found, adviceUpdateThere)
	default:
		d.fail(name, found, adviceStateThere)
	}
}
