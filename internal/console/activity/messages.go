package activity

import "patchbay/internal/i18n"

const (
	msgActivity = i18n.Message("Activity")
	msgTurns    = i18n.Message("Turns")
	msgCalls    = i18n.Message("Calls")
	msgCharts   = i18n.Message("Charts")
	msgPrivacy  = i18n.Message("Privacy")
	msgParts    = i18n.Message("Parts of activity")

	msgTurnsTold = i18n.Message("A turn is one question and its answer. The newest is on top.")
	msgCallsTold = i18n.Message("Who called which tool, when, and what came of it. The newest is on top.")

	msgFilter     = i18n.Message("Filter")
	msgFiltered   = i18n.Message("Filter (in use)")
	msgBot        = i18n.Message("Bot")
	msgAllBots    = i18n.Message("All bots")
	msgChannel    = i18n.Message("Came by")
	msgAnyChannel = i18n.Message("Anything")
	msgOutcome    = i18n.Message("Outcome")
	msgAnyOutcome = i18n.Message("Any")
	msgWrong      = i18n.Message("What went wrong")
	msgDay        = i18n.Message("Only this day")
	msgTool       = i18n.Message("Tool")
	msgToolTip    = i18n.Message("A name; * stands for any text")
	msgKey        = i18n.Message("Key")
	msgAnyKey     = i18n.Message("Any key")
	msgEverybody  = i18n.Message("Everybody's, not only mine")
	msgShow       = i18n.Message("Show")
	msgNoFilter   = i18n.Message("No filter")
	msgFollow     = i18n.Message("Follow live")
	msgStop       = i18n.Message("Stop following")
	msgFollowing  = i18n.Message("Following: what is new appears on top.")
	msgNewest     = i18n.Message("Back to the newest")

	msgNoTurns        = i18n.Message("No turns yet")
	msgNoTurnsTold    = i18n.Message("When somebody asks one of your bots, you see here how long it took and how it ended.")
	msgToBots         = i18n.Message("Talk to a bot")
	msgNoCalls        = i18n.Message("No calls yet")
	msgNoCallsTold    = i18n.Message("When a program, a bot or you call a tool, it is written down here.")
	msgToTools        = i18n.Message("See which tools there are")
	msgNoneFits       = i18n.Message("Nothing fits")
	msgNoneFitsTold   = i18n.Message("Ask for something else, or for everything.")
	msgBotOf          = i18n.Message("Bot %d")
	msgPause          = i18n.Message("pause after the question")
	msgRecognising    = i18n.Message("recognising")
	msgFirstSentence  = i18n.Message("first sentence")
	msgSynthesis      = i18n.Message("speech engine")
	msgPlaying        = i18n.Message("playing")
	msgFirstTook      = i18n.Message("first words after %s")
	msgNoFirst        = i18n.Message("no words came")
	msgTookAll        = i18n.Message("%s in all")
	msgTook           = i18n.Message("took %s")
	msgDone           = i18n.Message("answered")
	msgOnlyRecorded   = i18n.Message("Only with a recording")
	msgTurnRecorded   = i18n.Message("recorded")
	msgRecordedUntil  = i18n.Message("The recording is kept until %s.")
	msgFailed         = i18n.Message("failed")
	msgLateTook       = i18n.Message("over after %s, without the asker")
	msgDisconnected   = i18n.Message("the asker left")
	msgCallDone       = i18n.Message("done")
	msgCallToolError  = i18n.Message("the tool says it failed")
	msgCallFailed     = i18n.Message("no result came")
	msgCallRefused    = i18n.Message("refused, not carried out")
	msgCallAsked      = i18n.Message("the tool asked for more")
	msgBy             = i18n.Message("by %s")
	msgPersonSelf     = i18n.Message("you")
	msgByMachine      = i18n.Message("whoever runs this machine")
	msgGonePerson     = i18n.Message("a person who is gone")
	msgOwner          = i18n.Message("Owner of the tool")
	msgKeyID          = i18n.Message("Number of the key")
	msgFromAddress    = i18n.Message("From the address")
	msgGoneKey        = i18n.Message("a key that is gone")
	msgDetails        = i18n.Message("Details")
	msgProgram        = i18n.Message("Program")
	msgDevice         = i18n.Message("Device")
	msgProvider       = i18n.Message("Provider")
	msgResultSize     = i18n.Message("Size of the result")
	msgArguments      = i18n.Message("Arguments")
	msgArgsNotKept    = i18n.Message("not kept")
	msgInTurn         = i18n.Message("In this turn")
	msgInstance       = i18n.Message("Instance")
	msgWhen           = i18n.Message("When")
	msgWearer         = i18n.Message("Who asked")
	msgUnknownAsker   = i18n.Message("not known")
	msgConversation   = i18n.Message("Conversation")
	msgAnswerSize     = i18n.Message("Answer")
	msgPieces         = i18n.Message("pieces: %s; %s")
	msgNoTime         = i18n.Message("It took no time.")
	msgTurnTitle      = i18n.Message("A turn with %s")
	msgTrace          = i18n.Message("Where the time went")
	msgTraceTold      = i18n.Message("What happened, %s in all")
	msgModelRequest   = i18n.Message("request to %s")
	msgFirstPiece     = i18n.Message("First piece after")
	msgTokens         = i18n.Message("Tokens")
	msgTokensOf       = i18n.Message("%s read, %s written")
	msgListening      = i18n.Message("understanding the speech")
	msgSpeaking       = i18n.Message("speaking the answer")
	msgQueue          = i18n.Message("waiting in line")
	msgThinking       = i18n.Message("to the first piece")
	msgWaitedInVain   = i18n.Message("waiting, and nothing came")
	msgAnswering      = i18n.Message("answering")
	msgLate           = i18n.Message("after the asker had gone")
	msgFromTo         = i18n.Message("from %s to %s")
	msgSaid           = i18n.Message("What was said")
	msgQuestion       = i18n.Message("Question")
	msgAnswer         = i18n.Message("Answer")
	msgQuestions      = i18n.Message("%d questions")
	msgWrongOf        = i18n.Message("%d failed")
	msgAskKeep        = i18n.Message("Shall the questions to your bots and their answers be kept with the records?")
	msgAskKeepTold    = i18n.Message("Then you see here what was asked. You can change it for each bot, and delete it.")
	msgAskKeepYes     = i18n.Message("Keep them")
	msgKeptNow        = i18n.Message("From now on they are kept.")
	msgAskKeepNo      = i18n.Message("Do not keep them")
	msgNotKept        = i18n.Message("What was said is not kept in records of turns.")
	msgNotKeptWhere   = i18n.Message("What is kept")
	msgKind           = i18n.Message("Kind")
	msgBack           = i18n.Message("Back to the list")
	msgLateTold       = i18n.Message("The bot went on without the asker and ended after %s.")
	msgTechnicalCause = i18n.Message("In technical terms")
)

// Messages for the error codes of calls, for people who can act on them.
var codes = map[string]i18n.Message{
	"offline":       i18n.Message("The provider of the tool was not connected. Check whether it is running."),
	"busy":          i18n.Message("Too much was asked at the same time. It can be set to do more at a time."),
	"stopping":      i18n.Message("The server was stopping or restarting, and took nothing new."),
	"lost":          i18n.Message("The connection broke in the middle."),
	"timeout":       i18n.Message("Nothing was heard for too long. Its side may be slow, or stuck."),
	"internal":      i18n.Message("Something was wrong on this server; its log tells what."),
	"unknown_tool":  i18n.Message("There is no such tool, or not for this caller."),
	"bad_arguments": i18n.Message("The arguments were not what the tool takes."),
	"denied":        i18n.Message("Your rules, or those of the key, do not allow it."),
	"unapproved":    i18n.Message("The call waited for an approval, and nobody had decided yet."),
	"held":          i18n.Message("The server of the tool has changed it, and its owner has not approved that."),
	"rate_limited":  i18n.Message("It called too often. The rules of a key can set its rate."),
	"cancelled":     i18n.Message("The caller gave up."),
	"garbled":       i18n.Message("What the tool answered could not be used."),
	"too_large":     i18n.Message("What the tool answered was too large."),
	"refused":       i18n.Message("The tool refused the call."),
	"failed":        i18n.Message("The tool failed."),
}
