package openai

import (
	"strings"

	"patchbay/internal/talk"
)

// Problem is the stable name of a lasting problem with a model. A failure that affects only one
// question is no Problem.
type Problem string

// Problems of a model.
const (
	ProblemTimeout         Problem = "silent"
	ProblemKey             Problem = "key"
	ProblemNoCredit        Problem = "spent"
	ProblemModelNotFound   Problem = "unknown"
	ProblemThrottled       Problem = "throttled"
	ProblemServer          Problem = "server"
	ProblemUnreachable     Problem = "unreachable"
	ProblemPrivateAddress  Problem = "private"
	ProblemConnectionLost  Problem = "broke"
	ProblemInvalidResponse Problem = "garbled"
)

// problemText describes a problem and what the owner can do about it.
type problemText struct{ say, fix talk.Say }

var problems = map[Problem]problemText{
	ProblemTimeout: {
		talk.Say{Zh: "模型在规定时间内没有回答", En: "the model did not answer in time"},
		talk.Say{
			Zh: "请确认模型服务正在运行，没有过载；加载慢的模型可以调长 first_byte_timeout。",
			En: "See whether its server runs and is not overloaded; a model that loads slowly needs a longer first_byte_timeout.",
		},
	},
	ProblemKey: {sayKey, talk.Say{Zh: "请检查 api_key。", En: "Check api_key."}},
	ProblemNoCredit: {saySpent, talk.Say{Zh: "请为 api_key 对应的账户充值。",
		En: "The account behind api_key needs credit."}},
	ProblemModelNotFound: {sayUnknown, talk.Say{Zh: "请检查 base_url 和 model。", En: "Check base_url and model."}},
	ProblemThrottled: {sayThrottled, talk.Say{Zh: "请稍后再试，或提高账户的限额。",
		En: "Try again later, or have the limits of the account raised."}},
	ProblemServer: {sayServer, talk.Say{Zh: "请查看模型服务的日志。", En: "The log of the model's server tells more."}},
	ProblemUnreachable: {
		sayUnreachable,
		talk.Say{Zh: "请确认模型服务正在运行，base_url 正确。",
			En: "See whether the model's server runs, and whether base_url is right."},
	},
	ProblemPrivateAddress: {sayPrivate, talk.Say{
		Zh: "请使用公网地址，或请管理员把主机加入 fetch.private_hosts。",
		En: "Use a public address, or ask an administrator to add its host to fetch.private_hosts.",
	}},
	ProblemConnectionLost: {sayBroke, talk.Say{Zh: "请查看模型服务的日志。", En: "The log of the model's server tells more."}},
	ProblemInvalidResponse: {sayGarbled, talk.Say{Zh: "请检查 base_url 是不是聊天接口的地址。",
		En: "See whether base_url is that of a chat API."}},
}

// problemOf returns the problem that a message describes, or "".
func problemOf(say talk.Say) Problem {
	for p, is := range problems {
		if is.say == say {
			return p
		}
	}
	return ""
}

// Text returns the description of the problem and what the owner can do about it.
func (p Problem) Text() talk.Say {
	is, ok := problems[p]
	if !ok { // recorded by a later version
		is = problemText{sayServer, problems[ProblemServer].fix}
	}
	return talk.Say{Zh: is.say.Zh + "。" + is.fix.Zh, En: strings.ToUpper(is.say.En[:1]) + is.say.En[1:] + ". " +
		is.fix.En}
}

// IsConnectivity reports whether a successful connection shows that the problem is over.
func (p Problem) IsConnectivity() bool { return p == ProblemUnreachable || p == ProblemPrivateAddress }
