package talk

import "patchbay/internal/i18n"

const (
	msgTalk       = i18n.Message("Talk")
	msgTalkTold   = i18n.Message("This computer becomes a voice board: talk with a bot by its microphone and speaker.")
	msgNoBot      = i18n.Message("No bot yet")
	msgNoBotTold  = i18n.Message("A bot answers when you talk. Without one, you hear what you said.")
	msgDeaf       = i18n.Message("Speech is not set up yet: a bot answers what you type, and what you say is only played back.")
	msgSetUpVoice = i18n.Message("Set up voice")
	msgMakeBot    = i18n.Message("Add a bot")
	msgWho        = i18n.Message("Who answers")
	msgNobody     = i18n.Message("Nobody for now")
	msgDevice     = i18n.Message("Among your devices, this browser is")

	msgMode         = i18n.Message("How you talk")
	msgModeAuto     = i18n.Message("Taking turns")
	msgModeRealtime = i18n.Message("Interrupting at any time")
	msgModeManual   = i18n.Message("Holding a button")
	msgVolume       = i18n.Message("Volume")
	msgCamera       = i18n.Message("Bots may take photos with the camera")
	msgCameraView   = i18n.Message("What the camera sees")
	msgLevel        = i18n.Message("Loudness")

	msgHold       = i18n.Message("Hold to talk")
	msgInterrupt  = i18n.Message("Interrupt")
	msgLog        = i18n.Message("What was said")
	msgNothingYet = i18n.Message("Nothing was said yet")
	msgType       = i18n.Message("Or type")
	msgSend       = i18n.Message("Send")

	msgStart        = i18n.Message("Start talking")
	msgEnd          = i18n.Message("End")
	msgIdle         = i18n.Message("Asleep")
	msgConnecting   = i18n.Message("Connecting…")
	msgListening    = i18n.Message("Listening")
	msgSpeaking     = i18n.Message("Speaking")
	msgWaiting      = i18n.Message("One moment…")
	msgHoldNow      = i18n.Message("Hold the button and talk")
	msgYou          = i18n.Message("You:")
	msgBot          = i18n.Message("The bot:")
	msgRefused      = i18n.Message("The server does not let this browser in. Try again in a moment.")
	msgRemoved      = i18n.Message("This browser was removed from your devices. Start talking to add it again.")
	msgInsecure     = i18n.Message("Browsers let pages use microphone and camera over https only, or on this machine: open http://localhost on the computer that Patchbay runs on, or give the server a certificate (https.names or tls.cert). You can type meanwhile.")
	msgNoMicrophone = i18n.Message("The microphone cannot be used; you can type.")
	msgNoCamera     = i18n.Message("The camera cannot be used.")
	msgCameraOff    = i18n.Message("The camera is turned off on the page.")
)

// scriptTexts are the texts that the script shows, by its names for them.
var scriptTexts = map[string]i18n.Message{
	"start": msgStart, "end": msgEnd, "idle": msgIdle, "connecting": msgConnecting, "listening": msgListening,
	"speaking": msgSpeaking, "waiting": msgWaiting, "hold": msgHoldNow, "you": msgYou, "bot": msgBot,
	"refused": msgRefused, "removed": msgRemoved, "insecure": msgInsecure, "noMicrophone": msgNoMicrophone,
	"noCamera": msgNoCamera, "cameraOff": msgCameraOff,
}
