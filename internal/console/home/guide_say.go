package home

import "patchbay/internal/talk"

// Texts of the guide's first page and of its lights.
var (
	sayGuide     = talk.Say{Zh: "想接入什么？", En: "What would you like to connect?"}
	sayGuideTold = talk.Say{Zh: "选一种开始方式，几步就能听到第一个回答。其他方式随时可以再来。",
		En: "Choose where to start: a few steps lead to the first answer. You can come back for the others at any time."}
	sayToFirst   = talk.Say{Zh: "去首页", En: "To the first page"}
	sayOtherWays = talk.Say{Zh: "其他接入方式", En: "Other things to connect"}
	sayThere     = talk.Say{Zh: "已经接通", En: "connected"}
	sayNotThere  = talk.Say{Zh: "还没有接通", En: "not connected yet"}
	sayNearly    = talk.Say{Zh: "还差一步", En: "one step left"}
	saySign      = talk.Say{Zh: "接通了吗？", En: "Has it worked?"}
	sayArrived   = talk.Say{Zh: "接通了！", En: "It works!"}

	sayGlasses     = talk.Say{Zh: "Rokid 眼镜", En: "Rokid glasses"}
	sayGlassesTold = talk.Say{Zh: "对眼镜说话、拍照，你的机器人来回答。",
		En: "Speak to your glasses, or show them something, and your bot answers."}
	sayBoard     = talk.Say{Zh: "语音板", En: "A voice board"}
	sayBoardTold = talk.Say{Zh: "带麦克风和扬声器的小设备（小智），固件不用改。目前对它说话，它只会复述听到的话；机器人还不能通过它说话。",
		En: "A small device with microphone and speaker (XiaoZhi). Its firmware stays as it is. For now it repeats what it hears when you talk to it; bots cannot talk through it yet."}
	sayAgent     = talk.Say{Zh: "智能体或模型", En: "An agent or a model"}
	sayAgentTold = talk.Say{Zh: "由谁来回答：OpenClaw 的智能体，或任何兼容 OpenAI 接口的模型。",
		En: "Who answers: an agent of OpenClaw, or any model with an API like OpenAI's."}

	sayGlassesWait = talk.Say{Zh: "正在等眼镜的第一个问题。来了以后，这盏灯会自己亮。",
		En: "Waiting for the first question from your glasses. This light turns on by itself when it comes."}
	sayBoardWait = talk.Say{Zh: "正在等语音板联系这台服务器。来了以后，这盏灯会自己亮。",
		En: "Waiting for your board to call this server. This light turns on by itself when it does."}
	sayAgentWait = talk.Say{Zh: "正在等第一次连接或第一个回答。来了以后，这盏灯会自己亮。",
		En: "Waiting for the first connection or the first answer. This light turns on by itself when it comes."}

	sayCameQuestion = talk.Say{Zh: "眼镜向 %s 提了一个问题。", En: "Your glasses have asked %s something."}
	sayCameAnswer   = talk.Say{Zh: "%s 回答了一个问题。", En: "%s has answered a question."}
	sayCameKey      = talk.Say{Zh: "平台用密钥 %s 连上来了，但还没有机器人被问到：请绑定眼镜。",
		En: "The platform came with the key %s, but no bot was asked yet: bind your glasses."}
	sayCameDevice = talk.Say{Zh: "语音板 %s 来过了。", En: "The board %s was here."}
	sayCameCode   = talk.Say{Zh: "有一块语音板正显示配对码。如果是你的，请输入它。",
		En: "A board shows a code. If it is yours, type the code in."}
	sayCameBot  = talk.Say{Zh: "%s 连接上了。", En: "%s has connected."}
	sayCameNode = talk.Say{Zh: "%s 连接到了网关。", En: "%s has connected to the gateway."}
)

// Texts of the steps of the setup paths.
var (
	sayStepBot     = talk.Say{Zh: "选一个来回答的机器人", En: "Choose a bot that answers"}
	sayStepBotHave = talk.Say{Zh: "你已经有机器人了：", En: "You have some already:"}
	sayStepBotNone = talk.Say{Zh: "先添加一个。“回声”机器人会重复你的话，什么都不用配置，最适合先试一试。",
		En: "Add one first. An echo bot says everything back and needs no settings, so it is the best to try with."}
	sayMakeEcho     = talk.Say{Zh: "添加回声机器人", En: "Add an echo bot"}
	sayMakeOther    = talk.Say{Zh: "添加别的机器人", En: "Add another bot"}
	sayGlassesForm  = talk.Say{Zh: "在灵珠平台填写表单", En: "Fill in the form on the Lingzhu platform"}
	sayGlassesForm1 = talk.Say{Zh: "在平台控制台新建三方智能体（项目开发 → 三方智能体 → 创建），把每一栏复制过去。接口地址是：",
		En: "In the platform's console make a third-party agent (项目开发 → 三方智能体 → 创建), and copy each field there. The address of the interface is:"}
	sayGlassesURL  = talk.Say{Zh: "接口地址", En: "Address of the interface"}
	sayGlassesOpen = talk.Say{Zh: "逐栏复制，并创建密钥", En: "The fields one by one, and the key"}
	sayNotPublic   = talk.Say{Zh: "平台要能从互联网访问这个地址，而且要用 https。请把 public_url 设置成这台服务器的公网地址。",
		En: "The platform has to reach this address from the internet, by https. Set public_url to the public address of this server."}
	sayGlassesBind  = talk.Say{Zh: "绑定你的眼镜", En: "Bind your glasses"}
	sayGlassesBind1 = talk.Say{Zh: "打开二维码，戴上眼镜对智能体说任意一句话，然后拍下二维码。",
		En: "Open the QR code, put the glasses on, say anything to the agent, and photograph the code."}
	sayGlassesCode = talk.Say{Zh: "打开二维码", En: "Open the QR code"}
	sayGlassesSay  = talk.Say{Zh: "对眼镜说“你好”", En: "Say “hello” to your glasses"}
	sayGlassesSay1 = talk.Say{Zh: "问题到这里的时候，下面的灯就亮了。", En: "When the question gets here, the light below turns on."}

	sayBoardWifi  = talk.Say{Zh: "告诉语音板地址", En: "Tell the board where to call"}
	sayBoardWifi1 = talk.Say{Zh: "让它进入配网模式，用手机连上它的热点。在配网页面的“高级选项”里，把 OTA 地址改成：",
		En: "Put it into Wi-Fi setup and join its network with your phone. On the page it shows, under the advanced options, change the OTA address to:"}
	sayBoardURL   = talk.Say{Zh: "OTA 地址", En: "OTA address"}
	sayLocalOnly  = talk.Say{Zh: "语音板访问不到这个地址，它只在这台电脑上有效。请用这台电脑在局域网里的地址打开本页，例如 http://192.168.1.5:3000，并让服务器监听所有地址（--listen :3000）。", En: "Boards cannot reach this address, which is good on this computer alone. Open this page by the computer's address in your network, such as http://192.168.1.5:3000, and let the server listen on every address (--listen :3000)."}
	sayBoardCode  = talk.Say{Zh: "看六位配对码", En: "Read the six digits"}
	sayBoardCode1 = talk.Say{Zh: "语音板重启后会显示并读出配对码，十五分钟内有效。",
		En: "The board restarts, shows a code and says it. It is good for a quarter of an hour."}
	sayBoardType  = talk.Say{Zh: "在这里输入配对码", En: "Type the code in here"}
	sayBoardType1 = talk.Say{Zh: "谁输入配对码，语音板就归谁。可以同时给它起名字、选机器人。",
		En: "Whoever types it in owns the board. You can give it a name and a bot at the same time."}
	sayBoardWait1  = talk.Say{Zh: "等半分钟", En: "Wait half a minute"}
	sayBoardWait1T = talk.Say{Zh: "语音板会自己连上来。对它说句话，它会复述出来。之后就可以调音量、放声音、用它的工具了。",
		En: "The board connects by itself. Say something to it: it repeats what it hears. Then you can set its volume, play sounds and use its tools."}

	sayAgentWho    = talk.Say{Zh: "选择由谁回答", En: "Choose who answers"}
	sayAgentModel  = talk.Say{Zh: "一个模型", En: "A model"}
	sayAgentModel1 = talk.Say{Zh: "Ollama、DeepSeek、OpenAI 等：填接口地址和模型名即可。",
		En: "Ollama, DeepSeek, OpenAI and others: give the address and the model's name."}
	sayAgentPlugin  = talk.Say{Zh: "OpenClaw，通过 EyeClaw 插件", En: "OpenClaw, by the EyeClaw plugin"}
	sayAgentPlugin1 = talk.Say{Zh: "插件从那台电脑主动连过来，那边不用开放端口。",
		En: "The plugin dials out from its computer, which needs no open port."}
	sayAgentGate  = talk.Say{Zh: "OpenClaw，直接连它的网关", En: "OpenClaw, by its gateway"}
	sayAgentGate1 = talk.Say{Zh: "这台服务器能访问那个网关时使用，不用插件。",
		En: "If this server can reach that gateway. No plugin is needed."}
	sayAgentAdd    = talk.Say{Zh: "添加", En: "Add"}
	sayAgentThere  = talk.Say{Zh: "在智能体的电脑上", En: "On the agent's computer"}
	sayAgentThere1 = talk.Say{Zh: "模型不需要这一步。用 EyeClaw 插件的话，添加机器人时会给出带令牌的完整命令，大致是：",
		En: "A model needs nothing. For the EyeClaw plugin, the page of the new bot gives you all the commands with the bot's token; they are like these:"}
	sayCommands     = talk.Say{Zh: "命令", En: "Commands"}
	sayAgentAsk     = talk.Say{Zh: "问它一句话", En: "Ask it something"}
	sayAgentAsk1    = talk.Say{Zh: "打开机器人的对话页，说句“你好”。", En: "Open the bot's chat and say hello."}
	sayAgentAskNone = talk.Say{Zh: "添加机器人以后，在它的对话页说句“你好”。", En: "Once you have added the bot, say hello in its chat."}
	sayAgentOther   = talk.Say{Zh: "反过来：让 OpenClaw 用你的设备", En: "The other way round: OpenClaw uses your devices"}
	sayAgentOther1  = talk.Say{Zh: "电脑和手机也可以作为节点连到这台服务器。创建一个 node 权限的密钥，在那台电脑上运行下面的命令（把 KEY 换成密钥），然后在网关页面同意它。",
		En: "Computers and phones can connect to this server as nodes. Make a key with the scope node, run this on the computer (with the key for KEY), and agree to it on the page of the gateway."}
	sayKeys    = talk.Say{Zh: "创建密钥", En: "Make a key"}
	sayGateway = talk.Say{Zh: "打开网关页面", En: "Open the gateway"}
)
