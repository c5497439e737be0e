package chat

import "patchbay/internal/talk"

var (
	sayChatWith = talk.Say{Zh: "与 %s 对话", En: "Talk with %s"}
	saySettings = talk.Say{Zh: "设置", En: "Settings"}
	sayNew      = talk.Say{Zh: "新对话", En: "New chat"}

	sayNothingYet     = talk.Say{Zh: "打个招呼吧", En: "Say hello"}
	sayNothingYetTold = talk.Say{Zh: "你说的话会像戴着眼镜时一样交给机器人。也可以发图片。",
		En: "What you say goes to the bot as it would from glasses. You can send pictures too."}
	sayLog         = talk.Say{Zh: "对话内容", En: "Conversation"}
	sayYou         = talk.Say{Zh: "你：", En: "You: "}
	sayBotSays     = talk.Say{Zh: "%s：", En: "%s: "}
	sayMessage     = talk.Say{Zh: "你的话", En: "Your message"}
	sayPlaceholder = talk.Say{Zh: "说点什么…", En: "Say something…"}
	sayEnter       = talk.Say{Zh: "回车发送，Shift+回车换行。", En: "Enter sends, Shift+Enter begins a new line."}
	saySend        = talk.Say{Zh: "发送", En: "Send"}
	sayStop        = talk.Say{Zh: "停止", En: "Stop"}
	sayAttach      = talk.Say{Zh: "图片", En: "Picture"}
	sayCamera      = talk.Say{Zh: "拍照", En: "Camera"}
	sayPicture     = talk.Say{Zh: "[图片]", En: "[picture]"}
	sayPictureGone = talk.Say{Zh: "发过一张图片。对话里不保留图片。", En: "A picture was sent. Conversations do not keep pictures."}
	sayChosen      = talk.Say{Zh: "要发送的图片", En: "The picture that will be sent"}
	sayRemove      = talk.Say{Zh: "不发这张", En: "Leave it out"}

	sayEarlier = talk.Say{Zh: "上次的问题有结果了：", En: "Your earlier question has an answer:"}
	sayAskNext = talk.Say{Zh: "可以接着问", En: "You could ask"}
	sayOngoing = talk.Say{Zh: "正在回答…", En: "Being answered…"}
	sayStopped = talk.Say{Zh: "已停止。", En: "Stopped."}
	sayCut     = talk.Say{Zh: "（没有说完）", En: "(unfinished)"}
	sayCause   = talk.Say{Zh: "原因", En: "Cause"}
	sayGlasses = talk.Say{Zh: "眼镜会这样做：", En: "Glasses would do this:"}
	sayDoPhoto = talk.Say{Zh: "拍一张", En: "Take a photo"}

	sayTakePhoto   = talk.Say{Zh: "机器人想看一张照片", En: "The bot would like to see a photo"}
	sayNavigate    = talk.Say{Zh: "导航到 %s（%s）", En: "Show the way to %s (%s)"}
	sayNavigateEnd = talk.Say{Zh: "结束导航", En: "Stop showing the way"}
	sayByCar       = talk.Say{Zh: "驾车", En: "by car"}
	sayOnFoot      = talk.Say{Zh: "步行", En: "on foot"}
	sayByBike      = talk.Say{Zh: "骑行", En: "by bike"}
	sayCalendar    = talk.Say{Zh: "在日历里添加：%s，%s", En: "Put into the calendar: %s, %s"}
	sayCalendarTo  = talk.Say{Zh: "在日历里添加：%s，%s 至 %s", En: "Put into the calendar: %s, %s to %s"}
	sayLeave       = talk.Say{Zh: "离开这个机器人", En: "Leave the bot"}
	sayCommand     = talk.Say{Zh: "%s（%s）", En: "%s (%s)"}

	sayPictureTooLarge = talk.Say{Zh: "图片太大了，最多 %d MiB。", En: "The picture is too large; it may have %d MiB."}
	sayTextTooLong     = talk.Say{Zh: "太长了，最多 %d 个字符。", En: "That is too long; it may have %d characters."}
	sayNotUnderstood   = talk.Say{Zh: "没能看懂浏览器发来的内容，请重新打开这一页。",
		En: "What the browser sent makes no sense; open the page again."}
)
