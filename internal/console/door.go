package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// doorForm is what was typed into the form of a door, but for the password, and what
// is wrong with it.
type doorForm struct {
	Code, Name, Next string
	Wrong            string
}

// setupPage asks for the first account.
func (s *Server) setupPage(v *visit) {
	code, err := s.Accounts.SetupCode(v.Context())
	switch {
	case err != nil:
		v.broken(err)
	case code == "":
		v.to("/")
	default:
		v.show(http.StatusOK, setupPage(v, doorForm{}))
	}
}

// setUp opens the first account, and signs in.
func (s *Server) setUp(v *visit) {
	f := doorForm{Code: strings.TrimSpace(v.FormValue("code")), Name: strings.TrimSpace(v.FormValue("name"))}
	again := func(status int, wrong string) {
		f.Wrong = wrong
		v.show(status, setupPage(v, f))
	}
	if s.blocked(v, again) {
		return
	}
	release, ok := s.hash(v)
	if !ok {
		return
	}
	p, err := s.Accounts.SetUp(v.Context(), f.Code, f.Name, string(v.lang), v.FormValue("password"))
	release()
	switch {
	case errors.Is(err, account.ErrSetUp):
		v.to("/signin")
	case errors.Is(err, account.ErrSetupCode):
		s.refused(v, "setup")
		again(http.StatusForbidden, v.say(sayWrongCode))
	case err != nil:
		again(http.StatusUnprocessableEntity, err.Error())
	default:
		s.Logger.InfoContext(v.Context(), "the installation was set up", "person", p.Name, "address", s.Address(v.Request))
		s.enter(v, p, "/")
	}
}

// signInPage asks who it is.
func (s *Server) signInPage(v *visit) {
	if v.signedIn() {
		v.to(ours(v.FormValue("next")))
		return
	}
	v.show(http.StatusOK, signInPage(v, doorForm{Next: ours(v.FormValue("next"))}))
}

// signIn lets somebody in.
func (s *Server) signIn(v *visit) {
	f := doorForm{Name: strings.TrimSpace(v.FormValue("name")), Next: ours(v.FormValue("next"))}
	again := func(status int, wrong string) {
		f.Wrong = wrong
		v.show(status, signInPage(v, f))
	}
	if s.blocked(v, again) {
		return
	}
	release, ok := s.hash(v)
	if !ok {
		return
	}
	token, p, err := s.Accounts.SignIn(v.Context(), f.Name, v.FormValue("password"), s.browser(v))
	release()
	switch {
	case errors.Is(err, account.ErrPassword):
		s.refused(v, "signin")
		again(http.StatusForbidden, v.say(sayWrongPassword))
	case err != nil:
		v.broken(err)
	default:
		s.Logger.InfoContext(v.Context(), "signed in", "person", p.Name, "address", s.Address(v.Request))
		v.keep(v.tokenCookie(), token, account.SignInLife)
		v.to(f.Next)
	}
}

// enter signs somebody in who needs no password for it.
func (s *Server) enter(v *visit, p store.Person, next string) {
	token, err := s.Accounts.Admit(v.Context(), p, s.browser(v))
	if err != nil {
		v.broken(err)
		return
	}
	v.keep(v.tokenCookie(), token, account.SignInLife)
	v.to(next)
}

func (s *Server) browser(v *visit) account.Browser {
	return account.Browser{Agent: v.UserAgent(), Address: s.Address(v.Request).String()}
}

// signOut ends what the browser is signed in with.
func (s *Server) signOut(v *visit) {
	if v.signedIn() {
		if err := s.Accounts.SignOut(v.Context(), v.who.Person.ID, v.who.ID); err != nil {
			v.broken(err)
			return
		}
	}
	v.keep(v.tokenCookie(), "", 0)
	v.to("/signin")
}

// look remembers how pages are to look in this browser.
func (s *Server) look(v *visit) {
	switch theme := v.FormValue("theme"); theme {
	case "light", "dark":
		v.keep(cookieTheme, theme, lookLife)
	case "auto":
		v.keep(cookieTheme, "", 0)
	}
	switch lang := talk.Lang(v.FormValue("lang")); lang {
	case talk.Chinese, talk.English:
		v.keep(cookieLang, string(lang), lookLife)
	}
	v.to(ours(v.FormValue("next")))
}

// blocked refuses an address that has shown too many wrong passwords.
func (s *Server) blocked(v *visit, again func(int, string)) bool {
	if !s.Guard.Blocked(s.Address(v.Request)) {
		return false
	}
	v.w.Header().Set("Retry-After", "60")
	again(http.StatusTooManyRequests, v.say(sayTooManyTries))
	return true
}

// refused notes a wrong password or code.
func (s *Server) refused(v *visit, door string) {
	s.Guard.Refuse(s.Address(v.Request))
	s.Logger.WarnContext(v.Context(), "a password was refused", "door", door, "address", s.Address(v.Request))
}

// hash waits until there is memory to check a password. It is false if the browser
// went away meanwhile.
func (s *Server) hash(v *visit) (release func(), ok bool) {
	select {
	case s.hashing <- struct{}{}:
		return func() { <-s.hashing }, true
	case <-v.Context().Done():
		return nil, false
	}
}

// ours is where a browser is sent on to: an address of ours, whatever was asked for.
func ours(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.Contains(next, "\\") {
		return "/"
	}
	return next
}

func escapePath(path string) string { return url.QueryEscape(path) }
