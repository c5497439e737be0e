package page

import "patchbay/internal/talk"

var (
	sayBrand   = talk.Say{Zh: "Patchbay", En: "Patchbay"}
	saySkip    = talk.Say{Zh: "跳到内容", En: "Skip to the content"}
	sayMenu    = talk.Say{Zh: "菜单", En: "Menu"}
	saySignOut = talk.Say{Zh: "退出", En: "Sign out"}

	sayHome     = talk.Say{Zh: "首页", En: "Home"}
	sayBots     = talk.Say{Zh: "机器人", En: "Bots"}
	sayDevices  = talk.Say{Zh: "设备", En: "Devices"}
	sayGateway  = talk.Say{Zh: "网关", En: "Gateway"}
	sayTools    = talk.Say{Zh: "工具", En: "Tools"}
	sayKeys     = talk.Say{Zh: "密钥", En: "Keys"}
	sayLearn    = talk.Say{Zh: "学习", En: "Learn"}
	sayActivity = talk.Say{Zh: "记录", En: "Activity"}
	saySettings = talk.Say{Zh: "设置", En: "Settings"}

	sayMissing     = talk.Say{Zh: "没有这个页面", En: "There is no such page"}
	sayMissingTold = talk.Say{Zh: "它可能已被移走，或者地址有误。", En: "It may have gone, or the address is wrong."}
	sayBroken      = talk.Say{Zh: "我们这边出了问题", En: "Something is wrong on our side"}
	sayBrokenTold  = talk.Say{Zh: "请稍后再试；日志里有原因，请求编号 %s",
		En: "Try again in a moment; the log tells why, under request %s"}
	sayNotDone      = talk.Say{Zh: "没有完成", En: "That was not done"}
	sayToHome       = talk.Say{Zh: "回到首页", En: "To the first page"}
	sayAdminsOnly   = talk.Say{Zh: "只有管理这台服务器的人可以看这一页。", En: "This page is for whoever runs the installation."}
	sayTooManyPages = talk.Say{Zh: "打开的页面太多，请关掉一些。", En: "Too many pages are open; close some."}

	sayConfirm     = talk.Say{Zh: "请再次输入密码", En: "Your password, please"}
	sayConfirmTold = talk.Say{Zh: "这里可以看到密钥，或更改谁可以做什么，所以要确认是你本人。",
		En: "What follows shows secrets, or changes who may do what, so it has to be you."}
	sayConfirmThen = talk.Say{Zh: "距离上次输入密码已经有一会儿了。输入之后，刚才填写的内容会照常提交。",
		En: "A while has passed since you typed it. What you have just filled in is sent on after that."}
	sayConfirmLost = talk.Say{Zh: "距离上次输入密码太久，刚才提交的内容没有处理，请之后重新填写或选择文件。",
		En: "Too much time has passed since your password: what you sent was not carried out. Fill it in, or choose the file, once more after this."}
	sayPassword = talk.Say{Zh: "密码", En: "Password"}
	sayGoOn     = talk.Say{Zh: "继续", En: "Go on"}
	sayBack     = talk.Say{Zh: "返回", En: "Back"}

	sayThemeAuto  = talk.Say{Zh: "跟随系统", En: "As the device"}
	sayThemeLight = talk.Say{Zh: "浅色", En: "Light"}
	sayThemeDark  = talk.Say{Zh: "深色", En: "Dark"}
	sayOtherLang  = talk.Say{Zh: "English", En: "中文"}

	sayCopy   = talk.Say{Zh: "复制", En: "Copy"}
	sayCopied = talk.Say{Zh: "已复制", En: "Copied"}
	sayMore   = talk.Say{Zh: "更多", En: "More"}
	sayNever  = talk.Say{Zh: "从未", En: "never"}

	sayJustNow  = talk.Say{Zh: "刚刚", En: "just now"}
	sayMinutes  = talk.Say{Zh: "%d 分钟前", En: "%d min ago"}
	sayHours    = talk.Say{Zh: "%d 小时前", En: "%d h ago"}
	sayInMins   = talk.Say{Zh: "%d 分钟后", En: "in %d min"}
	sayInHours  = talk.Say{Zh: "%d 小时后", En: "in %d h"}
	sayTomorrow = talk.Say{Zh: "即将", En: "soon"}
)
