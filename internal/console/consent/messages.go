package consent

import "patchbay/internal/i18n"

const (
	msgTitle     = i18n.Message("Let a program in?")
	msgAsks      = i18n.Message("%s asks to use this server for you.")
	msgAProgram  = i18n.Message("A program")
	msgSaysName  = i18n.Message("It calls itself “%s”.")
	msgUnproved  = i18n.Message("Nothing but its own word says so. Go on only if you have just connected this program yourself.")
	msgAnswerTo  = i18n.Message("The answer goes to %s.")
	msgAnswerOwn = i18n.Message("The answer goes to a program on the computer that shows this page (%s). Any program there can ask under any name.")
	msgOtherHost = i18n.Message("The program will use this access at %s. Reject it if that is no address of this server.")
	msgSignedIn  = i18n.Message("You are signed in as %s.")

	msgCanTools = i18n.Message("It will see and call your tools, and read your conversations and records, until you revoke it on the page Keys.")
	msgCanLearn = i18n.Message("It will read and change your knowledge points, and nothing else, until you revoke it on the page Keys.")

	msgAccess   = i18n.Message("What it may use")
	msgAll      = i18n.Message("All of my tools")
	msgAllTip   = i18n.Message("What is dangerous or for people is decided below.")
	msgRead     = i18n.Message("Only tools that say that they change nothing")
	msgSome     = i18n.Message("Only these tools")
	msgSomeTip  = i18n.Message("One name a line; * stands for any text, as in home_*.")
	msgSomeNone = i18n.Message("Name the tools that it may use.")
	msgChoose   = i18n.Message("Choose one of what is offered.")
	msgAsksMore = i18n.Message("You have let this program in before. Now it asks for more: for tools that are dangerous or for people.")

	msgDangerous         = i18n.Message("Tools that are dangerous or for people")
	msgDangerousOff      = i18n.Message("stay off")
	msgDangerousOffTip   = i18n.Message("This also ends “ask me” where you have let it in before.")
	msgDangerousLater    = i18n.Message("ask me when it first wants to use one")
	msgDangerousLaterTip = i18n.Message("The program sees them. When it calls one, it leads you back to this page.")
	msgDangerousAsk      = i18n.Message("ask me before each call")
	msgDangerousAllow    = i18n.Message("may be used without asking")

	msgHowLong = i18n.Message("For how long")
	msgForEver = i18n.Message("until I revoke it")
	msgDays    = i18n.Message("%d days")
	msgDay     = i18n.Message("one day")
	msgAllow   = i18n.Message("Let it in")
	msgDeny    = i18n.Message("Reject")
)
