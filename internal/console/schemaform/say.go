package schemaform

import "patchbay/internal/talk"

var (
	sayNeeded   = talk.Say{Zh: "这里必须填写。", En: "This is needed."}
	sayLong     = talk.Say{Zh: "最多 %d 个字符。", En: "It may have %d characters at most."}
	sayNoWhole  = talk.Say{Zh: "请填一个整数。", En: "It has to be a whole number."}
	sayNoNumber = talk.Say{Zh: "请填一个数字。", En: "It has to be a number."}
	sayLess     = talk.Say{Zh: "不能小于 %s。", En: "It has to be %s at least."}
	sayMore     = talk.Say{Zh: "不能大于 %s。", En: "It may be %s at most."}
	sayNoChoice = talk.Say{Zh: "请从列表里选一个。", En: "Choose one of the list."}
	sayNoJSON   = talk.Say{Zh: "这不是有效的 JSON。", En: "This is no valid JSON."}
	sayNoObject = talk.Say{Zh: "请填一个 JSON 对象，例如 {\"name\": 1}。",
		En: "It has to be a JSON object, such as {\"name\": 1}."}
	sayNoList     = talk.Say{Zh: "请填一个 JSON 数组，例如 [1, 2]。", En: "It has to be a JSON list, such as [1, 2]."}
	sayLineNumber = talk.Say{Zh: "“%s” 不是合适的数字。", En: "“%s” is not a number that fits."}

	sayRest     = talk.Say{Zh: "其他参数", En: "Other arguments"}
	sayRestHint = talk.Say{Zh: "没有写明的参数，写成一个 JSON 对象；可以留空。",
		En: "What is not listed, as a JSON object; it may stay empty."}
	sayNothing   = talk.Say{Zh: "（不填）", En: "(not given)"}
	sayYes       = talk.Say{Zh: "是", En: "yes"}
	sayNo        = talk.Say{Zh: "否", En: "no"}
	sayOptional  = talk.Say{Zh: "可不填", En: "optional"}
	sayEachLine  = talk.Say{Zh: "每行一个。", En: "One on each line."}
	sayAsJSON    = talk.Say{Zh: "写成 JSON。", En: "Written as JSON."}
	sayFromTo    = talk.Say{Zh: "%s 到 %s。", En: "From %s to %s."}
	sayFrom      = talk.Say{Zh: "最小 %s。", En: "%s at least."}
	sayUpTo      = talk.Say{Zh: "最大 %s。", En: "%s at most."}
	sayTheNumber = talk.Say{Zh: "当前数值", En: "the value"}
)
