package console

import "patchbay/internal/talk"

var (
	saySignIn      = talk.Say{Zh: "登录", En: "Sign in"}
	sayName        = talk.Say{Zh: "用户名", En: "Name"}
	sayPassword    = talk.Say{Zh: "密码", En: "Password"}
	sayPasswordTip = talk.Say{Zh: "至少 8 个字符。", En: "At least 8 characters."}

	saySetUp        = talk.Say{Zh: "开始使用 Patchbay", En: "Set up Patchbay"}
	saySetUpTold    = talk.Say{Zh: "创建第一个账户，由它管理这台服务器。", En: "Make the first account, which runs this installation."}
	saySetupCode    = talk.Say{Zh: "设置码", En: "Setup code"}
	saySetupCodeTip = talk.Say{Zh: "服务器启动时会在终端显示。", En: "The server shows it in the terminal when it starts."}
	sayMakeAccount  = talk.Say{Zh: "创建账户", En: "Make the account"}

	sayWrongCode = talk.Say{Zh: "设置码不对。请看服务器终端里显示的那一个。",
		En: "The setup code is wrong. Look at the one in the server's terminal."}
	sayWrongPassword = talk.Say{Zh: "用户名或密码不对。", En: "The name or the password is wrong."}
	sayTooManyTries  = talk.Say{Zh: "尝试次数太多，请稍后再试。在以前登录过的浏览器里仍可登录。",
		En: "Too many tries; wait a while and try again. Browsers that signed in before still can."}
	sayBusy = talk.Say{Zh: "现在正在检查太多密码，请过几秒再试。",
		En: "Too many passwords are being checked now; try again in a few seconds."}

	sayWrongPasswordOnly = talk.Say{Zh: "密码不对。", En: "The password is wrong."}
)
