package openai

import "patchbay/internal/talk"

// saySilent is told to the owner of a model that has not answered in time.
var saySilent = talk.Say{
	Zh: "模型在规定时间内没有回答。请确认模型服务正在运行，没有过载；加载慢的模型可以调长 first_byte_timeout。",
	En: "The model did not answer in time. See whether its server runs and is not overloaded; a model that loads slowly needs a longer first_byte_timeout.",
}

// fixes are what the owner can do about what is wrong with the bot. What is missing here is
// about one question, and says nothing about the next.
var fixes = map[talk.Say]talk.Say{
	sayKey:         talk.Say{Zh: "请检查 api_key。", En: "Check api_key."},
	saySpent:       talk.Say{Zh: "请为 api_key 对应的账户充值。", En: "The account behind api_key needs credit."},
	sayUnknown:     talk.Say{Zh: "请检查 base_url 和 model。", En: "Check base_url and model."},
	sayThrottled:   talk.Say{Zh: "请稍后再试，或提高账户的限额。", En: "Try again later, or have the limits of the account raised."},
	sayServer:      talk.Say{Zh: "请查看模型服务的日志。", En: "The log of the model's server tells more."},
	sayUnreachable: talk.Say{Zh: "请确认模型服务正在运行，base_url 正确。", En: "See whether the model's server runs, and whether base_url is right."},
	sayPrivate:     talk.Say{Zh: "请使用公网地址，或请管理员把主机加入 fetch.private_hosts。", En: "Use a public address, or ask an administrator to add its host to fetch.private_hosts."},
	sayBroke:       talk.Say{Zh: "请查看模型服务的日志。", En: "The log of the model's server tells more."},
	sayGarbled:     talk.Say{Zh: "请检查 base_url 是不是聊天接口的地址。", En: "See whether base_url is that of a chat API."},
}
