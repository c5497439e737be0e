package openai

import (
	"patchbay/internal/i18n"
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
type problemText struct{ say, fix i18n.Message }

var problems = map[Problem]problemText{
	ProblemTimeout: {
		i18n.Message("the model did not answer in time"),
		i18n.Message("See whether its server runs and is not overloaded; a model that loads slowly needs a longer first_byte_timeout."),
	},
	ProblemKey:           {msgKey, i18n.Message("Check the API key.")},
	ProblemNoCredit:      {msgSpent, i18n.Message("The account of the API key needs credit.")},
	ProblemModelNotFound: {msgUnknown, i18n.Message("Check the address of the API and the model.")},
	ProblemThrottled:     {msgThrottled, i18n.Message("Try again later, or have the limits of the account raised.")},
	ProblemServer:        {msgServer, i18n.Message("The log of the model's server tells more.")},
	ProblemUnreachable: {
		msgUnreachable,
		i18n.Message("See whether the model's server runs, and whether the address of its API is right."),
	},
	ProblemPrivateAddress: {msgPrivate,
		i18n.Message("Use a public address, or ask an administrator to add its host to fetch.private_hosts.")},
	ProblemConnectionLost:  {msgBroke, i18n.Message("The log of the model's server tells more.")},
	ProblemInvalidResponse: {msgGarbled, i18n.Message("See whether the address of the API is that of a chat API.")},
}

// problemOf returns the problem that a message describes, or "".
func problemOf(say i18n.Message) Problem {
	for p, is := range problems {
		if is.say == say {
			return p
		}
	}
	return ""
}

const msgProblem = i18n.Message("It cannot answer: %s. %s")

// Text returns the description of the problem and what the owner can do about it.
func (p Problem) Text() i18n.Text {
	is, ok := problems[p]
	if !ok { // recorded by a later version
		is = problemText{msgServer, problems[ProblemServer].fix}
	}
	return msgProblem.With(is.say, is.fix)
}

// IsConnectivity reports whether a successful connection shows that the problem is over.
func (p Problem) IsConnectivity() bool { return p == ProblemUnreachable || p == ProblemPrivateAddress }
