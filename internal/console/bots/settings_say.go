package bots

import "patchbay/internal/talk"

// group is a part of the form of settings.
type group int

const (
	basics  group = iota // open from the beginning
	glasses              // how answers are fitted to the display
	access               // who may ask
	tools                // what the bot may call
	pace                 // times and limits
	finer                // the rest
	groups               // how many there are
)

var groupNames = [groups]talk.Say{
	basics:  {Zh: "基本", En: "Basics"},
	glasses: {Zh: "在眼镜上", En: "On the glasses"},
	access:  {Zh: "谁可以使用它", En: "Who may use it"},
	tools:   {Zh: "它可以使用的工具", En: "Tools that it may use"},
	pace:    {Zh: "等待与限制", En: "Waiting and limits"},
	finer:   {Zh: "更多", En: "More"},
}

// choice is one of the values that a setting can have.
type choice struct {
	value string
	say   talk.Say
}

// words are how a setting is shown in a form.
type words struct {
	group       group
	label, hint talk.Say
	example     string
	choices     []choice // empty: anything
	long        bool     // several lines
	made        bool     // by the server itself: it can only be taken away
}

// settingWords are the words for the settings of all kinds of bots, by name.
var settingWords = map[string]words{
	// echo
	"pace": {group: basics, label: talk.Say{Zh: "停顿", En: "Pause"}, hint: talk.Say{Zh: "两个字之间停多久，例如 50ms", En: "Between two characters, such as 50ms"}, example: "50ms"},

	// openai
	"base_url":           {group: basics, label: talk.Say{Zh: "API 地址", En: "Address of the API"}, hint: talk.Say{Zh: "与 OpenAI 兼容的接口所在的地址", En: "Where the OpenAI-compatible API lives"}, example: "http://localhost:11434/v1"},
	"model":              {group: basics, label: talk.Say{Zh: "模型", En: "Model"}, hint: talk.Say{Zh: "服务器那里的模型名称", En: "Its name, as the server knows it"}, example: "qwen3:8b"},
	"api_key":            {group: basics, label: talk.Say{Zh: "API 密钥", En: "API key"}, hint: talk.Say{Zh: "本机的模型通常不需要。加密保存，不再显示。", En: "Models on your own machine mostly need none. It is kept sealed and not shown again."}},
	"system":             {group: basics, label: talk.Say{Zh: "你对它的说明", En: "Your instructions"}, hint: talk.Say{Zh: "它是谁、怎样回答。会加在内置的说明之后。", En: "Who it is and how it answers. They follow the built-in ones."}, long: true},
	"images":             {group: basics, label: talk.Say{Zh: "模型能看图片", En: "The model can see pictures"}, hint: talk.Say{Zh: "如果不能，会用文字告诉它有一张图片。", En: "If not, it is told in words that a picture came."}},
	"suggest":            {group: basics, label: talk.Say{Zh: "建议下一个问题", En: "Let it suggest next questions"}},
	"temperature":        {group: finer, label: talk.Say{Zh: "温度", En: "Temperature"}, hint: talk.Say{Zh: "0 到 2；越高越随意。空着由服务器决定。", En: "0 to 2; higher is freer. Empty leaves it to the server."}},
	"max_tokens":         {group: finer, label: talk.Say{Zh: "最长的回答", En: "Longest answer"}, hint: talk.Say{Zh: "以 token 计。空着由服务器决定。", En: "In tokens. Empty leaves it to the server."}},
	"history_tokens":     {group: finer, label: talk.Say{Zh: "一并发送的历史", En: "History sent along"}, hint: talk.Say{Zh: "以 token 计，通常是 3000；-1 表示不发送。", En: "In tokens, 3000 if empty; -1 sends nothing."}, example: "3000"},
	"headers":            {group: finer, label: talk.Say{Zh: "附加的请求头", En: "Further headers"}, hint: talk.Say{Zh: "JSON 对象。密钥请填在 API 密钥里，这里的内容会显示出来。", En: "A JSON object. A key belongs into the field for it: these are shown."}, example: `{"X-Team":"home"}`, long: true},
	"extra":              {group: finer, label: talk.Say{Zh: "附加的请求内容", En: "Further fields of requests"}, hint: talk.Say{Zh: "JSON 对象，并入每个请求。", En: "A JSON object that is merged into each request."}, example: `{"reasoning_effort":"low"}`, long: true},
	"user":               {group: finer, label: talk.Say{Zh: "发送佩戴者的化名", En: "Send a pseudonym of the wearer"}, hint: talk.Say{Zh: "有些服务器靠它区分会话。", En: "Some servers keep sessions by it."}},
	"retries":            {group: pace, label: talk.Say{Zh: "重试次数", En: "Tries again"}, hint: talk.Say{Zh: "服务器忙或连不上时，通常是 2；-1 表示不重试。", En: "When the server is busy or away; 2 if empty, -1 for none."}, example: "2"},
	"first_byte_timeout": {group: pace, label: talk.Say{Zh: "等模型开口", En: "Wait for the model to begin"}, hint: talk.Say{Zh: "所有重试加在一起，通常是 30s", En: "All tries together; 30s if empty"}, example: "30s"},
	"idle_timeout":       {group: pace, label: talk.Say{Zh: "模型最长的沉默", En: "Longest silence of the model"}, hint: talk.Say{Zh: "开口之后，通常是 60s", En: "Once it has begun; 60s if empty"}, example: "60s"},
	"tools":              {group: tools, label: talk.Say{Zh: "可以调用功能", En: "It may call functions"}, hint: talk.Say{Zh: "眼镜的命令，以及下面允许的工具。", En: "Commands of the glasses, and the tools that are allowed below."}},
	"tool_steps":         {group: tools, label: talk.Say{Zh: "最多几轮工具", En: "Rounds of tools"}, hint: talk.Say{Zh: "每个问题，通常是 8，最多 32", En: "For a question; 8 if empty, 32 at most"}, example: "8"},
	"tool_time":          {group: tools, label: talk.Say{Zh: "工具一共可用的时间", En: "Time for tools"}, hint: talk.Say{Zh: "每个问题，通常是 2m，最多 10m", En: "For a question; 2m if empty, 10m at most"}, example: "2m"},
	"tool_output":        {group: tools, label: talk.Say{Zh: "结果的长度", En: "Length of a result"}, hint: talk.Say{Zh: "模型看到多少字节，通常是 16384", En: "Bytes that the model gets; 16384 if empty"}, example: "16384"},
	"tools_most":         {group: tools, label: talk.Say{Zh: "最多提供几个功能", En: "Functions at most"}, hint: talk.Say{Zh: "通常是 64，最多 128", En: "64 if empty, 128 at most"}, example: "64"},

	// openclaw
	"url":             {group: basics, label: talk.Say{Zh: "网关地址", En: "Address of the gateway"}, hint: talk.Say{Zh: "本机或内网可用 ws://，别处用 wss://", En: "ws:// on this machine or in your own network, else wss://"}, example: "ws://127.0.0.1:18789"},
	"token":           {group: basics, label: talk.Say{Zh: "网关令牌", En: "Token of the gateway"}, hint: talk.Say{Zh: "在网关的电脑上查看：openclaw gateway auth-token --show。加密保存，不再显示。", En: "See it at the gateway's computer: openclaw gateway auth-token --show. It is kept sealed and not shown again."}},
	"agent":           {group: basics, label: talk.Say{Zh: "智能体", En: "Agent"}, hint: talk.Say{Zh: "它的名称，通常是 main", En: "Its id; main if empty"}, example: "main"},
	"thinking":        {group: finer, label: talk.Say{Zh: "思考多少", En: "How much it thinks"}, hint: talk.Say{Zh: "off、low、medium 或 high。空着由网关决定。", En: "off, low, medium or high. Empty leaves it to the gateway."}},
	"session_prefix":  {group: finer, label: talk.Say{Zh: "会话名称的开头", En: "Beginning of its conversations' names"}, hint: talk.Say{Zh: "通常是 patchbay", En: "patchbay if empty"}, example: "patchbay"},
	"deadline":        {group: pace, label: talk.Say{Zh: "一个回答最多多久", En: "Longest time for an answer"}, hint: talk.Say{Zh: "通常是 2m，最多 30m", En: "2m if empty, 30m at most"}, example: "2m"},
	"device_identity": {group: finer, label: talk.Say{Zh: "在网关那里的身份", En: "Identity at the gateway"}, hint: talk.Say{Zh: "第一次使用时生成。删除它，网关的主人就要重新批准。", En: "It is made at first use. Without it, the gateway's owner has to approve anew."}, made: true},

	// every bot
	"shared":       {group: access, label: talk.Say{Zh: "可以绑定多人", En: "More than one wearer"}, hint: talk.Say{Zh: "否则一次只能绑定一个人。", En: "Otherwise one is bound at a time."}},
	"switch":       {group: access, label: talk.Say{Zh: "可以切换过来", En: "Others may switch to it"}, hint: talk.Say{Zh: "你其他机器人的佩戴者可以说“切换到…”。", En: "Wearers of your other bots can say “switch to …”."}},
	"agent_id":     {group: access, label: talk.Say{Zh: "凭编号提问", En: "Asked by its number"}, hint: talk.Say{Zh: "不用绑定，只说编号。", En: "Without being bound, by the number alone."}, choices: []choice{{"owner", talk.Say{Zh: "只有你的密钥", En: "by your keys only"}}, {"anyone", talk.Say{Zh: "所有人的密钥", En: "by everybody's keys"}}, {"off", talk.Say{Zh: "不允许", En: "by nobody"}}}},
	"learn":        {group: access, label: talk.Say{Zh: "人人可以复习你的知识点", En: "Everybody may review your points"}, hint: talk.Say{Zh: "通常只有绑定的佩戴者可以。", En: "Usually only those who are bound may."}},
	"keep_content": {group: access, label: talk.Say{Zh: "记录保留问答内容", En: "Records keep what was said"}, hint: talk.Say{Zh: "通常按服务器的设置。", En: "Usually as the server is configured."}},

	"hangup":          {group: pace, label: talk.Say{Zh: "提问者离开时", En: "When the asker leaves"}, choices: []choice{{"finish", talk.Say{Zh: "答完，以后再说", En: "finish, and tell it later"}}, {"cancel", talk.Say{Zh: "停止", En: "stop"}}}},
	"first_piece":     {group: pace, label: talk.Say{Zh: "最多等多久开口", En: "Longest wait for the first words"}, hint: talk.Say{Zh: "例如 45s；空着按服务器的设置。", En: "Such as 45s; empty: as the server is configured."}, example: "55s"},
	"idle":            {group: pace, label: talk.Say{Zh: "之后最长的沉默", En: "Longest silence after that"}, hint: talk.Say{Zh: "例如 60s；空着按服务器的设置。", En: "Such as 60s; empty: as the server is configured."}, example: "60s"},
	"concurrent":      {group: pace, label: talk.Say{Zh: "同时回答几个问题", En: "Questions at a time"}, hint: talk.Say{Zh: "空着按类型决定。", En: "Empty: as is usual for its kind."}},
	"waiting":         {group: pace, label: talk.Say{Zh: "最多几个在排队", En: "How many may wait"}, hint: talk.Say{Zh: "再多就请对方稍后再试。", En: "One more is asked to try later."}},
	"allow_tools":     {group: tools, label: talk.Say{Zh: "允许的工具", En: "Tools that are allowed"}, hint: talk.Say{Zh: "名称或带 * 的模式，用逗号分开。空着：没有。", En: "Names, and patterns with *, with commas between. Empty: none."}, example: "home_*, send_message"},
	"deny_tools":      {group: tools, label: talk.Say{Zh: "其中不允许的", En: "Of these, not allowed"}, hint: talk.Say{Zh: "名称或模式，用逗号分开。", En: "Names and patterns, with commas between."}, example: "home_unlock"},
	"dangerous_tools": {group: tools, label: talk.Say{Zh: "仍然允许的危险工具", En: "Dangerous ones that are allowed"}, hint: talk.Say{Zh: "危险的工具，以及只给人用的工具。", En: "Dangerous tools, and tools for people."}, example: "home_lock"},

	"mcp_open":        {group: access, label: talk.Say{Zh: "对旧版 MCP 开放", En: "Open to the older MCP"}, hint: talk.Say{Zh: "能访问这台服务器的任何人，不需要密钥，都可以凭编号问它。", En: "Anybody who reaches this server may ask it by its number, without a key."}},
	"rokid_device_id": {group: access, label: talk.Say{Zh: "旧版 MCP 只允许这台设备", En: "Older MCP: this device only"}, hint: talk.Say{Zh: "设备编号不是秘密：它只能挡住别人的眼镜。", En: "A device id is no secret: it only keeps strangers' glasses away."}, example: "AR-G1-123456"},

	"plain":        {group: glasses, label: talk.Say{Zh: "从回答里去掉", En: "Left out of answers"}, hint: talk.Say{Zh: "markdown、urls、code、emoji，用逗号分开，或 none。空着：markdown 和 code。", En: "markdown, urls, code, emoji, with commas between, or none. Empty: markdown and code."}, example: "markdown, code"},
	"max_chars":    {group: glasses, label: talk.Say{Zh: "每页的字数", En: "Characters of a page"}, hint: talk.Say{Zh: "之后佩戴者说“继续”。空着：不分页。", En: "Then the wearer says “more”. Empty: all at once."}, example: "120"},
	"waiting_text": {group: glasses, label: talk.Say{Zh: "久等时说", En: "Said when it takes long"}, hint: talk.Say{Zh: "只说一次。空着按服务器的设置。", En: "Once. Empty: as the server is configured."}},
	"quiet_start":  {group: glasses, label: talk.Say{Zh: "安静地开始", En: "Quiet start"}, hint: talk.Say{Zh: "回答以导航开头的机器人用得上。", En: "For bots whose answers begin with navigation."}},
	"recall":       {group: glasses, label: talk.Say{Zh: "命令带上 is_recall", En: "Commands with is_recall"}, hint: talk.Say{Zh: "有些桥接程序会发送；官方文档没有。", En: "Some bridges send it; the platform's documents do not know it."}},
	"push_key":     {group: glasses, label: talk.Say{Zh: "推送密钥", En: "Push key"}, hint: talk.Say{Zh: "有了它，迟到的回答会推送到眼镜。加密保存，不再显示。", En: "With it, late answers are pushed to the glasses. It is kept sealed and not shown again."}},
}
