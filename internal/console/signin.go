package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// signInForm holds the submitted values of a sign-in or setup form, without the password, and their
// validation error.
type signInForm struct {
	Code, Name, Next string
	Step             string // see [account.CodeNeeded]
	App              bool
	Wrong            string
}

// setupPage shows the form for the first account. The address that the server prints when it starts
// has the setup code.
func (s *Server) setupPage(v *page.Visit) {
	code, err := s.Accounts.SetupCode(v.Context())
	switch {
	case err != nil:
		v.Fail(err)
	case code == "":
		v.Redirect("/")
	default:
		v.Render(http.StatusOK, setupPage(v, signInForm{Code: v.FormValue("code")}))
	}
}

// createFirstAccount creates the first account and signs its owner in.
func (s *Server) createFirstAccount(v *page.Visit) {
	f := signInForm{Code: strings.TrimSpace(v.FormValue("code")), Name: strings.TrimSpace(v.FormValue("name"))}
	showForm := func(status int, wrong string) {
		f.Wrong = wrong
		v.Render(status, setupPage(v, f))
	}
	p, err := s.Accounts.SetUp(v.Context(), f.Code,
		store.Person{Name: f.Name, Lang: string(v.Lang), Zone: v.FormValue("zone")}, v.FormValue("password"), s.browser(v))
	switch {
	case errors.Is(err, account.ErrSetUp):
		v.Redirect("/signin")
	case errors.Is(err, account.ErrSetupCode):
		s.countRefused(v, "setup", "")
		showForm(http.StatusForbidden, v.Text(msgWrongCode))
	case s.handleUnchecked(v, err, showForm):
	case err != nil:
		showForm(http.StatusUnprocessableEntity, i18n.Localize(control.InputProblem(problem.Invalid, err), v.Lang))
	default:
		s.signIns.WithLabelValues("good").Inc()
		s.Logger.InfoContext(v.Context(), "the installation was set up", "person", p.Name,
			"address", s.Address(v.Request))
		s.startSession(v, p, "/")
	}
}

// signInPage shows the sign-in form.
func (s *Server) signInPage(v *page.Visit) {
	if v.IsSignedIn() {
		v.Redirect(page.LocalPath(v.FormValue("next")))
		return
	}
	v.Render(http.StatusOK, signInPage(v, signInForm{Next: page.LocalPath(v.FormValue("next"))}))
}

// signIn checks the password and signs the visitor in.
func (s *Server) signIn(v *page.Visit) {
	f := signInForm{Name: strings.TrimSpace(v.FormValue("name")), Next: page.LocalPath(v.FormValue("next"))}
	showForm := func(status int, wrong string) {
		f.Wrong = wrong
		v.Render(status, signInPage(v, f))
	}
	if onlyOIDC(v) {
		showForm(http.StatusForbidden, v.Text(msgNoPasswords))
		return
	}
	token, p, err := s.Accounts.SignIn(v.Context(), f.Name, v.FormValue("password"), s.browser(v))
	var needed account.CodeNeeded
	switch {
	case errors.As(err, &needed):
		v.Render(http.StatusOK, codePage(v, signInForm{Step: needed.Step, App: needed.App, Next: f.Next}))
	case errors.Is(err, account.ErrPassword):
		s.countRefused(v, "signin", f.Name)
		showForm(http.StatusForbidden, v.Text(msgWrongPassword))
	case s.handleUnchecked(v, err, showForm):
		if errors.Is(err, account.ErrTries) {
			s.recordRefused(v, f.Name)
		}
	case err != nil:
		v.Fail(err)
	default:
		s.signedIn(v, p, token, f.Next)
	}
}

// signInByCode signs the visitor in whose password was right.
func (s *Server) signInByCode(v *page.Visit) {
	f := signInForm{Step: v.FormValue("step"), App: v.FormValue("app") != "", Next: page.LocalPath(v.FormValue("next"))}
	showForm := func(status int, wrong string) {
		f.Wrong = wrong
		v.Render(status, codePage(v, f))
	}
	token, p, err := s.Accounts.SignInByCode(v.Context(), f.Step, v.FormValue("code"), s.browser(v))
	switch {
	case errors.Is(err, account.ErrStep):
		v.Render(http.StatusConflict, signInPage(v, signInForm{Next: f.Next, Wrong: v.Text(msgStepOver)}))
	case errors.Is(err, account.ErrCode):
		s.countRefused(v, "code", p.Name)
		showForm(http.StatusForbidden, v.Text(msgWrongCodeOfApp))
	case s.handleUnchecked(v, err, showForm):
		if errors.Is(err, account.ErrTries) {
			s.recordRefused(v, p.Name)
		}
	case err != nil:
		v.Fail(err)
	default:
		s.signedIn(v, p, token, f.Next)
	}
}

// signInByPasskey signs in whoever a passkey belongs to.
func (s *Server) signInByPasskey(v *page.Visit) {
	next := page.LocalPath(v.FormValue("next"))
	site, ok := v.PasskeySite()
	if !ok {
		v.Redirect("/signin?next=" + url.QueryEscape(next))
		return
	}
	token, p, err := s.Accounts.SignInByPasskey(v.Context(), site, v.FormValue("sealed"), v.FormValue("reply"),
		s.browser(v))
	switch {
	case errors.Is(err, account.ErrStep):
		v.Render(http.StatusConflict, signInPage(v, signInForm{Next: next, Wrong: v.Text(msgStepOver)}))
	case errors.Is(err, account.ErrPasskey):
		s.countRefused(v, "passkey", p.Name)
		v.Render(http.StatusForbidden, signInPage(v, signInForm{Next: next, Wrong: v.Text(msgPasskeyRefused)}))
	case errors.Is(err, account.ErrPaused):
		v.Render(http.StatusForbidden, signInPage(v, signInForm{Next: next, Wrong: v.Text(hub.MsgPaused)}))
	case err != nil:
		v.Fail(err)
	default:
		s.signedIn(v, p, token, next)
	}
}

// confirmByPasskey is confirm with a passkey.
func (s *Server) confirmByPasskey(v *page.Visit) {
	s.confirmBy(v, func() (string, error) {
		site, ok := v.PasskeySite()
		if !ok {
			return "", account.ErrPasskey
		}
		return s.Accounts.ConfirmPasskey(v.Context(), v.Session, site, v.FormValue("sealed"), v.FormValue("reply"))
	})
}

// signedIn leads a browser that has just signed in to a page.
func (s *Server) signedIn(v *page.Visit, p store.Person, token, next string) {
	if v.IsSignedIn() { // the browser's previous session must not stay usable
		if err := s.Accounts.SignOut(v.Context(), v.Session.Person.ID, v.Session.ID); err != nil {
			s.Logger.WarnContext(v.Context(), "a sign-in that was replaced did not end", "error", err)
		}
	}
	s.signIns.WithLabelValues("good").Inc()
	s.Logger.InfoContext(v.Context(), "signed in", "person", p.Name, "address", s.Address(v.Request))
	s.beginSession(v, p, token, next)
}

// recordSignIn records an admin event: who signed in, and from which address.
func (s *Server) recordSignIn(v *page.Visit, p store.Person) {
	s.Control.RecordAdminEvent(v.Context(), s.caller(v, p.ID), control.EventSignedIn, "")
}

// startSession signs a person in without asking for a password.
func (s *Server) startSession(v *page.Visit, p store.Person, next string) {
	token, err := s.Accounts.Admit(v.Context(), p, s.browser(v))
	if err != nil {
		v.Fail(err)
		return
	}
	s.beginSession(v, p, token, next)
}

// beginSession leads a browser that was admitted to a page.
func (s *Server) beginSession(v *page.Visit, p store.Person, token, next string) {
	s.recordSignIn(v, p)
	v.SetSessionCookie(token)
	v.RememberPerson(p)
	v.Redirect(next)
}

func (s *Server) browser(v *page.Visit) account.Browser {
	return account.Browser{Agent: v.UserAgent(), Address: s.Address(v.Request).String(), Known: v.KnownPersons()}
}

// signOut ends the session of the browser.
func (s *Server) signOut(v *page.Visit) {
	if v.IsSignedIn() {
		if err := s.Accounts.SignOut(v.Context(), v.Session.Person.ID, v.Session.ID); err != nil {
			v.Fail(err)
			return
		}
		s.Control.RecordAdminEvent(v.Context(), s.caller(v, v.Session.Person.ID), control.EventSignInsEnded, "1")
	}
	v.SetSessionCookie("")
	v.Redirect("/signin")
}

// savePreferences stores language and theme in the browser's cookies.
func (s *Server) savePreferences(v *page.Visit) {
	v.SavePreferences(v.FormValue("lang"), v.FormValue("theme"))
	v.Redirect(page.LocalPath(v.FormValue("next")))
}

// handleUnchecked responds if err says that the password was not checked, and reports whether it
// did.
func (s *Server) handleUnchecked(v *page.Visit, err error, showForm func(int, string)) bool {
	switch {
	case errors.Is(err, account.ErrTries):
		s.signIns.WithLabelValues("too_many").Inc()
		v.W.Header().Set("Retry-After", "60")
		showForm(http.StatusTooManyRequests, v.Text(msgTooManyTries))
	case errors.Is(err, account.ErrBusy):
		s.signIns.WithLabelValues("busy").Inc()
		v.W.Header().Set("Retry-After", "5")
		showForm(http.StatusServiceUnavailable, v.Text(msgBusy))
	case errors.Is(err, account.ErrPaused):
		s.signIns.WithLabelValues("paused").Inc()
		showForm(http.StatusForbidden, v.Text(hub.MsgPaused))
	default:
		return err != nil && v.Context().Err() != nil // the browser has disconnected
	}
	return true
}

// countRefused counts, logs and records a wrong password or setup code.
func (s *Server) countRefused(v *page.Visit, form, name string) {
	s.signIns.WithLabelValues("refused").Inc()
	s.Logger.WarnContext(v.Context(), "a sign-in was refused", "form", form, "address", s.Address(v.Request))
	s.recordRefused(v, name)
}

// recordRefused records that a password was wrong or was not checked.
func (s *Server) recordRefused(v *page.Visit, name string) {
	s.Control.Refused(v.Context(), s.caller(v, v.Session.Person.ID), name)
}

// confirmPage asks for the password again before a page shows secrets.
func (s *Server) confirmPage(v *page.Visit) {
	v.AskPassword(http.StatusOK, page.Confirmation{Next: page.LocalPath(v.FormValue("next")),
		Lost: v.FormValue("lost") != ""})
}

// confirm grants the browser access to secrets for a limited time, after the password and, if the
// person needs one, a code.
func (s *Server) confirm(v *page.Visit) {
	s.confirmBy(v, func() (string, error) {
		return s.Accounts.Confirm(v.Context(), v.Session, v.FormValue("password"), v.FormValue("code"))
	})
}

// confirmBy does so with a check that returns the new token of the browser.
func (s *Server) confirmBy(v *page.Visit, check func() (token string, err error)) {
	c := page.Confirmation{Next: page.LocalPath(v.FormValue("next")), Pending: v.FormValue("pending")}
	waits, ok := s.waiting(v, c)
	if !ok {
		return
	}
	showForm := func(status int, wrong string) {
		c.Wrong = wrong
		v.AskPassword(status, c)
	}
	token, err := check()
	switch {
	case errors.Is(err, account.ErrPasskey), errors.Is(err, account.ErrStep):
		s.countRefused(v, "confirm", "")
		showForm(http.StatusForbidden, v.Text(msgPasskeyRefused))
	case errors.Is(err, account.ErrCode):
		s.countRefused(v, "confirm", "")
		showForm(http.StatusForbidden, v.Text(msgWrongCodeOfApp))
	case errors.Is(err, account.ErrPassword):
		s.countRefused(v, "confirm", "")
		showForm(http.StatusForbidden, v.Text(msgWrongPasswordOnly))
	case s.handleUnchecked(v, err, showForm):
	default:
		s.goOn(v, c, waits, token, err)
	}
}

// waiting returns the form that waits for a confirmation, if any. If it cannot be carried out any
// more, it has responded, and returns false.
func (s *Server) waiting(v *page.Visit, c page.Confirmation) (waits account.Pending, ok bool) {
	if c.Pending == "" {
		return waits, true
	}
	waits, err := s.Accounts.Held(v.Session, c.Pending)
	if err != nil {
		v.AskPassword(http.StatusConflict, page.Confirmation{Next: c.Next, Lost: true})
	}
	return waits, err == nil
}

// goOn ends a confirmation: with its new token, the browser goes on to a page, or the form that was
// waiting is submitted. The error is that of the confirmation.
func (s *Server) goOn(v *page.Visit, c page.Confirmation, waits account.Pending, token string, err error) {
	switch {
	case errors.Is(err, account.ErrSignedOut): // signed out in the meantime
		v.Redirect("/signin?next=" + url.QueryEscape(c.Next))
	case err != nil:
		v.Fail(err)
	case c.Pending != "":
		v.SetSessionCookie(token)
		v.Resume(waits, token)
	default:
		v.SetSessionCookie(token)
		v.Redirect(c.Next)
	}
}
