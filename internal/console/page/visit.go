package page

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/oauth"
	"patchbay/internal/observe"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Visit is one request of a browser, with its session, language and theme.
type Visit struct {
	*http.Request
	W        http.ResponseWriter
	Instance *Instance

	Lang  i18n.Lang
	Theme string // light, dark, or empty for the browser's own preference
	// Session is the visitor's session; zero if nobody is signed in.
	Session account.SignedIn

	token string
	zone  *time.Location
}

// Cookie names. Browsers accept a cookie with the prefix __Host- only over https, and send it to
// this host alone (draft-ietf-httpbis-rfc6265bis §4.1.3.2).
const (
	cookieToken   = "patchbay"
	cookieSecure  = "__Host-patchbay"
	cookieKnown   = "-known-"  // followed by one of the above and the person
	cookieRequest = "-request" // preceded by one of the first two
	cookieTheme   = "patchbay-theme"
	cookieLang    = "patchbay-lang"
)

// preferenceLife is how long a browser keeps language and theme.
const preferenceLife = 365 * 24 * time.Hour

// IsSignedIn reports whether somebody is signed in.
func (v *Visit) IsSignedIn() bool { return v.Session.Person.ID != "" }

// IsAdmin reports whether the visitor is an administrator.
func (v *Visit) IsAdmin() bool { return v.Session.Person.Role == account.RoleAdmin }

// MayAdd reports whether the visitor may add bots, tool servers, nodes, programs and keys. For
// those who may not, [control.MsgSharedOnly] says why.
func (v *Visit) MayAdd() bool { return v.IsAdmin() || !v.Session.Person.Limits.SharedOnly }

// Caller returns the visitor as a caller with access to their own data only.
func (v *Visit) Caller() control.Caller {
	return control.Caller{Person: v.Session.Person.ID, Rules: control.PeoplesRules,
		Program: "console", Agent: v.UserAgent(), Address: v.Instance.Address(v.Request).String(), Lang: v.Lang}
}

// Operator returns the visitor as a caller with access to everybody's data if they are an
// administrator.
func (v *Visit) Operator() control.Caller {
	c := v.Caller()
	c.Admin = v.IsAdmin()
	return c
}

// isHTTPS reports whether the browser connected over https. The headers of any proxy are trusted
// for that: a forged one only makes the cookies of the sender's own browser stricter.
func (v *Visit) isHTTPS() bool {
	if v.TLS != nil || strings.EqualFold(v.Header.Get("X-Forwarded-Proto"), "https") {
		return true
	}
	// A browser on the same machine may use plain http: nobody is in between.
	return v.Instance.Secure && (!observe.IsLocalHost(v.Request) || observe.IsForwarded(v.Request))
}

func (v *Visit) tokenCookie() string {
	if v.isHTTPS() {
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

// setCookie sets a cookie; an empty value deletes it.
func (v *Visit) setCookie(name, value string, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(life.Seconds()), Secure: v.isHTTPS(),
		HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.W, c)
}

// SetSessionCookie sets the cookie with the session token; an empty token deletes it.
func (v *Visit) SetSessionCookie(token string) {
	v.setCookie(v.tokenCookie(), token, account.SignInLife)
}

// RequestSecret returns a secret of the browser, so that what a program asks in it (OAuth) is
// answered in no other one. If there is none, it is created, or empty.
func (v *Visit) RequestSecret(create bool) string {
	name := v.tokenCookie() + cookieRequest
	secret := v.cookie(name)
	if create {
		if secret == "" {
			secret = oauth.NewBrowser()
		}
		v.setCookie(name, secret, oauth.RequestLife)
	}
	return secret
}

// AllowFormsTo lets the form of the page lead to another address, as browsers apply form-action to
// redirects too.
func (v *Visit) AllowFormsTo(address string) {
	u, err := url.Parse(address)
	if err != nil {
		return
	}
	source := u.Scheme + ":"
	if name := u.Hostname(); (u.Scheme == "https" || u.Scheme == "http") && !strings.Contains(name, ":") {
		source += "//" + u.Host // policies know no addresses of IPv6 (CSP3 §2.3.1)
	}
	v.W.Header().Set("Content-Security-Policy",
		strings.Replace(policy, "form-action 'self'", "form-action 'self' "+source, 1))
}

// RememberPerson sets a cookie that says that a person has signed in with this browser. It outlives
// the session.
func (v *Visit) RememberPerson(p store.Person) {
	v.setCookie(v.tokenCookie()+cookieKnown+account.KnownBrowserName(p), v.Instance.Accounts.RememberBrowser(p),
		account.KnownBrowserTTL)
}

// KnownPersons returns the marks of the people who have signed in with this browser.
func (v *Visit) KnownPersons() (marks []string) {
	for _, c := range v.Cookies() {
		if strings.HasPrefix(c.Name, v.tokenCookie()+cookieKnown) {
			marks = append(marks, c.Value)
		}
	}
	return marks
}

// SavePreferences stores language and theme in cookies. The theme "auto" follows the browser;
// invalid values change nothing.
func (v *Visit) SavePreferences(lang, theme string) {
	switch theme {
	case "light", "dark":
		v.setCookie(cookieTheme, theme, preferenceLife)
	case "auto":
		v.setCookie(cookieTheme, "", 0)
	}
	if i18n.IsLanguage(i18n.Lang(lang)) {
		v.setCookie(cookieLang, lang, preferenceLife)
	}
}

// loadPreferences determines the language and the theme of the response.
func (v *Visit) loadPreferences() {
	switch theme := v.cookie(cookieTheme); theme {
	case "light", "dark":
		v.Theme = theme
	}
	switch {
	case v.cookie(cookieLang) != "":
		v.Lang = i18n.ParseLang(v.cookie(cookieLang), v.Instance.Lang)
	case v.IsSignedIn() && v.Session.Person.Lang != "":
		v.Lang = i18n.ParseLang(v.Session.Person.Lang, v.Instance.Lang)
	default:
		first, _, _ := strings.Cut(v.Header.Get("Accept-Language"), ",")
		tag, _, _ := strings.Cut(first, ";")
		v.Lang = i18n.ParseLang(tag, v.Instance.Lang)
	}
}

// PreferLanguage answers in a language, unless the browser has chosen one.
func (v *Visit) PreferLanguage(lang string) {
	if v.cookie(cookieLang) == "" && lang != "" {
		v.Lang = i18n.ParseLang(lang, v.Instance.Lang)
	}
}

// Text returns a message in the visitor's language.
func (v *Visit) Text(m i18n.Message, args ...any) string { return m.In(v.Lang, args...) }

// IsPartial reports whether a script requests a part of a page, and not a whole one.
func (v *Visit) IsPartial() bool { return v.Header.Get("HX-Request") == "true" }

// Render responds with a page or a part of one.
func (v *Visit) Render(status int, page templ.Component) {
	v.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.W.WriteHeader(status)
	if err := page.Render(v.Context(), v.W); err != nil && v.Context().Err() == nil {
		v.Instance.Logger.ErrorContext(v.Context(), "a page broke off", "path", v.URL.Path, "error", err)
	}
}

// Redirect sends the browser to another page, also if the request came from the script.
func (v *Visit) Redirect(path string) {
	if v.IsPartial() {
		v.W.Header().Set("HX-Redirect", path)
		v.W.WriteHeader(http.StatusNoContent)
		return
	}
	http.Redirect(v.W, v.Request, path, http.StatusSeeOther)
}

// Fail responds with an error: the message of a [problem.Error], or a message about an internal
// error. It is a page of its own or, for requests of the script, a note. Forms that can show the
// message beside the input use [Visit.Wrong].
func (v *Visit) Fail(err error) {
	text, status := v.Wrong(err)
	if text == "" {
		return
	}
	if v.IsPartial() {
		v.Render(status, Note("bad", text))
		return
	}
	v.Render(status, messagePage(v, statusTitle(status), text))
}

// Wrong returns the message about an error and its HTTP status, and logs internal errors. The text
// is empty if the browser has disconnected.
func (v *Visit) Wrong(err error) (text string, status int) {
	if e := control.AsError(err); e != nil {
		if e.Code == problem.Invalid {
			return e.In(v.Lang), http.StatusUnprocessableEntity
		}
		return e.In(v.Lang), e.Code.Status()
	}
	if errors.Is(err, store.ErrNotFound) {
		return v.Text(msgMissingTold), http.StatusNotFound
	}
	if errors.Is(err, context.Canceled) && v.Context().Err() != nil {
		return "", 0
	}
	v.Instance.Logger.ErrorContext(v.Context(), "console", "path", v.URL.Path, "error", err)
	return v.Text(msgBrokenTold, observe.RequestID(v.Context())), http.StatusInternalServerError
}

// RequireAdding reports whether the visitor may add something. If not, it has responded with why.
func (v *Visit) RequireAdding() bool {
	if !v.MayAdd() {
		v.Fail(problem.New(problem.Denied, control.MsgSharedOnly))
	}
	return v.MayAdd()
}

// NotFound responds that the page or object does not exist.
func (v *Visit) NotFound() { v.Fail(problem.New(problem.NotFound, msgMissingTold)) }

func statusTitle(status int) i18n.Message {
	switch status {
	case http.StatusNotFound:
		return msgMissing
	case http.StatusForbidden:
		return msgNotAllowed
	case http.StatusInternalServerError:
		return msgBroken
	}
	return msgNotDone
}

// Zone returns the visitor's time zone.
func (v *Visit) Zone() *time.Location {
	if v.zone == nil {
		v.zone = v.Instance.Zone(v.Session.Person)
	}
	return v.zone
}
