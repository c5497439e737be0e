package rokid

import "patchbay/internal/talk"

// Messages for wearers, besides those of package talk.
var (
	sayBindFirst = talk.Say{
		Zh: "你好！请先在 %s 网站上创建或打开机器人页面，查看绑定二维码，然后使用眼镜拍摄二维码完成绑定。",
		En: "Hello! Please open your bot's page on %s to see its QR code, then photograph the code with your glasses to connect.",
	}
	sayNotRead = talk.Say{Zh: "未能识别二维码，请重新对准二维码后再试。",
		En: "I could not read the QR code. Please aim at it and try again."}
	sayBadToken = talk.Say{Zh: "无效的绑定令牌，请刷新网页后重新扫码。",
		En: "That code is not valid. Please refresh the page and scan again."}
	sayUsedToken = talk.Say{Zh: "此令牌已被使用，请刷新网页后重新扫码。",
		En: "That code has been used already. Please refresh the page and scan again."}
	sayOldToken = talk.Say{Zh: "令牌已过期，请刷新网页后重新扫码。",
		En: "That code has expired. Please refresh the page and scan again."}
	sayBotTaken = talk.Say{Zh: "此 Bot 已被其他用户绑定，请先解绑后再试。",
		En: "This bot belongs to another wearer. It has to be unbound first."}
	sayBindFailed  = talk.Say{Zh: "绑定失败，请稍后重试。", En: "That did not work. Please try again later."}
	sayBound       = talk.Say{Zh: "绑定成功！您现在可以使用 %s 了。", En: "Connected! You can use %s now."}
	sayBoundBefore = talk.Say{Zh: "您的灵珠账号已绑定到 Bot「%s」，请先解绑后再试。",
		En: "You are connected to the bot “%s” already. Please unbind it first."}
	sayTooMany = talk.Say{Zh: "尝试次数太多，请十分钟后再试。", En: "Too many tries. Please wait ten minutes."}

	sayUnbindSure = talk.Say{Zh: "确定要解除绑定吗？解除后需要重新扫码绑定。请说“确认解绑”。",
		En: "Do you want to unbind? You will have to scan a code again. Say “confirm unbind”."}
	sayUnbound  = talk.Say{Zh: "已解除与 %s 的绑定。", En: "You are no longer connected to %s."}
	saySwitched = talk.Say{Zh: "已切换到 %s。", En: "Switched to %s."}
	sayStatus   = talk.Say{Zh: "当前机器人：%s，%s。", En: "Your bot is %s, %s."}
	sayOnline   = talk.Say{Zh: "在线", En: "online"}
	sayAway     = talk.Say{Zh: "离线", En: "offline"}

	sayNotHeard  = talk.Say{Zh: "我没有听清，请再说一次。", En: "I did not catch that. Please say it again."}
	sayNoPicture = talk.Say{Zh: "图片没能收到，请再拍一次。", En: "The picture did not arrive. Please take it again."}
	sayBadImage  = talk.Say{Zh: "这张图片无法识别，请再拍一次。", En: "That picture cannot be read. Please take it again."}
	sayBigImage  = talk.Say{Zh: "图片太大了，请再拍一次。", En: "That picture is too large. Please take it again."}
	sayCutOff    = talk.Say{Zh: "网络太慢，问题没能收全，请再试一次。",
		En: "The network is slow and your question did not arrive. Please try again."}
	sayTooLong = talk.Say{Zh: "说的内容太长了，请说短一点。", En: "That is too long. Please say it in fewer words."}
	sayEnough  = talk.Say{Zh: "照片太多了，请过一会儿再试。", En: "That is a lot of pictures. Please wait a while."}

	sayMore    = talk.Say{Zh: "…说“继续”看更多", En: "… say “more” to go on"}
	sayOurSite = talk.Say{Zh: "Patchbay", En: "Patchbay"}
)
