package settings

import (
	"net/http"
	"net/url"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// people lists the accounts.
func (p pages) people(v *page.Visit) {
	list, err := p.People(v.Context(), v.Operator(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, peoplePage(v, list.People, v.FormValue("removed")))
}

// newForm holds the submitted form for a new account, without the password.
type newForm struct {
	Name, Role, Lang string
	ByPassword       bool // instead of a link
	Limits           limitsForm
	Wrong            string
}

func (p pages) newPerson(v *page.Visit) {
	p.showNewPerson(v, http.StatusOK, newForm{Role: account.RoleMember, Lang: string(v.Lang)})
}

func (p pages) showNewPerson(v *page.Visit, status int, f newForm) {
	if err := p.addBots(v, control.PersonRef{}, &f.Limits); err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, newPersonPage(v, f))
}

// addPerson creates an account, and shows the link or the password that was generated.
func (p pages) addPerson(v *page.Visit) {
	f := newForm{Name: v.FormValue("name"), Role: v.FormValue("role"), Lang: v.FormValue("lang"),
		ByPassword: v.FormValue("by") == "password", Limits: readLimits(v)}
	if f.Limits.wrong {
		f.Wrong = v.Text(msgLimitQuestion)
		p.showNewPerson(v, http.StatusUnprocessableEntity, f)
		return
	}
	in := control.NewPerson{Name: f.Name, Role: f.Role, Lang: f.Lang, Invite: !f.ByPassword, Bots: f.Limits.chosen()}
	if f.Role != account.RoleAdmin {
		in.Limits = f.Limits.PersonLimits
	}
	if f.ByPassword {
		in.Password = v.FormValue("password")
	}
	out, err := p.AddPerson(v.Context(), v.Operator(), in)
	switch {
	case err != nil && out.ID != "": // the account is there, and the rest can be set on its page
		if wrong, status := v.Wrong(err); wrong != "" {
			v.SetPathValue("person", out.ID)
			p.showPerson(v, status, personForm{WrongLimits: wrong, MayDo: f.Limits})
		}
	case err != nil:
		var status int
		if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
			p.showNewPerson(v, status, f)
		}
	case out.Invitation != nil:
		p.showInvitation(v, msgAdded, out.Person, *out.Invitation)
	case out.Password == "":
		v.Redirect("/settings/people/" + out.ID + "?added=1")
	default:
		v.Render(http.StatusOK, passwordPage(v, msgAdded, out))
	}
}

// personForm is the data of an account's page, with notices and errors.
type personForm struct {
	control.Person
	Told, Wrong, WrongPassword, WrongName, WrongLimits, WrongPause string

	Links []control.Link
	MayDo limitsForm
}

func (p pages) person(v *page.Visit) { p.showPerson(v, http.StatusOK, personForm{}) }

// showPerson shows an account with the notices of f.
func (p pages) showPerson(v *page.Visit, status int, f personForm) {
	var err error
	if f.Person, err = p.Member(v.Context(), v.Operator(), ref(v)); err != nil {
		v.Fail(err)
		return
	}
	if f.Links, err = p.links(v, f.Name); err != nil {
		v.Fail(err)
		return
	}
	if f.WrongLimits == "" {
		f.MayDo = limitsForm{PersonLimits: f.Limits}
	}
	if err = p.addBots(v, ref(v), &f.MayDo); err != nil {
		v.Fail(err)
		return
	}
	if err = p.addMatches(v, f.ID, &f.MayDo); err != nil {
		v.Fail(err)
		return
	}
	if status == http.StatusOK {
		switch {
		case v.FormValue("unlinked") == "1":
			f.Told = v.Text(msgLinkGone)
		case v.FormValue("without_steps") == "1":
			f.Told = v.Text(msgStepsGone, f.Name)
		case v.FormValue("added") == "1":
			f.Told = v.Text(msgAdded, f.Name)
		case v.FormValue("paused") == "1":
			f.Told = v.Text(msgIsPaused, f.Name)
		case v.FormValue("resumed") == "1":
			f.Told = v.Text(msgIsResumed, f.Name)
		case v.FormValue("uninvited") == "1":
			f.Told = v.Text(msgIsUninvited)
		case v.FormValue("saved") == "1":
			f.Told = v.Text(msgSaved)
		case v.FormValue("changed") == "1":
			f.Told = v.Text(msgPasswordGiven, f.Name)
		}
	}
	v.Render(status, personPage(v, f))
}

func ref(v *page.Visit) control.PersonRef { return control.PersonRef{Person: v.PathValue("person")} }

func (p pages) changeRole(v *page.Visit) {
	_, err := p.ChangePerson(v.Context(), v.Operator(), control.PersonChange{PersonRef: ref(v),
		Role: v.FormValue("role")})
	if err != nil {
		if wrong, status := v.Wrong(err); wrong != "" {
			p.showPerson(v, status, personForm{Wrong: wrong})
		}
		return
	}
	// A former administrator may not see the page any more.
	if ref(v).Person == v.Session.Person.ID {
		v.Redirect("/settings")
		return
	}
	v.Redirect("/settings/people/" + v.PathValue("person") + "?saved=1")
}

func (p pages) setPassword(v *page.Visit) {
	out, err := p.SetPersonPassword(v.Context(), v.Operator(),
		control.PersonPassword{PersonRef: ref(v), Password: v.FormValue("password")})
	switch {
	case err != nil:
		if wrong, status := v.Wrong(err); wrong != "" {
			p.showPerson(v, status, personForm{WrongPassword: wrong})
		}
	case out.Password != "":
		v.Render(http.StatusOK, passwordPage(v, msgPasswordGiven, out))
	default:
		v.Redirect("/settings/people/" + v.PathValue("person") + "?changed=1")
	}
}

func (p pages) removePerson(v *page.Visit) {
	who, err := p.Member(v.Context(), v.Operator(), ref(v))
	if err == nil {
		_, err = p.RemovePerson(v.Context(), v.Operator(), control.RemovedPerson{PersonRef: ref(v),
			Name: v.FormValue("name")})
	}
	if err != nil {
		if wrong, status := v.Wrong(err); wrong != "" {
			p.showPerson(v, status, personForm{WrongName: wrong})
		}
		return
	}
	v.Redirect("/settings/people?removed=" + url.QueryEscape(who.Name))
}
