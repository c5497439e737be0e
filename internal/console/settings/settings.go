// Package settings serves the pages where people change their account, and administrators manage
// the installation.
//
//	profile       name, language, time zone, password
//	sign-ins      the browsers of a person
//	people        accounts
//	limits        what they may do, and invitations
//	backup        download and restore
//	installation  version, health, settings
//	events        the administrator actions
package settings

import (
	"net/http"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// pages holds the dependencies of the pages.
type pages struct {
	*control.Service
}

// Routes returns the pages.
func Routes(c *control.Service) []page.Route {
	p := pages{c}
	return []page.Route{
		{Pattern: "GET /settings", Serve: p.profile},
		{Pattern: "POST /settings/profile", Serve: p.changeProfile},
		{Pattern: "POST /settings/password", Serve: p.changePassword},
		{Pattern: "POST /settings/links/{link}/remove", Access: page.Confirmed, Serve: p.removeLink},
		{Pattern: "GET /settings/authenticator", Access: page.Confirmed, Serve: p.enrol},
		{Pattern: "POST /settings/authenticator", Access: page.Confirmed, Serve: p.addAuthenticator},
		{Pattern: "POST /settings/authenticator/codes", Access: page.Confirmed, Serve: p.newRecoveryCodes},
		{Pattern: "POST /settings/authenticator/remove", Access: page.Confirmed, Serve: p.removeAuthenticator},
		{Pattern: "GET /settings/passkeys", Access: page.Confirmed, Serve: p.newPasskey},
		{Pattern: "POST /settings/passkeys", Access: page.Confirmed, Serve: p.addPasskey},
		{Pattern: "POST /settings/passkeys/{passkey}/remove", Access: page.Confirmed, Serve: p.removePasskey},
		{Pattern: "GET /settings/browsers", Serve: p.signIns},
		{Pattern: "POST /settings/browsers/others/end", Serve: p.endOtherSignIns},
		{Pattern: "POST /settings/browsers/{signin}/end", Serve: p.endSignIn},

		{Pattern: "GET /settings/people", Access: page.Admins, Serve: p.people},
		{Pattern: "GET /settings/people/new", Access: page.AdminsConfirmed, Serve: p.newPerson},
		{Pattern: "POST /settings/people/new", Access: page.AdminsConfirmed, Serve: p.addPerson},
		{Pattern: "GET /settings/people/{person}", Access: page.AdminsConfirmed, Serve: p.person},
		{Pattern: "POST /settings/people/{person}/role", Access: page.AdminsConfirmed, Serve: p.changeRole},
		{Pattern: "POST /settings/people/{person}/limits", Access: page.AdminsConfirmed, Serve: p.setLimits},
		{Pattern: "POST /settings/people/{person}/invite", Access: page.AdminsConfirmed, Serve: p.invite},
		{Pattern: "POST /settings/people/{person}/uninvite", Access: page.AdminsConfirmed, Serve: p.withdraw},
		{Pattern: "POST /settings/people/{person}/pause", Access: page.AdminsConfirmed, Serve: p.pause},
		{Pattern: "POST /settings/people/{person}/password", Access: page.AdminsConfirmed, Serve: p.setPassword},
		{Pattern: "POST /settings/people/{person}/second-steps/remove", Access: page.AdminsConfirmed,
			Serve: p.removeSecondSteps},
		{Pattern: "POST /settings/people/{person}/remove", Access: page.AdminsConfirmed, Serve: p.removePerson},

		{Pattern: "GET /settings/backup", Access: page.AdminsConfirmed, Serve: p.backup},
		{Pattern: "GET /settings/backup/live", Access: page.Admins, Serve: p.backupLive},
		{Pattern: "POST /settings/backup/file", Access: page.AdminsConfirmed, Serve: p.download},
		{Pattern: "POST /settings/backup/restore", Access: page.AdminsConfirmed, Serve: p.restore, Large: true},
		{Pattern: "POST /settings/backup/cancel", Access: page.AdminsConfirmed, Serve: p.cancelRestore},

		{Pattern: "GET /settings/installation", Access: page.Admins, Serve: p.installation},
		{Pattern: "GET /settings/admin-events", Access: page.Admins, Serve: p.adminEvents},
	}
}

// tab is an entry of the tab bar.
type tab struct {
	path string
	name i18n.Message
	all  bool // visible to everybody, not only to administrators
}

// Places returns the pages of the settings that somebody can open.
func Places(admin bool) (list []page.Place) {
	for _, t := range tabs {
		if t.all || admin {
			list = append(list, page.Place{Name: t.name, Path: t.path})
		}
	}
	return list
}

var tabs = []tab{
	{"/settings", msgTabMe, true},
	{"/settings/browsers", msgTabBrowsers, true},
	{"/settings/voice", msgTabVoice, false},
	{"/settings/people", msgTabPeople, false},
	{"/settings/backup", msgTabBackup, false},
	{"/settings/installation", msgTabInstallation, false},
	{"/settings/admin-events", msgTabActs, false},
}

// profileForm is the data of the profile page.
type profileForm struct {
	Person control.Person
	// Errors of the two forms.
	Wrong, WrongPassword string
	Saved, Changed       bool
	Links                []control.Link
	Passkeys             []store.Passkey
	Steps                store.SecondSteps
	Told                 string // what was done, about links
}

// profile shows the visitor's account.
func (p pages) profile(v *page.Visit) {
	me, err := p.Me(v.Context(), v.Caller(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	f := profileForm{Person: me, Saved: v.FormValue("saved") == "1", Changed: v.FormValue("changed") == "1"}
	switch {
	case v.FormValue("linked") == "1":
		f.Told = v.Text(msgLinked)
	case v.FormValue("unlinked") == "1":
		f.Told = v.Text(msgLinkGone)
	case v.FormValue("without_code") == "1":
		f.Told = v.Text(msgAppGone)
	case v.FormValue("passkey") == "1":
		f.Told = v.Text(msgPasskeyAdded)
	case v.FormValue("no_passkey") == "1":
		f.Told = v.Text(msgPasskeyGone)
	}
	p.showProfile(v, http.StatusOK, f)
}

// showProfile shows the visitor's account with the notices and errors of f.
func (p pages) showProfile(v *page.Visit, status int, f profileForm) {
	var err error
	if f.Links, err = p.links(v, v.Session.Person.Name); err != nil {
		v.Fail(err)
		return
	}
	if f.Passkeys, err = p.Accounts.Passkeys(v.Context(), v.Session.Person.ID); err != nil {
		v.Fail(err)
		return
	}
	if f.Steps, err = p.Accounts.SecondSteps(v.Context(), v.Session.Person.ID); err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, profilePage(v, f))
}

// changeProfile changes name, language and time zone.
func (p pages) changeProfile(v *page.Visit) {
	name, lang, zone := v.FormValue("name"), v.FormValue("lang"), v.FormValue("zone")
	me, err := p.ChangeMe(v.Context(), v.Caller(), control.MeChange{Name: &name, Lang: &lang, Zone: &zone})
	if err != nil {
		wrong, status := v.Wrong(err)
		me.Person = v.Session.Person
		me.HasPassword = v.Session.Person.Password != ""
		me.Name, me.Lang, me.Zone = name, lang, zone
		p.showProfile(v, status, profileForm{Person: me, Wrong: wrong})
		return
	}
	// The preference cookies of this browser follow the account.
	v.SavePreferences(me.Lang, "")
	v.Redirect("/settings?saved=1")
}

// changePassword changes the password; it requires the old one.
func (p pages) changePassword(v *page.Visit) {
	again := func(status int, wrong string) {
		me, err := p.Me(v.Context(), v.Caller(), control.Empty{})
		if err != nil {
			v.Fail(err)
			return
		}
		p.showProfile(v, status, profileForm{Person: me, WrongPassword: wrong})
	}
	// Whoever has a second step uses it: the password alone changes nothing.
	steps, err := p.Accounts.SecondSteps(v.Context(), v.Session.Person.ID)
	if err != nil {
		v.Fail(err)
		return
	}
	if steps.Any() && !v.RequireConfirmation("/settings") {
		return
	}
	if v.FormValue("new") != v.FormValue("again") {
		again(http.StatusUnprocessableEntity, v.Text(msgNotSame))
		return
	}
	out, err := p.ChangePassword(v.Context(), v.Caller(), control.PasswordChange{Old: v.FormValue("old"),
		New: v.FormValue("new"), Keep: v.Session.ID})
	if err != nil {
		if wrong, status := v.Wrong(err); wrong != "" {
			again(status, wrong)
		}
		return
	}
	v.SetSessionCookie(out.Token)
	v.Redirect("/settings?changed=1")
}

// signIns lists the browsers in which the visitor is signed in.
func (p pages) signIns(v *page.Visit) {
	list, err := p.SignIns(v.Context(), v.Caller(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, signInsPage(v, list.SignIns, v.FormValue("ended") == "1"))
}

// endSignIn signs one browser out, which may be this one.
func (p pages) endSignIn(v *page.Visit) {
	if _, err := p.EndSignIn(v.Context(), v.Caller(), control.SignInRef{SignIn: v.PathValue("signin")}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/settings/browsers?ended=1")
}

// endOtherSignIns signs out all browsers but this one.
func (p pages) endOtherSignIns(v *page.Visit) {
	if _, err := p.EndSignIns(v.Context(), v.Caller(), control.OtherSignIns{Keep: v.Session.ID}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/settings/browsers?ended=1")
}
