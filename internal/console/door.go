package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// doorForm is what was typed into the form of a door, but for the password, and what
// is wrong with it.
type doorForm struct {
	Code, Name, Next string
	Wrong            string
}

// setupPage asks for the first account.
func (s *Server) setupPage(v *page.Visit) {
	code, err := s.Accounts.SetupCode(v.Context())
	switch {
	case err != nil:
		v.Fail(err)
	case code == "":
		v.To("/")
	default:
		v.Show(http.StatusOK, setupPage(v, doorForm{}))
	}
}

// setUp opens the first account, and signs in.
func (s *Server) setUp(v *page.Visit) {
	f := doorForm{Code: strings.TrimSpace(v.FormValue("code")), Name: strings.TrimSpace(v.FormValue("name"))}
	again := func(status int, wrong string) {
		f.Wrong = wrong
		v.Show(status, setupPage(v, f))
	}
	p, err := s.Accounts.SetUp(v.Context(), f.Code, f.Name, string(v.Lang), v.FormValue("password"), s.browser(v))
	switch {
	case errors.Is(err, account.ErrSetUp):
		v.To("/signin")
	case errors.Is(err, account.ErrSetupCode):
		s.refused(v, "setup", "")
		again(http.StatusForbidden, v.Say(sayWrongCode))
	case s.unchecked(v, err, again):
	case err != nil:
		again(http.StatusUnprocessableEntity, control.Said(control.Invalid, err).In(v.Lang))
	default:
		s.signIns.WithLabelValues("good").Inc()
		s.Logger.InfoContext(v.Context(), "the installation was set up", "person", p.Name, "address", s.Address(v.Request))
		s.enter(v, p, "/")
	}
}

// signInPage asks who it is.
func (s *Server) signInPage(v *page.Visit) {
	if v.SignedIn() {
		v.To(page.Ours(v.FormValue("next")))
		return
	}
	v.Show(http.StatusOK, signInPage(v, doorForm{Next: page.Ours(v.FormValue("next"))}))
}

// signIn lets somebody in.
func (s *Server) signIn(v *page.Visit) {
	f := doorForm{Name: strings.TrimSpace(v.FormValue("name")), Next: page.Ours(v.FormValue("next"))}
	again := func(status int, wrong string) {
		f.Wrong = wrong
		v.Show(status, signInPage(v, f))
	}
	token, p, err := s.Accounts.SignIn(v.Context(), f.Name, v.FormValue("password"), s.browser(v))
	switch {
	case errors.Is(err, account.ErrPassword):
		s.refused(v, "signin", f.Name)
		again(http.StatusForbidden, v.Say(sayWrongPassword))
	case s.unchecked(v, err, again):
		if errors.Is(err, account.ErrTries) {
			s.noteRefused(v, f.Name)
		}
	case err != nil:
		v.Fail(err)
	default:
		if v.SignedIn() { // nobody can use what the browser had before
			if err := s.Accounts.SignOut(v.Context(), v.Who.Person.ID, v.Who.ID); err != nil {
				s.Logger.WarnContext(v.Context(), "a sign-in that was replaced did not end", "error", err)
			}
		}
		s.signIns.WithLabelValues("good").Inc()
		s.Logger.InfoContext(v.Context(), "signed in", "person", p.Name, "address", s.Address(v.Request))
		s.noteSignIn(v, p)
		v.Admit(token)
		v.Know(p)
		v.To(f.Next)
	}
}

// noteSignIn writes down who has signed in, and from where.
func (s *Server) noteSignIn(v *page.Visit, p store.Person) {
	by := control.Caller{Person: p.ID, Program: "console", Address: s.Address(v.Request).String()}
	s.Control.Note(v.Context(), by, control.ActSignedIn, "")
}

// enter signs somebody in who needs no password for it.
func (s *Server) enter(v *page.Visit, p store.Person, next string) {
	token, err := s.Accounts.Admit(v.Context(), p, s.browser(v))
	if err != nil {
		v.Fail(err)
		return
	}
	s.noteSignIn(v, p)
	v.Admit(token)
	v.Know(p)
	v.To(next)
}

func (s *Server) browser(v *page.Visit) account.Browser {
	return account.Browser{Agent: v.UserAgent(), Address: s.Address(v.Request).String(), Known: v.Known()}
}

// signOut ends what the browser is signed in with.
func (s *Server) signOut(v *page.Visit) {
	if v.SignedIn() {
		if err := s.Accounts.SignOut(v.Context(), v.Who.Person.ID, v.Who.ID); err != nil {
			v.Fail(err)
			return
		}
		by := control.Caller{Person: v.Who.Person.ID, Program: "console", Address: s.Address(v.Request).String()}
		s.Control.Note(v.Context(), by, control.ActSignInsEnded, "1")
	}
	v.Admit("")
	v.To("/signin")
}

// look remembers how pages are to look in this browser.
func (s *Server) look(v *page.Visit) {
	v.Prefer(v.FormValue("lang"), v.FormValue("theme"))
	v.To(page.Ours(v.FormValue("next")))
}

// unchecked tells that a password was not looked at, if that is what an error says.
func (s *Server) unchecked(v *page.Visit, err error, again func(int, string)) bool {
	switch {
	case errors.Is(err, account.ErrTries):
		s.signIns.WithLabelValues("too_many").Inc()
		v.W.Header().Set("Retry-After", "60")
		again(http.StatusTooManyRequests, v.Say(sayTooManyTries))
	case errors.Is(err, account.ErrBusy):
		s.signIns.WithLabelValues("busy").Inc()
		v.W.Header().Set("Retry-After", "5")
		again(http.StatusServiceUnavailable, v.Say(sayBusy))
	default:
		return err != nil && v.Context().Err() != nil // the browser has gone
	}
	return true
}

// refused notes a wrong password or code.
func (s *Server) refused(v *page.Visit, door, name string) {
	s.signIns.WithLabelValues("refused").Inc()
	s.Logger.WarnContext(v.Context(), "a password was refused", "door", door, "address", s.Address(v.Request))
	s.noteRefused(v, name)
}

// noteRefused writes down that a password was wrong, or was not looked at.
func (s *Server) noteRefused(v *page.Visit, name string) {
	by := control.Caller{Person: v.Who.Person.ID, Program: "console", Address: s.Address(v.Request).String()}
	s.Control.Refused(v.Context(), by, name)
}

// confirmPage asks for the password once more, before secrets are shown.
func (s *Server) confirmPage(v *page.Visit) {
	v.AskPassword(http.StatusOK, page.Confirmation{Next: page.Ours(v.FormValue("next")), Lost: v.FormValue("lost") != ""})
}

// confirm lets a browser see secrets for a while, and carries out the form that waited
// for that.
func (s *Server) confirm(v *page.Visit) {
	c := page.Confirmation{Next: page.Ours(v.FormValue("next")), Pending: v.FormValue("pending")}
	var waits account.Pending
	if c.Pending != "" {
		var err error
		if waits, err = s.Accounts.Held(v.Who, c.Pending); err != nil {
			c.Pending, c.Lost = "", true
			v.AskPassword(http.StatusConflict, c)
			return
		}
	}
	again := func(status int, wrong string) {
		c.Wrong = wrong
		v.AskPassword(status, c)
	}
	token, err := s.Accounts.Confirm(v.Context(), v.Who, v.FormValue("password"))
	switch {
	case errors.Is(err, account.ErrPassword):
		s.refused(v, "confirm", "")
		again(http.StatusForbidden, v.Say(sayWrongPasswordOnly))
	case s.unchecked(v, err, again):
	case errors.Is(err, account.ErrSignedOut): // meanwhile
		v.To("/signin?next=" + url.QueryEscape(c.Next))
	case err != nil:
		v.Fail(err)
	default:
		v.Admit(token)
		if c.Pending != "" {
			v.Resume(waits, token)
			return
		}
		v.To(c.Next)
	}
}
