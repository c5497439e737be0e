package console

import "patchbay/internal/i18n"

const (
	msgSignIn      = i18n.Message("Sign in")
	msgName        = i18n.Message("account\x04Name")
	msgPassword    = i18n.Message("Password")
	msgPasswordTip = i18n.Message("At least 8 characters.")

	msgSetUp        = i18n.Message("Set up Patchbay")
	msgSetUpTold    = i18n.Message("Make the first account, which runs this installation.")
	msgSetupCode    = i18n.Message("Setup code")
	msgSetupCodeTip = i18n.Message("The server shows it in the terminal when it starts.")
	msgMakeAccount  = i18n.Message("Make the account")

	msgWrongCode     = i18n.Message("The setup code is wrong. Look at the one in the server's terminal.")
	msgWrongPassword = i18n.Message("The name or the password is wrong.")
	msgTooManyTries  = i18n.Message("Too many tries; wait a while and try again. Browsers that signed in before still can.")
	msgBusy          = i18n.Message("Too many passwords are being checked now; try again in a few seconds.")

	msgWrongPasswordOnly = i18n.Message("The password is wrong.")
)
