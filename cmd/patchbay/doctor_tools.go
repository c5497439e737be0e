package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/bots"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	msgCheckTools     = i18n.Message("tools")
	msgCheckUpstream  = i18n.Message("upstream %s")
	msgCheckRule      = i18n.Message("rule %s")
	msgCheckKeyRule   = i18n.Message("key %s")
	msgToolsGood      = i18n.Message("%d allowed, %d denied or dangerous")
	msgUpstreamGood   = i18n.Message("is connected, tools: %d")
	msgUpstreamAway   = i18n.Message("is not connected")
	msgUpstreamCut    = i18n.Message("has more tools than are taken over: %d")
	msgUpstreamSkips  = i18n.Message("has tools whose names or schemas cannot be used: %d")
	msgUpstreamUnseen = i18n.Message("the server does not know it yet")
	msgRuleUseless    = i18n.Message("matches no tool at the moment")
	msgKeyUseless     = i18n.Message("its rules name %s, which matches no tool at the moment")
	msgBotOpen        = i18n.Message("mcp_open is on: anybody who reaches the server can ask it")

	adviceUpstream     = i18n.Message("When that is solved, see: patchbay upstream check %s%s")
	adviceLookAgain    = i18n.Message("Look again in a moment; if that stays so, see the server's log.")
	adviceDialsIn      = i18n.Message("See whether its far side has the address and the token; patchbay upstream rotate %s%s makes a new one.")
	adviceCloud        = i18n.Message("See whether the service's address is still good: patchbay upstream set %s url=@FILE%s")
	adviceUpstreamCut  = i18n.Message("Choose with allow, or raise max_tools: patchbay upstream set %s max_tools=5000%s")
	adviceUpstreamSkip = i18n.Message("Tell those who wrote that server; the log has the details.")
	adviceRule         = i18n.Message("See whether it is spelt right, or take it back: patchbay tool reset %s%s")
	adviceKeyRule      = i18n.Message("See whether it is spelt right: patchbay key rules %s%s")
	adviceBotOpen      = i18n.Message("If that is not meant: patchbay bot set %d mcp_open=%s")
)

// tools checks what concerns tools.
func (d *doctor) tools(ctx context.Context, b *app.Base) {
	d.openBots(ctx, b)
	rows, live, err := localUpstreams(ctx, d.sh, b)
	if err != nil {
		d.fail(msgCheckTools.With(), d.errorText(err), adviceLook)
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
		d.fail(msgCheckTools.With(), d.errorText(err), adviceLook)
		return
	}
	usable := 0
	for _, t := range list {
		if t.State == control.ToolAllowed {
			usable++
		}
	}
	d.ok(msgCheckTools.With(), msgToolsGood, usable, len(list)-usable)
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
			d.warn(msgCheckBot.With(bot.Number, bot.Name), msgBotOpen.In(d.sh.lang), adviceBotOpen, bot.Number,
				d.retryFlags)
		}
	}
}

func (d *doctor) upstream(u control.Upstream, live bool) {
	name := msgCheckUpstream.With(u.Slug)
	switch {
	case !live:
		d.warn(name, msgBotUnknown.In(d.sh.lang), adviceStartFirst)
	case u.State == "":
		d.warn(name, msgUpstreamUnseen.In(d.sh.lang), adviceLookAgain)
	case u.State == control.UpstreamReady && u.Cut:
		d.warn(name, msgUpstreamCut.In(d.sh.lang, u.Tools), adviceUpstreamCut, u.Slug, d.retryFlags)
	case u.State == control.UpstreamReady && u.Skipped > 0:
		d.warn(name, msgUpstreamSkips.In(d.sh.lang, u.Skipped), adviceUpstreamSkip)
	case u.State == control.UpstreamElsewhere, u.Kind == app.UpstreamCloud && u.State == control.UpstreamReady:
		d.ok(name, msgBotConnected)
	case u.State == control.UpstreamReady:
		d.ok(name, msgUpstreamGood, u.Tools)
	default:
		d.reportAway(name, u)
	}
}

// reportAway reports an upstream that is not connected, and why.
func (d *doctor) reportAway(name i18n.Text, u control.Upstream) {
	found := msgUpstreamAway.In(d.sh.lang)
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
func (d *doctor) rules(ctx context.Context, b *app.Base, tools []control.Tool, away []control.Upstream) {
	rules, err := b.Store.ToolRules.All(ctx)
	if err != nil {
		d.fail(msgCheckTools.With(), d.errorText(err), adviceLook)
		return
	}
	for _, r := range rules {
		if countMatches(toolsOf(r.Owner, tools), r.Tool) == 0 && !mayBeAway(away, r.Owner, r.Tool) {
			d.warn(msgCheckRule.With(r.Tool), msgRuleUseless.In(d.sh.lang), adviceRule, quoteWord(r.Tool),
				d.retryFlags)
		}
	}
	keys, err := b.Store.Keys.ByPerson(ctx, "")
	if err != nil {
		d.fail(msgCheckTools.With(), d.errorText(err), adviceLook)
		return
	}
	for _, k := range keys {
		d.keyRules(k, toolsOf(k.Person, tools), away)
	}
}

// toolsOf returns the tools of a person.
func toolsOf(person string, tools []control.Tool) []control.Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t control.Tool) bool { return t.Owner != "" && t.Owner != person })
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

func (d *doctor) keyRules(k store.Key, tools []control.Tool, away []control.Upstream) {
	if !k.Revoked.IsZero() || !k.Expires.IsZero() && k.Expires.Before(time.Now()) {
		return
	}
	rules, err := hub.ParseRules(k.Rules)
	if err != nil {
		d.fail(msgCheckKeyRule.With(k.Name), d.errorText(err), adviceKeyRule, k.ID, d.retryFlags+" --clear")
		return
	}
	for _, pattern := range slices.Concat(rules.Allow, rules.Deny, rules.Dangerous) {
		if countMatches(tools, pattern) == 0 && !mayBeAway(away, k.Person, pattern) {
			d.warn(msgCheckKeyRule.With(k.Name), msgKeyUseless.In(d.sh.lang, pattern), adviceKeyRule, k.ID,
				d.retryFlags)
		}
	}
}

// countMatches counts the tools whose names a pattern matches.
func countMatches(list []control.Tool, pattern string) int {
	n := 0
	for _, t := range list {
		if tool.Match(pattern, t.Name) {
			n++
		}
	}
	return n
}
