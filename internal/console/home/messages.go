package home

import "patchbay/internal/i18n"

const (
	msgHello   = i18n.Message("Hello, %s")
	msgConnect = i18n.Message("Connect something")

	msgBots       = i18n.Message("Bots")
	msgDevices    = i18n.Message("Devices")
	msgReviewsDue = i18n.Message("Points to review: %d")
	msgReview     = i18n.Message("Review")
	msgTalk       = i18n.Message("Talk")
	msgTalkWith   = i18n.Message("Talk with %s")
	msgNoBots     = i18n.Message("No bots yet")
	msgNoBotsTold = i18n.Message("Bots answer your glasses and voice boards.")
	msgMakeBot    = i18n.Message("Add a bot")

	msgNeedsYou   = i18n.Message("Waiting for you")
	msgApproval   = i18n.Message("A program wants to call a tool that you have to approve.")
	msgApprovals  = i18n.Message("%d calls of tools wait for your approval.")
	msgPairings   = i18n.Message("At the gateway, %d requests wait for your word.")
	msgPairing    = i18n.Message("At the gateway, a request waits for your word.")
	msgWaitings   = i18n.Message("There are %d devices showing a code. If one is yours, type its code in.")
	msgWaiting    = i18n.Message("A device shows a code. If it is yours, type the code in.")
	msgMute       = i18n.Message("The bot of a device cannot talk: no speech engine hears, or none speaks.")
	msgAskAdmin   = i18n.Message("An administrator can set up voice.")
	msgUpstream   = i18n.Message("%s cannot be used: %s")
	msgUpstream0  = i18n.Message("%s needs looking after")
	msgDiskFull   = i18n.Message("The server's disk is full or nearly so: what is new may not be kept. Make room; then all goes on by itself.")
	msgDiskErrors = i18n.Message("The server cannot write: nothing new is kept. Look after its disk and database.")
	msgDiskLow    = i18n.Message("There is little room left on the server's disk; make some.")
	msgLook       = i18n.Message("Have a look")
	msgDecide     = i18n.Message("Decide")
	msgTypeCode   = i18n.Message("Type the code in")

	msgLastTurns   = i18n.Message("Last questions")
	msgNoTurns     = i18n.Message("Nobody has asked anything yet.")
	msgLastCalls   = i18n.Message("Last calls of tools")
	msgNoCalls     = i18n.Message("No tool has been called yet.")
	msgAllActivity = i18n.Message("All activity")

	msgDone         = i18n.Message("done")
	msgFailed       = i18n.Message("failed")
	msgDisconnected = i18n.Message("asker left")
	msgToolFailed   = i18n.Message("tool failed")
	msgRefused      = i18n.Message("refused")
	msgAsked        = i18n.Message("asked for more")
)
