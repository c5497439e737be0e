package devices

import "patchbay/internal/talk"

var (
	sayDevices    = talk.Say{Zh: "设备", En: "Devices"}
	sayApproveOne = talk.Say{Zh: "添加设备", En: "Add a device"}
	sayLook       = talk.Say{Zh: "查找", En: "Search"}
	sayLookFor    = talk.Say{Zh: "名字或 MAC 地址", En: "Name or MAC address"}
	sayNodes      = talk.Say{Zh: "OpenClaw 的节点在", En: "OpenClaw nodes are at"}
	sayGateway    = talk.Say{Zh: "网关", En: "Gateway"}
	sayNone       = talk.Say{Zh: "还没有设备", En: "No device yet"}
	sayNoneTold   = talk.Say{Zh: "把语音板的服务器地址设成这台服务器并打开它，它会显示六位验证码，在这里输入即可。",
		En: "Point a voice board at this server and turn it on. It shows a code of six digits: type that in here."}
	sayNoneFit     = talk.Say{Zh: "没有符合的设备", En: "No device fits"}
	sayNoneFitTold = talk.Say{Zh: "没有名字或 MAC 地址里有“%s”的设备。", En: "None has “%s” in its name or its MAC address."}
	sayAll         = talk.Say{Zh: "显示全部", En: "Show all"}
	sayOneWaits    = talk.Say{Zh: "有 1 个设备正显示验证码，等待批准。", En: "1 device shows a code and waits to be approved."}
	sayManyWait    = talk.Say{Zh: "有 %d 个设备正显示验证码，等待批准。", En: "%d devices show a code and wait to be approved."}
	sayRemoved     = talk.Say{Zh: "设备已移除。", En: "The device is removed."}
	sayFirmware    = talk.Say{Zh: "固件 %s", En: "firmware %s"}
	sayAnswers     = talk.Say{Zh: "由 %s 回答", En: "%s answers"}
	saySeen        = talk.Say{Zh: "最近出现", En: "Last seen"}
	sayFirstPage   = talk.Say{Zh: "从头开始", En: "To the beginning"}

	sayAwake     = talk.Say{Zh: "在线", En: "Awake"}
	sayAsleep    = talk.Say{Zh: "休眠", En: "Asleep"}
	sayShowsCode = talk.Say{Zh: "等待批准", En: "Waits for approval"}
	sayIdle      = talk.Say{Zh: "在线，空闲", En: "Awake, idle"}
	sayListening = talk.Say{Zh: "正在听", En: "Listening"}
	saySpeaking  = talk.Say{Zh: "正在说", En: "Speaking"}

	sayApproveTold = talk.Say{Zh: "打开设备，它会显示并念出六位验证码，一刻钟内有效。目前对语音板说话，它只会复述听到的话；机器人还不能通过它说话。",
		En: "Turn the device on: it shows, and says, a code of six digits, which is good for a quarter of an hour. For now a board repeats what it hears when you talk to it; bots cannot talk through it yet."}
	sayCode      = talk.Say{Zh: "验证码", En: "Code"}
	sayCodeTip   = talk.Say{Zh: "六位数字；空格不要紧。", En: "Six digits; spaces do not matter."}
	sayName      = talk.Say{Zh: "名字", En: "Name"}
	sayRenameTip = talk.Say{Zh: "程序和机器人也用这个名字称呼它。", En: "Programs and bots call it by this name too."}
	sayNameTip   = talk.Say{Zh: "例如“厨房”；留空会取一个。", En: "Such as “kitchen”; if it stays empty, one is made."}
	sayBot       = talk.Say{Zh: "由谁回答", En: "Who answers"}
	sayBotTip    = talk.Say{Zh: "对设备说话时回答的机器人，以后可以改。",
		En: "The bot that answers when somebody talks to it. It can be changed later."}
	sayNoBot   = talk.Say{Zh: "暂时没有", En: "Nobody for now"}
	sayApprove = talk.Say{Zh: "批准", En: "Approve"}
	sayTaken   = talk.Say{Zh: "这个设备是别人的，要由主人先在自己的设备页面里移除它。",
		En: "This device belongs to somebody else, who has to remove it first, on its page."}
	sayApproved = talk.Say{Zh: "批准了，设备现在归你。它会在半分钟内连接上来。",
		En: "Approved: the device is yours. It connects within half a minute."}
	sayShowCodes    = talk.Say{Zh: "正显示验证码的设备", En: "Devices that show a code"}
	sayShowCodesTip = talk.Say{Zh: "验证码只有站在设备前的人看得到。", En: "The codes can be seen by whoever stands before them."}
	sayErased       = talk.Say{Zh: "有设备以它的 MAC 地址出现并显示验证码：它被抹除过，或另有设备冒充它。",
		En: "Something with its MAC address shows a code: it was erased, or something pretends to be it."}
	sayApproveAgain = talk.Say{Zh: "如果是你抹除的，再批准一次", En: "If it was you who erased it, approve it again"}

	sayOverview = talk.Say{Zh: "概览", En: "Overview"}
	sayTools    = talk.Say{Zh: "工具", En: "Tools"}
	saySettings = talk.Say{Zh: "设置", En: "Settings"}

	sayNow        = talk.Say{Zh: "此刻", En: "Right now"}
	sayAsking     = talk.Say{Zh: "正在询问设备……", En: "Asking the device…"}
	sayAskNow     = talk.Say{Zh: "询问设备", En: "Ask the device"}
	sayAskAgain   = talk.Say{Zh: "刷新", En: "Refresh"}
	saySilent     = talk.Say{Zh: "设备没有说它现在怎么样。", En: "The device did not say how it is."}
	sayAsleepTold = talk.Say{Zh: "设备在休眠。用 WebSocket 连接的设备只有在有人对它说话时才联系得上；用 MQTT 的随时可以。",
		En: "It is asleep. A device on WebSocket can be reached only while somebody talks to it; one on MQTT at any time."}
	saySince       = talk.Say{Zh: "连接于", En: "Connected"}
	sayBy          = talk.Say{Zh: "通过", En: "By"}
	sayWaits       = talk.Say{Zh: "等它醒来再送达", En: "Waits until it wakes"}
	sayVolume      = talk.Say{Zh: "音量", En: "Volume"}
	sayBrightness  = talk.Say{Zh: "亮度", En: "Brightness"}
	sayTheme       = talk.Say{Zh: "屏幕主题", En: "Theme of the screen"}
	sayThemeLight  = talk.Say{Zh: "浅色", En: "Light"}
	sayThemeDark   = talk.Say{Zh: "深色", En: "Dark"}
	sayNotKnown    = talk.Say{Zh: "未知", En: "not known"}
	saySet         = talk.Say{Zh: "设定", En: "Set"}
	sayBattery     = talk.Say{Zh: "电量", En: "Battery"}
	sayCharging    = talk.Say{Zh: "%d%%，正在充电", En: "%d%%, charging"}
	sayLevel       = talk.Say{Zh: "%d%%", En: "%d%%"}
	sayNetwork     = talk.Say{Zh: "网络", En: "Network"}
	sayTemperature = talk.Say{Zh: "芯片温度", En: "Chip temperature"}
	sayThisTalk    = talk.Say{Zh: "正在进行的对话的声音", En: "Sound of the conversation that goes on"}
	sayLastTalk    = talk.Say{Zh: "上一次对话的声音", En: "Sound of the last conversation"}
	sayBegan       = talk.Say{Zh: "开始", En: "Began"}
	sayLasted      = talk.Say{Zh: "时长", En: "Lasted"}
	saySeconds     = talk.Say{Zh: "%.0f 秒", En: "%.0f s"}
	sayHeard       = talk.Say{Zh: "听到", En: "Heard from it"}
	saySent        = talk.Say{Zh: "播给它", En: "Sent to it"}
	sayHeardWas    = talk.Say{Zh: "%d 个数据包，丢失 %d，中断 %d 次，抖动 %.0f 毫秒",
		En: "%d packets, %d lost, %d gaps, jitter %.0f ms"}
	saySentWas = talk.Say{Zh: "%d 段回答，%d 个数据包，迟到 %d，抖动 %.0f 毫秒",
		En: "%d answers, %d packets, %d late, jitter %.0f ms"}

	sayShowText   = talk.Say{Zh: "显示文字", En: "Show a text"}
	sayText       = talk.Say{Zh: "文字", En: "Text"}
	sayShow       = talk.Say{Zh: "显示", En: "Show it"}
	sayAlert      = talk.Say{Zh: "提醒", En: "Alert"}
	sayAlertTold  = talk.Say{Zh: "显示标题和文字，并发出声音。", En: "Shows a title and a text, and makes a noise."}
	sayTitle      = talk.Say{Zh: "标题", En: "Title"}
	sayAlertNow   = talk.Say{Zh: "发出提醒", En: "Alert now"}
	sayPlay       = talk.Say{Zh: "播放声音", En: "Play a sound"}
	sayFile       = talk.Say{Zh: "WAV 或 Ogg 文件", En: "WAV or Ogg file"}
	sayFileTip    = talk.Say{Zh: "最大 %d MiB。", En: "%d MiB at most."}
	sayOrAddress  = talk.Say{Zh: "或者它的网址", En: "Or the address of one"}
	sayCaption    = talk.Say{Zh: "同时显示的文字", En: "Text to show meanwhile"}
	sayPlayIt     = talk.Say{Zh: "播放", En: "Play"}
	sayStop       = talk.Say{Zh: "停止播放", En: "Stop playing"}
	sayRecord     = talk.Say{Zh: "录音", En: "Record"}
	sayRecordTold = talk.Say{Zh: "设备只有在有人对它说话时才听得到声音：按下按钮，然后唤醒它。最多等一分钟。",
		En: "A device hears only while somebody talks to it: press the button, then wake it. That is waited for, a minute at most."}
	sayHowLong    = talk.Say{Zh: "录多少秒", En: "For how many seconds"}
	sayRecordIt   = talk.Say{Zh: "开始录音", En: "Record"}
	sayListen     = talk.Say{Zh: "收听", En: "Listen in"}
	sayListenTold = talk.Say{Zh: "听设备现在听到的声音。它只有在有人对它说话时才听得到。收听会记录在日志里。",
		En: "Hear what the device hears, which it does only while somebody talks to it. The log notes that you listened."}
	sayListenOn    = talk.Say{Zh: "开始收听", En: "Listen"}
	sayListenOff   = talk.Say{Zh: "停止收听", En: "Stop listening"}
	sayYouListen   = talk.Say{Zh: "你正在收听 %s", En: "You are listening to %s"}
	sayYouListenTo = talk.Say{Zh: "有人对设备说话时，过几秒这里就有声音。没有自动播放的话，请按播放键。",
		En: "A few seconds after somebody begins to talk to the device, there is sound. If nothing plays by itself, press play."}
	sayPhoto        = talk.Say{Zh: "拍照", En: "Take a photo"}
	sayQuestion     = talk.Say{Zh: "想问照片什么", En: "What do you want to know about it?"}
	sayQuestionIs   = talk.Say{Zh: "你看到了什么？", En: "What do you see?"}
	sayPhotoIt      = talk.Say{Zh: "拍照", En: "Take it"}
	sayReboot       = talk.Say{Zh: "重新启动", En: "Restart"}
	sayRebootIt     = talk.Say{Zh: "重新启动设备", En: "Restart the device"}
	sayRebootSure   = talk.Say{Zh: "要重新启动这个设备吗？", En: "Restart this device?"}
	sayWorking      = talk.Say{Zh: "正在进行……", En: "Working…"}
	sayDone         = talk.Say{Zh: "完成。", En: "Done."}
	sayDelivered    = talk.Say{Zh: "已送达。", En: "Delivered."}
	sayNobodyTalked = talk.Say{Zh: "等的时候没有人对设备说话。请唤醒它，再试一次。",
		En: "Nobody talked to the device meanwhile. Try again, and wake it."}
	sayOnlyInTalk = talk.Say{Zh: "设备已连接，但没有人在对它说话，而它只在对话中才这样做。",
		En: "The device is connected, but nobody talks to it, and it does this only in a conversation."}
	sayStopped  = talk.Say{Zh: "停下了。", En: "It has stopped."}
	sayWasQuiet = talk.Say{Zh: "它本来就没在播放。", En: "It was not playing anything."}
	sayKept     = talk.Say{Zh: "先保留着，等它醒来再送达。", En: "It is kept, and delivered when the device wakes up."}
	sayLater    = talk.Say{Zh: "等它醒来再做", En: "Do it when it wakes up"}
	sayLaterTip = talk.Say{Zh: "一天之内它醒来时送达。", En: "It is kept for a day."}

	sayEarsLive   = talk.Say{Zh: "%s 正在收听", En: "%s is listening"}
	sayEarsFile   = talk.Say{Zh: "%s 正在录音", En: "%s is recording"}
	sayEarsPhoto  = talk.Say{Zh: "%s 正在拍照", En: "%s is taking a photo"}
	sayEarsSince  = talk.Say{Zh: "，开始于", En: "since"}
	sayHeardLive  = talk.Say{Zh: "%s 收听过", En: "%s listened"}
	sayHeardFile  = talk.Say{Zh: "%s 录过音", En: "%s recorded"}
	sayHeardPhoto = talk.Say{Zh: "%s 拍过照", En: "%s took a photo"}
	sayHeardLast  = talk.Say{Zh: "上次收听", En: "Heard last by"}

	sayTells     = talk.Say{Zh: "设备的动态", En: "What it tells"}
	sayTellsNone = talk.Say{Zh: "这一页打开期间设备说的事会出现在这里。",
		En: "What the device tells while this page is open appears here."}
	sayWoke      = talk.Say{Zh: "醒来了，通过 %s 连接", En: "It woke up, connected by %s"}
	saySlept     = talk.Say{Zh: "休眠了", En: "It fell asleep"}
	sayTalks     = talk.Say{Zh: "有人开始对它说话", En: "Somebody began to talk to it"}
	sayQuiet     = talk.Say{Zh: "对话结束", En: "The conversation ended"}
	sayPhotoCame = talk.Say{Zh: "发来一张照片（%s）", En: "It sent a photo (%s)"}

	sayUnknownWay = talk.Say{Zh: "未知方式", En: "some way"}
	sayFacts      = talk.Say{Zh: "关于设备", En: "About it"}
	sayNumber     = talk.Say{Zh: "编号", En: "Number"}
	sayMAC        = talk.Say{Zh: "MAC 地址", En: "MAC address"}
	sayBoard      = talk.Say{Zh: "型号", En: "Board"}
	sayVersion    = talk.Say{Zh: "固件版本", En: "Firmware"}
	sayLanguage   = talk.Say{Zh: "语言", En: "Language"}
	sayTransport  = talk.Say{Zh: "连接方式", En: "How it connects"}
	sayAddress    = talk.Say{Zh: "IP 地址", En: "IP address"}
	sayApprovedAt = talk.Say{Zh: "批准于", En: "Approved"}
	sayFeatures   = talk.Say{Zh: "设备自己说的全部", En: "All that it says of itself"}

	sayTransportTip = talk.Say{Zh: "设备下次开机时按这个连接。用 MQTT 的设备随时联系得上。",
		En: "It is used from when the device is turned on the next time. A device on MQTT can be reached at any time."}
	sayServerChooses = talk.Say{Zh: "由服务器决定", En: "The server chooses"}
	saySave          = talk.Say{Zh: "保存", En: "Save"}
	saySaved         = talk.Say{Zh: "已保存。", En: "Saved."}
	sayRemove        = talk.Say{Zh: "移除设备", En: "Remove the device"}
	sayRemoveTold    = talk.Say{Zh: "设备会断开。下次开机时它又显示验证码，谁输入就归谁。",
		En: "It is disconnected. When it is turned on again it shows a code, and belongs to whoever types that in."}
	sayRemoveSure = talk.Say{Zh: "要移除 %s 吗？", En: "Remove %s?"}

	sayToolsTold = talk.Say{Zh: "设备能做的每一件事。程序和机器人也能用这些工具，除非不允许。",
		En: "Everything that the device can do. Programs and bots can use these tools too, unless they are not allowed to."}
	sayToolsNone  = talk.Say{Zh: "还不知道它有哪些工具", En: "Its tools are not known yet"}
	sayToolsNoTip = talk.Say{Zh: "设备第一次连接时会说它能做什么。",
		En: "The device tells what it can do when it connects for the first time."}
	sayOwnTools   = talk.Say{Zh: "这个设备自己的工具", En: "Tools of this device"}
	sayEachTools  = talk.Say{Zh: "每个设备都有的工具", En: "Tools that every device has"}
	sayCall       = talk.Say{Zh: "执行", En: "Run it"}
	sayCallSure   = talk.Say{Zh: "这个工具可能造成无法挽回的后果。要执行 %s 吗？", En: "This tool can do what cannot be undone. Run %s?"}
	sayDenied     = talk.Say{Zh: "不允许", En: "not allowed"}
	sayDangerous  = talk.Say{Zh: "有风险", En: "can do harm"}
	sayForPeople  = talk.Say{Zh: "只给人用", En: "for people"}
	sayReads      = talk.Say{Zh: "只查看", En: "only looks"}
	sayDeniedTold = talk.Say{Zh: "你没有允许使用这个工具。可以在“工具”页面里允许。",
		En: "You do not allow this tool. You can allow it on the page of your tools."}
	sayDangerTold = talk.Say{Zh: "这个工具有风险，只有你在“工具”页面里点名允许之后才能使用。",
		En: "This tool can do harm, so it can be used only once you have allowed it by name, on the page of your tools."}
	sayToTools = talk.Say{Zh: "到“工具”页面", En: "To the page of your tools"}
	sayBack    = talk.Say{Zh: "回到设备", En: "Back to the device"}

	sayToolStatus   = talk.Say{Zh: "连接状况", En: "How it is connected"}
	sayToolEmotion  = talk.Say{Zh: "做表情", En: "Make a face"}
	sayToolAudio    = talk.Say{Zh: "声音指令", En: "Audio commands"}
	sayToolInfo     = talk.Say{Zh: "设备状况", En: "How the device is"}
	sayToolSystem   = talk.Say{Zh: "系统信息", En: "About its system"}
	sayToolUpgrade  = talk.Say{Zh: "升级固件", En: "Upgrade the firmware"}
	sayToolScreen   = talk.Say{Zh: "屏幕信息", En: "About its screen"}
	sayToolSnapshot = talk.Say{Zh: "屏幕截图", En: "Picture of its screen"}
	sayToolPreview  = talk.Say{Zh: "在屏幕上显示图片", En: "Show a picture on its screen"}
	sayToolAssets   = talk.Say{Zh: "设置资源下载地址", En: "Set where its assets come from"}

	sayFormLarge  = talk.Say{Zh: "填写的内容太长。", En: "What was filled in is too long."}
	saySoundLarge = talk.Say{Zh: "文件超过 %d MiB。把它放到一个网址，让设备从那里播放。",
		En: "The file is larger than %d MiB. Put it at an address, and let the device play it from there."}
	sayNoSound    = talk.Say{Zh: "请选一个文件，或填一个网址。", En: "Choose a file, or give an address."}
	sayWrongSound = talk.Say{Zh: "这不是 WAV 或 Ogg 文件。可以这样转换：ffmpeg -i 声音文件 -ac 1 -c:a libopus sound.ogg",
		En: "This is neither a WAV nor an Ogg file. One can be made with: ffmpeg -i file -ac 1 -c:a libopus sound.ogg"}
	sayNotHeard = talk.Say{Zh: "无法收听：%s", En: "It cannot be listened to: %s"}
)
