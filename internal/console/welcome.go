package console

import (
	"errors"
	"net/http"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

const (
	msgWelcome      = i18n.Message("Welcome, %s")
	msgWelcomeTold  = i18n.Message("%s made an account for you on this Patchbay. Choose a password, and you are in. You sign in with the name %s from then on.")
	msgNewPassword  = i18n.Message("A new password for %s")
	msgNewTold      = i18n.Message("%s made this link for you. Choose a new password, and you are in. All that you have here is as it was; you sign in with the name %s.")
	msgWelcomeBy    = i18n.Message("Whoever runs it")
	msgWelcomeGo    = i18n.Message("Choose it, and sign in")
	msgWelcomeGone  = i18n.Message("This invitation is used, withdrawn or too old. Ask for another one.")
	msgWelcomeOther = i18n.Message("You are signed in as %s in this browser. Going on signs you out here.")
)

// welcome is the data of the page for somebody who is invited.
type welcome struct {
	Title, Told    string
	Name, By, Path string
	Wrong          string
	Gone           string // why there is no form
}

// welcomePage shows the form on which somebody who is invited chooses a password.
func (s *Server) welcomePage(v *page.Visit) { s.showWelcome(v, http.StatusOK, nil) }

// showWelcome shows the form, with an error unless that is nil, or says why there is none. It is in
// the language of the account.
func (s *Server) showWelcome(v *page.Visit, status int, wrong func(i18n.Lang) string) {
	w := welcome{Path: control.WelcomePath + v.PathValue("secret")}
	if onlyOIDC(v) {
		w.Title, w.Gone = v.Text(msgSignIn), v.Text(msgNoPasswords)
		v.Render(http.StatusForbidden, welcomePage(v, w))
		return
	}
	p, i, err := s.Accounts.InvitedPerson(v.Context(), v.PathValue("secret"), s.browser(v))
	switch {
	case errors.Is(err, account.ErrNotInvited):
		s.signIns.WithLabelValues("refused").Inc()
		s.Logger.WarnContext(v.Context(), "a sign-in was refused", "form", "welcome", "address", s.Address(v.Request))
		status, w.Gone = http.StatusNotFound, v.Text(msgWelcomeGone)
	case errors.Is(err, account.ErrPaused):
		status, w.Gone = http.StatusForbidden, v.Text(hub.MsgPaused)
	case s.handleUnchecked(v, err, func(code int, text string) { status, w.Gone = code, text }):
	case err != nil:
		v.Fail(err)
		return
	default:
		v.PreferLanguage(p.Lang)
		if wrong != nil {
			w.Wrong = wrong(v.Lang)
		}
		w.Name, w.By = p.Name, v.Text(msgWelcomeBy)
		if by, err := s.Control.Hub.Store.People.ByID(v.Context(), i.By); err == nil {
			w.By = by.Name
		}
		if w.Title, w.Told = v.Text(msgWelcome, w.Name), v.Text(msgWelcomeTold, w.By, w.Name); p.Password != "" {
			w.Title, w.Told = v.Text(msgNewPassword, w.Name), v.Text(msgNewTold, w.By, w.Name)
		}
	}
	if w.Gone != "" {
		w.Title = v.Text(msgSignIn)
	}
	v.Render(status, welcomePage(v, w))
}

// acceptInvitation sets the password, and signs the visitor in.
func (s *Server) acceptInvitation(v *page.Visit) {
	if onlyOIDC(v) {
		s.showWelcome(v, http.StatusForbidden, nil)
		return
	}
	token, p, err := s.Accounts.AcceptInvitation(v.Context(), v.PathValue("secret"), v.FormValue("password"),
		v.FormValue("zone"), s.browser(v))
	switch {
	case errors.Is(err, account.ErrNotInvited):
		s.showWelcome(v, http.StatusNotFound, nil)
		return
	case s.handleUnchecked(v, err, func(status int, text string) {
		s.showWelcome(v, status, func(i18n.Lang) string { return text })
	}):
		return
	case err != nil:
		if _, ok := errors.AsType[*i18n.Error](err); !ok {
			v.Fail(err)
			return
		}
		s.showWelcome(v, http.StatusUnprocessableEntity, func(lang i18n.Lang) string {
			return i18n.Localize(control.InputProblem(problem.Invalid, err), lang)
		})
		return
	}
	s.Control.RecordAdminEvent(v.Context(), s.caller(v, p.ID), control.EventPersonWelcomed, p.Name)
	if token == "" { // a second step is needed
		v.Redirect("/signin")
		return
	}
	s.signedIn(v, p, token, "/")
}
