package bots

import (
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
)

// connectorKind is the kind of bot that our own plugin for OpenClaw answers for.
const connectorKind = "connector"

// kindOrder is the order in which kinds are listed.
var kindOrder = []string{"openai", "realtime", connectorKind, "openclaw", "eyeclaw", "echo"}

// kindWords are the texts of kinds that bring none of their own ([hub.Kind.Text]): those whose
// settings are shown in several groups.
var kindWords = map[string]hub.KindText{
	"openai": {
		Name:  i18n.Message("Language model"),
		About: i18n.Message("Any model with an OpenAI-compatible API: Ollama, llama.cpp, vLLM, OpenAI, DeepSeek …"),
		Needs: i18n.Message("Needs an address and the model's name, and perhaps a key."),
	},
	connectorKind: {
		Name:  i18n.Message("OpenClaw, from behind a router"),
		About: i18n.Message("A plugin inside OpenClaw connects to here. Good for a computer at home that nobody can reach."),
		Needs: i18n.Message("Needs three commands on that computer."),
	},
	"eyeclaw": {
		Name:  i18n.Message("OpenClaw before 2026.3.2, by the EyeClaw plugin"),
		About: i18n.Message("For plugins that are installed already: the EyeClaw plugin can no longer be installed."),
		Needs: i18n.Message("Needs some commands on that computer."),
	},
	"openclaw": {
		Name:  i18n.Message("OpenClaw agent"),
		About: i18n.Message("This server connects to an OpenClaw gateway, whose agent answers. No plugin is needed."),
		Needs: i18n.Message("Needs the gateway's address and token."),
	},
}

const (
	msgBots     = i18n.Message("Bots")
	msgAdd      = i18n.Message("Add a bot")
	msgNone     = i18n.Message("There are no bots yet")
	msgNoneTold = i18n.Message("A bot is what answers you: a model, an OpenClaw agent, or an echo to begin with.")
	msgNumber   = i18n.Message("number %d")
	msgWearers  = i18n.Message("%d wearers")
	msgWearer   = i18n.Message("1 wearer")
	msgHeard    = i18n.Message("last heard %s")

	msgLastAnswer = i18n.Message("last answer %s")
	msgUsually    = i18n.Message("usually begins after %s")
	msgLastFailed = i18n.Message("failed %s")
	msgSomeFailed = i18n.Message("%d of the last %d failed, most recently %s")
	msgLastTurn   = i18n.Message("The last question failed: %s")

	msgReconnectingTold = i18n.Message("Its connection was lost a moment ago. New questions wait until it is back, and the asker is shown a note.")
	msgAwaitedTold      = i18n.Message("Its far side has never connected. Set up the plugin at the computer where OpenClaw runs; if you need another token, make one in the settings.")
	msgAwayTold         = i18n.Message("Its far side is not connected. See whether that computer and OpenClaw run, and whether it has a network.")
	msgTimesTold        = i18n.Message("%d plugins use the same token; questions go to the newest. If you do not know the other one, make another token.")
	msgUnaskedTold      = i18n.Message("Nobody has asked it since it was set up, or since it could not be reached. Try it to see whether it answers.")
	msgRunThere         = i18n.Message("Run at its computer:")
	msgCommand          = i18n.Message("Command")

	msgTabs     = i18n.Message("This bot")
	msgOverview = i18n.Message("Overview")
	msgChat     = i18n.Message("Chat")
	msgSettings = i18n.Message("Settings")
	msgGlasses  = i18n.Message("Glasses")
	msgTurns    = i18n.Message("Keys and turns")

	msgKind         = i18n.Message("Kind")
	msgBotNumber    = i18n.Message("Number")
	msgBound        = i18n.Message("Wearers")
	msgFailingSince = i18n.Message("Since")
	msgSince        = i18n.Message("Connected since")
	msgLastHeard    = i18n.Message("Last heard")
	msgGateway      = i18n.Message("OpenClaw version")
	msgAbout        = i18n.Message("What it is for")
	msgNow          = i18n.Message("How it is")

	msgTry        = i18n.Message("Try it")
	msgRoles      = i18n.Message("Start from a role")
	msgRolesTold  = i18n.Message("It fills in the name, the instructions, the greeting and the manner of speaking. You can change everything.")
	msgRole       = i18n.Message("Role")
	msgRoleLang   = i18n.Message("Language of the role")
	msgRoleUse    = i18n.Message("Fill in")
	msgTryTold    = i18n.Message("Sends a question the way glasses do, to see whether the bot answers. The bot forgets both; the turn is listed below.")
	msgTryNow     = i18n.Message("Send a test question")
	msgTalkToIt   = i18n.Message("Talk to it")
	msgAsked      = i18n.Message("Asked: %s")
	msgAsking     = i18n.Message("Waiting for the first words …")
	msgFirstAfter = i18n.Message("first words after %s")
	msgEndAfter   = i18n.Message("complete after %s")
	msgWorks      = i18n.Message("It answers. All is well.")
	msgCause      = i18n.Message("In technical terms")

	msgRecent     = i18n.Message("Recent turns")
	msgNoTurns    = i18n.Message("Nobody has asked it yet")
	msgNoTurnTold = i18n.Message("Try it, talk to it, or bind your glasses.")
	msgAllTurns   = i18n.Message("All turns")
	msgTook       = i18n.Message("%s in all")

	msgAnswered     = i18n.Message("Answered")
	msgDisconnected = i18n.Message("The asker left")

	msgName       = i18n.Message("Name")
	msgNameTip    = i18n.Message("Wearers say it to switch; 60 characters at most.")
	msgAboutTip   = i18n.Message("For yourself, and for other bots that may ask it.")
	msgChooseKind = i18n.Message("What is to answer?")
	msgOtherKind  = i18n.Message("Another kind")
	msgNewOf      = i18n.Message("Add: %s")
	msgSave       = i18n.Message("Save")
	msgNextStep   = i18n.Message("Next: connect glasses, a board or a program.")
	msgToGuide    = i18n.Message("To the guide")
	msgCancel     = i18n.Message("Cancel")
	msgSecretIs   = i18n.Message("it is set; empty keeps it")
	msgTakeAway   = i18n.Message("Take away: %s")
	msgNotMade    = i18n.Message("There is none yet.")

	msgToken      = i18n.Message("Its token")
	msgTokenTold  = i18n.Message("Keep it now: it is not shown again. If it is lost, make another.")
	msgThere      = i18n.Message("At the computer where OpenClaw runs")
	msgConnect    = i18n.Message("Run these commands one after the other, and keep them now: the key in the last is not shown again. The plugin then connects to here, and the light below turns green.")
	msgDownload   = i18n.Message("Download the plugin")
	msgThereTold  = i18n.Message("Run these commands one after the other. The last restarts the gateway; the plugin connects to here then, and the light below turns green.")
	msgAdded      = i18n.Message("%s is added")
	msgToBot      = i18n.Message("To its page")
	msgRotated    = i18n.Message("%s has another token")
	msgRotate     = i18n.Message("Make another token")
	msgRotateTold = i18n.Message("The old one is refused from then on, and the plugin that uses it is disconnected.")

	msgRemove     = i18n.Message("Remove this bot")
	msgRemoveName = i18n.Message("Remove %s?")
	msgRemoveTold = i18n.Message("Its bindings (%d), all its conversations and the keys that open only it go with it; the records of its turns stay until they are old. Its number is not given again.")
	msgRemoveNow  = i18n.Message("Remove it")
	msgKeepIt     = i18n.Message("Keep it")

	msgForm        = i18n.Message("The form of the Lingzhu platform")
	msgFormTold    = i18n.Message("Create a 三方智能体 (third-party agent) on the Lingzhu platform, and copy these into its form one by one.")
	msgVendor      = i18n.Message("三方厂商 (vendor)")
	msgAgentID     = i18n.Message("三方智能体ID (agent id)")
	msgURL         = i18n.Message("智能体SSE接口地址 (URL)")
	msgAK          = i18n.Message("三方智能体AK (key)")
	msgInputs      = i18n.Message("入参类型 (inputs)")
	msgMakeKey     = i18n.Message("Make a key")
	msgMakeKeyTold = i18n.Message("It is shown once. You may have to type your password before.")
	msgNoPublic    = i18n.Message("This server does not know yet how the platform reaches it. Give it an https address that can be reached from the internet, and tell it: patchbay serve --public-url https://…")

	msgWhoBound    = i18n.Message("Bound wearers")
	msgNobody      = i18n.Message("Nobody is bound yet")
	msgNobodyTold  = i18n.Message("Once glasses are bound, this bot answers whoever wears them.")
	msgBind        = i18n.Message("Bind glasses")
	msgBoundAt     = i18n.Message("bound %s")
	msgUnbind      = i18n.Message("Unbind")
	msgUnbindName  = i18n.Message("Unbind %s")
	msgUnbindSure  = i18n.Message("Unbind %s? They have to scan a code again to use this bot.")
	msgOneOnly     = i18n.Message("This bot takes one wearer at a time. To let more use it, turn on “More than one wearer” in the settings.")
	msgOlderMCP    = i18n.Message("The older MCP")
	msgOlderTold   = i18n.Message("For programs that were written against the platform's first tools. New ones use the address on the page “Tools”.")
	msgOlderURL    = i18n.Message("Address of the older MCP")
	msgOpenAll     = i18n.Message("Anybody who reaches this server may ask this bot by its number %d, without a key.")
	msgOpenDevice  = i18n.Message("The device %s alone may ask this bot by its number %d, without a key.")
	msgOpenNobody  = i18n.Message("It is not open to strangers: a key with scope mcp is needed. The settings can change that.")
	msgToSettings  = i18n.Message("To the settings")
	msgBindTitle   = i18n.Message("Bind glasses to %s")
	msgBindSteps   = i18n.Message("Say anything to the glasses, which take a photo then; have the code in view. Or say the six digits.")
	msgQRAlt       = i18n.Message("QR code that binds glasses; the six digits beside it do the same")
	msgSayCode     = i18n.Message("Or say to the glasses")
	msgBindPhrase  = i18n.Message("bind %s")
	msgRenews      = i18n.Message("Good for five minutes; a fresh one appears before that is over.")
	msgWaitBind    = i18n.Message("Waiting for the glasses …")
	msgIsBound     = i18n.Message("Bound")
	msgIsBoundTold = i18n.Message("%s uses %s now.")
	msgSomebody    = i18n.Message("A wearer")
	msgBindMore    = i18n.Message("Bind another pair")
	msgBindRests   = i18n.Message("Nobody has used the code for a long time, so it is not renewed any more.")
	msgBindAgain   = i18n.Message("Show a fresh code")

	msgKeyTitle    = i18n.Message("Make a key for %s")
	msgKeyTold     = i18n.Message("The Lingzhu platform asks by it on your behalf: the AK of its form.")
	msgKeyName     = i18n.Message("Name")
	msgKeyNameTip  = i18n.Message("So that you know it later.")
	msgKeyWho      = i18n.Message("Who answers")
	msgKeyBinding  = i18n.Message("The bot that each wearer is bound to (recommended)")
	msgKeyOnly     = i18n.Message("Always this bot, without binding")
	msgKeyMade     = i18n.Message("The key is made")
	msgKeyMadeTold = i18n.Message("Copy it into the platform's form now: it is not shown again.")
	msgBackToForm  = i18n.Message("Back to the form")

	msgKeys       = i18n.Message("Keys that open this bot alone")
	msgNoKeys     = i18n.Message("There are none. Your other keys are on the page “Keys”.")
	msgAllKeys    = i18n.Message("All keys")
	msgKeyUsed    = i18n.Message("last used %s")
	msgKeyRevoked = i18n.Message("revoked")
	msgRevoke     = i18n.Message("Revoke")
	msgRevokeName = i18n.Message("Revoke %s")
	msgRevokeSure = i18n.Message("Revoke %s? Whoever uses it is refused from then on, for good.")
	msgOlderTurns = i18n.Message("Older")
)

// doneSays maps the names in a URL to confirmations of the action before.
var doneSays = map[string]i18n.Message{
	"added":   i18n.Message("The bot is added."),
	"saved":   i18n.Message("Saved. It holds from the next question on."),
	"removed": i18n.Message("The bot is removed."),
	"unbound": i18n.Message("The wearer is unbound."),
	"shared":  i18n.Message("Saved. It holds at once."),
	"revoked": i18n.Message("The key is revoked."),
}
