package activity

import "patchbay/internal/talk"

var (
	sayActivity = talk.Say{Zh: "记录", En: "Activity"}
	sayTurns    = talk.Say{Zh: "对话", En: "Turns"}
	sayCalls    = talk.Say{Zh: "工具调用", En: "Calls"}
	sayCharts   = talk.Say{Zh: "图表", En: "Charts"}
	sayPrivacy  = talk.Say{Zh: "隐私", En: "Privacy"}
	sayParts    = talk.Say{Zh: "记录的各部分", En: "Parts of activity"}

	sayTurnsTold = talk.Say{Zh: "一轮对话是一个问题和它的回答。最新的在最上面。",
		En: "A turn is one question and its answer. The newest is on top."}
	sayCallsTold = talk.Say{Zh: "谁在什么时候调用了哪个工具，结果如何。最新的在最上面。",
		En: "Who called which tool, when, and what came of it. The newest is on top."}

	sayFilter     = talk.Say{Zh: "筛选", En: "Filter"}
	sayFiltered   = talk.Say{Zh: "筛选（已使用）", En: "Filter (in use)"}
	sayBot        = talk.Say{Zh: "机器人", En: "Bot"}
	sayAllBots    = talk.Say{Zh: "全部机器人", En: "All bots"}
	sayChannel    = talk.Say{Zh: "从哪里来", En: "Came by"}
	sayAnyChannel = talk.Say{Zh: "任何地方", En: "Anything"}
	sayOutcome    = talk.Say{Zh: "结果", En: "Outcome"}
	sayAnyOutcome = talk.Say{Zh: "任何结果", En: "Any"}
	sayWrong      = talk.Say{Zh: "没有成功的", En: "What went wrong"}
	sayDay        = talk.Say{Zh: "只看这一天", En: "Only this day"}
	sayTool       = talk.Say{Zh: "工具", En: "Tool"}
	sayToolTip    = talk.Say{Zh: "名称；* 代表任意文字", En: "A name; * stands for any text"}
	sayKey        = talk.Say{Zh: "密钥", En: "Key"}
	sayAnyKey     = talk.Say{Zh: "任何密钥", En: "Any key"}
	sayEverybody  = talk.Say{Zh: "所有人的，而不只是我的", En: "Everybody's, not only mine"}
	sayShow       = talk.Say{Zh: "显示", En: "Show"}
	sayNoFilter   = talk.Say{Zh: "不筛选", En: "No filter"}
	sayFollow     = talk.Say{Zh: "实时跟踪", En: "Follow live"}
	sayStop       = talk.Say{Zh: "停止跟踪", En: "Stop following"}
	sayFollowing  = talk.Say{Zh: "正在跟踪：新的记录会出现在最上面。", En: "Following: what is new appears on top."}
	sayNewest     = talk.Say{Zh: "回到最新", En: "Back to the newest"}

	sayNoTurns     = talk.Say{Zh: "还没有对话", En: "No turns yet"}
	sayNoTurnsTold = talk.Say{Zh: "有人向您的机器人提问后，这里会显示每一轮用了多久、结果如何。",
		En: "When somebody asks one of your bots, you see here how long it took and how it ended."}
	sayToBots      = talk.Say{Zh: "去和机器人聊聊", En: "Talk to a bot"}
	sayNoCalls     = talk.Say{Zh: "还没有调用", En: "No calls yet"}
	sayNoCallsTold = talk.Say{Zh: "程序、机器人或您自己调用工具后，这里会留下记录。",
		En: "When a program, a bot or you call a tool, it is written down here."}
	sayToTools        = talk.Say{Zh: "看看有哪些工具", En: "See which tools there are"}
	sayNoneFits       = talk.Say{Zh: "没有符合的记录", En: "Nothing fits"}
	sayNoneFitsTold   = talk.Say{Zh: "换一个条件，或者不筛选。", En: "Ask for something else, or for everything."}
	sayBotOf          = talk.Say{Zh: "机器人 %d", En: "Bot %d"}
	sayFirstTook      = talk.Say{Zh: "%s 后开始回答", En: "first words after %s"}
	sayNoFirst        = talk.Say{Zh: "没有回答", En: "no words came"}
	sayTookAll        = talk.Say{Zh: "共 %s", En: "%s in all"}
	sayTook           = talk.Say{Zh: "用时 %s", En: "took %s"}
	sayDone           = talk.Say{Zh: "已回答", En: "answered"}
	sayFailed         = talk.Say{Zh: "失败", En: "failed"}
	sayLateTook       = talk.Say{Zh: "之后才结束，共 %s", En: "over after %s, without the asker"}
	sayDisconnected   = talk.Say{Zh: "提问者离开了", En: "the asker left"}
	sayCallDone       = talk.Say{Zh: "完成", En: "done"}
	sayCallToolError  = talk.Say{Zh: "工具说它失败了", En: "the tool says it failed"}
	sayCallFailed     = talk.Say{Zh: "没有得到结果", En: "no result came"}
	sayCallRefused    = talk.Say{Zh: "被拒绝，没有执行", En: "refused, not carried out"}
	sayCallAsked      = talk.Say{Zh: "工具还要问清楚", En: "the tool asked for more"}
	sayBy             = talk.Say{Zh: "由 %s", En: "by %s"}
	sayPersonSelf     = talk.Say{Zh: "您自己", En: "you"}
	sayByMachine      = talk.Say{Zh: "运行这台服务器的人", En: "whoever runs this machine"}
	sayGonePerson     = talk.Say{Zh: "已不存在的账号", En: "a person who is gone"}
	sayOwner          = talk.Say{Zh: "工具的主人", En: "Owner of the tool"}
	sayKeyID          = talk.Say{Zh: "密钥编号", En: "Number of the key"}
	sayFromAddress    = talk.Say{Zh: "来自地址", En: "From the address"}
	sayGoneKey        = talk.Say{Zh: "已不存在的密钥", En: "a key that is gone"}
	sayDetails        = talk.Say{Zh: "详情", En: "Details"}
	sayProgram        = talk.Say{Zh: "程序", En: "Program"}
	sayDevice         = talk.Say{Zh: "设备", En: "Device"}
	sayProvider       = talk.Say{Zh: "提供者", En: "Provider"}
	sayResultSize     = talk.Say{Zh: "结果大小", En: "Size of the result"}
	sayArguments      = talk.Say{Zh: "参数", En: "Arguments"}
	sayArgsNotKept    = talk.Say{Zh: "没有保留", En: "not kept"}
	sayInTurn         = talk.Say{Zh: "属于这一轮对话", En: "In this turn"}
	sayInstance       = talk.Say{Zh: "服务器实例", En: "Instance"}
	sayWhen           = talk.Say{Zh: "时间", En: "When"}
	sayWearer         = talk.Say{Zh: "提问者", En: "Who asked"}
	sayUnknownAsker   = talk.Say{Zh: "未知", En: "not known"}
	sayConversation   = talk.Say{Zh: "会话", En: "Conversation"}
	sayAnswerSize     = talk.Say{Zh: "回答", En: "Answer"}
	sayPieces         = talk.Say{Zh: "%s 段，%s", En: "pieces: %s; %s"}
	sayNoTime         = talk.Say{Zh: "没有花时间。", En: "It took no time."}
	sayTurnTitle      = talk.Say{Zh: "一轮对话：%s", En: "A turn with %s"}
	sayWaterfall      = talk.Say{Zh: "时间都去哪了", En: "Where the time went"}
	sayWaterfallTold  = talk.Say{Zh: "从提问开始，共 %s。", En: "From the question on, %s in all."}
	sayQueue          = talk.Say{Zh: "排队", En: "waiting in line"}
	sayThinking       = talk.Say{Zh: "到第一段回答", En: "to the first piece"}
	sayWaitedInVain   = talk.Say{Zh: "等待，没有回答", En: "waiting, and nothing came"}
	sayAnswering      = talk.Say{Zh: "回答", En: "answering"}
	sayLate           = talk.Say{Zh: "提问者离开以后", En: "after the asker had gone"}
	sayFromTo         = talk.Say{Zh: "%s：从 %s 到 %s", En: "%s: from %s to %s"}
	sayCallsInTurn    = talk.Say{Zh: "其中的工具调用", En: "Tools that the bot called"}
	saySaid           = talk.Say{Zh: "说了什么", En: "What was said"}
	sayQuestion       = talk.Say{Zh: "问题", En: "Question"}
	sayAnswer         = talk.Say{Zh: "回答", En: "Answer"}
	sayNotKept        = talk.Say{Zh: "问答内容没有保留在记录里。", En: "What was said is not kept in records of turns."}
	sayNotKeptWhere   = talk.Say{Zh: "什么会保留", En: "What is kept"}
	sayKind           = talk.Say{Zh: "类型", En: "Kind"}
	sayBack           = talk.Say{Zh: "回到列表", En: "Back to the list"}
	sayLateTold       = talk.Say{Zh: "提问者离开后，机器人在 %s 时结束。", En: "The bot went on without the asker and ended after %s."}
	sayTechnicalCause = talk.Say{Zh: "技术细节", En: "In technical terms"}
)

// Names of the channels of turns and calls.
var channels = []struct {
	name string
	say  talk.Say
}{
	{"lingzhu", talk.Say{Zh: "眼镜", En: "glasses"}},
	{"xiaozhi", talk.Say{Zh: "语音板", En: "voice board"}},
	{"console", talk.Say{Zh: "这些网页", En: "these pages"}},
	{"cli", talk.Say{Zh: "命令行", En: "command line"}},
	{"mcp", talk.Say{Zh: "MCP 程序", En: "MCP program"}},
	{"learn", talk.Say{Zh: "学习程序", En: "Learn program"}},
	{"quiz", talk.Say{Zh: "语音复习", En: "review by voice"}},
	{"openclaw", talk.Say{Zh: "OpenClaw", En: "OpenClaw"}},
	{"shim", talk.Say{Zh: "OpenClaw 网关", En: "OpenClaw gateway"}},
	{"bot", talk.Say{Zh: "机器人", En: "bot"}},
	{"rokid-mcp", talk.Say{Zh: "Rokid 的旧 MCP 入口", En: "Rokid's older MCP endpoint"}},
	{"xiaozhi-mcp", talk.Say{Zh: "小智云", En: "XiaoZhi's cloud"}},
	{"learn-files", talk.Say{Zh: "学习文件", En: "files of Learn"}},
	{"api", talk.Say{Zh: "API", En: "API"}},
}

// Messages for the error codes of turns and calls, for people who can act on them.
var codes = map[string]talk.Say{
	"offline": talk.Say{Zh: "机器人或工具没有连接。请检查它那一端是否在运行。",
		En: "The bot, or what has the tool, was not connected. Look whether its side is running."},
	"busy": talk.Say{Zh: "同时的请求太多。可以提高它的并发数。",
		En: "Too much was asked at the same time. It can be set to do more at a time."},
	"timeout": talk.Say{Zh: "等得太久，没有回音。它那一端可能很慢或卡住了。",
		En: "Nothing was heard for too long. Its side may be slow, or stuck."},
	"bot_unreachable": talk.Say{Zh: "我们连不上机器人：检查它的地址和网络，以及私有地址的规则。",
		En: "We could not connect to the bot: see its address, its network, and the rule about private addresses."},
	"not_kept": talk.Say{Zh: "回答说完了，但数据库和磁盘都没能记下它。请检查磁盘空间和数据库。",
		En: "The answer was told, but neither the database nor the disk has taken it. See whether the disk is full, and whether the database runs."},
	"stopping": talk.Say{Zh: "服务正在停止或重启，不再接受新的请求。",
		En: "The server was stopping or restarting, and took nothing new."},
	"bot_failed": talk.Say{Zh: "机器人报告出错。技术细节来自它那一端。",
		En: "The bot said that it failed. The technical terms come from its side."},
	"lost":          talk.Say{Zh: "连接在中途断开了。", En: "The connection broke in the middle."},
	"no_answer":     talk.Say{Zh: "机器人结束了，但什么也没说。", En: "The bot ended and had said nothing."},
	"unreadable":    talk.Say{Zh: "发来的内容无法使用，例如坏的图片。", En: "What came could not be used, such as a broken picture."},
	"internal":      talk.Say{Zh: "这台服务器出了问题，日志里有原因。", En: "Something was wrong on this server; its log tells what."},
	"unknown_tool":  talk.Say{Zh: "没有这个工具，或者调用者不能用它。", En: "There is no such tool, or not for this caller."},
	"bad_arguments": talk.Say{Zh: "参数不符合工具的要求。", En: "The arguments were not what the tool takes."},
	"denied":        talk.Say{Zh: "您的规则或密钥的规则不允许。", En: "Your rules, or those of the key, do not allow it."},
	"rate_limited": talk.Say{Zh: "调用太频繁。密钥的规则可以设置每分钟次数。",
		En: "It called too often. The rules of a key can set its rate."},
	"cancelled": talk.Say{Zh: "调用者不再等待。", En: "The caller gave up."},
	"garbled":   talk.Say{Zh: "工具的回答无法使用。", En: "What the tool answered could not be used."},
	"too_large": talk.Say{Zh: "工具的回答太大。", En: "What the tool answered was too large."},
	"refused":   talk.Say{Zh: "工具拒绝了这次调用。", En: "The tool refused the call."},
	"failed":    talk.Say{Zh: "工具出错了。", En: "The tool failed."},
}
