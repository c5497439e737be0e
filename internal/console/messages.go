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

	msgCodeOfApp      = i18n.Message("One more step")
	msgCodeOfAppTold  = i18n.Message("The password was right; a code is needed besides it.")
	msgWrongCodeOfApp = i18n.Message("The code is wrong, or was used already.")
	msgPasskeyRefused = i18n.Message("This passkey is not known here, or could not be checked.")
	msgStepOver       = i18n.Message("Too much time has passed, or the password was changed; sign in again.")
	msgOtherAccount   = i18n.Message("Begin again")

	msgWrongPasswordOnly = i18n.Message("The password is wrong.")
)
