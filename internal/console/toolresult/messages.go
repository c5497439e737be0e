package toolresult

import "patchbay/internal/i18n"

const (
	msgUnknown    = i18n.Message("There is no such tool.")
	msgBadArgs    = i18n.Message("What was filled in does not fit this tool.")
	msgUnapproved = i18n.Message("The call waits for an approval.")
	msgHeld       = i18n.Message("Its server has changed this tool, and the change is not approved.")
	msgDenied     = i18n.Message("This tool is not allowed.")
	msgTooMany    = i18n.Message("Too many calls; wait a minute and try again.")
	msgBusy       = i18n.Message("It is busy; try again in a moment.")
	msgOffline    = i18n.Message("It cannot be reached now: it is not connected, or asleep.")
	msgStopping   = i18n.Message("The server is restarting; try again in a moment.")
	msgLost       = i18n.Message("It went away in the middle of the call.")
	msgTimedOut   = i18n.Message("No result came in time.")
	msgCancelled  = i18n.Message("The call was called off.")
	msgGarbled    = i18n.Message("Its answer cannot be read.")
	msgTooLarge   = i18n.Message("That is too large to pass on.")
	msgRefused    = i18n.Message("It refused the call.")
	msgFailed     = i18n.Message("The tool failed.")

	msgToolSays = i18n.Message("The tool says that it failed:")
	msgDone     = i18n.Message("Done; it had nothing to say.")
	msgSave     = i18n.Message("Save the sound")
	msgPicture  = i18n.Message("The picture that the tool returned")
	msgSound    = i18n.Message("The sound that the tool returned")
	msgNotShown = i18n.Message("Not to be shown here: %s")
	msgNothing  = i18n.Message("value\x04none")
	msgYes      = i18n.Message("yes")
	msgNo       = i18n.Message("no")
	msgDetails  = i18n.Message("In its own words")
)
