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
	Wrong            string
}

func (p pages) newPerson(v *page.Visit) {
	v.Render(http.StatusOK, newPersonPage(v, newForm{Role: account.RoleMember, Lang: string(v.Lang)}))
}

// addPerson creates an account, and shows the password if it was generated.
func (p pages) addPerson(v *page.Visit) {
	f := newForm{Name: v.FormValue("name"), Role: v.FormValue("role"), Lang: v.FormValue("lang")}
	out, err := p.AddPerson(v.Context(), v.Operator(), control.NewPerson{Name: f.Name, Role: f.Role, Lang: f.Lang,
		Password: v.FormValue("password")})
	if err != nil {
		var status int
		if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
			v.Render(status, newPersonPage(v, f))
		}
		return
	}
	if out.Password == "" {
		v.Redirect("/settings/people/" + out.ID + "?added=1")
		return
	}
	v.Render(http.StatusOK, passwordPage(v, msgAdded, out))
}

// personForm is the data of an account's page, with notices and errors.
type personForm struct {
	control.Person
	Told, Wrong, WrongPassword, WrongName string

	Links []control.Link
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
	if status == http.StatusOK {
		switch {
		case v.FormValue("unlinked") == "1":
			f.Told = v.Text(msgLinkGone)
		case v.FormValue("without_steps") == "1":
			f.Told = v.Text(msgStepsGone, f.Name)
		case v.FormValue("added") == "1":
			f.Told = v.Text(msgAdded, f.Name)
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
