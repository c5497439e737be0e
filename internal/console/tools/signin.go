package tools

import (
	"net/http"
	"net/url"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgSignIn       = i18n.Message("Sign in")
	msgSignInAgain  = i18n.Message("Sign in again")
	msgSignOut      = i18n.Message("Sign out")
	msgSignOutSure  = i18n.Message("Sign out of %s? Its tools stay listed, but cannot be called.")
	msgSignInTold   = i18n.Message("This server wants you to sign in to it. What Patchbay gets is kept sealed, and sent to this server only.")
	msgSignedInAt   = i18n.Message("Signed in at")
	msgRightsOf     = i18n.Message("Rights")
	msgSignInTo     = i18n.Message("Sign in for %s")
	msgLedTo        = i18n.Message("You sign in at %s, and are led back here. See that you know this address before you enter a password.")
	msgGoThere      = i18n.Message("Go to %s")
	msgOtherMachine = i18n.Message("You cannot be led back here?")
	msgPasteTold    = i18n.Message("At another machine the sign-in may end with a page that cannot be opened. Paste the address of that page here.")
	msgFinalAddress = i18n.Message("Address at the end of the sign-in")
	msgFinish       = i18n.Message("Finish")
	msgClientID     = i18n.Message("Client ID")
	msgClientTip    = i18n.Message("Only if that server wants a sign-in and has given you one. Without it, Patchbay registers itself there.")
	msgClientSecret = i18n.Message("Client secret")
	msgForgetClient = i18n.Message("Forget the client secret")
	msgByItselfTold = i18n.Message("Patchbay signs in to this server by itself, with the client ID and the secret or key of the settings, and renews its token in time. Nobody has to do anything.")
	msgByKey        = i18n.Message("Key and rights, if Patchbay signs in by itself")
	msgLastToken    = i18n.Message("Last token")
	msgForgetToken  = i18n.Message("Forget the token and sign in again now")
	msgWhoSignsIn   = i18n.Message("Who signs in")
	msgWhoTip       = i18n.Message("Only if that server wants a sign-in. By itself, Patchbay needs the client ID, and the secret or the private key that is registered there.")
	msgAPerson      = i18n.Message("A person")
	msgItself       = i18n.Message("Patchbay by itself (client_credentials)")
	msgPrivateKey   = i18n.Message("Private key")
	msgForgetKey    = i18n.Message("Forget the private key")
	msgKeyID        = i18n.Message("Name of the key there")
	msgScope        = i18n.Message("Rights to ask for")
	msgNeedsSignIn  = i18n.Message("It answers, and wants you to sign in. Add it, then sign in on its page.")
)

// signInStart is a sign-in that has begun.
type signInStart struct {
	Address string // where one signs in; empty: unknown here
	Wrong   string
}

// host is where one signs in.
func (s signInStart) host() string {
	u, err := url.Parse(s.Address)
	if err != nil {
		return ""
	}
	return u.Host
}

// startSignIn begins a sign-in, and shows where it leads before it leads there.
func startSignIn(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	var started control.StartedSignIn
	if err == nil {
		started, err = v.Instance.Control.StartSignIn(v.Context(), v.Caller(),
			control.UpstreamSignInStart{Upstream: d.Number, Origin: v.LocalOrigin()})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, signInPage(v, &d, signInStart{Address: started.Address}))
}

// answerSignIn takes the address that a person has pasted.
func answerSignIn(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	if err == nil {
		_, err = v.Instance.Control.FinishSignIn(v.Context(), v.Caller(),
			control.UpstreamSignInAnswer{Upstream: d.Number, Address: v.FormValue("address")})
	}
	if err != nil {
		text, status := v.Wrong(err)
		if text != "" {
			v.Render(status, signInPage(v, &d, signInStart{Wrong: text}))
		}
		return
	}
	v.Redirect(upstreamURL(d.Number))
}

// returned is where a sign-in leads.
func returned(v *page.Visit) {
	d, err := v.Instance.Control.FinishSignIn(v.Context(), v.Caller(),
		control.UpstreamSignInAnswer{Address: v.URL.RequestURI()})
	if err != nil && d.Number != 0 { // on to its page, where one can try again
		if text, _ := v.Wrong(err); text != "" {
			d.Notice = text
			showUpstream(v, &d, "")
		}
		return
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(upstreamURL(d.Number))
}

func forgetSignIn(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	if err == nil {
		_, err = v.Instance.Control.ForgetSignIn(v.Context(), v.Caller(), control.UpstreamOf{Upstream: d.Number})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(upstreamURL(d.Number))
}
