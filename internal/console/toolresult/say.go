package toolresult

import "patchbay/internal/talk"

var (
	sayUnknown   = talk.Say{Zh: "没有这个工具。", En: "There is no such tool."}
	sayBadArgs   = talk.Say{Zh: "填写的内容不符合这个工具的要求。", En: "What was filled in does not fit this tool."}
	sayDenied    = talk.Say{Zh: "这个工具没有被允许使用。", En: "This tool is not allowed."}
	sayTooMany   = talk.Say{Zh: "调用太频繁，请一分钟后再试。", En: "Too many calls; wait a minute and try again."}
	sayBusy      = talk.Say{Zh: "正忙，请稍后再试。", En: "It is busy; try again in a moment."}
	sayOffline   = talk.Say{Zh: "它现在联系不上：没有连接，或在休眠。", En: "It cannot be reached now: it is not connected, or asleep."}
	sayStopping  = talk.Say{Zh: "服务正在重启，请稍后再试。", En: "The server is restarting; try again in a moment."}
	sayLost      = talk.Say{Zh: "调用途中它断开了。", En: "It went away in the middle of the call."}
	sayTimedOut  = talk.Say{Zh: "没有及时得到结果。", En: "No result came in time."}
	sayCancelled = talk.Say{Zh: "调用被取消了。", En: "The call was called off."}
	sayGarbled   = talk.Say{Zh: "它的回答无法读懂。", En: "Its answer cannot be read."}
	sayTooLarge  = talk.Say{Zh: "内容太大，无法传送。", En: "That is too large to pass on."}
	sayRefused   = talk.Say{Zh: "它拒绝了这次调用。", En: "It refused the call."}
	sayFailed    = talk.Say{Zh: "工具没有成功。", En: "The tool failed."}

	sayToolSays = talk.Say{Zh: "工具说它没有成功：", En: "The tool says that it failed:"}
	sayDone     = talk.Say{Zh: "完成，没有别的要说。", En: "Done; it had nothing to say."}
	saySave     = talk.Say{Zh: "保存声音", En: "Save the sound"}
	sayPicture  = talk.Say{Zh: "工具返回的图片", En: "The picture that the tool returned"}
	saySound    = talk.Say{Zh: "工具返回的声音", En: "The sound that the tool returned"}
	sayNotShown = talk.Say{Zh: "这里显示不了：%s", En: "Not to be shown here: %s"}
	sayDetails  = talk.Say{Zh: "原文", En: "In its own words"}
)
