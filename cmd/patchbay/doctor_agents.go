package main

import (
	"context"
	"errors"
	"strings"

	"patchbay/internal/app"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/talk"
)

var (
	sayAgentTalks = talk.Say{Zh: "已连接 OpenClaw %s，智能体最近一次说话：%s",
		En: "is connected to OpenClaw %s, whose agent last spoke at %s"}
	sayAgentGood    = talk.Say{Zh: "OpenClaw %s 接受我们，智能体 %s 可用", En: "OpenClaw %s lets us in and has the agent %s"}
	sayAgentMissing = talk.Say{Zh: "网关没有智能体 %s，只有 %s", En: "the gateway has no agent %s, but %s"}
	sayAgentBefore  = talk.Say{Zh: "现在可以连接，但服务上次遇到：%s",
		En: "it can be connected to now, but the server has met this: %s"}
	sayUnapproved = talk.Say{Zh: "网关的主人还没有批准 Patchbay", En: "the gateway's owner has not approved Patchbay yet"}

	adviceAgent = talk.Say{Zh: "换一个：patchbay bot set %d agent=%s%s",
		En: "Choose another: patchbay bot set %d agent=%s%s"}
	adviceAgentList = talk.Say{Zh: "在网关的机器上查看：openclaw agents list",
		En: "See which there are, on the gateway's machine: openclaw agents list"}
	adviceAgentAsk = talk.Say{Zh: "再问一次：patchbay ask %d \"你好\"%s", En: "Ask it once more: patchbay ask %d \"hello\"%s"}
	adviceAgentURL = talk.Say{Zh: "启动那个网关，或更正地址：patchbay bot set %d url=ws://主机:18789%s",
		En: "Start that gateway, or correct its address: patchbay bot set %d url=ws://HOST:18789%s"}
	adviceAgentKey = talk.Say{Zh: "网关的主人用 openclaw gateway auth-token --show 查看令牌，然后：patchbay bot set %d token=@文件%s",
		En: "Its owner sees the token with openclaw gateway auth-token --show; then: patchbay bot set %d token=@FILE%s"}

	adviceThere  = talk.Say{Zh: "在网关的机器上运行：%s", En: "Run on the gateway's machine: %s"}
	adviceScopes = talk.Say{Zh: "让它重新申请，在网关的机器上运行：openclaw devices remove %s",
		En: "Have it ask anew; run on the gateway's machine: openclaw devices remove %s"}
	adviceClocks = talk.Say{Zh: "校准两台机器的时钟；Linux 上：timedatectl set-ntp true",
		En: "Set the clocks of both machines; on Linux with: timedatectl set-ntp true"}
	adviceUpdateThere = talk.Say{Zh: "升级 OpenClaw，在网关的机器上运行：openclaw update",
		En: "Update OpenClaw; run on the gateway's machine: openclaw update"}
	adviceStateThere = talk.Say{Zh: "在网关的机器上查看：openclaw gateway status",
		En: "See how it is, on the gateway's machine: openclaw gateway status"}
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
func (d *doctor) agent(ctx context.Context, b *app.Base, name talk.Say, r botRow) {
	if r.Connections > 0 && !r.LastSeen.IsZero() {
		d.ok(name, sayAgentTalks, sanitize(r.Gateway), d.sh.when(r.LastSeen))
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
		d.fail(name, sayAgentMissing.In(d.sh.lang, agent, join(seen.Agents[:min(len(seen.Agents), namedAgents)])),
			adviceAgent, r.Number, seen.Agents[0], d.retryFlags)
	case !seen.HasAgent:
		d.fail(name, sayAgentMissing.In(d.sh.lang, agent, "–"), adviceAgentList)
	case r.Problem != "":
		d.warn(name, sayAgentBefore.In(d.sh.lang, r.Problem), adviceAgentAsk, r.Number, d.retryFlags)
	default:
		d.ok(name, sayAgentGood, sanitize(seen.Version), agent)
	}
}

// namedAgents is how many agents of a gateway are listed by name.
const namedAgents = 5

// reportAgentError reports why an agent cannot be asked, and which command to run.
func (d *doctor) reportAgentError(name talk.Say, bot int64, device string, err error) {
	t, ok := errors.AsType[*client.ConnectionError](err)
	if !ok {
		d.fail(name, sanitize(d.errorText(err)), adviceStateThere)
		return
	}
	found := problemText(t.Message.In(d.sh.lang), t.Cause)
	switch t.Problem {
	case client.Pairing:
		d.fail(name, sayUnapproved.In(d.sh.lang), adviceThere, t.Command)
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
