package learn

import "patchbay/internal/talk"

// Errors of texts.
var (
	sayNoQuestion   = talk.Say{Zh: "问题不能为空", En: "question must not be empty"}
	sayNoAnswer     = talk.Say{Zh: "答案不能为空", En: "answer must not be empty"}
	sayLongQuestion = talk.Say{Zh: "问题超过 %d KiB", En: "question is longer than %d KiB"}
	sayLongAnswer   = talk.Say{Zh: "答案超过 %d KiB，请分成几个知识点",
		En: "answer is longer than %d KiB; make several points of it"}
	sayNothing   = talk.Say{Zh: "没有要记的内容", En: "there is nothing to remember"}
	sayTooLong   = talk.Say{Zh: "内容超过 %d KiB，请分成几个知识点", En: "this is longer than %d KiB; make several points of it"}
	sayLongTexts = talk.Say{Zh: "问题、答案和回忆各自最多 %d KiB",
		En: "question, answer and recall_text have %d KiB each at most"}
)
