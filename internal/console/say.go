package console

import "patchbay/internal/talk"

var (
	sayBrand       = talk.Say{Zh: "Patchbay", En: "Patchbay"}
	saySkip        = talk.Say{Zh: "跳到内容", En: "Skip to the content"}
	sayMenu        = talk.Say{Zh: "菜单", En: "Menu"}
	sayHome        = talk.Say{Zh: "首页", En: "Home"}
	saySignIn      = talk.Say{Zh: "登录", En: "Sign in"}
	saySignOut     = talk.Say{Zh: "退出", En: "Sign out"}
	sayName        = talk.Say{Zh: "用户名", En: "Name"}
	sayPassword    = talk.Say{Zh: "密码", En: "Password"}
	sayPasswordTip = talk.Say{Zh: "至少 8 个字符。", En: "At least 8 characters."}

	saySetUp        = talk.Say{Zh: "开始使用 Patchbay", En: "Set up Patchbay"}
	saySetUpTold    = talk.Say{Zh: "创建第一个账户，由它管理这台服务器。", En: "Make the first account, which runs this installation."}
	saySetupCode    = talk.Say{Zh: "设置码", En: "Setup code"}
	saySetupCodeTip = talk.Say{Zh: "服务器启动时会在终端显示。", En: "The server shows it in the terminal when it starts."}
	sayMakeAccount  = talk.Say{Zh: "创建账户", En: "Make the account"}

	sayWrongCode     = talk.Say{Zh: "设置码不对。请看服务器终端里显示的那一个。", En: "The setup code is wrong. Look at the one in the server's terminal."}
	sayWrongPassword = talk.Say{Zh: "用户名或密码不对。", En: "The name or the password is wrong."}
	sayTooManyTries  = talk.Say{Zh: "尝试次数太多，请一分钟后再试。", En: "Too many tries; wait a minute and try again."}

	sayMissing     = talk.Say{Zh: "没有这个页面", En: "There is no such page"}
	sayMissingTold = talk.Say{Zh: "它可能已被移走，或者地址有误。", En: "It may have gone, or the address is wrong."}
	sayBroken      = talk.Say{Zh: "我们这边出了问题", En: "Something is wrong on our side"}
	sayBrokenTold  = talk.Say{Zh: "请稍后再试；日志里有原因，请求编号 ", En: "Try again in a moment; the log tells why, under request "}
	sayToHome      = talk.Say{Zh: "回到首页", En: "To the first page"}

	sayThemeAuto  = talk.Say{Zh: "跟随系统", En: "As the device"}
	sayThemeLight = talk.Say{Zh: "浅色", En: "Light"}
	sayThemeDark  = talk.Say{Zh: "深色", En: "Dark"}
	sayOtherLang  = talk.Say{Zh: "English", En: "中文"}
	sayWelcome    = talk.Say{Zh: "你好，%s", En: "Hello, %s"}
)
