// Package settings is where people change what is theirs, and those who run the
// installation look after it.
//
//	me            name, language, time zone, password
//	browsers      where somebody is signed in
//	people        who has an account
//	backup        download and restore
//	installation  version, health, settings
//	acts          the journal of what was done to it
package settings

import (
	"net/http"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

// pages are the pages, with what they can do.
type pages struct {
	*control.Service
}

// Routes are the pages.
func Routes(c *control.Service) []page.Route {
	p := pages{c}
	return []page.Route{
		{Pattern: "GET /settings", Serve: p.me},
		{Pattern: "POST /settings/me", Serve: p.changeMe},
		{Pattern: "POST /settings/password", Serve: p.changePassword},
		{Pattern: "GET /settings/browsers", Serve: p.browsers},
		{Pattern: "POST /settings/browsers/others/end", Serve: p.endOthers},
		{Pattern: "POST /settings/browsers/{signin}/end", Serve: p.endBrowser},

		{Pattern: "GET /settings/people", Access: page.Admins, Serve: p.people},
		{Pattern: "GET /settings/people/new", Access: page.AdminsFresh, Serve: p.newPerson},
		{Pattern: "POST /settings/people/new", Access: page.AdminsFresh, Serve: p.addPerson},
		{Pattern: "GET /settings/people/{person}", Access: page.AdminsFresh, Serve: p.person},
		{Pattern: "POST /settings/people/{person}/role", Access: page.AdminsFresh, Serve: p.changeRole},
		{Pattern: "POST /settings/people/{person}/password", Access: page.AdminsFresh, Serve: p.setPassword},
		{Pattern: "POST /settings/people/{person}/remove", Access: page.AdminsFresh, Serve: p.removePerson},

		{Pattern: "GET /settings/backup", Access: page.AdminsFresh, Serve: p.backup},
		{Pattern: "GET /settings/backup/live", Access: page.Admins, Serve: p.backupLive},
		{Pattern: "POST /settings/backup/file", Access: page.AdminsFresh, Serve: p.download},
		{Pattern: "POST /settings/backup/restore", Access: page.AdminsFresh, Serve: p.restore, Large: true},
		{Pattern: "POST /settings/backup/cancel", Access: page.AdminsFresh, Serve: p.cancelRestore},

		{Pattern: "GET /settings/installation", Access: page.Admins, Serve: p.installation},
		{Pattern: "GET /settings/acts", Access: page.Admins, Serve: p.acts},
	}
}

// tab is a page that the tabs lead to.
type tab struct {
	path string
	name talk.Say
	all  bool // also for those who do not run the installation
}

var tabs = []tab{
	{"/settings", sayTabMe, true},
	{"/settings/browsers", sayTabBrowsers, true},
	{"/settings/people", sayTabPeople, false},
	{"/settings/backup", sayTabBackup, false},
	{"/settings/installation", sayTabInstallation, false},
	{"/settings/acts", sayTabActs, false},
}

// meForm is what is shown on the first page.
type meForm struct {
	Person control.Person
	// What is wrong with which of the two forms.
	Wrong, WrongPassword string
	Saved, Changed       bool
}

// me is the account of whoever looks.
func (p pages) me(v *page.Visit) {
	me, err := p.Me(v.Context(), v.Caller(), control.None{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, mePage(v, meForm{Person: me, Saved: v.FormValue("saved") == "1", Changed: v.FormValue("changed") == "1"}))
}

// changeMe changes name, language and time zone.
func (p pages) changeMe(v *page.Visit) {
	name, lang, zone := v.FormValue("name"), v.FormValue("lang"), v.FormValue("zone")
	me, err := p.ChangeMe(v.Context(), v.Caller(), control.MeChange{Name: &name, Lang: &lang, Zone: &zone})
	if err != nil {
		wrong, status := v.Wrong(err)
		me.Person = v.Who.Person
		me.HasPassword = v.Who.Person.Password != ""
		me.Name, me.Lang, me.Zone = name, lang, zone
		v.Show(status, mePage(v, meForm{Person: me, Wrong: wrong}))
		return
	}
	// This browser is one of theirs, whatever it was told before.
	v.Prefer(me.Lang, "")
	v.To("/settings?saved=1")
}

// changePassword needs the old password.
func (p pages) changePassword(v *page.Visit) {
	again := func(status int, wrong string) {
		me, err := p.Me(v.Context(), v.Caller(), control.None{})
		if err != nil {
			v.Fail(err)
			return
		}
		v.Show(status, mePage(v, meForm{Person: me, WrongPassword: wrong}))
	}
	if v.FormValue("new") != v.FormValue("again") {
		again(http.StatusUnprocessableEntity, v.Say(sayNotSame))
		return
	}
	out, err := p.ChangePassword(v.Context(), v.Caller(), control.PasswordChange{Old: v.FormValue("old"), New: v.FormValue("new"), Keep: v.Who.ID})
	if err != nil {
		if wrong, status := v.Wrong(err); wrong != "" {
			again(status, wrong)
		}
		return
	}
	v.Admit(out.Token)
	v.To("/settings?changed=1")
}

// browsers is where somebody is signed in.
func (p pages) browsers(v *page.Visit) {
	list, err := p.SignIns(v.Context(), v.Caller(), control.None{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, browsersPage(v, list.SignIns, v.FormValue("ended") == "1"))
}

// endBrowser signs one browser out: perhaps this one.
func (p pages) endBrowser(v *page.Visit) {
	if _, err := p.EndSignIn(v.Context(), v.Caller(), control.SignInRef{SignIn: v.PathValue("signin")}); err != nil {
		v.Fail(err)
		return
	}
	v.To("/settings/browsers?ended=1")
}

// endOthers signs all browsers out but this one.
func (p pages) endOthers(v *page.Visit) {
	if _, err := p.EndSignIns(v.Context(), v.Caller(), control.OtherSignIns{Keep: v.Who.ID}); err != nil {
		v.Fail(err)
		return
	}
	v.To("/settings/browsers?ended=1")
}

// agents and systems are what browsers name themselves by, the telling ones first:
// most pretend to be others too.
var (
	agents = [][2]string{
		{"MicroMessenger/", "WeChat"}, {"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	}
	systems = [][2]string{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"HarmonyOS", "HarmonyOS"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	}
)

// agent is a browser in words.
func agent(v *page.Visit, text string) string {
	find := func(list [][2]string) string {
		for _, x := range list {
			if strings.Contains(text, x[0]) {
				return x[1]
			}
		}
		return ""
	}
	name, on := find(agents), find(systems)
	switch {
	case name != "" && on != "":
		return v.Say(sayAgentOn, name, on)
	case name != "" || on != "":
		return name + on
	case text != "":
		first, _, _ := strings.Cut(text, " ")
		return first
	}
	return v.Say(sayAgentUnknown)
}
