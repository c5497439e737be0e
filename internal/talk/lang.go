package talk

import (
	"fmt"
	"strings"
)

// Lang is a language of user-facing texts.
type Lang string

// The supported languages.
const (
	Chinese Lang = "zh"
	English Lang = "en"
)

// ParseLang returns the language for a tag such as "zh-CN", "en_US" or "de": Chinese or, for all
// others, English. It returns otherwise for an empty tag.
func ParseLang(tag string, otherwise Lang) Lang {
	tag = strings.ToLower(strings.TrimSpace(tag))
	switch {
	case tag == "":
		return otherwise
	case tag == "zh" || strings.HasPrefix(tag, "zh-") || strings.HasPrefix(tag, "zh_"):
		return Chinese
	}
	return English
}

// Say is a text in all supported languages, with fmt verbs.
type Say struct{ Zh, En string }

// In returns the text in one language, formatted with args. Texts and errors among args are
// formatted in that language too.
func (s Say) In(l Lang, args ...any) string {
	text := s.En
	if l == Chinese {
		text = s.Zh
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, localizeArgs(l, args)...)
}

// Texts about answers, for all channels.
var (
	sayOffline  = Say{"Bot 已离线，请检查设备连接后重试。", "The bot is offline. Please check its connection and try again."}
	sayTimedOut = Say{"请求超时，Bot 可能已离线或响应缓慢，请稍后重试。",
		"That took too long. The bot may be offline or slow; please try again later."}
	sayBusy        = Say{"排队的消息太多了，请稍后再试。", "Too many questions are waiting. Please try again in a moment."}
	sayBotFailed   = Say{"处理出错：%s", "Something went wrong: %s"}
	sayBotFailed0  = Say{"处理出错，请稍后重试。", "Something went wrong. Please try again later."}
	sayLost        = Say{"连接中断，回答没有说完，请再问一次。", "The connection broke before the answer was finished. Please ask again."}
	sayNoAnswer    = Say{"我没有得到回答，请再说一次。", "I got no answer. Please say it again."}
	sayUnreadable  = Say{"没能看懂这条消息，请再试一次。", "I could not make sense of that. Please try again."}
	sayUnreachable = Say{"连不上 Bot，请稍后重试。", "The bot cannot be reached. Please try again later."}
	sayNotKept     = Say{"回答说完了，但没能记下来：服务的存储有问题。请稍后再试，并告诉管理员。",
		"That was the answer, but it could not be kept: the server's storage fails. Try again later, and tell whoever runs it."}
	sayStopping = Say{"服务正在重启，请稍等一会儿再问一次。", "The server is restarting. Please ask again in a moment."}
	sayInternal = Say{"服务出了点问题，请稍后重试。", "Something is wrong on our side. Please try again later."}

	// SayWaiting has the number of questions that are answered before this one.
	SayWaiting = Say{"前面还有 %d 条消息，请稍等…", "%d before you, one moment…"}
	// SayWaitingOne is SayWaiting for one question.
	SayWaitingOne = Say{"前面还有一条消息，请稍等…", "One before you, one moment…"}
	// SayReconnecting says that the hub waits for the bot to reconnect.
	SayReconnecting = Say{"Bot 的连接断了，正在等它重新连上…", "The bot's connection broke; waiting for it to come back…"}
	// SayLate introduces the answer to an earlier question.
	SayLate = Say{"上次的问题有结果了：", "Your earlier question has an answer: "}
	// SayCut marks an incomplete answer.
	SayCut = Say{"（未完成）", " (unfinished)"}
)

// Sentence returns the text about the failure for the person.
func (f *Failure) Sentence(l Lang) string {
	switch f.Code {
	case Offline:
		if f.Told == "" {
			return sayOffline.In(l)
		}
	case TimedOut:
		return sayTimedOut.In(l)
	case Busy:
		return sayBusy.In(l)
	case Lost:
		if f.Told == "" {
			return sayLost.In(l)
		}
	case NoAnswer:
		return sayNoAnswer.In(l)
	case Unreadable:
		if f.Told != "" {
			return f.Told
		}
		return sayUnreadable.In(l)
	case Stopping:
		return sayStopping.In(l)
	case NotSaved:
		return sayNotKept.In(l)
	case Internal:
		return sayInternal.In(l)
	case Unreachable:
		if f.Told == "" {
			return sayUnreachable.In(l)
		}
	}
	if f.Told == "" {
		return sayBotFailed0.In(l)
	}
	return sayBotFailed.In(l, f.Told)
}
