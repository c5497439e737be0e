package transfer

import (
	"strings"

	"patchbay/internal/i18n"
)

// Errors of a file as a whole. They follow the text of [UnreadableError].
const (
	msgLarge      = i18n.Message("it is larger than %d MiB")
	msgUnknown    = i18n.Message("it is no format that is known here")
	msgTables     = i18n.Message(`it has neither "knowledge_points" nor "review_schedules"`)
	msgColumnID   = i18n.Message("it has no column id, so it is no table of knowledge_points or review_schedules; choose CSV")
	msgNoAnswers  = i18n.Message(`it has a column for questions but none for answers; call one "answer"`)
	msgNoAsking   = i18n.Message(`it has a column for answers but none for questions; call one "question"`)
	msgNoHeader   = i18n.Message("it has %d columns and no row with their names; begin it with a row such as question,answer,deck,tags")
	msgNewer      = i18n.Message("a later version of this program wrote it; update this one")
	msgNoPoints   = i18n.Message(`it has no "points"; items are {"points": [{"question": "…", "answer": "…"}]}, or that array alone`)
	msgCutOff     = i18n.Message("it ends in the middle; was it copied whole?")
	msgSyntax     = i18n.Message("it is no valid JSON at byte %d: %s")
	msgMisplaced  = i18n.Message("at byte %d there is a %s in a place where it cannot be")
	msgNoJSON     = i18n.Message("it is neither a JSON object nor an array")
	msgNoArray    = i18n.Message("at byte %d an array should begin")
	msgLargeCoded = i18n.Message("it is larger than %d MiB and not UTF-8; %s")
	msgNoUTF8     = i18n.Message("its encoding is not UTF-8; %s")
	msgSaveAsUTF8 = i18n.Message(`save it as UTF-8; Excel calls that "CSV UTF-8"`)

	msgUnreadable = i18n.Message("the file cannot be read")
	msgWhy        = i18n.Message("%v: %v")
	msgFormat     = i18n.Message("no such format")
	msgQuoted     = i18n.Message("%v: %q")
	msgTooMany    = i18n.Message("the file has more than %d items; split it")
)

// Errors of a row.
const (
	msgMore        = i18n.Message("there is more that cannot be read; this list ends here")
	msgManyTags    = i18n.Message("it has more than %d tags")
	msgEmpty       = i18n.Message("question and answer are empty")
	msgNoQuestion  = i18n.Message("the question is empty")
	msgNoAnswer    = i18n.Message("the answer is empty")
	msgLongAsking  = i18n.Message("the question is longer than 1 MiB")
	msgLongAnswer  = i18n.Message("the answer is longer than 1 MiB")
	msgNoPoint     = i18n.Message("it is no row of knowledge_points: id, question and answer are needed")
	msgReviewDate  = i18n.Message("review_date: %q is not a date such as 2026-11-21")
	msgImpossible  = i18n.Message("review_number is impossible")
	msgNumber      = i18n.Message("review_number is no number")
	msgNoTime      = i18n.Message("%s is no time")
	msgNoPointID   = i18n.Message("knowledge_point_id is empty")
	msgQuoteInside = i18n.Message("a quote stands in the middle of a cell; write it twice, with quotes around the cell")
	msgQuoteOpen   = i18n.Message("a quote opens the cell and is not closed before the next separator; write quotes within cells twice")
	msgTimeLeft    = i18n.Message("%s is no time such as 2026-11-21T07:35:00Z; only the time was left out")
	msgNeeds       = i18n.Message(`it needs "question" and "answer"`)
	msgTypeFault   = i18n.Message("it is no note type")
	msgDeckFault   = i18n.Message("the deck %v")
	msgShould      = i18n.Message(`should be an object such as {"question": "…", "answer": "…"} and is a %s`)
	msgFieldKind   = i18n.Message("the field %s cannot be a %s")
	msgStray       = i18n.Message(`there is text but no question; write "## question" above each answer, or "Q: …" and "A: …", or "question :: answer"`)
)

// noTime is how errors of [rowTime] name an unreadable value, in the style of the JSON decoder.
const noTime = "text that is no time"

// kinds translates the JSON decoder's names of values.
var kinds = map[string]i18n.Message{
	"string": "JSON\x04string", "number": "JSON\x04number", "bool": "JSON\x04bool", "object": "JSON\x04object",
	"array": "JSON\x04array", "null": "JSON\x04null", noTime: "JSON\x04text that is no time",
}

const msgKindOfValue = i18n.Message("JSON\x04%s %s") // the kind, and the value

// kindOf names a value that the decoder found, such as "number 1.5".
func kindOf(value string) i18n.Text {
	if kind, ok := kinds[value]; ok {
		return kind.With()
	}
	kind, rest, _ := strings.Cut(value, " ")
	if name, ok := kinds[kind]; ok {
		return msgKindOfValue.With(name, rest)
	}
	return i18n.Message(value).With()
}
