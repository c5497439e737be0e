package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/plug/bots"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

var (
	sayCheckTools    = talk.Say{Zh: "工具", En: "tools"}
	sayCheckUpstream = talk.Say{Zh: "上游 %s", En: "upstream %s"}
	sayCheckRule     = talk.Say{Zh: "规则 %s", En: "rule %s"}
	sayCheckKeyRule  = talk.Say{Zh: "密钥 %s", En: "key %s"}
	sayToolsGood     = talk.Say{Zh: "可用 %d 个，禁用或未放行 %d 个", En: "%d allowed, %d denied or dangerous"}
	sayUpstreamGood  = talk.Say{Zh: "已连接，%d 个工具", En: "is connected, tools: %d"}
	sayUpstreamAway  = talk.Say{Zh: "没有连接", En: "is not connected"}
	sayUpstreamCut   = talk.Say{Zh: "工具太多，只接入了 %d 个", En: "has more tools than are taken over: %d"}
	sayUpstreamSkips = talk.Say{Zh: "有 %d 个工具的名称或参数说明无效，已跳过",
		En: "has tools whose names or schemas cannot be used: %d"}
	sayUpstreamUnseen = talk.Say{Zh: "服务还不知道它", En: "the server does not know it yet"}
	sayRuleUseless    = talk.Say{Zh: "目前没有符合的工具", En: "matches no tool at the moment"}
	sayKeyUseless     = talk.Say{Zh: "它的规则 %s 目前没有符合的工具", En: "its rules name %s, which matches no tool at the moment"}
	sayBotOpen        = talk.Say{Zh: "mcp_open 已打开：能访问这台服务的任何人都能向它提问",
		En: "mcp_open is on: anybody who reaches the server can ask it"}

	adviceUpstream = talk.Say{Zh: "解决后再检查：patchbay upstream check %s%s",
		En: "When that is solved, see: patchbay upstream check %s%s"}
	adviceLookAgain = talk.Say{Zh: "稍后再检查；还是这样就查看服务日志。",
		En: "Look again in a moment; if that stays so, see the server's log."}
	adviceDialsIn = talk.Say{Zh: "检查那边的地址和令牌；新令牌：patchbay upstream rotate %s%s",
		En: "See whether its far side has the address and the token; patchbay upstream rotate %s%s makes a new one."}
	adviceCloud = talk.Say{Zh: "检查服务的地址：patchbay upstream set %s url=@文件%s",
		En: "See whether the service's address is still good: patchbay upstream set %s url=@FILE%s"}
	adviceUpstreamCut = talk.Say{Zh: "用 allow 选择，或提高 max_tools：patchbay upstream set %s max_tools=5000%s",
		En: "Choose with allow, or raise max_tools: patchbay upstream set %s max_tools=5000%s"}
	adviceUpstreamSkip = talk.Say{Zh: "告诉那个服务器的作者；日志里有细节。",
		En: "Tell those who wrote that server; the log has the details."}
	adviceRule = talk.Say{Zh: "检查拼写，或取消它：patchbay tool reset %s%s",
		En: "See whether it is spelt right, or take it back: patchbay tool reset %s%s"}
	adviceKeyRule = talk.Say{Zh: "检查拼写：patchbay key rules %s%s",
		En: "See whether it is spelt right: patchbay key rules %s%s"}
	adviceBotOpen = talk.Say{Zh: "如果不是有意的：patchbay bot set %d mcp_open=%s",
		En: "If that is not meant: patchbay bot set %d mcp_open=%s"}
)

// tools checks what concerns tools.
func (d *doctor) tools(ctx context.Context, b *app.Base) {
	d.openBots(ctx, b)
	rows, live, err := localUpstreams(ctx, d.sh, b)
	if err != nil {
		d.fail(sayCheckTools, d.errorText(err), adviceLook)
		return
	}
	var away []control.Upstream
	for _, u := range rows {
		if u.Kind == app.UpstreamShim {
			d.shim(ctx, b, u, live)
			continue
		}
		d.upstream(u, live)
		if u.State != control.UpstreamReady && u.State != control.UpstreamElsewhere && u.Kind != app.UpstreamCloud {
			away = append(away, u)
		}
	}
	if !live {
		return
	}
	r, err := findRunning(ctx, d.sh, d.settings)
	if err != nil || r == nil {
		return // the check of the server reports it
	}
	list, err := r.tools(ctx, "", "")
	if err != nil {
		d.fail(sayCheckTools, d.errorText(err), adviceLook)
		return
	}
	usable := 0
	for _, t := range list {
		if t.State == api.ToolAllowed {
			usable++
		}
	}
	d.ok(sayCheckTools, sayToolsGood, usable, len(list)-usable)
	d.rules(ctx, b, list, away)
}

// openBots reports bots that anybody can ask.
func (d *doctor) openBots(ctx context.Context, b *app.Base) {
	all, err := b.Store.Bots.ByOwner(ctx, "")
	if err != nil {
		return // the check of the bots reports it
	}
	for _, bot := range all {
		var s bots.Settings
		if b.Registry.Settings(bot, &s) == nil && s.MCPOpen {
			d.warn(localizeBoth(sayCheckBot, bot.Number, bot.Name), sayBotOpen.In(d.sh.lang), adviceBotOpen, bot.Number,
				d.retryFlags)
		}
	}
}

// localizeBoth formats a message in both languages.
func localizeBoth(s talk.Say, args ...any) talk.Say {
	return talk.Say{Zh: s.In(talk.Chinese, args...), En: s.In(talk.English, args...)}
}

func (d *doctor) upstream(u control.Upstream, live bool) {
	name := localizeBoth(sayCheckUpstream, u.Slug)
	switch {
	case !live:
		d.warn(name, sayBotUnknown.In(d.sh.lang), adviceStartFirst)
	case u.State == "":
		d.warn(name, sayUpstreamUnseen.In(d.sh.lang), adviceLookAgain)
	case u.State == control.UpstreamReady && u.Cut:
		d.warn(name, sayUpstreamCut.In(d.sh.lang, u.Tools), adviceUpstreamCut, u.Slug, d.retryFlags)
	case u.State == control.UpstreamReady && u.Skipped > 0:
		d.warn(name, sayUpstreamSkips.In(d.sh.lang, u.Skipped), adviceUpstreamSkip)
	case u.State == control.UpstreamElsewhere, u.Kind == app.UpstreamCloud && u.State == control.UpstreamReady:
		d.ok(name, sayBotConnected)
	case u.State == control.UpstreamReady:
		d.ok(name, sayUpstreamGood, u.Tools)
	default:
		d.reportAway(name, u)
	}
}

// reportAway reports an upstream that is not connected, and why.
func (d *doctor) reportAway(name talk.Say, u control.Upstream) {
	found := sayUpstreamAway.In(d.sh.lang)
	if u.Problem != "" {
		found = problemText(u.Problem, u.Cause)
	}
	advice := adviceUpstream
	switch u.Kind {
	case app.UpstreamDialsIn:
		advice = adviceDialsIn
	case app.UpstreamCloud:
		advice = adviceCloud
	}
	if u.State == control.UpstreamFailed {
		d.fail(name, found, advice, u.Slug, d.retryFlags)
		return
	}
	d.warn(name, found, advice, u.Slug, d.retryFlags)
}

// rules reports rules that match no tool, usually typing errors. Rules that may match tools of a
// disconnected upstream are not reported.
func (d *doctor) rules(ctx context.Context, b *app.Base, tools []api.Tool, away []control.Upstream) {
	rules, err := b.Store.ToolRules.All(ctx)
	if err != nil {
		d.fail(sayCheckTools, d.errorText(err), adviceLook)
		return
	}
	for _, r := range rules {
		if countMatches(toolsOf(r.Owner, tools), r.Tool) == 0 && !mayBeAway(away, r.Owner, r.Tool) {
			d.warn(localizeBoth(sayCheckRule, r.Tool), sayRuleUseless.In(d.sh.lang), adviceRule, quoteWord(r.Tool),
				d.retryFlags)
		}
	}
	keys, err := b.Store.Keys.ByPerson(ctx, "")
	if err != nil {
		d.fail(sayCheckTools, d.errorText(err), adviceLook)
		return
	}
	for _, k := range keys {
		d.keyRules(k, toolsOf(k.Person, tools), away)
	}
}

// toolsOf returns the tools of a person.
func toolsOf(person string, tools []api.Tool) []api.Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t api.Tool) bool { return t.Owner != "" && t.Owner != person })
}

// mayBeAway reports whether a pattern may match tools of an upstream that is not connected.
func mayBeAway(away []control.Upstream, owner, pattern string) bool {
	head, _, star := strings.Cut(pattern, "*")
	for _, u := range away {
		slug := u.Slug + "_"
		if u.Owner == owner && (strings.HasPrefix(head, slug) || star && strings.HasPrefix(slug, head)) {
			return true
		}
	}
	return false
}

func (d *doctor) keyRules(k store.Key, tools []api.Tool, away []control.Upstream) {
	if !k.Revoked.IsZero() || !k.Expires.IsZero() && k.Expires.Before(time.Now()) {
		return
	}
	rules, err := hub.ParseRules(k.Rules)
	if err != nil {
		d.fail(localizeBoth(sayCheckKeyRule, k.Name), d.errorText(err), adviceKeyRule, k.ID, d.retryFlags+" --clear")
		return
	}
	for _, pattern := range slices.Concat(rules.Allow, rules.Deny, rules.Dangerous) {
		if countMatches(tools, pattern) == 0 && !mayBeAway(away, k.Person, pattern) {
			d.warn(localizeBoth(sayCheckKeyRule, k.Name), sayKeyUseless.In(d.sh.lang, pattern), adviceKeyRule, k.ID,
				d.retryFlags)
		}
	}
}

// countMatches counts the tools whose names a pattern matches.
func countMatches(list []api.Tool, pattern string) int {
	n := 0
	for _, t := range list {
		if tool.Match(pattern, t.Name) {
			n++
		}
	}
	return n
}
