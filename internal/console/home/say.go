package home

import "patchbay/internal/talk"

var (
	sayHello   = talk.Say{Zh: "你好，%s", En: "Hello, %s"}
	sayConnect = talk.Say{Zh: "接入更多", En: "Connect something"}

	sayBots        = talk.Say{Zh: "机器人", En: "Bots"}
	sayBotsOnline  = talk.Say{Zh: "%d 个在线，共 %d 个", En: "%d of %d online"}
	sayAllBots     = talk.Say{Zh: "全部机器人", En: "All bots"}
	sayDevices     = talk.Say{Zh: "设备", En: "Devices"}
	sayDevicesHow  = talk.Say{Zh: "%d 个在线，%d 个休眠", En: "%d online, %d asleep"}
	sayNone        = talk.Say{Zh: "还没有", En: "None yet"}
	sayReviews     = talk.Say{Zh: "今天的复习", En: "Reviews today"}
	sayReviewsDue  = talk.Say{Zh: "%d 个知识点", En: "%d points"}
	sayReviewsNone = talk.Say{Zh: "都完成了", En: "All done"}
	sayReview      = talk.Say{Zh: "开始复习", En: "Review"}
	sayTalk        = talk.Say{Zh: "对话", En: "Talk"}
	sayTalkWith    = talk.Say{Zh: "与 %s 对话", En: "Talk with %s"}
	sayNoBots      = talk.Say{Zh: "还没有机器人", En: "No bots yet"}
	sayNoBotsTold  = talk.Say{Zh: "机器人回答你的眼镜和语音板。", En: "Bots answer your glasses and voice boards."}
	sayMakeBot     = talk.Say{Zh: "添加机器人", En: "Add a bot"}

	sayNeedsYou = talk.Say{Zh: "等你处理", En: "Waiting for you"}
	sayPairings = talk.Say{Zh: "网关上有 %d 个请求等你同意。", En: "At the gateway, %d requests wait for your word."}
	sayPairing  = talk.Say{Zh: "网关上有一个请求等你同意。", En: "At the gateway, a request waits for your word."}
	sayWaitings = talk.Say{Zh: "有 %d 个设备正显示配对码。如果是你的，请输入它的码。",
		En: "There are %d devices showing a code. If one is yours, type its code in."}
	sayWaiting = talk.Say{Zh: "有一个设备正显示配对码。如果是你的，请输入它。",
		En: "A device shows a code. If it is yours, type the code in."}
	sayUpstream  = talk.Say{Zh: "%s 连接不上：%s", En: "%s cannot be used: %s"}
	sayUpstream0 = talk.Say{Zh: "%s 需要处理", En: "%s needs looking after"}
	sayBotBad    = talk.Say{Zh: "%s：%s", En: "%s: %s"}
	sayDiskFull  = talk.Say{Zh: "服务器的磁盘已满或将满，新的内容可能不再保存。请腾出空间；之后会自动恢复。",
		En: "The server's disk is full or nearly so: what is new may not be kept. Make room; then all goes on by itself."}
	sayDiskErrors = talk.Say{Zh: "服务器写不进数据：新的内容不再保存。请检查磁盘和数据库。",
		En: "The server cannot write: nothing new is kept. Look after its disk and database."}
	sayDiskLow  = talk.Say{Zh: "服务器的磁盘空间不多了，请腾出空间。", En: "There is little room left on the server's disk; make some."}
	sayLook     = talk.Say{Zh: "去看看", En: "Have a look"}
	sayDecide   = talk.Say{Zh: "去决定", En: "Decide"}
	sayTypeCode = talk.Say{Zh: "输入配对码", En: "Type the code in"}

	sayLastTurns   = talk.Say{Zh: "最近的提问", En: "Last questions"}
	sayNoTurns     = talk.Say{Zh: "还没有人提问。", En: "Nobody has asked anything yet."}
	sayLastCalls   = talk.Say{Zh: "最近的工具调用", En: "Last calls of tools"}
	sayNoCalls     = talk.Say{Zh: "还没有调用过工具。", En: "No tool has been called yet."}
	sayAllActivity = talk.Say{Zh: "全部记录", En: "All activity"}

	sayDone         = talk.Say{Zh: "完成", En: "done"}
	sayFailed       = talk.Say{Zh: "失败", En: "failed"}
	sayDisconnected = talk.Say{Zh: "提问者离开了", En: "asker left"}
	sayToolFailed   = talk.Say{Zh: "工具出错", En: "tool failed"}
	sayRefused      = talk.Say{Zh: "被拒绝", En: "refused"}
	sayAsked        = talk.Say{Zh: "需要补充", En: "asked for more"}

	sayFromGlasses  = talk.Say{Zh: "眼镜", En: "glasses"}
	sayFromBoard    = talk.Say{Zh: "语音板", En: "voice board"}
	sayFromHere     = talk.Say{Zh: "网页", En: "this console"}
	sayFromCommand  = talk.Say{Zh: "命令行", En: "command line"}
	sayFromProgram  = talk.Say{Zh: "程序", En: "program"}
	sayFromOpenClaw = talk.Say{Zh: "OpenClaw", En: "OpenClaw"}
	sayFromLearn    = talk.Say{Zh: "学习", En: "Learn"}
)
