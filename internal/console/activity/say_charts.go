package activity

import "patchbay/internal/talk"

var (
	sayChartsTold  = talk.Say{Zh: "过去 24 小时，每小时一格。", En: "The last 24 hours, hour by hour."}
	sayAsTable     = talk.Say{Zh: "以表格显示", En: "As a table"}
	sayHour        = talk.Say{Zh: "小时", En: "Hour"}
	sayPerHour     = talk.Say{Zh: "每小时的对话", En: "Turns an hour"}
	sayPerHourTold = talk.Say{Zh: "共 %s 轮，其中 %s 轮没有成功。", En: "%s turns, of which %s did not go well."}
	sayLatency     = talk.Say{Zh: "多久开始回答", En: "Time to the first words"}
	sayLatencyTold = talk.Say{Zh: "一半的对话在实线以内开始回答，二十轮中有十九轮在虚线以内。",
		En: "Half of the turns got their first words within the solid line, nineteen of twenty within the dashed one."}
	sayHalf       = talk.Say{Zh: "一半（p50）", En: "Half (p50)"}
	sayMost       = talk.Say{Zh: "19/20（p95）", En: "19 of 20 (p95)"}
	sayErrors     = talk.Say{Zh: "出错", En: "Failures"}
	sayErrorsTold = talk.Say{Zh: "失败的对话 %s 轮，没有成功的工具调用 %s 次。",
		En: "%s turns failed, and %s calls of tools brought no good result."}
	sayNoErrors      = talk.Say{Zh: "没有出错。", En: "Nothing failed."}
	sayTurnsFailed   = talk.Say{Zh: "失败的对话", En: "Turns that failed"}
	sayCallsWrong    = talk.Say{Zh: "没有成功的调用", En: "Calls without a good result"}
	sayConnected     = talk.Say{Zh: "已连接的设备", En: "Connected devices"}
	sayConnectedTold = talk.Say{Zh: "现在 %s 台，最多时 %s 台。", En: "%s now, %s at the most."}
	sayCountedSince  = talk.Say{Zh: "服务器从 %s 开始运行，更早的没有记录：设备数只记在内存里。",
		En: "The server has run since %s; there is nothing from before, as devices are counted in its memory only."}
	sayNothingYet = talk.Say{Zh: "过去 24 小时没有对话。", En: "There were no turns in the last 24 hours."}
	sayOneHour    = talk.Say{Zh: "%s：%s", En: "%s: %s"}
	sayAnswered   = talk.Say{Zh: "已回答", En: "Answered"}
	sayLeft       = talk.Say{Zh: "提问者离开", En: "Asker left"}

	sayPrivacyTold  = talk.Say{Zh: "这台服务器记下什么，保留多久。", En: "What this server writes down, and for how long."}
	sayKept         = talk.Say{Zh: "会保留什么", En: "What is kept"}
	sayKeepTurns    = talk.Say{Zh: "每一轮对话的时间、耗时和结果", En: "When each turn was, how long it took, how it ended"}
	sayKeepContent  = talk.Say{Zh: "这些记录里的问答内容", En: "What was asked and answered, in these records"}
	sayKeepHistory  = talk.Say{Zh: "会话内容，以便机器人记得之前说过什么", En: "Conversations, so that bots know what was said before"}
	sayKeepTold     = talk.Say{Zh: "其中讲给机器人的轮数", En: "How many earlier turns a bot is told"}
	sayKeepCalls    = talk.Say{Zh: "每次工具调用：谁、何时、结果", En: "Each call of a tool: who, when, what came of it"}
	sayKeepArgs     = talk.Say{Zh: "这些调用的参数", En: "The arguments of these calls"}
	sayKeepPictures = talk.Say{Zh: "随问题发来的图片", En: "Pictures that came with a question"}
	sayForDays      = talk.Say{Zh: "%d 天", En: "for %d days"}
	sayForHours     = talk.Say{Zh: "%d 小时", En: "for %d hours"}
	sayForMinutes   = talk.Say{Zh: "%d 分钟", En: "for %d minutes"}
	sayKeptYes      = talk.Say{Zh: "保留", En: "kept"}
	sayKeptNo       = talk.Say{Zh: "不保留", En: "not kept"}
	sayKeptNoArgs   = talk.Say{Zh: "不保留，除非密钥的规则要求", En: "not kept, unless the rules of a key say so"}
	sayHowMany      = talk.Say{Zh: "%d 轮", En: "%d turns"}
	sayHowAdmin     = talk.Say{Zh: "要改变这些，请在服务器的配置文件里写上设置项，或设置同名的环境变量（例如 PATCHBAY_TRACE_KEEP=3d），然后重启。",
		En: "To change them, write the setting into the server's configuration file, or set the environment variable of its name (such as PATCHBAY_TRACE_KEEP=3d), and restart it."}
	sayHowMember  = talk.Say{Zh: "管理服务器的人可以改变这些。", En: "Whoever runs the server can change them."}
	sayOwnWay     = talk.Say{Zh: "另有规定的机器人", En: "Bots with a rule of their own"}
	sayOwnWayTold = talk.Say{Zh: "在机器人的设置里，keep_content 决定是否保留问答内容。",
		En: "In the settings of a bot, keep_content decides whether what was said is kept."}
	sayBotKeeps = talk.Say{Zh: "问答内容会保留", En: "what was said is kept"}
	sayBotDrops = talk.Say{Zh: "问答内容不保留", En: "what was said is not kept"}

	sayDelete     = talk.Say{Zh: "删除我的记录", En: "Delete my records"}
	sayDeleteTold = talk.Say{Zh: "只删除您自己的。知识点在“学习”里，不受影响。",
		En: "Only what is yours. Knowledge points are in Learn, and stay."}
	sayOfWhat     = talk.Say{Zh: "哪个机器人的", En: "Of which bot"}
	sayDelSaid    = talk.Say{Zh: "说过的内容", En: "What was said"}
	sayDelSaidTip = talk.Say{Zh: "会话和记录里的问答。机器人会忘记之前说过什么。",
		En: "Conversations, and questions and answers in records. Bots forget what was said before."}
	sayDelTurns    = talk.Say{Zh: "对话的记录", En: "Records of turns"}
	sayDelTurnsTip = talk.Say{Zh: "时间、耗时和结果，图表里也不再有。",
		En: "When they were, how long they took and how they ended; charts lose them too."}
	sayDelArgs    = talk.Say{Zh: "工具调用的参数", En: "Arguments of calls"}
	sayDelArgsTip = talk.Say{Zh: "谁调用了什么仍会留下，因为那是审计记录。",
		En: "Who called what stays, as that is what the trail is for."}
	sayUnderstand   = talk.Say{Zh: "我明白这不能撤销", En: "I know that this cannot be undone"}
	sayConfirmFirst = talk.Say{Zh: "请先确认这不能撤销。", En: "Confirm first that this cannot be undone."}
	sayDeleteNow    = talk.Say{Zh: "删除", En: "Delete"}
	sayDeleted      = talk.Say{Zh: "已删除：会话 %s 条，对话记录 %s 条，调用参数 %s 条。",
		En: "Deleted: %s exchanges of conversations, %s records of turns, arguments of %s calls."}
)
