package control

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// CheckTools is the name of the check of all tools.
const CheckTools = i18n.Message("tools")

const (
	msgCheckUpstream  = i18n.Message("upstream %s")
	msgCheckRule      = i18n.Message("rule %s")
	msgCheckKeyRule   = i18n.Message("key %s")
	msgToolsGood      = i18n.Message("%d allowed, %d denied or dangerous")
	msgUpstreamGood   = i18n.Message("is connected, tools: %d")
	msgSharedGood     = i18n.Message("is shared; people who have signed in: %d")
	msgUpstreamAway   = i18n.Message("is not connected")
	msgUpstreamCut    = i18n.Message("has more tools than are taken over: %d")
	msgUpstreamSkips  = i18n.Message("has tools whose names or schemas cannot be used: %d")
	msgUpstreamUnseen = i18n.Message("the server does not know it yet")
	msgRuleUseless    = i18n.Message("matches no tool at the moment")
	msgCheckWords     = i18n.Message("name of %s")
	msgWordsUseless   = i18n.Message("you named or described it, and it is not there at the moment")
	msgWordsTaken     = i18n.Message("you call it %s, which is the name of another tool: that one is listed as %s")
	msgKeySetGone     = i18n.Message("its set %s is gone, so it has no tools")
	msgKeyUseless     = i18n.Message("its rules name %s, which matches no tool at the moment")

	adviceUpstream     = i18n.Message("When that is solved, see: patchbay upstream check %s%s")
	adviceSignIn       = i18n.Message("Sign in on its page, or: patchbay upstream signin %s%s")
	adviceLookAgain    = i18n.Message("Look again in a moment; if that stays so, see the server's log.")
	adviceDialsIn      = i18n.Message("See whether its far side has the address and the token; patchbay upstream rotate %s%s makes a new one.")
	adviceCloud        = i18n.Message("See whether the service's address is still good: patchbay upstream set %s url=@FILE%s")
	adviceUpstreamCut  = i18n.Message("Choose with allow, or raise max_tools: patchbay upstream set %s max_tools=5000%s")
	adviceUpstreamSkip = i18n.Message("Tell those who wrote that server; the log has the details.")
	adviceRule         = i18n.Message("See whether it is spelt right, or take it back: patchbay tool reset %s%s")
	adviceWords        = i18n.Message("If it does not come back, forget what you call it: patchbay tool original %s%s")
	adviceWordsTaken   = i18n.Message("Give it another name: patchbay tool rename %s NAME%s")
	adviceKeySet       = i18n.Message("Name another set, or \"\" for none: patchbay key rules %s%s --set NAME")
	adviceKeyRule      = i18n.Message("See whether it is spelt right: patchbay key rules %s%s")
)

// CheckUpstream checks a tool server or a service, in the state that the running server reports.
func CheckUpstream(r *check.Report, u Upstream, running bool) {
	name := msgCheckUpstream.With(u.Slug)
	switch {
	case !running:
		r.Warn(name, check.ConnectionUnknown.With(), check.AdviceStart.With())
	case u.State == "":
		r.Warn(name, msgUpstreamUnseen.With(), adviceLookAgain.With())
	case u.State == UpstreamReady && u.Cut:
		r.Warn(name, msgUpstreamCut.With(u.Tools), adviceUpstreamCut.With(u.Slug, r.Flags))
	case u.State == UpstreamReady && u.Skipped > 0:
		r.Warn(name, msgUpstreamSkips.With(u.Skipped), adviceUpstreamSkip.With())
	case u.Shared != nil && u.NeedsSignIn: // its owner need not use it
		r.OK(name, msgSharedGood.With(u.Shared.SignedIn))
	case u.State == UpstreamElsewhere, u.State == UpstreamIdle, u.Kind == KindCloud && u.State == UpstreamReady:
		r.OK(name, check.Connected.With())
	case u.State == UpstreamReady:
		r.OK(name, msgUpstreamGood.With(u.Tools))
	default:
		reportAway(r, u)
	}
}

// reportAway reports an upstream that is not connected, and why.
func reportAway(r *check.Report, u Upstream) {
	name, found, advice := msgCheckUpstream.With(u.Slug), msgUpstreamAway.With(), adviceUpstream
	if u.Problem != "" {
		found = check.Because(u.Problem, u.Cause)
	}
	switch u.Kind {
	case KindDialsIn:
		advice = adviceDialsIn
	case KindCloud:
		advice = adviceCloud
	}
	if u.NeedsSignIn {
		advice = adviceSignIn
	}
	if u.State == UpstreamFailed {
		r.Fail(name, found, advice.With(u.Slug, r.Flags))
		return
	}
	r.Warn(name, found, advice.With(u.Slug, r.Flags))
}

// CheckRules counts the tools of a running server, and reports rules that match none, usually
// typing errors. Rules that may match tools of a disconnected upstream are not reported.
func CheckRules(ctx context.Context, r *check.Report, db *store.DB, tools []Tool, upstreams []Upstream) {
	usable := 0
	for _, t := range tools {
		if t.State == ToolAllowed {
			usable++
		}
	}
	r.OK(CheckTools.With(), msgToolsGood.With(usable, len(tools)-usable))
	away := slices.DeleteFunc(slices.Clone(upstreams), func(u Upstream) bool {
		return slices.Contains([]string{UpstreamReady, UpstreamElsewhere, UpstreamIdle}, u.State) ||
			u.Kind == KindCloud || u.Kind == KindShim
	})
	rules, err := db.ToolRules.All(ctx)
	if err != nil {
		r.Error(CheckTools.With(), err, check.AdviceLog.With())
		return
	}
	for _, rule := range rules {
		if !matches(rule.Owner, rule.Tool, tools, away) {
			r.Warn(msgCheckRule.With(rule.Tool), msgRuleUseless.With(),
				adviceRule.With(check.Quote(rule.Tool), r.Flags))
		}
	}
	keys, err := db.Keys.ByPerson(ctx, "")
	if err != nil {
		r.Error(CheckTools.With(), err, check.AdviceLog.With())
		return
	}
	if err := checkWords(ctx, r, db, tools, away); err != nil {
		r.Error(CheckTools.With(), err, check.AdviceLog.With())
		return
	}
	sets, err := db.ToolSets.All(ctx)
	if err != nil {
		r.Error(CheckTools.With(), err, check.AdviceLog.With())
		return
	}
	for _, k := range keys {
		checkKeyRules(r, k, sets, tools, away)
	}
}

// checkWords reports names and descriptions of tools that are gone, and names that another tool had
// to give up.
func checkWords(ctx context.Context, r *check.Report, db *store.DB, tools []Tool, away []Upstream) error {
	words, err := db.ToolWordings.All(ctx)
	if err != nil {
		return err
	}
	for _, w := range words {
		name := msgCheckWords.With(w.Tool)
		if !matches(w.Owner, w.Tool, tools, away) {
			r.Warn(name, msgWordsUseless.With(), adviceWords.With(w.Tool, r.Flags))
		}
		for _, t := range tools {
			if w.Name != "" && t.Original == w.Name && (t.Owner == "" || t.Owner == w.Owner) {
				r.Warn(name, msgWordsTaken.With(w.Name, t.Name), adviceWordsTaken.With(w.Name, r.Flags))
			}
		}
	}
	return nil
}

func checkKeyRules(r *check.Report, k store.Key, sets []store.ToolSet, tools []Tool, away []Upstream) {
	if !k.Revoked.IsZero() || !k.Expires.IsZero() && k.Expires.Before(time.Now()) {
		return
	}
	name := msgCheckKeyRule.With(k.Name)
	rules, err := hub.ParseRules(k.Rules)
	if err != nil {
		r.Error(name, err, adviceKeyRule.With(k.ID, r.Flags+" --clear"))
		return
	}
	if rules.Set != "" && !slices.ContainsFunc(sets, func(set store.ToolSet) bool {
		return set.Owner == k.Person && set.Name == rules.Set
	}) {
		r.Warn(name, msgKeySetGone.With(rules.Set), adviceKeySet.With(k.ID, r.Flags))
	}
	for _, pattern := range slices.Concat(rules.Allow, rules.Deny, rules.Dangerous) {
		if !matches(k.Person, pattern, tools, away) {
			r.Warn(name, msgKeyUseless.With(pattern), adviceKeyRule.With(k.ID, r.Flags))
		}
	}
}

// matches reports whether a pattern matches a tool of a person, or may match one of an upstream
// that is not connected.
func matches(person, pattern string, tools []Tool, away []Upstream) bool {
	for _, t := range tools {
		if (t.Owner == "" || t.Owner == person) && tool.Match(pattern, cmp.Or(t.Original, t.Name)) {
			return true
		}
	}
	head, _, star := strings.Cut(pattern, "*")
	for _, u := range away {
		slug := u.Slug + "_"
		if u.Owner == person && (strings.HasPrefix(head, slug) || star && strings.HasPrefix(slug, head)) {
			return true
		}
	}
	return false
}
