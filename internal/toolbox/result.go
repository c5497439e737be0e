package toolbox

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"patchbay/internal/tool"
)

// Results of calls that have no result of a tool, for the model.
const (
	NoOutput        = "(no output)"
	UnknownFunction = "Error: there is no such function. Call only those that are offered."
	NotJSON         = "Error: the arguments are not a JSON object. Call again with arguments that are."
	TooLong         = "Error: the arguments are too long; 16 KiB are the most."
	NeedsInput      = "Error: this needs an answer of the person, who cannot be asked from here. " +
		"Do not call it again; tell the person."
	OutOfTime = "Error: the time for calls is over, so there is no result."
)

// ResultText returns a result as text for the model, at most limit bytes plus a note about the
// truncation.
func ResultText(r *tool.Result, limit int) (told string, failed bool) {
	switch {
	case r == nil:
		return NoOutput, false
	case r.InputRequired != nil:
		return NeedsInput, true
	}
	text := strings.ToValidUTF8(r.PlainText(), "\ufffd")
	if strings.TrimSpace(text) == "" {
		text = NoOutput
	}
	if r.IsError {
		text = "Error: " + text
	}
	return Truncate(text, limit), r.IsError
}

// Truncate returns a text as ResultText does.
func Truncate(text string, limit int) string {
	kept := Clip(text, limit)
	if len(kept) == len(text) {
		return text
	}
	return fmt.Sprintf("%s\n[%d of %d bytes were cut off here]", kept, len(text)-len(kept), len(text))
}

// Clip returns the beginning of a text, at most limit bytes, without a partial character.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
