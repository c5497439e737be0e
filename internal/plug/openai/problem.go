package openai

import (
	"strings"

	"patchbay/internal/talk"
)

// Problem is what is wrong with a model until something changes, by a name that stays. What
// is about one question, and says nothing about the next, is none.
type Problem string

// What can be wrong.
const (
	Silent      Problem = "silent"
	Key         Problem = "key"
	Spent       Problem = "spent"
	Unknown     Problem = "unknown"
	Throttled   Problem = "throttled"
	ServerFault Problem = "server"
	Unreachable Problem = "unreachable"
	Private     Problem = "private"
	Broke       Problem = "broke"
	Garbled     Problem = "garbled"
)

// problem is what is wrong, and what the owner can do about it.
type problem struct{ say, fix talk.Say }

var problems = map[Problem]problem{
	Silent: {
		talk.Say{Zh: "模型在规定时间内没有回答", En: "the model did not answer in time"},
		talk.Say{
			Zh: "请确认模型服务正在运行，没有过载；加载慢的模型可以调长 first_byte_timeout。",
			En: "See whether its server runs and is not overloaded; a model that loads slowly needs a longer first_byte_timeout.",
		},
	},
	Key:         {sayKey, talk.Say{Zh: "请检查 api_key。", En: "Check api_key."}},
	Spent:       {saySpent, talk.Say{Zh: "请为 api_key 对应的账户充值。", En: "The account behind api_key needs credit."}},
	Unknown:     {sayUnknown, talk.Say{Zh: "请检查 base_url 和 model。", En: "Check base_url and model."}},
	Throttled:   {sayThrottled, talk.Say{Zh: "请稍后再试，或提高账户的限额。", En: "Try again later, or have the limits of the account raised."}},
	ServerFault: {sayServer, talk.Say{Zh: "请查看模型服务的日志。", En: "The log of the model's server tells more."}},
	Unreachable: {
		sayUnreachable,
		talk.Say{Zh: "请确认模型服务正在运行，base_url 正确。", En: "See whether the model's server runs, and whether base_url is right."},
	},
	Private: {sayPrivate, talk.Say{
		Zh: "请使用公网地址，或请管理员把主机加入 fetch.private_hosts。",
		En: "Use a public address, or ask an administrator to add its host to fetch.private_hosts.",
	}},
	Broke:   {sayBroke, talk.Say{Zh: "请查看模型服务的日志。", En: "The log of the model's server tells more."}},
	Garbled: {sayGarbled, talk.Say{Zh: "请检查 base_url 是不是聊天接口的地址。", En: "See whether base_url is that of a chat API."}},
}

// problemOf is the problem behind words, or nothing.
func problemOf(say talk.Say) Problem {
	for p, is := range problems {
		if is.say == say {
			return p
		}
	}
	return ""
}

// Words are what is wrong and what the owner can do.
func (p Problem) Words() talk.Say {
	is, ok := problems[p]
	if !ok { // a later version has found it
		is = problem{sayServer, problems[ServerFault].fix}
	}
	return talk.Say{Zh: is.say.Zh + "。" + is.fix.Zh, En: strings.ToUpper(is.say.En[:1]) + is.say.En[1:] + ". " + is.fix.En}
}

// OfConnection reports whether a connection that is made shows that the problem is over.
func (p Problem) OfConnection() bool { return p == Unreachable || p == Private }
