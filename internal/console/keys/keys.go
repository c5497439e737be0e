// Package keys serves the pages about API keys.
package keys

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Routes returns the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /keys", Serve: list},
		{Pattern: "GET /keys/new", Access: page.Confirmed, Serve: newKey},
		{Pattern: "POST /keys/new", Access: page.Confirmed, Serve: makeKey},
		{Pattern: "GET /keys/programs", Access: page.Admins, Serve: programList},
		{Pattern: "POST /keys/programs", Access: page.AdminsConfirmed, Serve: addProgram},
		{Pattern: "POST /keys/programs/{client}/remove", Access: page.AdminsConfirmed, Serve: removeProgram},
		{Pattern: "GET /keys/{key}", Serve: show},
		{Pattern: "POST /keys/{key}/rules", Access: page.Confirmed, Serve: setRules},
		{Pattern: "POST /keys/{key}/revoke", Serve: revoke},
	}
}

func list(v *page.Visit) {
	all, err := v.Instance.Control.Keys(v.Context(), v.Caller(), control.KeyQuery{})
	if err != nil {
		v.Fail(err)
		return
	}
	var good, let, old []control.KeyRow
	for _, k := range all.Keys {
		if k.IsValid() && k.Client != "" {
			let = append(let, k)
		} else if k.IsValid() {
			good = append(good, k)
		} else {
			old = append(old, k)
		}
	}
	v.Render(http.StatusOK, listPage(v, good, let, old))
}

// ruleForm holds the submitted tool rules.
type ruleForm struct {
	Allow, Deny, Dangerous string // one name per line
	Ask, Set               string // as in [hub.Rules]
	People, KeepArgs       bool
	ReadOnly, FindTools    bool
	Reads                  string // own, all, none, or bots with ReadBots
	ReadBots               string // numbers
	Rate                   string
}

// readsBots is the choice of a key's own conversations and those of some bots.
const readsBots = "bots"

func readRuleForm(v *page.Visit) ruleForm {
	return ruleForm{
		Allow: v.FormValue("allow"), Deny: v.FormValue("deny"), Dangerous: v.FormValue("dangerous"),
		People: v.FormValue("people") != "", KeepArgs: v.FormValue("keep_args") != "",
		ReadOnly: v.FormValue("read_only") != "", FindTools: v.FormValue("find_tools") != "",
		Ask: v.FormValue("ask"), Set: strings.TrimSpace(v.FormValue("set")), Reads: v.FormValue("reads"),
		ReadBots: strings.TrimSpace(v.FormValue("read_bots")),
		Rate:     strings.TrimSpace(v.FormValue("rate")),
	}
}

func ruleFormOf(r hub.Rules) ruleForm {
	f := ruleForm{
		Allow: strings.Join(r.Allow, "\n"), Deny: strings.Join(r.Deny, "\n"),
		Dangerous: strings.Join(r.Dangerous, "\n"),
		Ask:       r.Ask, Set: r.Set, People: r.People, KeepArgs: r.KeepArgs, ReadOnly: r.ReadOnly,
		FindTools: r.FindTools,
	}
	switch r.Reads {
	case "", "own":
	case "all", "none":
		f.Reads = r.Reads
	default:
		f.Reads, f.ReadBots = readsBots, r.Reads
	}
	if r.PerMinute > 0 {
		f.Rate = strconv.Itoa(r.PerMinute)
	}
	return f
}

// isSet reports whether any field is filled in.
func (f *ruleForm) isSet() bool { return *f != ruleForm{} }

// rules parses the form.
func (f *ruleForm) rules() (r hub.Rules, err error) {
	r = hub.Rules{Allow: page.SplitNames(f.Allow), Deny: page.SplitNames(f.Deny),
		Dangerous: page.SplitNames(f.Dangerous), People: f.People, KeepArgs: f.KeepArgs, ReadOnly: f.ReadOnly,
		FindTools: f.FindTools, Ask: f.Ask, Set: f.Set}
	switch f.Reads {
	case "", "own":
	case readsBots:
		r.Reads = f.ReadBots
	default:
		r.Reads = f.Reads
	}
	if f.Rate != "" {
		if r.PerMinute, err = strconv.Atoi(f.Rate); err != nil {
			return r, problem.New(problem.Invalid, msgRateWrong)
		}
	}
	return r, nil
}

// keyForm holds the submitted form for a new key, and its errors.
type keyForm struct {
	ruleForm
	Name   string
	Scopes []string
	Bot    int64
	Days   int
	Wrong  string
}

// scopes returns the scopes that the visitor can choose.
func scopes(v *page.Visit) []string {
	all := []string{account.ScopeMCP, account.ScopeLearn, account.ScopeLingzhu, account.ScopeNode,
		account.ScopeOperator}
	if v.IsAdmin() {
		all = append(all, account.ScopeAdmin)
	}
	return all
}

// keyLifetimes are the offered lifetimes of a key, in days.
var keyLifetimes = []int{7, 30, 90, 365}

func newKey(v *page.Visit) {
	if !v.RequireAdding() {
		return
	}
	// Other pages link here with the form prefilled.
	f := keyForm{Name: v.FormValue("name")}
	f.Scopes = v.Form["scope"]
	f.Bot, _ = strconv.ParseInt(v.FormValue("bot"), 10, 64) // invalid means none
	showForm(v, http.StatusOK, f)
}

func showForm(v *page.Visit, status int, f keyForm) {
	bots, err := v.Instance.Control.BotChoices(v.Context(), v.Caller())
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, newPage(v, f, bots))
}

func makeKey(v *page.Visit) {
	f := keyForm{ruleForm: readRuleForm(v), Name: strings.TrimSpace(v.FormValue("name"))}
	f.Scopes = v.Form["scope"]
	f.Bot, _ = strconv.ParseInt(v.FormValue("bot"), 10, 64)
	f.Days, _ = strconv.Atoi(v.FormValue("days"))
	rules, err := f.rules()
	var made control.CreatedKey
	if err == nil && len(f.Scopes) == 0 {
		err = problem.New(problem.Invalid, msgNoScope) // in other words than programs get, which know names
	}
	if err == nil {
		made, err = v.Instance.Control.AddKey(v.Context(), v.Caller(),
			control.NewKey{Name: f.Name, Scopes: slices.Clone(f.Scopes), Bot: f.Bot, Days: f.Days, Rules: rules})
	}
	if err != nil {
		text, status := v.Wrong(err)
		f.Wrong = text
		showForm(v, status, f)
		return
	}
	v.Render(http.StatusOK, madePage(v, made))
}

func show(v *page.Visit) {
	k, err := v.Instance.Control.Key(v.Context(), v.Caller(), control.KeyRef{Key: v.PathValue("key")})
	if err != nil {
		v.Fail(err)
		return
	}
	showKey(v, http.StatusOK, k, ruleFormOf(k.Rules), "")
}

// showKey shows a key with the devices that have got tokens with it.
func showKey(v *page.Visit, status int, k control.KeyRow, f ruleForm, wrong string) {
	devices, err := v.Instance.Control.KeyDevices(v.Context(), v.Caller(), k.ID)
	if err != nil {
		v.Fail(err)
		return
	}
	last, err := v.Instance.Control.LastUse(v.Context(), k)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, keyPage(v, k, last, devices, f, wrong, wrong == "" && v.FormValue("saved") != ""))
}

func deviceNames(devices []control.KeyDevice) string {
	names := make([]string, len(devices))
	for i := range devices {
		names[i] = devices[i].Called() + " (" + devices[i].Role + ")"
	}
	return strings.Join(names, ", ")
}

func setRules(v *page.Visit) {
	f := readRuleForm(v)
	rules, err := f.rules()
	ref := v.PathValue("key")
	if err == nil {
		_, err = v.Instance.Control.ChangeKey(v.Context(), v.Caller(), control.KeyChange{Key: ref, Rules: rules})
	}
	if err == nil {
		v.Redirect("/keys/" + ref + "?saved=yes")
		return
	}
	k, missing := v.Instance.Control.Key(v.Context(), v.Caller(), control.KeyRef{Key: ref})
	if missing != nil {
		v.Fail(missing)
		return
	}
	text, status := v.Wrong(err)
	showKey(v, status, k, f, text)
}

func revoke(v *page.Visit) {
	if _, err := v.Instance.Control.RevokeKey(v.Context(), v.Caller(),
		control.KeyRevocation{Key: v.PathValue("key"), Devices: v.FormValue("devices") != ""}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/keys")
}

// rulesText describes the rules of a key.
func rulesText(v *page.Visit, r hub.Rules) string {
	var parts []string
	safe := false // without dangerous tools, be they unnamed
	if len(r.Allow) > 0 {
		parts = append(parts, v.Text(msgRuleOnly, strings.Join(r.Allow, " ")))
	}
	if len(r.Deny) > 0 {
		parts = append(parts, v.Text(msgRuleNot, strings.Join(r.Deny, " ")))
	}
	if len(r.Dangerous) > 0 {
		parts = append(parts, v.Text(msgRuleAlso, strings.Join(r.Dangerous, " ")))
	} else if r.Ask == "" && !r.ReadOnly {
		safe = true
	}
	if r.Set != "" {
		parts = append(parts, v.Text(msgRuleSet, r.Set))
	}
	switch r.Ask {
	case hub.AskOwner:
		parts = append(parts, v.Text(msgRuleAsksMe))
	case hub.AskProgram:
		parts = append(parts, v.Text(msgRuleAsksThere))
	}
	if r.ReadOnly {
		parts = append(parts, v.Text(msgRuleReads))
	}
	if r.FindTools {
		parts = append(parts, v.Text(msgRuleFinds))
	}
	switch r.Reads {
	case "", "own":
	case "all":
		parts = append(parts, v.Text(msgReadsAll))
	case "none":
		parts = append(parts, v.Text(msgReadsNone))
	default:
		parts = append(parts, v.Text(msgReadsSome, r.Reads))
	}
	if r.People {
		parts = append(parts, v.Text(msgRulePeople))
	}
	if r.PerMinute > 0 {
		parts = append(parts, v.Text(msgRuleRate, r.PerMinute))
	}
	if r.KeepArgs {
		parts = append(parts, v.Text(msgRuleKeeps))
	}
	if len(parts) == 0 {
		return v.Text(msgRulesNone)
	}
	if safe {
		parts = append(parts, v.Text(msgRuleSafe))
	}
	return strings.Join(parts, " · ")
}

// canCallTools reports whether tool rules apply to a key.
func canCallTools(k store.Key) bool {
	return slices.ContainsFunc(k.Scopes, func(scope string) bool { return scope != account.ScopeLingzhu })
}

// usedBy names the program that used a key last, with its address.
func usedBy(v *page.Visit, last *control.LastUse) string {
	if last == nil {
		return v.Text(msgUsedUnknown)
	}
	name := last.Program
	if name == "" {
		name = v.Text(msgUsedNameless)
	}
	if last.Address == "" {
		return name
	}
	return v.Text(msgUsedFrom, name, last.Address)
}

// botOf returns the name of the only bot of a key.
func botOf(v *page.Visit, k control.KeyRow) string {
	if k.BotName == "" {
		return v.Text(msgBotGone, k.Bot)
	}
	return k.BotName
}

// state returns whether a key is valid, as a status light and its text.
func state(v *page.Visit, k control.KeyRow) (page.State, string) {
	switch {
	case !k.Revoked.IsZero():
		return page.Off, v.Text(msgRevoked)
	case !k.IsValid():
		return page.Off, v.Text(msgExpired)
	}
	return page.On, v.Text(msgGood)
}
