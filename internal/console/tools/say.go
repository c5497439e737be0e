package tools

import "patchbay/internal/talk"

var (
	sayTools     = talk.Say{Zh: "工具", En: "Tools"}
	sayToolsTold = talk.Say{Zh: "程序和机器人替你做事时可以使用的一切：设备的、工具服务器的，以及 Patchbay 自带的。",
		En: "Everything that programs and bots can do for you: what devices, tool servers and Patchbay itself offer."}
	sayServers    = talk.Say{Zh: "工具服务器", En: "Tool servers"}
	sayRules      = talk.Say{Zh: "规则", En: "Rules"}
	saySections   = talk.Say{Zh: "工具的各部分", En: "Parts of the tools"}
	sayAll        = talk.Say{Zh: "全部 %d", En: "All %d"}
	sayWaiting    = talk.Say{Zh: "等你放行 %d", En: "Not allowed yet %d"}
	sayDeniedN    = talk.Say{Zh: "已禁用 %d", En: "Denied %d"}
	sayStates     = talk.Say{Zh: "按状态", En: "By state"}
	saySearch     = talk.Say{Zh: "查找工具", En: "Find a tool"}
	sayFind       = talk.Say{Zh: "查找", En: "Find"}
	sayMatching   = talk.Say{Zh: "找到 %d 个。", En: "Found: %d."}
	sayNoMatch    = talk.Say{Zh: "没有符合的工具", En: "No tool fits"}
	sayNoMatchTip = talk.Say{Zh: "换一个词，或查看全部。", En: "Try another word, or look at all of them."}
	sayShowAll    = talk.Say{Zh: "查看全部", En: "Show all"}
	sayNoTools    = talk.Say{Zh: "还没有工具", En: "No tools yet"}
	sayNoToolsTip = talk.Say{Zh: "添加一个工具服务器，或连接一个设备。", En: "Add a tool server, or connect a device."}
	sayOnlyThese  = talk.Say{Zh: "只看这些", En: "These only"}
	sayOnlyFrom   = talk.Say{Zh: "只看这些：%s", En: "These only: %s"}

	sayLearn      = talk.Say{Zh: "学习", En: "Learn"}
	sayBots       = talk.Say{Zh: "机器人", En: "Bots"}
	sayToolServer = talk.Say{Zh: "工具服务器", En: "tool server"}
	sayBoard      = talk.Say{Zh: "语音设备", En: "voice board"}
	sayNode       = talk.Say{Zh: "OpenClaw 节点", En: "OpenClaw node"}
	sayPart       = talk.Say{Zh: "Patchbay 自带", En: "part of Patchbay"}
	sayFrom       = talk.Say{Zh: "来自", En: "From"}
	sayState      = talk.Say{Zh: "程序和机器人", En: "Programs and bots"}
	sayChanges    = talk.Say{Zh: "会改变什么", En: "Changes things"}
	sayReadsOnly  = talk.Say{Zh: "不会，只读取", En: "no, it only reads"}
	sayMayChange  = talk.Say{Zh: "可能会", En: "perhaps"}
	sayReads      = talk.Say{Zh: "只读", En: "only reads"}

	sayAllowed       = talk.Say{Zh: "可以使用", En: "may use it"}
	sayDenied        = talk.Say{Zh: "已禁用", En: "denied"}
	sayDangerous     = talk.Say{Zh: "危险，放行前不能使用", En: "dangerous, refused until you allow it"}
	sayPersonal      = talk.Say{Zh: "供人使用，放行前程序不能使用", En: "for people, refused to programs until you allow it"}
	sayTellDenied    = talk.Say{Zh: "没有程序或机器人可以看到或使用它。", En: "No program and no bot sees it or calls it."}
	sayTellDangerous = talk.Say{Zh: "它会重启设备、更换固件或做无法撤销的事，所以在你放行之前，程序和机器人都用不了。",
		En: "It reboots a device, replaces its firmware or does what cannot be undone, so programs and bots do not get it until you allow it."}
	sayTellPersonal = talk.Say{Zh: "它是给人用的，例如录音，所以在你放行之前，程序和机器人都用不了。你自己可以在下面试用。",
		En: "It is for people, such as recording, so programs and bots do not get it until you allow it. You can try it below."}
	sayTellAllowed = talk.Say{Zh: "除非密钥或机器人自己的规则另有规定，程序和机器人都可以使用它。",
		En: "Programs and bots may call it, unless the rules of a key or of a bot say otherwise."}
	sayAllow     = talk.Say{Zh: "放行", En: "Allow"}
	sayDeny      = talk.Say{Zh: "禁用", En: "Deny"}
	sayAllowSure = talk.Say{Zh: "放行 %s？所有程序和机器人都将可以使用它。", En: "Allow %s? All programs and bots may call it then."}
	sayWhoMay    = talk.Say{Zh: "谁可以使用", En: "Who may use it"}
	sayWhoTold   = talk.Say{Zh: "这里列出你给程序的密钥，以及能使用工具的机器人。",
		En: "These are your keys for programs, and the bots that call tools."}
	sayNobodyMay = talk.Say{Zh: "还没有给程序的密钥，也没有能使用工具的机器人。",
		En: "There is no key for programs yet, and no bot that calls tools."}
	sayMakeKey       = talk.Say{Zh: "创建密钥", En: "Make a key"}
	sayKey           = talk.Say{Zh: "密钥", En: "key"}
	sayBot           = talk.Say{Zh: "机器人", En: "bot"}
	sayMay           = talk.Say{Zh: "可以", En: "may"}
	sayMayNot        = talk.Say{Zh: "不可以", En: "may not"}
	sayTry           = talk.Say{Zh: "试用", En: "Try it"}
	sayTryTold       = talk.Say{Zh: "它会真实执行，并记入记录。", En: "It is carried out for real, and noted in the activity."}
	sayCall          = talk.Say{Zh: "调用", En: "Call"}
	sayNotCallable   = talk.Say{Zh: "放行之后才能在这里试用。", En: "It can be tried here once you have allowed it."}
	sayNoArguments   = talk.Say{Zh: "它不需要任何内容。", En: "It takes nothing."}
	sayLookAgain     = talk.Say{Zh: "请看看标出的地方。", En: "Look at what is marked."}
	sayResult        = talk.Say{Zh: "结果", En: "Result"}
	sayTakes         = talk.Say{Zh: "参数的说明（JSON Schema）", En: "What it takes (JSON Schema)"}
	sayGives         = talk.Say{Zh: "结果的说明（JSON Schema）", En: "What it gives (JSON Schema)"}
	sayNoDescription = talk.Say{Zh: "没有说明。", En: "It does not say what it does."}

	sayRulesTold = talk.Say{Zh: "你为所有程序和机器人做出的决定。禁用优先于放行；没有规则的工具，只要不危险就可以使用。",
		En: "What you have decided for all programs and bots. Denying counts more than allowing; a tool without a rule may be used unless it is dangerous."}
	sayNoRules     = talk.Say{Zh: "还没有规则", En: "No rules yet"}
	sayNoRulesTip  = talk.Say{Zh: "不危险的工具都可以使用。", En: "Every tool may be used that is not dangerous."}
	sayAddRule     = talk.Say{Zh: "添加规则", En: "Add a rule"}
	sayRuleTool    = talk.Say{Zh: "工具名，或带 * 的名称", En: "Name of a tool, or a pattern with *"}
	sayRuleToolTip = talk.Say{Zh: "* 代表任意文字，例如 lamp_*。", En: "* stands for any text, as in lamp_*."}
	sayDecision    = talk.Say{Zh: "决定", En: "Decision"}
	sayAllowRule   = talk.Say{Zh: "放行，即使危险", En: "Allow, even if dangerous"}
	sayDenyRule    = talk.Say{Zh: "禁用", En: "Deny"}
	sayIsAllowed   = talk.Say{Zh: "已放行", En: "allowed"}
	sayRemoveRule  = talk.Say{Zh: "取消规则：%s", En: "Take the rule back: %s"}
	sayTakeBack    = talk.Say{Zh: "取消", En: "Take back"}
	saySave        = talk.Say{Zh: "保存", En: "Save"}

	sayServersTold = talk.Say{Zh: "别人写的工具程序（MCP 服务器）。接上之后，它们的工具会出现在工具列表里。",
		En: "Servers of tools (MCP) that others wrote. Once connected, their tools join yours."}
	sayAddServer    = talk.Say{Zh: "添加", En: "Add one"}
	sayNoServers    = talk.Say{Zh: "还没有工具服务器", En: "No tool servers yet"}
	sayNoServersTip = talk.Say{Zh: "添加一个，让你的程序和机器人会做更多的事。", En: "Add one, and your programs and bots can do more."}
	sayNoServer     = talk.Say{Zh: "没有这个工具服务器，或它已被移除。", En: "There is no such tool server, or it was removed."}
	sayToolsN       = talk.Say{Zh: "%d 个工具", En: "tools: %d"}
	sayReady        = talk.Say{Zh: "已连接", En: "connected"}
	sayConnecting   = talk.Say{Zh: "正在连接", En: "connecting"}
	sayTriesAgain   = talk.Say{Zh: "会自动重试", En: "tries again by itself"}
	sayAwaited      = talk.Say{Zh: "等待它连接", En: "waits for it to connect"}
	sayNeedsAction  = talk.Say{Zh: "需要处理", En: "needs somebody"}
	sayElsewhere    = talk.Say{Zh: "由另一个实例连接", En: "connected to another instance"}
	sayUnknown      = talk.Say{Zh: "未知", En: "not known yet"}
	sayKindURL      = talk.Say{Zh: "网络地址", En: "by its address"}
	sayKindCommand  = talk.Say{Zh: "本机命令", En: "a command on this machine"}
	sayKindEndpoint = talk.Say{Zh: "主动连接过来", En: "connects to here"}
	sayKindCloud    = talk.Say{Zh: "可以使用你的工具的服务", En: "a service that calls your tools"}
	sayHealth       = talk.Say{Zh: "连接", En: "Connection"}
	saySince        = talk.Say{Zh: "自", En: "Since"}
	sayServerIs     = talk.Say{Zh: "它自称", En: "It calls itself"}
	sayProtocol     = talk.Say{Zh: "协议", En: "Protocol"}
	sayWhere        = talk.Say{Zh: "位置", En: "Where"}
	sayKind         = talk.Say{Zh: "种类", En: "Kind"}
	sayToolCount    = talk.Say{Zh: "工具", En: "Tools"}
	sayHiddenN      = talk.Say{Zh: "另有 %d 个被你的选择排除", En: "left out by your choice: %d more"}
	saySkippedN     = talk.Say{Zh: "另有 %d 个无法使用（名称或说明无效）",
		En: "that cannot be used, since their names or schemas are wrong: %d more"}
	sayCut = talk.Say{Zh: "工具太多，没有全部接入；请用“只接入”来选择。",
		En: "It has more tools than are taken over; choose among them below."}
	sayNextTry     = talk.Say{Zh: "下次重试", En: "Tried again at"}
	sayCause       = talk.Say{Zh: "原因", En: "Cause"}
	saySaid        = talk.Say{Zh: "命令最后的输出", En: "What the command said last"}
	sayItsTools    = talk.Say{Zh: "查看它的工具", En: "See its tools"}
	sayItsSettings = talk.Say{Zh: "设置", En: "Settings"}
	sayEdit        = talk.Say{Zh: "更改", En: "Change"}
	sayRemove      = talk.Say{Zh: "移除", En: "Remove it"}
	sayRemoveTold  = talk.Say{Zh: "它的工具会在几秒内消失。你对这些工具的决定会保留，如果再次用同样的名称添加，仍然有效。",
		En: "Its tools are gone within seconds. What you have decided about them stays, and holds again for one of the same name."}
	sayRemoveSure = talk.Say{Zh: "移除 %s？", En: "Remove %s?"}
	sayRotate     = talk.Say{Zh: "更换令牌", En: "Make a new token"}
	sayRotateTold = talk.Say{Zh: "使用旧令牌的会立即断开。", En: "Whoever has the old one is cut off at once."}
	sayRotateSure = talk.Say{Zh: "为 %s 更换令牌？", En: "Make a new token for %s?"}
	sayTokenOnce  = talk.Say{Zh: "把这个地址交给工具服务器。它含有令牌，请现在保存，之后不会再显示。",
		En: "Give this address to the tool server. It holds the token, so keep it now: it is not shown again."}
	sayTokenAddress = talk.Say{Zh: "连接地址", En: "Its address"}
	sayCloudCalls   = talk.Say{Zh: "这个服务随时可以使用你允许的这些工具。移除它，或缩小选择，就能收回。",
		En: "This service can call the tools that you let it at any time. To end that, remove it or choose fewer."}

	sayWays     = talk.Say{Zh: "添加工具服务器", En: "Add a tool server"}
	sayByURL    = talk.Say{Zh: "按网络地址", En: "By its address"}
	sayByURLTip = talk.Say{Zh: "它在网上，或在你的网络里，例如 https://mcp.example.com/mcp。",
		En: "It is on the web or in your network, such as https://mcp.example.com/mcp."}
	sayByCommand    = talk.Say{Zh: "在这台机器上运行命令", En: "By a command on this machine"}
	sayByCommandTip = talk.Say{Zh: "例如 npx -y @modelcontextprotocol/server-filesystem。只有管理员可以添加。",
		En: "Such as npx -y @modelcontextprotocol/server-filesystem. Only administrators may add one."}
	sayByEndpoint    = talk.Say{Zh: "让它连接过来", En: "It connects to here"}
	sayByEndpointTip = talk.Say{Zh: "像小智的工具程序那样：你会得到一个带令牌的地址，交给它。",
		En: "As tool servers for XiaoZhi do: you get an address with a token to give to it."}
	sayByCloud    = talk.Say{Zh: "把你的工具提供给一个服务", En: "Offer your tools to a service"}
	sayByCloudTip = talk.Say{Zh: "反过来：Patchbay 连接到那个服务，由它使用你选择的工具，例如小智的云端。",
		En: "The other way round: Patchbay connects to the service, which calls the tools that you choose, such as XiaoZhi's cloud."}
	sayChangeServer = talk.Say{Zh: "更改 %s", En: "Change %s"}

	sayName    = talk.Say{Zh: "名称", En: "Name"}
	sayNameTip = talk.Say{Zh: "小写字母、数字和 -。它的工具名会以此开头。",
		En: "Small letters, digits and -. The names of its tools begin with it."}
	sayAddress    = talk.Say{Zh: "地址", En: "Address"}
	sayAddressTip = talk.Say{Zh: "MCP 服务器的地址，例如 https://mcp.example.com/mcp。",
		En: "That of the MCP server, such as https://mcp.example.com/mcp."}
	sayCloudTip = talk.Say{Zh: "以 wss:// 开头，含有令牌；从那个服务的控制台复制。",
		En: "It begins with wss:// and holds a token; copy it from the service's console."}
	sayAddressKept = talk.Say{Zh: "已保存一个地址，其中的令牌不显示；留空则不变。",
		En: "One is kept, whose token is not shown; it stays if this is empty."}
	sayToken    = talk.Say{Zh: "令牌（可以没有）", En: "Token (if it wants one)"}
	sayTokenTip = talk.Say{Zh: "随每次请求发送，保存时加密，不再显示。",
		En: "Sent with every request, kept sealed and not shown again."}
	saySecretKept = talk.Say{Zh: "已保存；留空则不变。", En: "One is kept; it stays if this is empty."}
	sayForget     = talk.Say{Zh: "删除保存的令牌", En: "Forget the token"}
	sayHeaders    = talk.Say{Zh: "其他请求头（可以没有）", En: "Other headers (if it wants some)"}
	sayHeadersTip = talk.Say{Zh: "每行一个，例如 X-API-Key: 值。", En: "One on each line, such as X-API-Key: value."}
	sayNamesKept  = talk.Say{Zh: "已保存：%s。留空则不变；填写则全部替换。",
		En: "Kept: %s. They stay if this is empty, and are all replaced if it is not."}
	sayForgetHeaders = talk.Say{Zh: "删除保存的请求头", En: "Forget the headers"}
	sayForgetEnv     = talk.Say{Zh: "删除保存的变量", En: "Forget the variables"}
	sayTransport     = talk.Say{Zh: "传输方式", En: "Transport"}
	sayGuess         = talk.Say{Zh: "自动判断", En: "Find out"}
	sayCommand       = talk.Say{Zh: "命令", En: "Command"}
	sayCommandTip    = talk.Say{Zh: "它会以运行 Patchbay 的账户在服务器上运行。",
		En: "It runs on the server's machine, as the account that runs Patchbay."}
	sayArgs    = talk.Say{Zh: "参数", En: "Arguments"}
	sayArgsTip = talk.Say{Zh: "每行一个。这里的内容会显示出来，密码和令牌请放在变量里。",
		En: "One on each line. They are shown, so secrets belong in the variables."}
	sayEnv     = talk.Say{Zh: "环境变量", En: "Variables"}
	sayEnvTip  = talk.Say{Zh: "每行一个，例如 API_KEY=值。", En: "One on each line, such as API_KEY=value."}
	sayDir     = talk.Say{Zh: "文件夹", En: "Folder"}
	sayOnly    = talk.Say{Zh: "只接入这些工具", En: "Take over these tools only"}
	sayOnlyTip = talk.Say{Zh: "每行一个它那里的名称，* 代表任意文字；留空表示全部。",
		En: "A name it has there on each line, * stands for any text; empty means all."}
	sayNot      = talk.Say{Zh: "但不要这些", En: "But not these"}
	sayOffer    = talk.Say{Zh: "它可以使用的工具", En: "Tools that it may call"}
	sayOfferTip = talk.Say{Zh: "每行一个完整的工具名，* 代表任意文字。危险的工具必须写出完整名称。没有写的都不会提供。",
		En: "A full name of a tool on each line, * stands for any text. A dangerous one has to be named in full. Nothing is offered that is not named."}
	sayMost         = talk.Say{Zh: "最多提供多少个工具", En: "How many tools at most"}
	sayTimeout      = talk.Say{Zh: "一次调用最长多少秒", En: "Longest call, in seconds"}
	sayConcurrent   = talk.Say{Zh: "同时最多多少次调用", En: "Calls at a time"}
	sayMaxTools     = talk.Say{Zh: "最多接入多少个工具", En: "How many tools at most"}
	sayMoreSettings = talk.Say{Zh: "更多设置", En: "More settings"}
	sayUnchecked    = talk.Say{Zh: "即使现在连接不上也保存", En: "Save it even if it cannot be reached now"}
	sayLook         = talk.Say{Zh: "先看一看", En: "Have a look first"}
	sayAdd          = talk.Say{Zh: "添加", En: "Add"}
	sayLooking      = talk.Say{Zh: "正在连接，并读取它的工具列表……最多需要一分钟。",
		En: "Connecting and reading its list of tools… It takes a minute at most."}
	sayLookedAt = talk.Say{Zh: "已连接到 %s（MCP %s，%s）：%d 个工具。", En: "Connected to %s (MCP %s, %s): tools: %d."}
	sayNumber   = talk.Say{Zh: "%q 不是一个正整数。", En: "%q is no whole number above 0."}
	sayPairs    = talk.Say{Zh: "每一行都要有名称、%q 和值。", En: "Each line has a name, %q and a value."}
	sayNotSaved = talk.Say{Zh: "密码和令牌需要重新填写。", En: "Secrets have to be typed again."}
)
