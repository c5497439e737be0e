package page

import "patchbay/internal/i18n"

const (
	msgSoundQuestion = i18n.Message("Question, %.1f s")
	msgSoundAnswer   = i18n.Message("Answer, %.1f s")

	msgBrand   = i18n.Message("Patchbay")
	msgSkip    = i18n.Message("Skip to the content")
	msgMenu    = i18n.Message("Menu")
	msgSignOut = i18n.Message("Sign out")

	msgHome     = i18n.Message("Home")
	msgTalk     = i18n.Message("Talk")
	msgBots     = i18n.Message("Bots")
	msgDevices  = i18n.Message("Devices")
	msgGateway  = i18n.Message("Gateway")
	msgTools    = i18n.Message("Tools")
	msgKeys     = i18n.Message("Keys")
	msgLearn    = i18n.Message("Learn")
	msgActivity = i18n.Message("Activity")
	msgSettings = i18n.Message("Settings")

	msgMissing      = i18n.Message("There is no such page")
	msgMissingTold  = i18n.Message("It may have gone, or the address is wrong.")
	msgBroken       = i18n.Message("Something is wrong on our side")
	msgBrokenTold   = i18n.Message("Try again in a moment; the log tells why, under request %s")
	msgNotDone      = i18n.Message("That was not done")
	msgToHome       = i18n.Message("To the first page")
	msgAdminsOnly   = i18n.Message("This page is for whoever runs the installation.")
	msgTooManyPages = i18n.Message("Too many pages are open; close some.")

	msgConfirm     = i18n.Message("Your password, please")
	msgConfirmTold = i18n.Message("What follows shows secrets, or changes who may do what, so it has to be you.")
	msgConfirmThen = i18n.Message("A while has passed since you typed it. What you have just filled in is sent on after that.")
	msgConfirmLost = i18n.Message("Too much time has passed since your password: what you sent was not carried out. Fill it in, or choose the file, once more after this.")
	msgPassword    = i18n.Message("Password")
	msgGoOn        = i18n.Message("Go on")
	msgBack        = i18n.Message("Back")

	msgThemeAuto  = i18n.Message("As the device")
	msgThemeLight = i18n.Message("Light")
	msgThemeDark  = i18n.Message("Dark")

	msgCopy   = i18n.Message("Copy")
	msgCopied = i18n.Message("Copied")
	msgMore   = i18n.Message("More")
	msgNever  = i18n.Message("never")

	msgJustNow  = i18n.Message("just now")
	msgMinutes  = i18n.Message("%d min ago")
	msgHours    = i18n.Message("%d h ago")
	msgInMins   = i18n.Message("in %d min")
	msgInHours  = i18n.Message("in %d h")
	msgTomorrow = i18n.Message("soon")
)
