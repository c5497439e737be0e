package bots

import "patchbay/internal/talk"

// kind holds the texts about a kind of bot.
type kind struct {
	name, told talk.Say
	needs      talk.Say // what one needs to add a bot
}

// kindOrder is the order in which kinds are listed.
var kindOrder = []string{"openai", "openclaw", "eyeclaw", "echo"}

var kindWords = map[string]kind{
	"echo": {
		name: talk.Say{Zh: "回声", En: "Echo"},
		told: talk.Say{Zh: "把你说的话再说一遍。先用它确认一切都连通。",
			En: "Says everything back. Use it first, to see that the way to it works."},
		needs: talk.Say{Zh: "什么都不需要。", En: "Needs nothing."},
	},
	"openai": {
		name: talk.Say{Zh: "语言模型", En: "Language model"},
		told: talk.Say{Zh: "任何与 OpenAI 兼容的模型：Ollama、llama.cpp、vLLM、OpenAI、DeepSeek……",
			En: "Any model with an OpenAI-compatible API: Ollama, llama.cpp, vLLM, OpenAI, DeepSeek …"},
		needs: talk.Say{Zh: "需要地址和模型名称，有的还要密钥。", En: "Needs an address and the model's name, and perhaps a key."},
	},
	"eyeclaw": {
		name: talk.Say{Zh: "OpenClaw（EyeClaw 插件）", En: "OpenClaw, by the EyeClaw plugin"},
		told: talk.Say{Zh: "OpenClaw 里的插件连接到这里。适合家里没有公网地址的电脑。",
			En: "A plugin inside OpenClaw connects to here. Good for a computer at home that nobody can reach."},
		needs: talk.Say{Zh: "需要在那台电脑上运行几条命令。", En: "Needs some commands on that computer."},
	},
	"openclaw": {
		name: talk.Say{Zh: "OpenClaw 智能体", En: "OpenClaw agent"},
		told: talk.Say{Zh: "从这里连接到 OpenClaw 的网关，由它的智能体回答。不需要插件。",
			En: "This server connects to an OpenClaw gateway, whose agent answers. No plugin is needed."},
		needs: talk.Say{Zh: "需要网关的地址和令牌。", En: "Needs the gateway's address and token."},
	},
}

var (
	sayBots     = talk.Say{Zh: "机器人", En: "Bots"}
	sayAdd      = talk.Say{Zh: "添加机器人", En: "Add a bot"}
	sayNone     = talk.Say{Zh: "还没有机器人", En: "There are no bots yet"}
	sayNoneTold = talk.Say{Zh: "机器人就是回答你的那一个：一个模型、一个 OpenClaw 智能体，或者先用一个回声试试。",
		En: "A bot is what answers you: a model, an OpenClaw agent, or an echo to begin with."}
	sayNumber  = talk.Say{Zh: "编号 %d", En: "number %d"}
	sayWearers = talk.Say{Zh: "%d 位佩戴者", En: "%d wearers"}
	sayWearer  = talk.Say{Zh: "1 位佩戴者", En: "1 wearer"}
	sayHeard   = talk.Say{Zh: "最近听到：%s", En: "last heard %s"}

	sayAwaitedTold = talk.Say{Zh: "它那边还没有连接过。请在运行 OpenClaw 的电脑上设置插件；需要新的令牌时，在设置里换一个。",
		En: "Its far side has never connected. Set up the plugin at the computer where OpenClaw runs; if you need another token, make one in the settings."}
	sayAwayTold = talk.Say{Zh: "它那边没有连接。看看那台电脑和 OpenClaw 是否在运行，网络是否正常。",
		En: "Its far side is not connected. See whether that computer and OpenClaw run, and whether it has a network."}
	sayTimesTold = talk.Say{Zh: "有 %d 个插件在用同一个令牌；问题交给最新的那个。如果你不知道另一个是谁，请换一个令牌。",
		En: "%d plugins use the same token; questions go to the newest. If you do not know the other one, make another token."}
	sayUnaskedTold = talk.Say{Zh: "设置好或出过问题之后，还没有人问过它。试一试，就知道它能不能回答。",
		En: "Nobody has asked it since it was set up, or since it could not be reached. Try it to see whether it answers."}
	sayRunThere = talk.Say{Zh: "在它那边的电脑上运行：", En: "Run at its computer:"}
	sayCommand  = talk.Say{Zh: "命令", En: "Command"}

	sayTabs     = talk.Say{Zh: "这个机器人", En: "This bot"}
	sayOverview = talk.Say{Zh: "概况", En: "Overview"}
	sayChat     = talk.Say{Zh: "聊天", En: "Chat"}
	saySettings = talk.Say{Zh: "设置", En: "Settings"}
	sayGlasses  = talk.Say{Zh: "眼镜", En: "Glasses"}
	sayTurns    = talk.Say{Zh: "密钥与对话", En: "Keys and turns"}

	sayKind         = talk.Say{Zh: "类型", En: "Kind"}
	sayBotNumber    = talk.Say{Zh: "编号", En: "Number"}
	sayBound        = talk.Say{Zh: "佩戴者", En: "Wearers"}
	sayFailingSince = talk.Say{Zh: "始于", En: "Since"}
	saySince        = talk.Say{Zh: "连接于", En: "Connected since"}
	sayLastHeard    = talk.Say{Zh: "最近听到", En: "Last heard"}
	sayGateway      = talk.Say{Zh: "OpenClaw 版本", En: "OpenClaw version"}
	sayAbout        = talk.Say{Zh: "说明", En: "What it is for"}
	sayNow          = talk.Say{Zh: "现在的情况", En: "How it is"}

	sayTry     = talk.Say{Zh: "试一试", En: "Try it"}
	sayTryTold = talk.Say{Zh: "像眼镜那样问它一个问题，看看它是否回答。问题和回答都不会被记住。",
		En: "Asks it a question the way glasses do, to see whether it answers. Neither is remembered."}
	sayTryNow     = talk.Say{Zh: "问它一个问题", En: "Ask it a question"}
	sayTalkToIt   = talk.Say{Zh: "和它聊天", En: "Talk to it"}
	sayAsked      = talk.Say{Zh: "问了：%s", En: "Asked: %s"}
	sayAsking     = talk.Say{Zh: "正在等第一个字……", En: "Waiting for the first words …"}
	sayFirstAfter = talk.Say{Zh: "%s 后开口", En: "first words after %s"}
	sayEndAfter   = talk.Say{Zh: "%s 后说完", En: "complete after %s"}
	sayWorks      = talk.Say{Zh: "它在回答。一切正常。", En: "It answers. All is well."}
	sayCause      = talk.Say{Zh: "详细原因", En: "The cause in detail"}

	sayRecent     = talk.Say{Zh: "最近的对话", En: "Recent turns"}
	sayNoTurns    = talk.Say{Zh: "还没有人问过它", En: "Nobody has asked it yet"}
	sayNoTurnTold = talk.Say{Zh: "试一试，和它聊天，或者绑定眼镜。", En: "Try it, talk to it, or bind your glasses."}
	sayAllTurns   = talk.Say{Zh: "全部对话", En: "All turns"}
	sayTook       = talk.Say{Zh: "共 %s", En: "%s in all"}

	sayAnswered     = talk.Say{Zh: "已回答", En: "Answered"}
	sayDisconnected = talk.Say{Zh: "提问者离开了", En: "The asker left"}
	sayFailed       = talk.Say{Zh: "失败", En: "Failed"}

	sayName       = talk.Say{Zh: "名称", En: "Name"}
	sayNameTip    = talk.Say{Zh: "佩戴者切换时会说它，最多 60 个字。", En: "Wearers say it to switch; 60 characters at most."}
	sayAboutTip   = talk.Say{Zh: "给你自己看的，也告诉会问它的其他机器人。", En: "For yourself, and for other bots that may ask it."}
	sayChooseKind = talk.Say{Zh: "谁来回答？", En: "What is to answer?"}
	sayOtherKind  = talk.Say{Zh: "换一种", En: "Another kind"}
	sayNewOf      = talk.Say{Zh: "添加：%s", En: "Add: %s"}
	saySave       = talk.Say{Zh: "保存", En: "Save"}
	sayCancel     = talk.Say{Zh: "取消", En: "Cancel"}
	saySecretIs   = talk.Say{Zh: "已设置；空着就保留", En: "it is set; empty keeps it"}
	sayTakeAway   = talk.Say{Zh: "删除：%s", En: "Take away: %s"}
	sayNotMade    = talk.Say{Zh: "还没有。", En: "There is none yet."}
	sayAsUsual    = talk.Say{Zh: "照常", En: "as usual"}
	sayYes        = talk.Say{Zh: "是", En: "yes"}
	sayNo         = talk.Say{Zh: "否", En: "no"}
	sayWrongField = talk.Say{Zh: "“%s”填得不对：%s", En: "“%s” is not right: %s"}

	sayToken     = talk.Say{Zh: "它的令牌", En: "Its token"}
	sayTokenTold = talk.Say{Zh: "请现在保存：之后不会再显示。丢了可以换一个。",
		En: "Keep it now: it is not shown again. If it is lost, make another."}
	sayThere     = talk.Say{Zh: "在运行 OpenClaw 的电脑上", En: "At the computer where OpenClaw runs"}
	sayThereTold = talk.Say{Zh: "依次运行这些命令。最后一条会重启网关；插件随后连接到这里，下面的灯会变绿。",
		En: "Run these commands one after the other. The last restarts the gateway; the plugin connects to here then, and the light below turns green."}
	sayAdded      = talk.Say{Zh: "%s 已添加", En: "%s is added"}
	sayToBot      = talk.Say{Zh: "到它的页面", En: "To its page"}
	sayRotated    = talk.Say{Zh: "%s 有了新令牌", En: "%s has another token"}
	sayRotate     = talk.Say{Zh: "换一个令牌", En: "Make another token"}
	sayRotateTold = talk.Say{Zh: "旧令牌立刻失效，正在用它的插件会断开。",
		En: "The old one is refused from then on, and the plugin that uses it is disconnected."}

	sayRemove     = talk.Say{Zh: "移除这个机器人", En: "Remove this bot"}
	sayRemoveName = talk.Say{Zh: "移除 %s？", En: "Remove %s?"}
	sayRemoveTold = talk.Say{Zh: "它的绑定（%d 个）、全部对话和只用于它的密钥会一起消失；对话的记录保留到过期。编号不会再给别的机器人。",
		En: "Its bindings (%d), all its conversations and the keys that open only it go with it; the records of its turns stay until they are old. Its number is not given again."}
	sayRemoveNow = talk.Say{Zh: "移除", En: "Remove it"}
	sayKeepIt    = talk.Say{Zh: "保留", En: "Keep it"}

	sayForm     = talk.Say{Zh: "灵珠平台的表单", En: "The form of the Lingzhu platform"}
	sayFormTold = talk.Say{Zh: "在灵珠平台创建“三方智能体”，把下面的内容逐个填进去。",
		En: "Create a 三方智能体 (third-party agent) on the Lingzhu platform, and copy these into its form one by one."}
	sayVendor      = talk.Say{Zh: "三方厂商", En: "三方厂商 (vendor)"}
	sayAgentID     = talk.Say{Zh: "三方智能体ID", En: "三方智能体ID (agent id)"}
	sayURL         = talk.Say{Zh: "智能体SSE接口地址（URL）", En: "智能体SSE接口地址 (URL)"}
	sayAK          = talk.Say{Zh: "三方智能体AK（密钥）", En: "三方智能体AK (key)"}
	sayInputs      = talk.Say{Zh: "入参类型", En: "入参类型 (inputs)"}
	sayMakeKey     = talk.Say{Zh: "生成密钥", En: "Make a key"}
	sayMakeKeyTold = talk.Say{Zh: "密钥只显示一次，之前要输入密码。", En: "It is shown once, after you have typed your password."}
	sayNoPublic    = talk.Say{Zh: "这台服务器还不知道平台怎样访问它。请给它一个平台能访问到的 https 地址，并写在设置 public_url 里：patchbay serve --public-url https://…", En: "This server does not know yet how the platform reaches it. Give it an https address that can be reached from the internet, and tell it: patchbay serve --public-url https://…"}

	sayWhoBound   = talk.Say{Zh: "已绑定的佩戴者", En: "Bound wearers"}
	sayNobody     = talk.Say{Zh: "还没有人绑定", En: "Nobody is bound yet"}
	sayNobodyTold = talk.Say{Zh: "绑定之后，戴着眼镜的人说话，由这个机器人回答。",
		En: "Once glasses are bound, this bot answers whoever wears them."}
	sayBind       = talk.Say{Zh: "绑定眼镜", En: "Bind glasses"}
	sayBoundAt    = talk.Say{Zh: "绑定于 %s", En: "bound %s"}
	sayUnbind     = talk.Say{Zh: "解绑", En: "Unbind"}
	sayUnbindName = talk.Say{Zh: "解绑 %s", En: "Unbind %s"}
	sayUnbindSure = talk.Say{Zh: "解绑 %s？之后要重新扫码才能使用这个机器人。",
		En: "Unbind %s? They have to scan a code again to use this bot."}
	sayOneOnly = talk.Say{Zh: "这个机器人一次只能绑定一个人。要让更多人使用，在设置里打开“可以绑定多人”。",
		En: "This bot takes one wearer at a time. To let more use it, turn on “More than one wearer” in the settings."}
	sayOlderMCP  = talk.Say{Zh: "旧版 MCP 地址", En: "The older MCP"}
	sayOlderTold = talk.Say{Zh: "给按灵珠平台早期约定写的程序用。新的程序请用“工具”页上的地址。",
		En: "For programs that were written against the platform's first tools. New ones use the address on the page “Tools”."}
	sayOlderURL = talk.Say{Zh: "旧版 MCP 地址", En: "Address of the older MCP"}
	sayOpenAll  = talk.Say{Zh: "任何能访问这台服务器的人，都可以凭编号 %d 问这个机器人，不需要密钥。",
		En: "Anybody who reaches this server may ask this bot by its number %d, without a key."}
	sayOpenDevice = talk.Say{Zh: "只有设备 %s 可以凭编号 %d 问这个机器人，不需要密钥。",
		En: "The device %s alone may ask this bot by its number %d, without a key."}
	sayOpenNobody = talk.Say{Zh: "这里没有对陌生人开放：要用带 mcp 权限的密钥。可以在设置里改变。",
		En: "It is not open to strangers: a key with scope mcp is needed. The settings can change that."}
	sayToSettings = talk.Say{Zh: "到设置", En: "To the settings"}
	sayBindTitle  = talk.Say{Zh: "把眼镜绑定到 %s", En: "Bind glasses to %s"}
	sayBindSteps  = talk.Say{Zh: "对眼镜说任何一句话，它会拍照；让二维码在画面里。或者说出六位数字。",
		En: "Say anything to the glasses, which take a photo then; have the code in view. Or say the six digits."}
	sayQRAlt = talk.Say{Zh: "用来绑定眼镜的二维码；六位数字在旁边",
		En: "QR code that binds glasses; the six digits beside it do the same"}
	saySayCode    = talk.Say{Zh: "或者对眼镜说", En: "Or say to the glasses"}
	sayBindPhrase = talk.Say{Zh: "绑定 %s", En: "bind %s"}
	sayRenews     = talk.Say{Zh: "五分钟内有效，到期前会自动换新的。",
		En: "Good for five minutes; a fresh one appears before that is over."}
	sayWaitBind    = talk.Say{Zh: "等待眼镜……", En: "Waiting for the glasses …"}
	sayIsBound     = talk.Say{Zh: "绑定成功", En: "Bound"}
	sayIsBoundTold = talk.Say{Zh: "%s 现在使用 %s。", En: "%s uses %s now."}
	saySomebody    = talk.Say{Zh: "一位佩戴者", En: "A wearer"}
	sayBindMore    = talk.Say{Zh: "再绑定一副", En: "Bind another pair"}
	sayBindRests   = talk.Say{Zh: "很久没有人用这个二维码，已不再更新。",
		En: "Nobody has used the code for a long time, so it is not renewed any more."}
	sayBindAgain = talk.Say{Zh: "显示新的二维码", En: "Show a fresh code"}

	sayKeyTitle = talk.Say{Zh: "为 %s 生成密钥", En: "Make a key for %s"}
	sayKeyTold  = talk.Say{Zh: "灵珠平台用它代表你提问：表单里的 AK。",
		En: "The Lingzhu platform asks by it on your behalf: the AK of its form."}
	sayKeyName     = talk.Say{Zh: "名称", En: "Name"}
	sayKeyNameTip  = talk.Say{Zh: "方便你以后认出它。", En: "So that you know it later."}
	sayKeyWho      = talk.Say{Zh: "谁来回答", En: "Who answers"}
	sayKeyBinding  = talk.Say{Zh: "佩戴者各自绑定的机器人（推荐）", En: "The bot that each wearer is bound to (recommended)"}
	sayKeyOnly     = talk.Say{Zh: "总是这个机器人，不需要绑定", En: "Always this bot, without binding"}
	sayKeyMade     = talk.Say{Zh: "密钥已生成", En: "The key is made"}
	sayKeyMadeTold = talk.Say{Zh: "请现在复制到平台的表单里：之后不会再显示。",
		En: "Copy it into the platform's form now: it is not shown again."}
	sayBackToForm = talk.Say{Zh: "回到表单", En: "Back to the form"}

	sayKeys   = talk.Say{Zh: "只用于这个机器人的密钥", En: "Keys that open this bot alone"}
	sayNoKeys = talk.Say{Zh: "没有只用于它的密钥。你的其他密钥在“密钥”页。",
		En: "There are none. Your other keys are on the page “Keys”."}
	sayAllKeys    = talk.Say{Zh: "全部密钥", En: "All keys"}
	sayKeyUsed    = talk.Say{Zh: "最近使用：%s", En: "last used %s"}
	sayKeyRevoked = talk.Say{Zh: "已撤销", En: "revoked"}
	sayRevoke     = talk.Say{Zh: "撤销", En: "Revoke"}
	sayRevokeName = talk.Say{Zh: "撤销 %s", En: "Revoke %s"}
	sayRevokeSure = talk.Say{Zh: "撤销 %s？用它的程序会立刻被拒绝，不能恢复。",
		En: "Revoke %s? Whoever uses it is refused from then on, for good."}
	sayOlderTurns = talk.Say{Zh: "更早的", En: "Older"}
)

// doneSays maps the names in a URL to confirmations of the action before.
var doneSays = map[string]talk.Say{
	"added":   talk.Say{Zh: "机器人已添加。试一试吧。", En: "The bot is added. Try it."},
	"saved":   talk.Say{Zh: "已保存，下一个问题起生效。", En: "Saved. It holds from the next question on."},
	"removed": talk.Say{Zh: "机器人已移除。", En: "The bot is removed."},
	"unbound": talk.Say{Zh: "已解绑。", En: "The wearer is unbound."},
	"revoked": talk.Say{Zh: "密钥已撤销。", En: "The key is revoked."},
}

var channelNames = map[string]talk.Say{
	"lingzhu":   talk.Say{Zh: "眼镜", En: "Glasses"},
	"cli":       talk.Say{Zh: "命令行", En: "Command line"},
	"console":   talk.Say{Zh: "网页", En: "This console"},
	"xiaozhi":   talk.Say{Zh: "语音设备", En: "Voice board"},
	"mcp":       talk.Say{Zh: "程序", En: "Program"},
	"rokid-mcp": talk.Say{Zh: "旧版 MCP", En: "Older MCP"},
	"learn":     talk.Say{Zh: "学习", En: "Learn"},
}

var codeSays = map[talk.Code]talk.Say{
	talk.Offline:     talk.Say{Zh: "没有连接", En: "It was not connected"},
	talk.Busy:        talk.Say{Zh: "太忙", En: "It was too busy"},
	talk.TimedOut:    talk.Say{Zh: "等得太久", En: "It took too long"},
	talk.BotFailed:   talk.Say{Zh: "机器人出错", En: "The bot failed"},
	talk.Unreachable: talk.Say{Zh: "连不上", En: "We could not connect to it"},
	talk.Lost:        talk.Say{Zh: "连接中断", En: "The connection broke"},
	talk.NoAnswer:    talk.Say{Zh: "没有回答", En: "It said nothing"},
	talk.Unreadable:  talk.Say{Zh: "看不懂问题", En: "The question could not be read"},
	talk.NotSaved:    talk.Say{Zh: "没能记下来", En: "It could not be kept"},
	talk.Stopping:    talk.Say{Zh: "服务正在重启", En: "The server was restarting"},
	talk.Internal:    talk.Say{Zh: "我们这边出错", En: "Our own fault"},
}
