package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/oidc"
	"patchbay/internal/store"
)

const (
	msgSignInAt   = i18n.Message("Sign in with %s")
	msgLeave      = i18n.Message("To %s")
	msgLeaveNow   = i18n.Message("Go on")
	msgToSettings = i18n.Message("To the settings")

	msgNoPasswords   = i18n.Message("Nobody signs in with a password here; use the button.")
	msgProviderAway  = i18n.Message("%s does not answer properly just now. Try again in a moment; if it stays so, tell whoever runs this server.")
	msgProviderNo    = i18n.Message("%s did not sign you in.")
	msgProviderWrong = i18n.Message("The answer of %s was not accepted. Try again; if it happens again, tell whoever runs this server.")
	msgNotAllowed    = i18n.Message("%s knows you, but you may not sign in here. Whoever runs this server can change that.")
	msgNoAccountHere = i18n.Message("%s knows you, but no account here is linked to you. If you have one, sign in with its password and link it in the settings.")
	msgSetUpFirst    = i18n.Message("This server is not set up yet; make the first account with the setup code.")
	msgRoundDone     = i18n.Message("This sign-in is over already. Begin again.")
	msgRoundLate     = i18n.Message("This sign-in has taken too long. Begin again.")
	msgRoundOther    = i18n.Message("This sign-in was begun in another browser, or at another address of this server. Begin again here.")
	msgNoPublicURL   = i18n.Message("%s sends browsers back to the public address only, and public_url is not set. Whoever runs this server can set it.")
	msgSomebodyElse  = i18n.Message("At %s you are somebody else than here. Sign in there as yourself.")
	msgLinkedOther   = i18n.Message("Somebody else here is linked to this account of %s.")
	msgLinkedMany    = i18n.Message("There are too many links; remove one first.")
)

// startPath leads a browser to the provider to sign in.
const startPath = oidc.CallbackPath + "/start"

// oidcRoutes returns the pages around the OpenID provider, if there is one.
func (s *Server) oidcRoutes() []page.Route {
	if s.Control.OIDC == nil {
		return nil
	}
	return []page.Route{
		{Pattern: "GET " + startPath, Access: page.Anybody, Serve: s.startSignIn},
		{Pattern: "GET " + oidc.CallbackPath, Access: page.Anybody, Serve: s.finishRound},
		{Pattern: "POST /confirm/oidc", Serve: s.startConfirm},
		{Pattern: "POST /settings/links", Access: page.Confirmed, Serve: s.startLink},
	}
}

// onlyOIDC reports whether passwords are refused.
func onlyOIDC(v *page.Visit) bool { p := v.Instance.Control.OIDC; return p != nil && p.Only }

// startAddress returns the address that leads to the provider.
func startAddress(base, next string) string {
	return base + startPath + "?" + url.Values{"next": {page.LocalPath(next)}}.Encode()
}

// redirectAddress returns where the provider sends the browser back to: the origin under which the
// server is reached on this machine, or else its public URL; empty if that is not known.
func redirectAddress(v *page.Visit) string {
	public := v.Instance.Control.PublicURL
	if observe.IsLocalHost(v.Request) && (public == "" || !observe.IsForwarded(v.Request)) {
		return v.LocalOrigin() + oidc.CallbackPath
	}
	if public == "" {
		return ""
	}
	return strings.TrimRight(public, "/") + oidc.CallbackPath
}

// startSignIn sends the browser to the provider.
func (s *Server) startSignIn(v *page.Visit) {
	next := page.LocalPath(v.FormValue("next"))
	if v.IsSignedIn() {
		v.Redirect(next)
		return
	}
	// The cookie of a browser at another address would not come back to the public one.
	if base, ok := strings.CutSuffix(redirectAddress(v), oidc.CallbackPath); ok && v.FormValue("moved") == "" &&
		!observe.IsLocalHost(v.Request) {
		if u, err := url.Parse(base); err == nil && !strings.EqualFold(u.Host, v.Host) {
			v.Redirect(startAddress(base, next) + "&moved=1")
			return
		}
	}
	s.leave(v, store.OIDCRound{Purpose: account.RoundSignIn, Next: next})
}

// startConfirm sends a person to the provider who has to prove again who they are.
func (s *Server) startConfirm(v *page.Visit) {
	r := store.OIDCRound{Purpose: account.RoundConfirm, Person: v.Session.Person.ID, SignIn: v.Session.ID,
		Next: page.LocalPath(v.FormValue("next")), Pending: v.FormValue("pending")}
	if _, ok := s.waiting(v, page.Confirmation{Next: r.Next, Pending: r.Pending}); ok {
		s.leave(v, r)
	}
}

// startLink sends a person to the provider to link an account of it.
func (s *Server) startLink(v *page.Visit) {
	s.leave(v, store.OIDCRound{Purpose: account.RoundLink, Person: v.Session.Person.ID, SignIn: v.Session.ID,
		Next: "/settings"})
}

// leave begins a visit to the provider.
func (s *Server) leave(v *page.Visit, r store.OIDCRound) {
	p := s.Control.OIDC
	redirect := redirectAddress(v)
	if redirect == "" {
		s.refuse(v, r, http.StatusConflict, msgNoPublicURL, errors.New("public_url is not set"))
		return
	}
	// Whoever links proves there who they are: that somebody is signed in there is not enough.
	visit, address, err := p.Begin(v.Context(), redirect, r.Purpose != account.RoundSignIn)
	if err != nil {
		s.refuse(v, r, http.StatusBadGateway, msgProviderAway, err)
		return
	}
	r.Address, r.Redirect, r.Nonce, r.Verifier = s.Address(v.Request).String(), redirect, visit.Nonce, visit.Verifier
	r.Created = visit.Began
	if err := s.Accounts.BeginRound(v.Context(), r, visit.State, v.RequestSecret(true)); err != nil {
		v.Fail(err)
		return
	}
	if v.Method == http.MethodGet {
		v.Redirect(address)
		return
	}
	v.W.Header().Set("Refresh", "0; url="+address)
	v.Render(http.StatusOK, leavePage(v, address))
}

// finishRound takes the answer of the provider, with which the browser comes back.
func (s *Server) finishRound(v *page.Visit) {
	p, answer := s.Control.OIDC, v.URL.Query()
	state := answer.Get("state")
	r, err := s.Accounts.TakeRound(v.Context(), state, v.RequestSecret(false))
	switch {
	case errors.Is(err, account.ErrRoundUnknown):
		s.refuse(v, r, http.StatusConflict, msgRoundDone, err)
		return
	case errors.Is(err, account.ErrRoundExpired):
		s.refuse(v, r, http.StatusConflict, msgRoundLate, err)
		return
	case err == nil && r.Person != "" && (r.Person != v.Session.Person.ID || r.SignIn != v.Session.ID):
		err = account.ErrRoundBrowser // signed out, or confirmed otherwise in the meantime
		r = store.OIDCRound{}
	}
	if errors.Is(err, account.ErrRoundBrowser) {
		s.refuse(v, r, http.StatusForbidden, msgRoundOther, err)
		return
	}
	if err != nil {
		v.Fail(err)
		return
	}
	who, err := p.Finish(v.Context(), oidc.Round{State: state, Nonce: r.Nonce, Verifier: r.Verifier,
		Redirect: r.Redirect, Again: r.Purpose != account.RoundSignIn, Began: r.Created}, answer)
	switch {
	case errors.Is(err, oidc.ErrAway):
		s.refuse(v, r, http.StatusBadGateway, msgProviderAway, err)
	case errors.Is(err, oidc.ErrDeclined):
		s.refuse(v, r, http.StatusForbidden, msgProviderNo, err)
	case err != nil:
		s.refuse(v, r, http.StatusForbidden, msgProviderWrong, err)
	case !p.Allows(&who):
		s.refuse(v, r, http.StatusForbidden, msgNotAllowed, errors.New("not in oidc.allow: "+who.Label()))
	default:
		s.admitIdentity(v, r, &who)
	}
}

// admitIdentity does what the browser went to the provider for.
func (s *Server) admitIdentity(v *page.Visit, r store.OIDCRound, who *oidc.Identity) {
	l := store.Linked{Issuer: who.Issuer, Subject: who.Subject, Label: who.Label(), Person: r.Person}
	switch r.Purpose {
	case account.RoundConfirm:
		s.confirmIdentity(v, r, l)
	case account.RoundLink:
		s.linkIdentity(v, r, l)
	default:
		s.signInIdentity(v, r, l, who)
	}
}

// signInIdentity signs the person in who is linked, or gets an account.
func (s *Server) signInIdentity(v *page.Visit, r store.OIDCRound, l store.Linked, who *oidc.Identity) {
	p, err := s.Accounts.LinkedPerson(v.Context(), l)
	if errors.Is(err, store.ErrNotFound) {
		if !s.Control.OIDC.Create {
			s.refuse(v, r, http.StatusForbidden, msgNoAccountHere, errors.New("no account is linked: "+l.Label))
			return
		}
		p, err = s.openAccount(v, l, who)
	}
	switch {
	case errors.Is(err, account.ErrNotSetUp):
		s.refuse(v, r, http.StatusConflict, msgSetUpFirst, err)
		return
	case err != nil:
		v.Fail(err)
		return
	}
	token, err := s.Accounts.AdmitProved(v.Context(), p, s.browser(v), who.At)
	if errors.Is(err, account.ErrPaused) {
		v.Render(http.StatusForbidden, signInPage(v, signInForm{Next: r.Next, Wrong: v.Text(hub.MsgPaused)}))
		return
	}
	if err != nil {
		v.Fail(err)
		return
	}
	s.signedIn(v, p, token, r.Next)
}

// openAccount opens an account for a person of the provider.
func (s *Server) openAccount(v *page.Visit, l store.Linked, who *oidc.Identity) (store.Person, error) {
	local, _, _ := strings.Cut(who.Email, "@")
	p, err := s.Accounts.AddLinkedPerson(v.Context(), l, []string{who.Username, who.Name, local}, string(v.Lang))
	if errors.Is(err, store.ErrExists) { // another tab was faster
		return s.Accounts.LinkedPerson(v.Context(), l)
	}
	if err == nil {
		s.Control.RecordAdminEvent(v.Context(), s.caller(v, p.ID), control.EventPersonAdded, p.Name+" ← "+l.Label)
	}
	return p, err
}

// confirmIdentity goes on with what a person had to confirm.
func (s *Server) confirmIdentity(v *page.Visit, r store.OIDCRound, l store.Linked) {
	c := page.Confirmation{Next: r.Next, Pending: r.Pending}
	waits, ok := s.waiting(v, c)
	if !ok {
		return
	}
	token, err := s.Accounts.ConfirmLinked(v.Context(), v.Session, l)
	if errors.Is(err, account.ErrPassword) {
		s.refuse(v, r, http.StatusForbidden, msgSomebodyElse, errors.New("somebody else confirmed: "+l.Label))
		return
	}
	if err == nil {
		s.signIns.WithLabelValues("good").Inc()
	}
	s.goOn(v, c, waits, token, err)
}

// linkIdentity links a person of the provider to the account of the visitor.
func (s *Server) linkIdentity(v *page.Visit, r store.OIDCRound, l store.Linked) {
	switch err := s.Accounts.Link(v.Context(), l); {
	case errors.Is(err, account.ErrLinkedToOther):
		s.refuse(v, r, http.StatusConflict, msgLinkedOther, errors.New("linked to somebody else: "+l.Label))
	case errors.Is(err, account.ErrLinkedMany):
		s.refuse(v, r, http.StatusConflict, msgLinkedMany, err)
	case err != nil:
		v.Fail(err)
	default:
		s.Control.RecordAdminEvent(v.Context(), s.caller(v, v.Session.Person.ID), control.EventLinked,
			v.Session.Person.Name+": "+l.Label)
		v.Redirect("/settings?linked=1")
	}
}

// refuse says on the page where the visit began why it has no effect, and counts, logs and records
// that.
func (s *Server) refuse(v *page.Visit, r store.OIDCRound, status int, told i18n.Message, why error) {
	if errors.Is(why, context.Canceled) && v.Context().Err() != nil {
		return // the browser has disconnected
	}
	outcome := "refused"
	if errors.Is(why, oidc.ErrAway) {
		outcome = "provider"
	}
	s.signIns.WithLabelValues(outcome).Inc()
	s.Logger.WarnContext(v.Context(), "a sign-in at the OpenID provider had no effect", "purpose", r.Purpose,
		"cause", why, "address", s.Address(v.Request))
	s.Control.RefusedAtProvider(v.Context(), s.caller(v, v.Session.Person.ID), reason(why))
	wrong := told.In(v.Lang)
	if strings.Contains(wrong, "%s") {
		wrong = told.In(v.Lang, s.Control.OIDC.Name)
	}
	switch {
	case r.Purpose == account.RoundConfirm && v.IsSignedIn():
		v.AskPassword(status, page.Confirmation{Next: r.Next, Pending: r.Pending, Wrong: wrong})
	case r.Purpose == account.RoundLink || v.IsSignedIn():
		v.Render(status, refusedPage(v, wrong))
	default:
		v.Render(status, signInPage(v, signInForm{Next: page.LocalPath(r.Next), Wrong: wrong}))
	}
}

// reason returns an error as admin events have place for it.
func reason(err error) string {
	const most = 200
	text := strings.ReplaceAll(err.Error(), "\n", ": ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// caller returns the visitor as a caller who acts for a person.
func (s *Server) caller(v *page.Visit, person string) control.Caller {
	return control.Caller{Person: person, Program: "console", Address: s.Address(v.Request).String()}
}
