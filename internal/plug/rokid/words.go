package rokid

import "patchbay/internal/i18n"

// Messages for wearers, besides those of package talk.
const (
	msgBindFirst   = i18n.Message("Hello! Please open your bot's page on %s to see its QR code, then photograph the code with your glasses to connect.")
	msgNotRead     = i18n.Message("I could not read the QR code. Please aim at it and try again.")
	msgBadToken    = i18n.Message("That code is not valid. Please refresh the page and scan again.")
	msgUsedToken   = i18n.Message("That code has been used already. Please refresh the page and scan again.")
	msgOldToken    = i18n.Message("That code has expired. Please refresh the page and scan again.")
	msgBotTaken    = i18n.Message("This bot belongs to another wearer. It has to be unbound first.")
	msgBindFailed  = i18n.Message("That did not work. Please try again later.")
	msgBound       = i18n.Message("Connected! You can use %s now.")
	msgBoundBefore = i18n.Message("You are connected to the bot “%s” already. Please unbind it first.")
	msgTooMany     = i18n.Message("Too many tries. Please wait ten minutes.")

	msgUnbindSure = i18n.Message("Do you want to unbind? You will have to scan a code again. Say “confirm unbind”.")
	msgUnbound    = i18n.Message("You are no longer connected to %s.")
	msgSwitched   = i18n.Message("Switched to %s.")
	msgStatus     = i18n.Message("Your bot is %s, %s.")
	msgOnline     = i18n.Message("online")
	msgAway       = i18n.Message("offline")

	msgNotHeard  = i18n.Message("I did not catch that. Please say it again.")
	msgNoPicture = i18n.Message("The picture did not arrive. Please take it again.")
	msgBadImage  = i18n.Message("That picture cannot be read. Please take it again.")
	msgBigImage  = i18n.Message("That picture is too large. Please take it again.")
	msgCutOff    = i18n.Message("The network is slow and your question did not arrive. Please try again.")
	msgTooLong   = i18n.Message("That is too long. Please say it in fewer words.")
	msgEnough    = i18n.Message("That is a lot of pictures. Please wait a while.")

	msgMore    = i18n.Message("… say “more” to go on")
	msgOurSite = i18n.Message("Patchbay")
)
