package page

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/observe"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Visit is one request of a browser.
type Visit struct {
	*http.Request
	W     http.ResponseWriter
	House *House

	Lang  talk.Lang
	Theme string // light, dark, or empty: as the browser likes it
	// Who is signed in; zero: nobody.
	Who account.SignedIn

	token string
	zone  *time.Location
}

// The cookies. A browser shows one whose name begins with __Host- to us alone, but
// takes it over https only.
const (
	cookieToken  = "patchbay"
	cookieSecure = "__Host-patchbay"
	cookieKnown  = "-known-" // after one of these, and then who is known
	cookieTheme  = "patchbay-theme"
	cookieLang   = "patchbay-lang"
)

// lookLife is how long a browser remembers how pages are to look.
const lookLife = 365 * 24 * time.Hour

// SignedIn says whether somebody is signed in.
func (v *Visit) SignedIn() bool { return v.Who.Person.ID != "" }

// Admin says whether whoever is signed in runs the installation.
func (v *Visit) Admin() bool { return v.Who.Person.Role == account.RoleAdmin }

// Caller is whoever is signed in, with their own things alone.
func (v *Visit) Caller() control.Caller {
	return control.Caller{Person: v.Who.Person.ID, Rules: control.PeoplesRules, Program: "console", Agent: v.UserAgent(), Address: v.House.Address(v.Request).String(), Lang: v.Lang}
}

// Operator is whoever is signed in, with everybody's things if they run the
// installation.
func (v *Visit) Operator() control.Caller {
	c := v.Caller()
	c.Admin = v.Admin()
	return c
}

// secure says whether the browser came over https. Any proxy is believed about that:
// who lies makes nothing but the cookies of their own browser stricter.
func (v *Visit) secure() bool {
	if v.TLS != nil || strings.EqualFold(v.Header.Get("X-Forwarded-Proto"), "https") {
		return true
	}
	// A browser on the machine itself may come without: there is nobody between.
	return v.House.Secure && (!observe.LocalHost(v.Request) || observe.Forwarded(v.Request))
}

func (v *Visit) tokenCookie() string {
	if v.secure() {
		return cookieSecure
	}
	return cookieToken
}

func (v *Visit) cookie(name string) string {
	c, err := v.Request.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// keep has the browser remember something; an empty value has it forget.
func (v *Visit) keep(name, value string, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(life.Seconds()), Secure: v.secure(), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.W, c)
}

// Admit has the browser keep the token of a sign-in; an empty one has it forget.
func (v *Visit) Admit(token string) { v.keep(v.tokenCookie(), token, account.SignInLife) }

// Know has the browser remember that a person has signed in in it, after they sign out too.
func (v *Visit) Know(p store.Person) {
	v.keep(v.tokenCookie()+cookieKnown+account.KnownAs(p), v.House.Accounts.Know(p), account.KnownLife)
}

// Known are the marks by which the browser knows who has signed in in it.
func (v *Visit) Known() (marks []string) {
	for _, c := range v.Cookies() {
		if strings.HasPrefix(c.Name, v.tokenCookie()+cookieKnown) {
			marks = append(marks, c.Value)
		}
	}
	return marks
}

// Prefer has the browser remember language and ground. "auto" is the browser's own
// ground; what is none of those there are changes nothing.
func (v *Visit) Prefer(lang, theme string) {
	switch theme {
	case "light", "dark":
		v.keep(cookieTheme, theme, lookLife)
	case "auto":
		v.keep(cookieTheme, "", 0)
	}
	switch talk.Lang(lang) {
	case talk.Chinese, talk.English:
		v.keep(cookieLang, lang, lookLife)
	}
}

// choose finds out in which language, and on which ground, the browser is answered.
func (v *Visit) choose() {
	switch theme := v.cookie(cookieTheme); theme {
	case "light", "dark":
		v.Theme = theme
	}
	switch {
	case v.cookie(cookieLang) != "":
		v.Lang = talk.ParseLang(v.cookie(cookieLang), v.House.Lang)
	case v.SignedIn() && v.Who.Person.Lang != "":
		v.Lang = talk.ParseLang(v.Who.Person.Lang, v.House.Lang)
	default:
		first, _, _ := strings.Cut(v.Header.Get("Accept-Language"), ",")
		tag, _, _ := strings.Cut(first, ";")
		v.Lang = talk.ParseLang(tag, v.House.Lang)
	}
}

// Say is a text in the language of the browser.
func (v *Visit) Say(s talk.Say, args ...any) string { return s.In(v.Lang, args...) }

// tag is the language, as HTML names it.
func (v *Visit) tag() string {
	if v.Lang == talk.Chinese {
		return "zh-CN"
	}
	return "en"
}

// Partial says that the script wants a part of a page, to be put where it asked from,
// and not a whole one.
func (v *Visit) Partial() bool { return v.Header.Get("HX-Request") == "true" }

// Show answers with a page, or a part of one.
func (v *Visit) Show(status int, page templ.Component) {
	v.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.W.WriteHeader(status)
	if err := page.Render(v.Context(), v.W); err != nil && v.Context().Err() == nil {
		v.House.Logger.ErrorContext(v.Context(), "a page broke off", "path", v.URL.Path, "error", err)
	}
}

// To sends the browser to another page, also if it was the script that asked.
func (v *Visit) To(path string) {
	if v.Partial() {
		v.W.Header().Set("HX-Redirect", path)
		v.W.WriteHeader(http.StatusNoContent)
		return
	}
	http.Redirect(v.W, v.Request, path, http.StatusSeeOther)
}

// statusOf are the statuses of the reasons why something is not done.
var statusOf = map[control.Reason]int{
	control.Invalid: http.StatusUnprocessableEntity, control.Refused: http.StatusForbidden, control.Missing: http.StatusNotFound,
	control.Conflict: http.StatusConflict, control.TooMany: http.StatusTooManyRequests, control.TooLarge: http.StatusRequestEntityTooLarge,
	control.Away: http.StatusServiceUnavailable, control.Late: http.StatusGatewayTimeout,
}

// Fail tells why something was not done: with the words of a [control.Error], or that
// something is wrong on our side. It is a page of its own, or, if the script asked, a
// note. Forms that can show it beside what was typed use [Visit.Wrong].
func (v *Visit) Fail(err error) {
	text, status := v.Wrong(err)
	if text == "" {
		return
	}
	if v.Partial() {
		v.Show(status, Note("bad", text))
		return
	}
	v.Show(status, messagePage(v, statusTitle(status), text))
}

// Wrong is what a person is told about an error, and the status that goes with it. It
// logs what is our own fault. The text is empty if the browser has gone.
func (v *Visit) Wrong(err error) (text string, status int) {
	if e := control.AsError(err); e != nil {
		return e.In(v.Lang), statusOf[e.Reason]
	}
	if errors.Is(err, store.ErrNotFound) {
		return v.Say(sayMissingTold), http.StatusNotFound
	}
	if errors.Is(err, context.Canceled) && v.Context().Err() != nil {
		return "", 0
	}
	v.House.Logger.ErrorContext(v.Context(), "console", "path", v.URL.Path, "error", err)
	return v.Say(sayBrokenTold, observe.RequestID(v.Context())), http.StatusInternalServerError
}

// Missing answers that there is no such page, or thing.
func (v *Visit) Missing() { v.Fail(control.Fail(control.Missing, sayMissingTold)) }

func statusTitle(status int) talk.Say {
	switch status {
	case http.StatusNotFound:
		return sayMissing
	case http.StatusInternalServerError:
		return sayBroken
	}
	return sayNotDone
}

// Zone is the time zone of whoever is signed in.
func (v *Visit) Zone() *time.Location {
	if v.zone == nil {
		v.zone = v.House.Zone(v.Who.Person)
	}
	return v.zone
}
