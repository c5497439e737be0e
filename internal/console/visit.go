package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/account"
	"patchbay/internal/talk"
)

// visit is one request.
type visit struct {
	*http.Request
	w      http.ResponseWriter
	server *Server

	lang  talk.Lang
	theme string // light, dark, or empty: as the browser likes it
	// who is signed in; zero: nobody. token is that of the browser.
	who   account.SignedIn
	token string
}

// The cookies. A browser shows one whose name begins with __Host- to us alone, but
// takes it over https only.
const (
	cookieToken  = "patchbay"
	cookieSecure = "__Host-patchbay"
	cookieTheme  = "patchbay-theme"
	cookieLang   = "patchbay-lang"
)

// lookLife is how long a browser remembers how pages are to look.
const lookLife = 365 * 24 * time.Hour

// open is a page that anybody may see. Whoever is signed in is known all the same.
func (s *Server) open(page func(*visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Request: r, w: w, server: s}
		v.token = v.cookie(v.tokenCookie())
		who, err := s.Accounts.CheckSignIn(r.Context(), v.token, s.Address(r).String())
		if err == nil {
			v.who = who
		}
		v.choose()
		if err != nil && !errors.Is(err, account.ErrSignedOut) {
			v.broken(err)
			return
		}
		page(v)
	}
}

// closed is a page for somebody who is signed in. Others are asked to, and come back.
func (s *Server) closed(page func(*visit)) http.HandlerFunc {
	return s.open(func(v *visit) {
		if v.signedIn() {
			page(v)
			return
		}
		code, err := s.Accounts.SetupCode(v.Context())
		switch {
		case err != nil:
			v.broken(err)
		case code != "":
			v.to("/setup")
		case v.Method == http.MethodGet && v.URL.Path != "/":
			v.to("/signin?next=" + escapePath(v.URL.RequestURI()))
		default:
			v.to("/signin")
		}
	})
}

func (v *visit) signedIn() bool { return v.who.Person.ID != "" }

// secure says whether the browser came over https.
func (v *visit) secure() bool {
	return v.TLS != nil || strings.EqualFold(v.Header.Get("X-Forwarded-Proto"), "https")
}

func (v *visit) tokenCookie() string {
	if v.secure() {
		return cookieSecure
	}
	return cookieToken
}

func (v *visit) cookie(name string) string {
	c, err := v.Request.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// keep has the browser remember something; an empty value has it forget.
func (v *visit) keep(name, value string, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(life.Seconds()), Secure: v.secure(), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
}

// choose finds out in which language, and on which ground, the browser is answered.
func (v *visit) choose() {
	switch theme := v.cookie(cookieTheme); theme {
	case "light", "dark":
		v.theme = theme
	}
	switch {
	case v.cookie(cookieLang) != "":
		v.lang = talk.ParseLang(v.cookie(cookieLang), v.server.Lang)
	case v.signedIn():
		v.lang = talk.ParseLang(v.who.Person.Lang, v.server.Lang)
	default:
		first, _, _ := strings.Cut(v.Header.Get("Accept-Language"), ",")
		tag, _, _ := strings.Cut(first, ";")
		v.lang = talk.ParseLang(tag, v.server.Lang)
	}
}

// say is a text in the language of the browser.
func (v *visit) say(s talk.Say, args ...any) string { return s.In(v.lang, args...) }

// tag is the language, as HTML names it.
func (v *visit) tag() string {
	if v.lang == talk.Chinese {
		return "zh-CN"
	}
	return "en"
}

// show answers with a page.
func (v *visit) show(status int, page templ.Component) {
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	if err := page.Render(v.Context(), v.w); err != nil && v.Context().Err() == nil {
		v.server.Logger.ErrorContext(v.Context(), "a page broke off", "path", v.URL.Path, "error", err)
	}
}

// to sends the browser to another page.
func (v *visit) to(path string) { http.Redirect(v.w, v.Request, path, http.StatusSeeOther) }
