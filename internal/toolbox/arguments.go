package toolbox

import (
	"encoding/json"
	"errors"
	"strings"
)

// MaxArguments limits the arguments of one call, in bytes. Commands need some 200 bytes, and
// arguments for a tool are written word by word while a person waits.
const MaxArguments = 16 << 10

// What can be wrong with arguments.
var (
	ErrArguments     = errors.New("the arguments are not a JSON object")
	ErrLongArguments = errors.New("the arguments are too long")
)

// Arguments returns the arguments of a call as a JSON object. It accepts common mistakes
// of models: nothing or null for no arguments, an object that was encoded twice, and a code fence
// around the object.
func Arguments(text string) (string, error) {
	if len(text) > MaxArguments {
		return "", ErrLongArguments
	}
	text = unfence(strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd")))
	if strings.HasPrefix(text, `"`) {
		var inner string
		if json.Unmarshal([]byte(text), &inner) != nil {
			return "", ErrArguments
		}
		text = unfence(strings.TrimSpace(inner))
	}
	if text == "" || text == "null" {
		return "{}", nil
	}
	if text[0] != '{' || !json.Valid([]byte(text)) {
		return "", ErrArguments
	}
	return text, nil
}

// unfence removes a surrounding ```json … ```.
func unfence(text string) string {
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	inner = strings.TrimPrefix(inner, "json")
	inner, ok = strings.CutSuffix(strings.TrimSpace(inner), "```")
	if !ok {
		return text
	}
	return strings.TrimSpace(inner)
}
