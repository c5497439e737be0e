// Package consent serves the page on which a person lets a program in by OAuth.
package consent

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/oauth"
	"patchbay/internal/problem"
)

// path is the page of a request, followed by its id.
const path = "/oauth/consent/"

// Routes returns the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET " + oauth.AuthorizePath, Access: page.Anybody, Serve: authorize},
		{Pattern: "GET " + path + "{request}", Access: page.Confirmed, Serve: show},
		{Pattern: "POST " + path + "{request}", Serve: decide},
	}
}

// authorize takes a program's request (RFC 6749 §4.1.1) and leads to its page, or back to the
// program with an error.
func authorize(v *page.Visit) {
	id, to, err := v.Instance.Control.OAuth.Begin(v.Request, v.RequestSecret(true))
	switch {
	case err != nil:
		fail(v, err)
	case to != "":
		v.Redirect(to)
	default:
		v.Redirect(path + id)
	}
}

// fail shows why there is nothing to decide.
func fail(v *page.Visit, err error) {
	if told, ok := errors.AsType[*problem.Error](err); ok {
		v.Instance.Logger.WarnContext(v.Context(), "an OAuth request was refused", "cause", told,
			"address", v.Instance.Address(v.Request))
	}
	v.Fail(err)
}

// form holds the submitted choices, and their errors.
type form struct {
	Access string // all, read or some
	Allow  string // names of tools, one per line, for some
	// Dangerous is what happens to tools that are dangerous or for people: off, ask or allow.
	Dangerous string
	Days      int
	Wrong     string
	// Before is what the program was let in with before; nil if it was not.
	Before *control.GrantBefore
}

// What a person may decide about tools that are dangerous or for people.
const (
	dangerousOff   = "off"
	dangerousAsk   = "ask"
	dangerousAllow = "allow"
)

// What a person may let a program do.
const (
	accessAll  = "all"
	accessRead = "read"
	accessSome = "some"
)

// rules returns the rules of the key. If mayAllow is false, nothing dangerous can be called without
// an approval.
func (f *form) rules(mayAllow bool) (r hub.Rules, err error) {
	switch f.Access {
	case accessAll:
	case accessRead:
		r.ReadOnly = true
	case accessSome:
		r.Allow = page.SplitNames(f.Allow)
		if len(r.Allow) == 0 {
			return r, problem.New(problem.Invalid, msgSomeNone)
		}
	default:
		return r, problem.New(problem.Invalid, msgChoose)
	}
	switch f.Dangerous {
	case "", dangerousOff:
	case dangerousAsk:
		r.Ask = hub.AskOwner
	case dangerousAllow:
		if !mayAllow {
			return r, problem.New(problem.Invalid, msgChoose)
		}
		r.Dangerous = []string{"*"}
	default:
		return r, problem.New(problem.Invalid, msgChoose)
	}
	return r, nil
}

// asksMore reports whether the program asks for tools that are dangerous or for people.
func asksMore(q *oauth.Request) bool { return slices.Contains(q.Scopes, account.ScopeDangerous) }

// mayAllow reports whether the program may be allowed to call such tools without an approval: one
// that asks for them, and that the person knows already.
func mayAllow(q *oauth.Request, before *control.GrantBefore) bool {
	return before != nil && asksMore(q)
}

// formOf returns the form for a program that was let in before. What it has stays chosen, also for
// how long, and what it asks for in addition is asked about before each call.
func formOf(before *control.GrantBefore) form {
	f := form{Access: accessAll, Dangerous: dangerousOff, Before: before}
	if before == nil {
		return f
	}
	f.Days = before.Days
	if before.Rules.Ask != "" || len(before.Rules.Dangerous) > 0 {
		f.Dangerous = dangerousAsk
	}
	switch {
	case before.Rules.ReadOnly:
		f.Access = accessRead
	case len(before.Rules.Allow) > 0:
		f.Access, f.Allow = accessSome, strings.Join(before.Rules.Allow, "\n")
	}
	return f
}

// request returns the request of a page, or responds why there is none.
func request(v *page.Visit) (oauth.Request, bool) {
	q, err := v.Instance.Control.OAuth.Request(v.Context(), v.PathValue("request"), v.RequestSecret(false))
	if err != nil {
		fail(v, err)
	}
	return q, err == nil
}

func show(v *page.Visit) {
	q, ok := request(v)
	if !ok {
		return
	}
	before, err := v.Instance.Control.GrantBefore(v.Context(), v.Caller(), q.Client)
	if err != nil {
		v.Fail(err)
		return
	}
	render(v, http.StatusOK, &q, formOf(before))
}

func render(v *page.Visit, status int, q *oauth.Request, f form) {
	v.AllowFormsTo(q.Redirect)
	v.Render(status, consentPage(v, q, f))
}

func decide(v *page.Visit) {
	if !v.Session.Fresh(time.Now()) { // the page asks for the password, and then again
		v.Redirect(v.URL.RequestURI())
		return
	}
	q, ok := request(v)
	if !ok {
		return
	}
	f := form{Access: v.FormValue("access"), Allow: v.FormValue("allow"), Dangerous: v.FormValue("dangerous")}
	to, err := f.decide(v, &q)
	if e := control.AsError(err); e != nil && e.Code == problem.NotFound {
		fail(v, err)
		return
	}
	if err != nil {
		text, status := v.Wrong(err)
		f.Wrong = text
		render(v, status, &q, f)
		return
	}
	v.Redirect(to)
}

// decide does what the form says, and returns the address to send the browser to.
func (f *form) decide(v *page.Visit, q *oauth.Request) (to string, err error) {
	if f.Before, err = v.Instance.Control.GrantBefore(v.Context(), v.Caller(), q.Client); err != nil {
		return "", err
	}
	switch v.FormValue("decision") {
	case "allow":
		if f.Days, err = strconv.Atoi(v.FormValue("days")); err != nil || !slices.Contains(control.ConsentDays,
			f.Days) {
			return "", problem.New(problem.Invalid, msgChoose)
		}
		r, err := f.rules(mayAllow(q, f.Before))
		if err != nil {
			return "", err
		}
		return v.Instance.Control.AllowProgram(v.Request, v.Caller(), q, r, f.Days)
	case "deny":
		return v.Instance.Control.OAuth.Deny(v.Request, q)
	}
	return "", problem.New(problem.Invalid, msgChoose)
}

// isLearn reports whether the program asks for Learn only.
func isLearn(q *oauth.Request) bool { return slices.Contains(q.Scopes, account.ScopeLearn) }
