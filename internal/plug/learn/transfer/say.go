package transfer

import (
	"strings"

	"patchbay/internal/talk"
)

// Errors of a file as a whole. They follow the text of [UnreadableError].
var (
	sayLarge   = talk.Say{Zh: "它超过 %d MiB", En: "it is larger than %d MiB"}
	sayUnknown = talk.Say{Zh: "它不是这里认识的格式", En: "it is no format that is known here"}
	sayTables  = talk.Say{Zh: `里面既没有 "knowledge_points"，也没有 "review_schedules"`,
		En: `it has neither "knowledge_points" nor "review_schedules"`}
	sayColumnID = talk.Say{Zh: "它没有 id 列，所以不是 knowledge_points 或 review_schedules 的表；请选择 CSV",
		En: "it has no column id, so it is no table of knowledge_points or review_schedules; choose CSV"}
	sayNoAnswers = talk.Say{Zh: `它有问题列，却没有答案列；请把一列命名为 "answer"`,
		En: `it has a column for questions but none for answers; call one "answer"`}
	sayNoAsking = talk.Say{Zh: `它有答案列，却没有问题列；请把一列命名为 "question"`,
		En: `it has a column for answers but none for questions; call one "question"`}
	sayNoHeader = talk.Say{Zh: "它有 %d 列，却没有写列名的一行；请在开头加上 question,answer,deck,tags 这样的一行",
		En: "it has %d columns and no row with their names; begin it with a row such as question,answer,deck,tags"}
	sayNewer    = talk.Say{Zh: "它是由更新版本的本程序写出的；请先升级", En: "a later version of this program wrote it; update this one"}
	sayNoPoints = talk.Say{Zh: `里面没有 "points"；要写成 {"points": [{"question": "…", "answer": "…"}]}，或者只有那个数组`,
		En: `it has no "points"; items are {"points": [{"question": "…", "answer": "…"}]}, or that array alone`}
	sayCutOff    = talk.Say{Zh: "它中途就结束了；复制完整了吗？", En: "it ends in the middle; was it copied whole?"}
	saySyntax    = talk.Say{Zh: "它在第 %d 字节处不是有效的 JSON：%s", En: "it is no valid JSON at byte %d: %s"}
	sayMisplaced = talk.Say{Zh: "第 %d 字节处有一个%s，它不能放在那里", En: "at byte %d there is a %s in a place where it cannot be"}
	sayNoJSON    = talk.Say{Zh: "它既不是 JSON 对象，也不是数组", En: "it is neither a JSON object nor an array"}
	sayNoArray   = talk.Say{Zh: "第 %d 字节处应该是一个数组的开头", En: "at byte %d an array should begin"}
	sayUTF16     = talk.Say{Zh: "它的编码是 UTF-16；%s", En: "its encoding is UTF-16; %s"}
	sayGB18030   = talk.Say{Zh: "它的编码好像是 GB18030（即 GBK，中文版 Excel 用的编码）；%s",
		En: "its encoding seems to be GB18030 (GBK, as Chinese Excel writes it); %s"}
	sayNoUTF8     = talk.Say{Zh: "它的编码不是 UTF-8；%s", En: "its encoding is not UTF-8; %s"}
	saySaveAsUTF8 = talk.Say{Zh: "请另存为 UTF-8；在 Excel 里叫“CSV UTF-8”",
		En: `save it as UTF-8; Excel calls that "CSV UTF-8"`}

	sayUnreadable = talk.Say{Zh: "文件读不了", En: "the file cannot be read"}
	sayWhy        = talk.Say{Zh: "%v：%v", En: "%v: %v"}
	sayFormat     = talk.Say{Zh: "没有这种格式", En: "no such format"}
	sayQuoted     = talk.Say{Zh: "%v：%q", En: "%v: %q"}
	sayTooMany    = talk.Say{Zh: "文件里的条目超过 %d 个；请拆开", En: "the file has more than %d items; split it"}
)

// Errors of a row.
var (
	sayMore       = talk.Say{Zh: "还有读不了的内容，这里不再列出", En: "there is more that cannot be read; this list ends here"}
	sayManyTags   = talk.Say{Zh: "标签超过 %d 个", En: "it has more than %d tags"}
	sayEmpty      = talk.Say{Zh: "问题和答案都是空的", En: "question and answer are empty"}
	sayNoQuestion = talk.Say{Zh: "问题是空的", En: "the question is empty"}
	sayNoAnswer   = talk.Say{Zh: "答案是空的", En: "the answer is empty"}
	sayLongAsking = talk.Say{Zh: "问题超过 1 MiB", En: "the question is longer than 1 MiB"}
	sayLongAnswer = talk.Say{Zh: "答案超过 1 MiB", En: "the answer is longer than 1 MiB"}
	sayNoPoint    = talk.Say{Zh: "它不是 knowledge_points 的一行：需要 id、question 和 answer",
		En: "it is no row of knowledge_points: id, question and answer are needed"}
	sayReviewDate = talk.Say{Zh: "review_date：%q 不是日期，例如 2026-11-21",
		En: "review_date: %q is not a date such as 2026-11-21"}
	sayImpossible  = talk.Say{Zh: "review_number 不可能是这样", En: "review_number is impossible"}
	sayNumber      = talk.Say{Zh: "review_number 不是数字", En: "review_number is no number"}
	sayNoTime      = talk.Say{Zh: "%s 不是时间", En: "%s is no time"}
	sayNoPointID   = talk.Say{Zh: "knowledge_point_id 是空的", En: "knowledge_point_id is empty"}
	sayQuoteInside = talk.Say{Zh: "单元格中间有一个引号；请写两个，并用引号把单元格括起来",
		En: "a quote stands in the middle of a cell; write it twice, with quotes around the cell"}
	sayQuoteOpen = talk.Say{Zh: "引号打开了单元格，却没有在下一个分隔符之前关闭；单元格里的引号请写两个",
		En: "a quote opens the cell and is not closed before the next separator; write quotes within cells twice"}
	sayTimeLeft = talk.Say{Zh: "%s 不是 2026-11-21T07:35:00Z 这样的时间；只略过了这个时间",
		En: "%s is no time such as 2026-11-21T07:35:00Z; only the time was left out"}
	sayNeeds     = talk.Say{Zh: `需要 "question" 和 "answer"`, En: `it needs "question" and "answer"`}
	sayDeckFault = talk.Say{Zh: "牌组：%v", En: "the deck %v"}
	sayShould    = talk.Say{Zh: `应该是 {"question": "…", "answer": "…"} 这样的对象，却是%s`,
		En: `should be an object such as {"question": "…", "answer": "…"} and is a %s`}
	sayFieldKind = talk.Say{Zh: "字段 %s 不能是%s", En: "the field %s cannot be a %s"}
	sayStray     = talk.Say{Zh: "有文字，却没有问题；请在每个答案上面写“## 问题”，或者写“Q: …”和“A: …”，或者写“问题 :: 答案”",
		En: `there is text but no question; write "## question" above each answer, or "Q: …" and "A: …", or "question :: answer"`}
)

// noTime is how errors of [rowTime] name an unreadable value, in the style of the JSON decoder.
const noTime = "text that is no time"

// kinds translates the JSON decoder's names of values.
var kinds = map[string]string{
	"string": "文本", "number": "数字", "bool": "布尔值", "object": "对象", "array": "数组", "null": "空值", noTime: "不是时间的文本",
}

// kindOf names a value that the decoder found, such as "number 1.5".
func kindOf(value string) talk.Say {
	kind, rest, _ := strings.Cut(value, " ")
	if kinds[value] != "" {
		kind, rest = value, ""
	}
	zh, known := kinds[kind]
	if !known {
		zh = " " + kind
	}
	if rest != "" {
		zh += " " + rest
	}
	return talk.Say{Zh: zh, En: value}
}
