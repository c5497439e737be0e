package keys

import (
	"patchbay/internal/account"
	"patchbay/internal/i18n"
)

const (
	msgKeys      = i18n.Message("Keys")
	msgKeysTold  = i18n.Message("With a key, a program uses this server for you. A key is good for what you choose, and can be revoked at any time.")
	msgNoScope   = i18n.Message("Choose at least one of what a key is good for.")
	msgNew       = i18n.Message("New key")
	msgNoKeys    = i18n.Message("No keys yet")
	msgNoKeysTip = i18n.Message("Make one to connect Claude, Cursor, glasses or a script of yours; you get the configuration to copy with it.")
	msgRevokedN  = i18n.Message("Revoked or expired (%d)")

	msgLetIn     = i18n.Message("Programs that were let in")
	msgLetInTold = i18n.Message("Programs that sign in by OAuth, such as claude.ai, ChatGPT, Cursor and VS Code, need no key. Give them the address %s; they open this server in your browser, and you decide what they may use.")
	msgNotPublic = i18n.Message("claude.ai and ChatGPT call from the internet: they need an https address of this server in the setting public_url. Programs on this computer and in this network do not.")
	msgLetInBy   = i18n.Message("Let in by")
	msgPrograms  = i18n.Message("Programs that cannot register themselves")

	msgProgramsTold  = i18n.Message("Some programs ask for a client id, and perhaps a secret. Make them here, with the redirect addresses that the program shows. The program gets no access by that: people let it in.")
	msgNoPrograms    = i18n.Message("None was added.")
	msgProgram       = i18n.Message("A new program")
	msgRedirects     = i18n.Message("Redirect addresses, one a line")
	msgWantsSecret   = i18n.Message("It asks for a secret")
	msgAdd           = i18n.Message("Add it")
	msgClientID      = i18n.Message("Client id")
	msgClientSecret  = i18n.Message("Client secret")
	msgRemove        = i18n.Message("Remove it")
	msgRemoveProgram = i18n.Message("Remove “%s”? Everybody who let it in takes its access back by that.")

	msgName       = i18n.Message("Name")
	msgNameTip    = i18n.Message("To tell it from others, such as “study computer”.")
	msgGoodFor    = i18n.Message("What it is good for")
	msgGoodTip    = i18n.Message("Choose no more than is needed.")
	msgBot        = i18n.Message("For one bot alone")
	msgAnyBot     = i18n.Message("No, for all")
	msgExpires    = i18n.Message("Good for")
	msgForEver    = i18n.Message("any time, until it is revoked")
	msgDays       = i18n.Message("%d days")
	msgYear       = i18n.Message("a year")
	msgRules      = i18n.Message("Which tools it may call")
	msgRulesTip   = i18n.Message("Leave it empty for all of your tools but dangerous ones and those that are for people. One name a line; * stands for any text, as in home_*.")
	msgAllow      = i18n.Message("Only these")
	msgDeny       = i18n.Message("Never these")
	msgDangerous  = i18n.Message("These, although they are dangerous")
	msgPeople     = i18n.Message("Also tools that are for people, such as recording with a voice board")
	msgReadOnly   = i18n.Message("Only tools that say that they change nothing")
	msgFindTools  = i18n.Message("It sees two tools that find and call all others, instead of a long list")
	msgRuleFinds  = i18n.Message("finds tools instead of listing them")
	msgReads      = i18n.Message("Which conversations and records it may read")
	msgReadOwn    = i18n.Message("those of what it did itself")
	msgReadAll    = i18n.Message("all of yours")
	msgReadNone   = i18n.Message("none")
	msgReadBots   = i18n.Message("its own, and those of these bots")
	msgReadNames  = i18n.Message("Numbers of these bots")
	msgReadsAll   = i18n.Message("reads all conversations and records")
	msgReadsNone  = i18n.Message("reads no conversations and records")
	msgReadsSome  = i18n.Message("reads those of the bots %s too")
	msgToolSet    = i18n.Message("Only the tools of this set")
	msgToolSetTip = i18n.Message("Its name, as on the page Tools under Sets. Empty: no set.")
	msgRuleSet    = i18n.Message("the set %s")
	msgAsk        = i18n.Message("Other dangerous tools, and tools for people")
	msgAskHidden  = i18n.Message("are hidden and refused")
	msgAskOwner   = i18n.Message("ask me before each call")
	msgAskProgram = i18n.Message("ask me, or in the program’s own dialog")
	msgAskTip     = i18n.Message("You are asked on the page Approvals, on your glasses, and where the program can show it. A program can answer its own dialog without asking anybody.")
	msgRate       = i18n.Message("Calls a minute, at most")
	msgRateTip    = i18n.Message("0 means as many as the server's settings say.")
	msgKeepArgs   = i18n.Message("Keep the arguments of its calls in the records")
	msgMake       = i18n.Message("Make the key")
	msgCancel     = i18n.Message("Cancel")

	msgMade          = i18n.Message("The key “%s” is made")
	msgOnce          = i18n.Message("Copy it now: it is not shown again.")
	msgSecret        = i18n.Message("The key")
	msgUse           = i18n.Message("How to use it")
	msgUseTip        = i18n.Message("The key is in what follows already, except where the program asks for it.")
	msgUseLater      = i18n.Message("Put the key that you kept in the place of KEY.")
	msgToKey         = i18n.Message("Look at the key")
	msgKeptIt        = i18n.Message("I have kept it")
	msgAddressTip    = i18n.Message("The address is the one that you have open, %s. Other machines need one that they can reach; the setting public_url names it.")
	msgGood          = i18n.Message("good")
	msgRevoked       = i18n.Message("revoked")
	msgExpired       = i18n.Message("expired")
	msgBegins        = i18n.Message("Begins with")
	msgMadeAt        = i18n.Message("Made")
	msgUsedAt        = i18n.Message("Last used")
	msgUsedShort     = i18n.Message("last used: %s")
	msgUntil         = i18n.Message("good until %s")
	msgNoEnd         = i18n.Message("does not expire")
	msgOnlyBot       = i18n.Message("only for %s")
	msgBotGone       = i18n.Message("bot %d")
	msgSave          = i18n.Message("Save the rules")
	msgSaved         = i18n.Message("The rules are saved, and hold from the next call on.")
	msgRevoke        = i18n.Message("Revoke the key")
	msgRevokeTold    = i18n.Message("Whoever uses it is refused from then on, and it cannot be taken back.")
	msgRevokeSure    = i18n.Message("Revoke “%s”? It cannot be taken back.")
	msgIsRevoked     = i18n.Message("This key was revoked on %s.")
	msgIsExpired     = i18n.Message("This key expired on %s.")
	msgUsedBy        = i18n.Message("Last used by")
	msgUsedFrom      = i18n.Message("%s, from %s")
	msgUsedNameless  = i18n.Message("a program that gives no name")
	msgUsedUnknown   = i18n.Message("not known, because no call of it is in the records")
	msgItsCalls      = i18n.Message("See its calls")
	msgBackToKeys    = i18n.Message("Back to the keys")
	msgRulesNone     = i18n.Message("all tools but dangerous ones")
	msgRuleSafe      = i18n.Message("no dangerous ones")
	msgRuleOnly      = i18n.Message("only %s")
	msgRuleNot       = i18n.Message("not %s")
	msgRuleAlso      = i18n.Message("dangerous: %s")
	msgRuleAsksMe    = i18n.Message("asks me for dangerous ones")
	msgRuleAsksThere = i18n.Message("asks me, or in the program, for dangerous ones")
	msgRuleReads     = i18n.Message("only those that change nothing")
	msgRulePeople    = i18n.Message("also those for people")
	msgRuleRate      = i18n.Message("%d a minute")
	msgRuleKeeps     = i18n.Message("arguments are kept")
	msgRateWrong     = i18n.Message("The rate is a number.")
	msgPeersTold     = i18n.Message("These programs of OpenClaw's have got tokens of their own with it, and go on: %s")
	msgPeersToo      = i18n.Message("End their tokens too")
	msgOwnSettings   = i18n.Message("The key is revoked, so its rules stay as they are.")
	msgMCPGroup      = i18n.Message("Programs that call tools (MCP)")
	msgLearnGroup    = i18n.Message("Programs that learn with you")
	msgGlassesGroup  = i18n.Message("The form of the Lingzhu platform")
	msgNodeGroup     = i18n.Message("A node of OpenClaw's")
	msgOperGroup     = i18n.Message("Running it from elsewhere")

	msgInTerminal   = i18n.Message("Run this in a terminal:")
	msgInFile       = i18n.Message("Put this into %s:")
	msgVSCode       = i18n.Message("Run “MCP: Open User Configuration” from the Command Palette, or open .vscode/mcp.json in a project, and put this in. VS Code asks for the key when it first starts the server, and keeps it safe:")
	msgKeyAsked     = i18n.Message("Key for %s")
	msgClaudeBundle = i18n.Message("Claude Desktop, without Node.js")
	msgBundleTold   = i18n.Message("Run this on the computer with Claude Desktop, which needs the program patchbay for that once, and open the file patchbay.mcpb. Claude Desktop then asks for the key:")
	msgClaudeFile   = i18n.Message("Claude Desktop's file takes no addresses and starts commands. This one, mcp-remote, comes from npm and needs Node.js 20.18 or newer. Open Settings → Developer → Edit Config, put this into claude_desktop_config.json and start Claude Desktop again:")
	msgClaudeLearn  = i18n.Message("Open Settings → Developer → Edit Config put this into claude_desktop_config.json and start Claude Desktop again. The computer needs the program patchbay; give its whole path if it is not found:")
	msgByHand       = i18n.Message("A script")
	msgLingzhuURL   = i18n.Message("SSE address (智能体SSE接口地址)")
	msgLingzhuAK    = i18n.Message("AK (三方智能体AK)")
	msgLingzhuTold  = i18n.Message("Make a third-party agent in the platform's console and fill these in. The agent's id is the bot's number; the page of the bot has all fields.")
	msgNodeTold     = i18n.Message("Run this on the computer that is to do something, then approve it in Gateway:")
	msgOpenClawCLI  = i18n.Message("OpenClaw's command line")
	msgPatchbayCLI  = i18n.Message("The command line of patchbay")
)

// goodFor maps each scope to its name and a sentence about its purpose.
var goodFor = map[string]struct{ name, told i18n.Message }{
	account.ScopeLingzhu: {
		i18n.Message("Glasses"),
		i18n.Message("The Lingzhu platform asks with it for wearers. Whoever has it can ask as any wearer."),
	},
	account.ScopeDangerous: {
		i18n.Message("Dangerous tools"),
		i18n.Message("The program has asked for tools that are dangerous or for people. The rules say what it may call."),
	},
	account.ScopeMCP: {
		i18n.Message("Tools (MCP)"),
		i18n.Message("Programs such as Claude and Cursor call your tools, and read your conversations and records."),
	},
	account.ScopeLearn: {
		i18n.Message("Learn"),
		i18n.Message("Programs read and write your knowledge points, and nothing else."),
	},
	account.ScopeNode: {
		i18n.Message("OpenClaw node"),
		i18n.Message("A computer or phone asks to be let in with it. Until you approve, it can do nothing."),
	},
	account.ScopeOperator: {
		i18n.Message("Run what is mine"),
		i18n.Message("Programs can do most of what you can do on these pages, such as adding bots and keys. Guard it like your password."),
	},
	account.ScopeAdmin: {
		i18n.Message("Run the whole server"),
		i18n.Message("Programs can run everybody's things."),
	},
}
