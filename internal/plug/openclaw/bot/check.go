package bot

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/store"
)

const (
	msgAgentTalks   = i18n.Message("is connected to OpenClaw %s, whose agent last spoke at %s")
	msgAgentGood    = i18n.Message("OpenClaw %s lets us in and has the agent %s")
	msgAgentMissing = i18n.Message("the gateway has no agent %s, but %s")
	msgAgentBefore  = i18n.Message("it can be connected to now, but the server has met this: %s")

	adviceAgent     = i18n.Message("Choose another: patchbay bot set %d agent=%s%s")
	adviceAgentList = i18n.Message("See which there are, on the gateway's machine: openclaw agents list")
	adviceAgentURL  = i18n.Message("Start that gateway, or correct its address: patchbay bot set %d url=ws://HOST:18789%s")
	adviceAgentKey  = i18n.Message("Its owner sees the token with openclaw gateway auth-token --show; then: patchbay bot set %d token=@FILE%s")

	adviceAgentPin = i18n.Message("If it is the gateway's, accept it: patchbay bot set %d tls_fingerprint=%s%s")

	adviceScopes      = i18n.Message("Have it ask anew; run on the gateway's machine: openclaw devices remove %s")
	adviceClocks      = i18n.Message("Set the clocks of both machines; on Linux with: timedatectl set-ntp true")
	adviceUpdateThere = i18n.Message("Update OpenClaw; run on the gateway's machine: openclaw update")
	adviceStateThere  = i18n.Message("See how it is, on the gateway's machine: openclaw gateway status")
)

const (
	// checkTimeout is the timeout of a connection to be checked.
	checkTimeout = 20 * time.Second
	// namedAgents is how many agents of a gateway are listed by name.
	namedAgents = 5
)

// check checks a bot. The state in a running server counts; without one it connects once.
func (b *Bots) check(ctx context.Context, r *check.Report, sb store.Bot, settings any, state hub.BotState) {
	name := hub.CheckName(sb)
	if state.Connections > 0 && !state.LastSeen.IsZero() {
		r.OK(name, msgAgentTalks.With(check.Foreign(state.Gateway), check.Time(state.LastSeen)))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s := *settings.(*Settings)
	bot, err := b.Build(sb, s)
	if err != nil {
		r.Error(name, err, check.AdviceSettings.With(sb.Number, r.Flags))
		return
	}
	seen, err := bot.Probe(ctx)
	switch {
	case err != nil:
		reportError(r, sb, seen.Device, err)
	case !seen.HasAgent && len(seen.Agents) > 0:
		some := strings.Join(seen.Agents[:min(len(seen.Agents), namedAgents)], ", ")
		r.Fail(name, msgAgentMissing.With(s.agent(), some), adviceAgent.With(sb.Number, seen.Agents[0], r.Flags))
	case !seen.HasAgent:
		r.Fail(name, msgAgentMissing.With(s.agent(), "–"), adviceAgentList.With())
	case state.Problem != "":
		r.Warn(name, msgAgentBefore.With(state.Problem), check.AdviceAsk.With(sb.Number, r.Flags))
	default:
		r.OK(name, msgAgentGood.With(check.Foreign(seen.Version), s.agent()))
	}
}

// reportError reports why an agent cannot be asked, and which command to run.
func reportError(r *check.Report, sb store.Bot, device string, err error) {
	name := hub.CheckName(sb)
	e, ok := errors.AsType[*client.ConnectionError](err)
	if !ok {
		found := check.Foreign(i18n.Localize(r.Explained(err), r.Lang))
		r.Fail(name, check.Verbatim(found), adviceStateThere.With())
		return
	}
	found := check.Because(e.Message.In(r.Lang), e.Cause)
	switch e.Problem {
	case client.Pairing:
		r.Fail(name, client.MsgUnapproved.With(), client.AdviceRunThere.With(e.Command))
	case client.Token:
		r.Fail(name, found, adviceAgentKey.With(sb.Number, r.Flags))
	case client.Unreachable, client.Private, client.Insecure, client.NoGateway:
		r.Fail(name, found, adviceAgentURL.With(sb.Number, r.Flags))
	case client.Untrusted, client.Changed:
		r.Fail(name, found, adviceAgentPin.With(sb.Number, e.Certificate.Shown, r.Flags))
	case client.Scopes:
		r.Fail(name, found, adviceScopes.With(device))
	case client.Identity:
		r.Fail(name, found, adviceClocks.With())
	case client.Version:
		r.Fail(name, found, adviceUpdateThere.With())
	default:
		r.Fail(name, found, adviceStateThere.With())
	}
}
