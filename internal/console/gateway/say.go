package gateway

import "patchbay/internal/talk"

var (
	sayGateway = talk.Say{Zh: "网关", En: "Gateway"}
	sayIntro   = talk.Say{
		Zh: "OpenClaw 是运行在你电脑上的助手程序。装有它的电脑和手机可以作为“节点”连接到这里，由你决定它们能做什么。",
		En: "OpenClaw is an assistant that runs on computers of yours. Computers and phones that have it can connect here as nodes, and you decide what they may do.",
	}

	sayWaiting     = talk.Say{Zh: "等待你决定", En: "Waiting for your word"}
	sayNobodyWaits = talk.Say{Zh: "没有等待处理的请求。新的请求会自动出现在这里。",
		En: "Nobody waits. New requests appear here by themselves."}
	sayWantsIn    = talk.Say{Zh: "想要连接，身份：%s", En: "wants to connect, as %s"}
	sayWasIn      = talk.Say{Zh: "它以前连接过，现在要求的不同了。", En: "It was in before, and asks for something else now."}
	sayWantsToDo  = talk.Say{Zh: "已连接，想要运行这些命令：", En: "is connected, and wants to run these commands:"}
	sayWantsNone  = talk.Say{Zh: "已连接，没有要运行的命令。", En: "is connected, and has no commands to run."}
	sayScopes     = talk.Say{Zh: "权限：%s", En: "Scopes: %s"}
	sayFrom       = talk.Say{Zh: "来自 %s", En: "from %s"}
	sayApprove    = talk.Say{Zh: "批准", En: "Approve"}
	sayReject     = talk.Say{Zh: "拒绝", En: "Reject"}
	sayApproveOne = talk.Say{Zh: "批准：%s", En: "Approve: %s"}
	sayRejectOne  = talk.Say{Zh: "拒绝：%s", En: "Reject: %s"}
	sayDangerous  = talk.Say{Zh: "影响大", En: "reaches deep"}
	sayDeepTold   = talk.Say{
		Zh: "标有“影响大”的命令可以查看、录制、更改内容或运行程序。程序和机器人只有在你按名称放行后才能使用它们。",
		En: "Commands that reach deep look, record, change things or run programs. Programs and bots get them only if you allow them by name.",
	}
	sayTwice = talk.Say{Zh: "每个设备会问两次：先问能不能连接，再问能做什么。",
		En: "Each device asks twice: whether it may connect, and then what it may do."}

	sayNodes      = talk.Say{Zh: "节点", En: "Nodes"}
	sayNoNodes    = talk.Say{Zh: "还没有节点", En: "No nodes yet"}
	sayNoNodesTip = talk.Say{Zh: "按下面的步骤连接一台电脑或手机。", En: "Connect a computer or a phone as told below."}
	sayConnected  = talk.Say{Zh: "已连接", En: "connected"}
	sayAway       = talk.Say{Zh: "未连接", En: "away"}
	sayAsks       = talk.Say{Zh: "等待批准", En: "to be approved"}
	sayNotAllowed = talk.Say{Zh: "已拒绝", En: "rejected"}
	sayCommandsN  = talk.Say{Zh: "%d 个命令", En: "commands: %d"}
	sayAlsoNodes  = talk.Say{
		Zh: "OpenClaw 的程序连接到这里时，还会看到你的设备、工具服务器、机器人和学习功能：它们也以节点的形式出现。",
		En: "OpenClaw's programs that connect here also find your devices, tool servers, bots and Learn: they appear as nodes too.",
	}

	sayConnect   = talk.Say{Zh: "连接电脑或手机", En: "Connect a computer or a phone"}
	sayStepKey   = talk.Say{Zh: "创建一个权限为 node 的密钥。", En: "Make a key with the scope node."}
	sayMakeKey   = talk.Say{Zh: "创建密钥", En: "Make a key"}
	sayStepRun   = talk.Say{Zh: "在电脑上运行 OpenClaw 的节点程序：", En: "On the computer, run OpenClaw's node host:"}
	sayStepPhone = talk.Say{Zh: "或在手机的 OpenClaw 应用里输入这个地址和密钥：",
		En: "Or enter this address and the key in OpenClaw's app on a phone:"}
	sayStepDecide = talk.Say{Zh: "它的请求会出现在这一页，由你批准。", En: "Its request appears on this page, for you to approve."}
	sayKeyHere    = talk.Say{Zh: "密钥", En: "KEY"}
	sayCommand    = talk.Say{Zh: "命令", En: "Command"}
	sayAddress    = talk.Say{Zh: "地址", En: "Address"}
	sayLocalOnly  = talk.Say{Zh: "这个地址没有加密，OpenClaw 只在本机和内网接受它。要从更远的地方连接，请使用 https 地址。",
		En: "This address is not encrypted: OpenClaw takes it on this machine and in private networks alone. From farther away, use an https address."}
	sayPolicy     = talk.Say{Zh: "哪些命令可以调用", En: "Which commands can be called"}
	sayPolicyTold = talk.Say{Zh: "一个命令要能被调用，节点要有它，你要批准过，而且设置允许它。管理这台服务器的人在设置里写明：",
		En: "A command can be called if the node has it, you have approved it, and the settings allow it. Whoever runs this server says so in its settings:"}
	sayPolicyAllow = talk.Say{Zh: "另外允许（nodes.allow）", En: "Allowed besides (nodes.allow)"}
	sayPolicyDeny  = talk.Say{Zh: "从不允许（nodes.deny）", En: "Never allowed (nodes.deny)"}
	sayPolicyHow   = talk.Say{Zh: "要更改，请编辑配置文件并重新启动 Patchbay：",
		En: "To change that, edit the configuration file and start Patchbay again:"}
	sayNone = talk.Say{Zh: "无", En: "none"}

	sayProgram    = talk.Say{Zh: "程序", En: "Program"}
	sayConnection = talk.Say{Zh: "连接", En: "Connection"}
	sayPlatform   = talk.Say{Zh: "系统", En: "Runs on"}
	saySeen       = talk.Say{Zh: "最后出现", En: "Last seen"}
	sayNetAddress = talk.Say{Zh: "网络地址", En: "Network address"}
	sayID         = talk.Say{Zh: "编号", En: "Id"}
	sayApproval   = talk.Say{Zh: "批准", En: "Approval"}
	sayApproved   = talk.Say{Zh: "已批准", En: "approved"}
	sayAsksMore   = talk.Say{Zh: "要求更多", En: "wants more"}
	sayRejected   = talk.Say{Zh: "已拒绝；下次连接时会再次询问", En: "rejected; it asks again when it connects the next time"}

	sayCommands   = talk.Say{Zh: "可以调用的命令", En: "Commands that can be called"}
	sayNoCommands = talk.Say{Zh: "还没有可以调用的命令。", En: "There is no command that can be called yet."}
	sayParams     = talk.Say{Zh: "参数（JSON，可以留空）", En: "Parameters (JSON, may stay empty)"}
	sayExample    = talk.Say{Zh: "例如：%s", En: "For example: %s"}
	sayRun        = talk.Say{Zh: "运行", En: "Run"}
	sayRunOne     = talk.Say{Zh: "运行：%s", En: "Run: %s"}
	sayRunSure    = talk.Say{Zh: "运行 %s？它会在那台机器上真实执行。", En: "Run %s? It is carried out on that machine."}
	sayResult     = talk.Say{Zh: "%s 的结果", En: "What came of %s"}
	sayRefused    = talk.Say{Zh: "还不能调用的命令", En: "Commands that cannot be called"}
	sayWhyAsked   = talk.Say{Zh: "等待你批准", En: "waits for your approval"}
	sayWhyDenied  = talk.Say{Zh: "被设置 nodes.deny 禁止", En: "denied by the setting nodes.deny"}
	sayWhyUnsaid  = talk.Say{Zh: "需要先写入设置 nodes.allow，或尚未批准",
		En: "has to be in the setting nodes.allow first, or was not approved"}
	sayItsTools     = talk.Say{Zh: "它提供的工具", En: "Tools it offers"}
	sayItsToolsTold = talk.Say{Zh: "已连接时，程序和机器人可以在“工具”里找到它们。",
		En: "While it is connected, programs and bots find them among the tools."}
	sayToTools   = talk.Say{Zh: "查看工具", En: "See the tools"}
	sayMoreThere = talk.Say{Zh: "还有 %d 个没有列出。", En: "Not listed here: %d more."}

	sayRename     = talk.Say{Zh: "重命名", En: "Rename"}
	sayName       = talk.Say{Zh: "名称", En: "Name"}
	saySave       = talk.Say{Zh: "保存", En: "Save"}
	sayRemove     = talk.Say{Zh: "移除节点", En: "Remove the node"}
	sayRemoveTold = talk.Say{Zh: "它会立即断开，再次连接时需要重新批准。要彻底拒绝它，还要撤销它使用的密钥。",
		En: "It is disconnected at once, and has to be approved again when it comes back. To keep it out, revoke its key too."}
	sayRemoveSure = talk.Say{Zh: "移除 %s？", En: "Remove %s?"}
	sayPlugged    = talk.Say{Zh: "它不是配对的节点，而是接在 Patchbay 上的设备、工具服务器或自带功能，以节点的形式出现。",
		En: "This is no node that was paired, but a device, a tool server or a part of Patchbay that appears as one."}

	sayShims     = talk.Say{Zh: "加入别的网关", En: "Other gateways"}
	sayShimsTold = talk.Say{Zh: "你的语音设备也可以加入别的 OpenClaw 网关，让那里的助手使用它们的工具。",
		En: "Your voice boards can join OpenClaw gateways elsewhere too, so that the assistants there use their tools."}
	sayJoin         = talk.Say{Zh: "加入网关", En: "Join a gateway"}
	sayNoShims      = talk.Say{Zh: "还没有加入别的网关", En: "No other gateway was joined yet"}
	sayNodesReady   = talk.Say{Zh: "就绪 %d/%d", En: "ready: %d of %d"}
	sayReady        = talk.Say{Zh: "就绪", En: "ready"}
	sayConnecting   = talk.Say{Zh: "正在连接", En: "connecting"}
	sayTriesAgain   = talk.Say{Zh: "会自动重试", En: "tries again by itself"}
	sayNeedsAction  = talk.Say{Zh: "需要处理", En: "needs somebody"}
	sayElsewhere    = talk.Say{Zh: "由另一个实例连接", En: "joined by another instance"}
	sayToBeLetIn    = talk.Say{Zh: "等待对方接受", En: "to be let in there"}
	sayToBeApproved = talk.Say{Zh: "等待对方批准", En: "to be approved there"}
	sayUnknown      = talk.Say{Zh: "未知", En: "not known yet"}
	sayNoShim       = talk.Say{Zh: "没有加入过这个网关，或已离开。", En: "This gateway was not joined, or was left."}
	sayNextTry      = talk.Say{Zh: "下次重试：%s", En: "Tried again at %s"}
	sayRunThere     = talk.Say{Zh: "请网关的主人在网关的机器上运行：",
		En: "The gateway's owner has to run this on the gateway's machine:"}
	sayOrPage = talk.Say{Zh: "如果那个网关也是 Patchbay，在它的“网关”页面批准即可。",
		En: "If that gateway is a Patchbay too, its Gateway page does the same."}
	sayItsNodes   = talk.Say{Zh: "那里的节点", En: "Nodes there"}
	sayNoNodesYet = talk.Say{Zh: "还没有设备加入：没有符合条件的设备。", En: "No board has joined: there is none that fits."}
	sayTakenN     = talk.Say{Zh: "工具 %d 个，对方已接受 %d 个", En: "tools: %d, taken there: %d"}
	sayAllBoards  = talk.Say{Zh: "所有设备作为一个节点", En: "all boards as one node"}
	sayEdit       = talk.Say{Zh: "更改", En: "Change"}
	sayLeave      = talk.Say{Zh: "离开网关", En: "Leave the gateway"}
	sayLeaveTold  = talk.Say{Zh: "它的节点会断开，密钥会被忘记；再次加入时需要重新批准。",
		En: "Its nodes are disconnected and their keys forgotten: when you join again, they have to be approved again."}
	sayLeaveSure   = talk.Say{Zh: "离开网关 %s？", En: "Leave the gateway %s?"}
	sayEditShim    = talk.Say{Zh: "更改网关 %s", En: "Change the gateway %s"}
	sayShimName    = talk.Say{Zh: "名称", En: "Name"}
	sayShimNameTip = talk.Say{Zh: "你怎么称呼它：小写字母、数字和 -。", En: "What you call it: small letters, digits and -."}
	sayShimURLTip  = talk.Say{Zh: "例如 wss://gateway.example.com，同一网络内可以是 ws://192.168.1.20:18789。",
		En: "Such as wss://gateway.example.com, or ws://192.168.1.20:18789 if it is nearby."}
	sayToken    = talk.Say{Zh: "令牌", En: "Token"}
	sayTokenTip = talk.Say{Zh: "网关设置里的 gateway.auth.token；在那台机器上可以用 openclaw gateway auth-token --show 查看。",
		En: "gateway.auth.token in the gateway's settings; openclaw gateway auth-token --show prints it there."}
	sayTokenKept  = talk.Say{Zh: "已保存一个令牌；留空则不变。", En: "One is kept; it stays if this is empty."}
	sayUntoken    = talk.Say{Zh: "删除保存的令牌", En: "Forget the token"}
	sayMode       = talk.Say{Zh: "你的设备怎样加入", En: "How your boards join"}
	sayEach       = talk.Say{Zh: "每个设备是一个节点", En: "Each board is a node"}
	sayOne        = talk.Say{Zh: "所有设备合为一个节点", En: "All boards are one node"}
	sayTitle      = talk.Say{Zh: "节点的名称（合为一个节点时）", En: "What the node is called there, if it is one"}
	sayDevices    = talk.Say{Zh: "哪些设备加入", En: "Which boards join"}
	sayDevicesTip = talk.Say{Zh: "每行一个名称，* 代表任意文字；留空表示全部。",
		En: "A name on each line, * stands for any text; empty means all."}
	sayNotices = talk.Say{Zh: "把设备主动发出的消息也转给那里的助手（会唤醒它，可能产生费用）",
		En: "Pass on what boards tell by themselves (it wakes the assistant there, which may cost)"}
	sayJoinTold = talk.Say{Zh: "那里的主人会被问两次：节点能否连接，以及能做什么。危险的工具和供人使用的工具不会提供给它。",
		En: "The owner there is asked twice: whether a node may connect, and what it may do. Dangerous tools, and those for people, are left out."}
)
