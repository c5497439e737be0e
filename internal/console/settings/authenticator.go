package settings

import (
	"net/http"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/qr"
)

const (
	msgApp         = i18n.Message("Authenticator app")
	msgAppTold     = i18n.Message("With an app on your phone that shows codes, your password alone opens nothing.")
	msgAppOn       = i18n.Message("Your password needs a code of your app besides it.")
	msgAppSetUp    = i18n.Message("Set up an app")
	msgAppOther    = i18n.Message("Set up another app")
	msgAppCodes    = i18n.Message("New recovery codes")
	msgAppRemove   = i18n.Message("Remove the app")
	msgAppGone     = i18n.Message("The authenticator app is removed.")
	msgAppScan     = i18n.Message("Scan this code with the app, then type the six digits that it shows.")
	msgAppQR       = i18n.Message("QR code for the authenticator app")
	msgAppByHand   = i18n.Message("Cannot scan? Type this key into the app:")
	msgAppCode     = i18n.Message("Code of the app")
	msgAppOnOff    = i18n.Message("Turn on")
	msgAppSure     = i18n.Message("Remove the app? Without passkeys, your password is enough then.")
	msgCodesSure   = i18n.Message("Make new codes? The ones you have are no longer good then.")
	msgCodesLeft   = i18n.Message("Each replaces a code of the app, or a passkey, once. Left: %d")
	msgStepsSure   = i18n.Message("Remove app, passkeys and recovery codes of %s?")
	msgCopy        = i18n.Message("Copy")
	msgCopied      = i18n.Message("Copied")
	msgSteps       = i18n.Message("Second steps")
	msgStepsTold   = i18n.Message("This person has an authenticator app or passkeys besides the password. Remove them all if they are lost, and the recovery codes too.")
	msgStepsRemove = i18n.Message("Remove them all")
	msgStepsGone   = i18n.Message("%s signs in with the password alone now.")

	msgPasskeys      = i18n.Message("Passkeys")
	msgPasskeysTold  = i18n.Message("A passkey of your phone, computer or security key signs you in without password. With one, the password alone opens nothing.")
	msgPasskeyAdd    = i18n.Message("Add a passkey")
	msgPasskeyAdded  = i18n.Message("The passkey is added; from now on you can sign in with it.")
	msgPasskeyGone   = i18n.Message("The passkey is removed.")
	msgPasskeyRemove = i18n.Message("Remove the passkey %s")
	msgPasskeyName   = i18n.Message("Where it is, so that you know it again")
	msgPasskeyCreate = i18n.Message("Create it")
	msgPasskeySure   = i18n.Message("Remove the passkey %s?")
	msgPasskeyThere  = i18n.Message("This device has a passkey for your account already.")
	msgPasskeyNoJS   = i18n.Message("Your browser has to know passkeys, and run the script of this page.")
	msgPasskeyNot    = i18n.Message("Passkeys need an address with https and a name: the one that is set as public_url, opened in this browser. On this machine, localhost is good too. They are off if people sign in only at the OpenID provider.")

	msgCodesTitle     = i18n.Message("Recovery codes")
	msgCodesTold      = i18n.Message("Keep these codes where you find them without your phone. Each replaces a code of the app, or a passkey, once. They are not shown again.")
	msgCodesBefore    = i18n.Message("Codes made before are no longer good.")
	msgBackToSettings = i18n.Message("Back to the settings")
	msgCodesKept      = i18n.Message("I have kept them")
)

// enrolForm is an authenticator app that is being set up.
type enrolForm struct {
	account.Enrolment
	Code  *qr.Code
	Wrong string
}

// enrol shows the secret of a new authenticator app.
func (p pages) enrol(v *page.Visit) {
	e, err := p.Accounts.Enrol(v.Session.Person)
	if err != nil {
		v.Fail(err)
		return
	}
	p.showEnrolment(v, http.StatusOK, enrolForm{Enrolment: e})
}

func (p pages) showEnrolment(v *page.Visit, status int, f enrolForm) {
	var err error
	if f.Code, err = qr.Encode(f.URI); err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, enrolPage(v, f))
}

// addAuthenticator adds the app after its first code, and shows the recovery codes.
func (p pages) addAuthenticator(v *page.Visit) {
	had, err := p.Accounts.SecondSteps(v.Context(), v.Session.Person.ID)
	if err != nil {
		v.Fail(err)
		return
	}
	sealed := v.FormValue("sealed")
	out, err := p.AddAuthenticator(v.Context(), v.Caller(), control.NewAuthenticator{Sealed: sealed,
		Code: v.FormValue("code"), Keep: v.Session.ID})
	if err == nil {
		v.Render(http.StatusOK, recoveryCodesPage(v, out.Codes, had.Any()))
		return
	}
	e, over := p.Accounts.Enrolling(v.Session.Person, sealed)
	if over != nil { // a new secret, as the old one cannot be added any more
		if e, over = p.Accounts.Enrol(v.Session.Person); over != nil {
			v.Fail(over)
			return
		}
	}
	if wrong, status := v.Wrong(err); wrong != "" {
		p.showEnrolment(v, status, enrolForm{Enrolment: e, Wrong: wrong})
	}
}

// newRecoveryCodes replaces the recovery codes, and shows them.
func (p pages) newRecoveryCodes(v *page.Visit) {
	out, err := p.NewRecoveryCodes(v.Context(), v.Caller(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, recoveryCodesPage(v, out.Codes, true))
}

// removeAuthenticator removes the app of the visitor.
func (p pages) removeAuthenticator(v *page.Visit) {
	if _, err := p.RemoveAuthenticator(v.Context(), v.Caller(), control.Empty{}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/settings?without_code=1")
}

// newPasskey shows the page on which the browser creates a passkey.
func (p pages) newPasskey(v *page.Visit) { p.showNewPasskey(v, http.StatusOK, "") }

func (p pages) showNewPasskey(v *page.Visit, status int, wrong string) {
	site, ok := v.PasskeySite()
	if !ok {
		v.Render(status, noPasskeyPage(v))
		return
	}
	c, err := p.Accounts.BeginPasskey(v.Context(), site, v.Session.Person)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, newPasskeyPage(v, c, v.FormValue("name"), wrong))
}

// addPasskey adds the passkey that the browser has created.
func (p pages) addPasskey(v *page.Visit) {
	site, ok := v.PasskeySite()
	if !ok {
		v.Redirect("/settings/passkeys")
		return
	}
	if v.FormValue("reply") == "InvalidStateError" { // of excludeCredentials (WebAuthn section 5.1.3)
		p.showNewPasskey(v, http.StatusConflict, v.Text(msgPasskeyThere))
		return
	}
	out, err := p.AddPasskey(v.Context(), v.Caller(), control.NewPasskey{Site: site, Sealed: v.FormValue("sealed"),
		Reply: v.FormValue("reply"), Name: v.FormValue("name"), Keep: v.Session.ID})
	switch {
	case err != nil:
		if wrong, status := v.Wrong(err); wrong != "" {
			p.showNewPasskey(v, status, wrong)
		}
	case len(out.Codes) > 0:
		v.Render(http.StatusOK, recoveryCodesPage(v, out.Codes, false))
	default:
		v.Redirect("/settings?passkey=1")
	}
}

// removePasskey removes a passkey of the visitor.
func (p pages) removePasskey(v *page.Visit) {
	in := control.PasskeyRef{ID: v.PathValue("passkey")}
	if _, err := p.RemovePasskey(v.Context(), v.Caller(), in); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/settings?no_passkey=1")
}

// removeSecondSteps removes app and passkeys of somebody who lost them.
func (p pages) removeSecondSteps(v *page.Visit) {
	if _, err := p.RemoveSecondSteps(v.Context(), v.Operator(), ref(v)); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/settings/people/" + ref(v).Person + "?without_steps=1")
}
