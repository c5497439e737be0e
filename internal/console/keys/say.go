package keys

import (
	"patchbay/internal/account"
	"patchbay/internal/talk"
)

var (
	sayKeys     = talk.Say{Zh: "密钥", En: "Keys"}
	sayKeysTold = talk.Say{Zh: "程序凭密钥代表您使用这台服务器。密钥可以限定用途，也可以随时吊销。",
		En: "With a key, a program uses this server for you. A key is good for what you choose, and can be revoked at any time."}
	sayNew       = talk.Say{Zh: "新建密钥", En: "New key"}
	sayNoKeys    = talk.Say{Zh: "还没有密钥", En: "No keys yet"}
	sayNoKeysTip = talk.Say{Zh: "新建一个，就能连接 Claude、Cursor、眼镜或您自己的脚本；配置会一并给出。",
		En: "Make one to connect Claude, Cursor, glasses or a script of yours; you get the configuration to copy with it."}
	sayRevokedN = talk.Say{Zh: "已吊销或过期的（%d）", En: "Revoked or expired (%d)"}

	sayName     = talk.Say{Zh: "名称", En: "Name"}
	sayNameTip  = talk.Say{Zh: "用来区分，例如“书房电脑”。", En: "To tell it from others, such as “study computer”."}
	sayGoodFor  = talk.Say{Zh: "用途", En: "What it is good for"}
	sayGoodTip  = talk.Say{Zh: "只选需要的。", En: "Choose no more than is needed."}
	sayBot      = talk.Say{Zh: "只用于一个机器人", En: "For one bot alone"}
	sayAnyBot   = talk.Say{Zh: "不限", En: "No, for all"}
	sayExpires  = talk.Say{Zh: "有效期", En: "Good for"}
	sayForEver  = talk.Say{Zh: "一直有效", En: "any time, until it is revoked"}
	sayDays     = talk.Say{Zh: "%d 天", En: "%d days"}
	sayYear     = talk.Say{Zh: "一年", En: "a year"}
	sayRules    = talk.Say{Zh: "可以调用哪些工具", En: "Which tools it may call"}
	sayRulesTip = talk.Say{Zh: "不填就是您的全部工具，危险的和只供人使用的除外。每行一个名称，* 代表任意文字，例如 home_*。",
		En: "Leave it empty for all of your tools but dangerous ones and those that are for people. One name a line; * stands for any text, as in home_*."}
	sayAllow     = talk.Say{Zh: "只允许这些", En: "Only these"}
	sayDeny      = talk.Say{Zh: "不允许这些", En: "Never these"}
	sayDangerous = talk.Say{Zh: "这些即使危险也允许", En: "These, although they are dangerous"}
	sayPeople    = talk.Say{Zh: "也允许只供人使用的工具，例如用语音板录音",
		En: "Also tools that are for people, such as recording with a voice board"}
	sayRate     = talk.Say{Zh: "每分钟最多调用次数", En: "Calls a minute, at most"}
	sayRateTip  = talk.Say{Zh: "0 表示按服务器的设置。", En: "0 means as many as the server's settings say."}
	sayKeepArgs = talk.Say{Zh: "在记录里保留调用的参数", En: "Keep the arguments of its calls in the records"}
	sayMake     = talk.Say{Zh: "创建密钥", En: "Make the key"}
	sayCancel   = talk.Say{Zh: "取消", En: "Cancel"}

	sayMade       = talk.Say{Zh: "密钥“%s”已创建", En: "The key “%s” is made"}
	sayOnce       = talk.Say{Zh: "请现在复制，之后不会再显示。", En: "Copy it now: it is not shown again."}
	saySecret     = talk.Say{Zh: "密钥", En: "The key"}
	sayUse        = talk.Say{Zh: "怎么用", En: "How to use it"}
	sayUseTip     = talk.Say{Zh: "下面的配置里已经有这个密钥。", En: "The key is in what follows already."}
	sayUseLater   = talk.Say{Zh: "请把 KEY 换成您保存的密钥。", En: "Put the key that you kept in the place of KEY."}
	sayToKey      = talk.Say{Zh: "查看这个密钥", En: "Look at the key"}
	sayKeptIt     = talk.Say{Zh: "我已保存", En: "I have kept it"}
	sayAddressTip = talk.Say{Zh: "地址是您现在打开的 %s。别的机器要用它们能访问的地址；可以在设置 public_url 里写明。",
		En: "The address is the one that you have open, %s. Other machines need one that they can reach; the setting public_url names it."}
	sayGood       = talk.Say{Zh: "有效", En: "good"}
	sayRevoked    = talk.Say{Zh: "已吊销", En: "revoked"}
	sayExpired    = talk.Say{Zh: "已过期", En: "expired"}
	sayBegins     = talk.Say{Zh: "开头", En: "Begins with"}
	sayMadeAt     = talk.Say{Zh: "创建于", En: "Made"}
	sayUsedAt     = talk.Say{Zh: "最近使用", En: "Last used"}
	sayUsedShort  = talk.Say{Zh: "最近使用：%s", En: "last used: %s"}
	sayUntil      = talk.Say{Zh: "有效期至 %s", En: "good until %s"}
	sayNoEnd      = talk.Say{Zh: "一直有效", En: "does not expire"}
	sayOnlyBot    = talk.Say{Zh: "只用于 %s", En: "only for %s"}
	sayBotGone    = talk.Say{Zh: "机器人 %d", En: "bot %d"}
	saySave       = talk.Say{Zh: "保存规则", En: "Save the rules"}
	saySaved      = talk.Say{Zh: "规则已保存，下次调用起生效。", En: "The rules are saved, and hold from the next call on."}
	sayRevoke     = talk.Say{Zh: "吊销密钥", En: "Revoke the key"}
	sayRevokeTold = talk.Say{Zh: "使用它的程序会立刻被拒绝，而且不能恢复。",
		En: "Whoever uses it is refused from then on, and it cannot be taken back."}
	sayRevokeSure = talk.Say{Zh: "要吊销“%s”吗？不能恢复。", En: "Revoke “%s”? It cannot be taken back."}
	sayIsRevoked  = talk.Say{Zh: "这个密钥于 %s 吊销。", En: "This key was revoked on %s."}
	sayIsExpired  = talk.Say{Zh: "这个密钥于 %s 过期。", En: "This key expired on %s."}
	sayItsCalls   = talk.Say{Zh: "查看它的调用", En: "See its calls"}
	sayBackToKeys = talk.Say{Zh: "回到密钥", En: "Back to the keys"}
	sayRulesNone  = talk.Say{Zh: "可调用全部工具", En: "all tools"}
	sayRuleOnly   = talk.Say{Zh: "只允许 %s", En: "only %s"}
	sayRuleNot    = talk.Say{Zh: "不允许 %s", En: "not %s"}
	sayRuleAlso   = talk.Say{Zh: "允许危险的 %s", En: "dangerous: %s"}
	sayRulePeople = talk.Say{Zh: "也允许供人使用的", En: "also those for people"}
	sayRuleRate   = talk.Say{Zh: "每分钟 %d 次", En: "%d a minute"}
	sayRuleKeeps  = talk.Say{Zh: "保留参数", En: "arguments are kept"}
	sayRateWrong  = talk.Say{Zh: "每分钟次数要是一个数。", En: "The rate is a number."}
	sayPeersTold  = talk.Say{Zh: "用它配对过的 OpenClaw 设备另有自己的令牌，请在“网关”里移除。",
		En: "Devices of OpenClaw's that were paired by it have tokens of their own; remove those in Gateway."}
	sayOwnSettings  = talk.Say{Zh: "密钥已吊销，规则不能再改。", En: "The key is revoked, so its rules stay as they are."}
	sayMCPGroup     = talk.Say{Zh: "调用工具的程序（MCP）", En: "Programs that call tools (MCP)"}
	sayLearnGroup   = talk.Say{Zh: "学习程序", En: "Programs that learn with you"}
	sayGlassesGroup = talk.Say{Zh: "灵珠平台的表单", En: "The form of the Lingzhu platform"}
	sayNodeGroup    = talk.Say{Zh: "OpenClaw 节点", En: "A node of OpenClaw's"}
	sayOperGroup    = talk.Say{Zh: "从别处管理", En: "Running it from elsewhere"}

	sayInTerminal  = talk.Say{Zh: "在终端里运行：", En: "Run this in a terminal:"}
	sayInFile      = talk.Say{Zh: "写进 %s：", En: "Put this into %s:"}
	sayVSCode      = talk.Say{Zh: "在命令面板里运行“MCP: Open User Configuration”，或在项目里打开 .vscode/mcp.json，写进去。第一次启动时 VS Code 会问一次密钥，并加密保存：", En: "Run “MCP: Open User Configuration” from the Command Palette, or open .vscode/mcp.json in a project, and put this in. VS Code asks for the key when it first starts the server, and keeps it safe:"}
	sayKeyAsked    = talk.Say{Zh: "%s 的密钥", En: "Key for %s"}
	sayClaudeFile  = talk.Say{Zh: "Claude Desktop 的配置文件不认地址，只启动命令；这里用的 mcp-remote 来自 npm，电脑上要有 Node.js 20.18 或更新的版本。打开 设置 → 开发者 → 编辑配置，写进 claude_desktop_config.json，再重新启动 Claude Desktop：", En: "Claude Desktop's file takes no addresses and starts commands. This one, mcp-remote, comes from npm and needs Node.js 20.18 or newer. Open Settings → Developer → Edit Config, put this into claude_desktop_config.json and start Claude Desktop again:"}
	sayClaudeLearn = talk.Say{Zh: "打开 设置 → 开发者 → 编辑配置，写进 claude_desktop_config.json，再重新启动 Claude Desktop。电脑上要有 patchbay 程序；找不到时写完整路径：", En: "Open Settings → Developer → Edit Config put this into claude_desktop_config.json and start Claude Desktop again. The computer needs the program patchbay; give its whole path if it is not found:"}
	sayByHand      = talk.Say{Zh: "脚本", En: "A script"}
	sayLingzhuURL  = talk.Say{Zh: "智能体SSE接口地址（URL）", En: "SSE address (智能体SSE接口地址)"}
	sayLingzhuAK   = talk.Say{Zh: "智能体AK", En: "AK (三方智能体AK)"}
	sayLingzhuTold = talk.Say{Zh: "在平台的控制台创建三方智能体，填入这些。智能体 ID 是机器人的编号，机器人的页面上有全部字段。",
		En: "Make a third-party agent in the platform's console and fill these in. The agent's id is the bot's number; the page of the bot has all fields."}
	sayNodeTold = talk.Say{Zh: "在要做事的那台电脑上运行，然后在“网关”里批准它：",
		En: "Run this on the computer that is to do something, then approve it in Gateway:"}
	sayOpenClawCLI = talk.Say{Zh: "OpenClaw 命令行", En: "OpenClaw's command line"}
	sayPatchbayCLI = talk.Say{Zh: "patchbay 命令行", En: "The command line of patchbay"}
)

// goodFor maps each scope to its name and a sentence about its purpose.
var goodFor = map[string]struct{ name, told talk.Say }{
	account.ScopeLingzhu: {
		talk.Say{Zh: "眼镜", En: "Glasses"},
		talk.Say{Zh: "灵珠平台凭它替佩戴者提问。谁有它，谁就能以任何佩戴者的身份提问。",
			En: "The Lingzhu platform asks with it for wearers. Whoever has it can ask as any wearer."},
	},
	account.ScopeMCP: {
		talk.Say{Zh: "工具（MCP）", En: "Tools (MCP)"},
		talk.Say{Zh: "Claude、Cursor 等程序调用您的工具，查看您的会话和记录。",
			En: "Programs such as Claude and Cursor call your tools, and read your conversations and records."},
	},
	account.ScopeLearn: {
		talk.Say{Zh: "学习", En: "Learn"},
		talk.Say{Zh: "程序读写您的知识点，别的都不能。", En: "Programs read and write your knowledge points, and nothing else."},
	},
	account.ScopeNode: {
		talk.Say{Zh: "OpenClaw 节点", En: "OpenClaw node"},
		talk.Say{Zh: "电脑或手机凭它请求接入。您批准之前，它什么也做不了。",
			En: "A computer or phone asks to be let in with it. Until you approve, it can do nothing."},
	},
	account.ScopeOperator: {
		talk.Say{Zh: "管理我的东西", En: "Run what is mine"},
		talk.Say{Zh: "程序可以做您在这些网页上能做的大部分事，例如增删机器人和密钥。请像密码一样保管。",
			En: "Programs can do most of what you can do on these pages, such as adding bots and keys. Guard it like your password."},
	},
	account.ScopeAdmin: {
		talk.Say{Zh: "管理整台服务器", En: "Run the whole server"},
		talk.Say{Zh: "程序可以管理所有人的东西。", En: "Programs can run everybody's things."},
	},
}
