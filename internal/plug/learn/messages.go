package learn

import "patchbay/internal/i18n"

// Errors of texts.
const (
	msgNoQuestion   = i18n.Message("question must not be empty")
	msgNoAnswer     = i18n.Message("answer must not be empty")
	msgLongQuestion = i18n.Message("question is longer than %d KiB")
	msgLongAnswer   = i18n.Message("answer is longer than %d KiB; make several points of it")
	msgNothing      = i18n.Message("there is nothing to remember")
	msgTooLong      = i18n.Message("this is longer than %d KiB; make several points of it")
	msgLaterDate    = i18n.Message("the point got another date by hand after this review, so its grade stays; undo the review instead")
	msgLaterReview  = i18n.Message("a later review of this point stands in the way; undo that first")
	msgLongTexts    = i18n.Message("question, answer and recall_text have %d KiB each at most")
)
